"""Rows of the PSI table for constructed cases."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from psibench.errors import InputError
from psibench.metrics.inference import (
    BucketTest,
    HotellingTest,
    Profile,
    document_table,
    draw_errors,
    raw_profile,
)
from psibench.metrics.psi import (
    RowData,
    _has_rare_misses,
    estimate_row,
    invert_psi,
    lower_end,
    mean_interval,
)

ESTIMATES = ("psi", "psi_low", "psi_high", "psi_corrected", "best_bucket", "worst_bucket")
SAME = ("psi_same", "psi_same_low", "psi_same_high", "psi_same_corrected", "best_same", "drop")
TESTS = ("test", "p_position", "p_shape", "p_trend")


def row_of(scores, documents, buckets, *, lengths=None, n_buckets=None, **settings):
    """Estimate of one query per bucket entry; documents of equal length."""
    documents, buckets = np.array(documents, dtype=int), np.array(buckets, dtype=int)
    n = len(documents)
    data = RowData(
        np.array(scores, dtype=float),
        documents,
        np.full(n, 900.0) if lengths is None else np.array(lengths, dtype=float),
        buckets * 100.0,
        seen=settings.pop("seen", None),
        control=settings.pop("control", None),
        clusters=settings.pop("clusters", None),
    )
    n_buckets = n_buckets or int(buckets.max(initial=0)) + 1
    found = estimate_row(data, np.arange(n), buckets, n_buckets=n_buckets, **settings)
    return [SimpleNamespace(**figures) for figures in found]


def estimate(*arguments, **settings):
    return row_of(*arguments, **settings)[0]


def hits(rng, chances):
    return (rng.random(len(chances)) < chances).astype(float)


def controlled(seed, profile, *, n_documents=200, mean=0.6):
    """Scores, documents and buckets with one query per bucket of each document."""
    rng = np.random.default_rng(seed)
    k = len(profile)
    documents, buckets = np.repeat(np.arange(n_documents), k), np.tile(np.arange(k), n_documents)
    level = rng.beta(6 * mean, 6 * (1 - mean), n_documents)[documents]
    return hits(rng, level * np.array(profile)[buckets]), documents, buckets


# --- Clusters of documents ---------------------------------------------------------------------


@pytest.mark.parametrize("within", [True, False])
def test_copies_of_a_document_in_one_cluster_add_nothing(within):
    rng = np.random.default_rng(5)
    scores, documents, buckets = controlled(4, [1.0, 0.9, 0.8], n_documents=90)
    buckets = np.where(documents % 4 == 0, np.minimum(buckets, 1), buckets)  # unequal: confounding
    if not within:  # each document in a single bucket
        buckets = documents % 3
    control = hits(rng, np.full(270, 0.5))
    seen = rng.random(270) < 0.7
    one = estimate(scores, documents, buckets, control=control, seen=seen)
    copied = [np.tile(part, 3) for part in (scores, buckets, control, seen)]
    copies = np.concatenate([documents + 90 * k for k in range(3)])
    clusters = np.tile(documents, 3)
    many = estimate(
        *(copied[0], copies, copied[1]), control=copied[2], seen=copied[3], clusters=clusters
    )
    assert many.n_clusters == 90
    assert one.n_clusters is None
    assert many.test == ("within" if within else "between")
    tests = ("p_control", "p_position", "p_trend", "p_truncation", "p_confounded")
    for name in tests if within else ():  # between documents the test itself is another
        assert getattr(one, name) is not None, name
        assert getattr(many, name) == pytest.approx(getattr(one, name)), name
        assert many.truncation_high == pytest.approx(one.truncation_high)
    as_documents = estimate(copied[0], copies, copied[1])
    assert as_documents.p_position < many.p_position
    assert as_documents.psi_high < many.psi_high


def test_misses_that_every_cluster_has_are_not_rare():
    # 12 clusters of 30 documents that find 9 of 10: their means are known to some hundredths.
    rows = controlled(8, [1.0, 1.0, 1.0], n_documents=360, mean=0.9)
    row, buckets = row_of(*rows, clusters=rows[1] % 12)
    assert row.n_clusters == 12
    assert row.psi_same_high < 0.2
    assert row.drop_high - row.drop_low < 0.3
    assert (buckets.high - buckets.low < 0.15).all()


def test_few_clusters_leave_documents_as_units_and_are_said():
    rows = controlled(6, [1.0, 0.7, 0.7])
    plain, few = estimate(*rows), estimate(*rows, clusters=rows[1] % 4)
    assert few.flags == "few_clusters"
    assert (few.n_clusters, few.p_position) == (4, plain.p_position)
    enough = estimate(*rows, clusters=rows[1] % 5)
    assert (enough.n_clusters, enough.flags) == (5, "")
    assert enough.p_position != plain.p_position
    assert estimate(*rows, clusters=rows[1]).flags == ""  # each document is a cluster


# --- Constructed cases ----------------------------------------------------------------------------


def test_harder_long_documents_are_not_called_position():
    # Only long documents have buckets 3 to 5, and their queries are harder wherever they are.
    rng = np.random.default_rng(1)
    is_long = np.arange(400) % 2 == 0
    documents = np.repeat(np.arange(400), 5)
    buckets = np.where(is_long[documents], rng.integers(0, 6, 2000), rng.integers(0, 3, 2000))
    scores = hits(rng, np.where(is_long, 0.4, 0.8)[documents])
    row = estimate(scores, documents, buckets, lengths=np.where(is_long, 3e3, 900)[documents])
    assert row.test == "within"
    assert min(row.p_position, row.p_shape, row.p_trend) > 0.05
    assert row.psi_same_low == 0
    assert row.psi > 0.3  # the published value
    assert row.psi_low > 0.2
    assert row.p_confounded < 0.001
    assert "confounded" in row.flags
    assert row.length_imbalance > 0.1


def test_a_position_effect_is_found_and_not_called_confounded():
    row = estimate(*controlled(2, [1.0, 0.8, 0.6], n_documents=600))
    assert (row.test, row.flags) == ("within", "")
    assert row.p_shape < 0.001
    assert row.psi_same_low < 0.4 < row.psi_same_high
    assert row.psi_same_low > 0.2
    assert row.psi_same_corrected == pytest.approx(0.4, abs=0.1)
    assert (row.best_same, row.worst_same) == (0, 2)
    assert row.drop_low < 0.4 < row.drop_high
    assert row.info_min == pytest.approx(1)


def test_a_model_that_finds_almost_nothing_is_at_floor():
    row = estimate(*controlled(4, [1.0, 1.0, 1.0], mean=0.02))
    assert "at_floor" in row.flags
    assert (row.psi_same_low or 0, row.psi_low) == (0, 0)


def test_a_model_that_finds_nearly_everything_is_at_the_ceiling():
    scores, documents, buckets = np.ones(600), np.repeat(np.arange(200), 3), np.tile([0, 1, 2], 200)
    scores[[3, 0, 301]] = 0.0  # two in the first bucket, one in the second
    row = estimate(scores, documents, buckets)
    assert "at_ceiling" in row.flags
    assert "too_few_documents" in row.flags  # 3 documents differ inside
    assert [getattr(row, name) for name in TESTS] == [None] * 4
    assert row.psi == pytest.approx(2 / 200)
    assert row.psi_low == 0


def test_a_drop_needs_two_documents_in_the_last_bucket():
    scores, documents, buckets = controlled(5, [1.0, 0.9, 0.8], n_documents=80)
    found = np.flatnonzero(np.bincount(documents, scores) == 3)  # in all three buckets
    one, two = (
        estimate(scores[kept], documents[kept], buckets[kept])
        for kept in ((buckets < 2) | np.isin(documents, found[:n]) for n in (1, 2))
    )
    assert (one.drop_low, one.drop_high) == (None, None)
    assert one.drop is not None
    assert two.drop_low < two.drop < two.drop_high


# --- Intervals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1.0, 0.1, 1 / np.log2(3)])
def test_constant_scores_have_psi_0_with_an_interval(value):
    # Of 40 documents that score alike, .05^(1/40) = .928 of all do at the least.
    row, buckets = row_of(np.full(120, value), np.repeat(np.arange(40), 3), np.tile([0, 1, 2], 40))
    assert (row.psi, row.psi_low, row.psi_corrected) == (0, 0, 0)
    assert (row.psi_same, row.psi_same_low, row.psi_same_corrected) == (0, 0, 0)
    assert row.psi_high == row.psi_same_high == pytest.approx(1 - 0.05 ** (1 / 40))
    assert buckets.mean.tolist() == pytest.approx([value] * 3)
    assert buckets.low.tolist() == pytest.approx([value * 0.025 ** (1 / 40)] * 3)
    assert buckets.high.tolist() == pytest.approx([1 - (1 - value) * 0.025 ** (1 / 40)] * 3)


@pytest.mark.parametrize(("n_documents", "missed"), [(60, 0), (60, 1), (150, 2)])
def test_rare_misses_bound_psi_by_clopper_and_pearson(n_documents, missed):
    documents, buckets = np.repeat(np.arange(n_documents), 3), np.tile([0, 1, 2], n_documents)
    scores = np.ones(3 * n_documents)
    scores[5 : 5 + 3 * missed : 3] = 0.0  # in the last bucket
    row = estimate(scores, documents, buckets)
    least = stats.beta.ppf(0.05, n_documents - missed, missed + 1)
    assert row.psi_same_low == 0
    assert row.psi_same_high >= 1 - least - 1e-9
    assert row.drop_high >= 1 - stats.beta.ppf(0.025, n_documents - missed, missed + 1) - 1e-9


@pytest.mark.parametrize("n_last", [40, 60])
def test_a_small_bucket_widens_the_upper_end(n_last):
    # Means .95 and .8 of 300 queries each, .5 of the last bucket's.
    every, last = np.arange(300), np.arange(n_last)
    scores = np.concatenate([every % 20 > 0, every % 5 > 0, last % 2]) * 1.0
    row = estimate(scores, [*every, *every, *last], np.repeat([0, 1, 2], [300, 300, n_last]))
    half = n_last // 2
    assert row.psi_low == pytest.approx(1 - stats.beta.ppf(0.95, half + 1, half) / 0.95)
    assert row.psi_high == pytest.approx(1 - stats.beta.ppf(0.025, half, half + 1) / 0.95)


def test_a_few_hits_do_not_reject_equal_means():
    scores, documents, buckets = controlled(10, [1.0, 1.0, 1.0], n_documents=300, mean=0.85)
    scores[buckets == 2] = 1.0
    kept = (buckets < 2) | (documents < 8)
    row = estimate(scores[kept], documents[kept], buckets[kept])
    assert row.psi_low == 0 < row.psi


def test_few_clusters_widen_the_interval_of_psi():
    # 12 clusters of 5 documents: in six the score falls by .15 a bucket, in six by .05. Means .6,
    # .5 and .4; the slope .1 has a standard error of .05 / sqrt(11).
    documents, buckets = np.repeat(np.arange(60), 3), np.tile(np.arange(3), 60)
    clusters = documents % 12
    scores = 0.5 + np.array([0.05, 0.15])[clusters % 2] * (1 - buckets)
    row = estimate(scores, documents, buckets, clusters=clusters)
    size = 0.1 + stats.t.ppf(0.975, 11) * 0.05 / 11**0.5
    assert row.n_clusters == 12
    assert row.psi_same == pytest.approx(1 - 0.4 / 0.6)
    assert row.psi_same_high == pytest.approx(1 - (0.5 - size) / (0.5 + size))


def low_of(means, test, bounds=None):
    """Lower end of bucket means with errors alike; ``bounds``: least and most of each bucket."""
    profile = Profile(np.array(means), np.zeros((100, 1)), np.eye(len(means)) * 0.02**2, 100)
    return lower_end(profile, test, alpha=0.05, bounds=bounds)


def test_the_lower_end_shrinks_one_unusual_bucket():
    # The fit has the bucket's mean, and the mean of the eight others.
    means = [0.6] * 4 + [0.3] + [0.5] * 4
    tests = {k: HotellingTest(20.0 if k == 4 else 0.0, 1, 100, 100) for k in range(9)}
    test = BucketTest(100, np.zeros(9), p=0.001, p_bucket=0.001, buckets=tests)
    # T^2 / 99 is .2 / (1 - .2); critical values for one of nine buckets, and for one.
    of_nine, alone = (stats.f.isf(size, 1, 99) / 99 for size in (1 - 0.95 ** (1 / 9), 0.05))
    share = ((0.25 - of_nine + alone) ** 0.5 - alone**0.5) / 0.25**0.5
    low, high = (np.mean(means) + share * (end - np.mean(means)) for end in (0.3, 0.55))
    assert low_of(means, test) == pytest.approx(1 - low / high)
    # Its mean is significant, so it needs no bound of hits and misses.
    bounds = tuple(np.where(np.arange(9) == 4, end, np.nan) for end in (0.1, 0.9))
    assert low_of(means, test, bounds) == low_of(means, test)


BOTH = HotellingTest(900.0, 2, 1000, 1000)
SLOPE_AND_BEND = BucketTest(1000, np.zeros(3), p=0.001, slope_bend_test=BOTH)


def bounds_of_last(least, most):
    return tuple(np.array([np.nan, np.nan, end]) for end in (least, most))


def test_an_uncertain_bucket_is_limited_by_its_bound():
    means = np.array([0.9, 0.8, 0.4])
    first, second, last = 0.7 + BOTH.least_share(0.05, alpha=0.05) * (means - 0.7)

    def low(*bounds: float) -> float:
        return low_of(means, SLOPE_AND_BEND, bounds_of_last(*bounds))

    assert low_of(means, SLOPE_AND_BEND) == pytest.approx(1 - last / first)
    assert low(0.3, 0.36) == pytest.approx(1 - last / first)
    assert low(0.2, 0.6) == pytest.approx(1 - 0.6 / 0.9)
    # The well-known buckets show more.
    assert low(0.2, 0.88) == pytest.approx(1 - second / first)
    # The best one may be badly known, too.
    best = low_of([0.5, 0.55, 0.95], SLOPE_AND_BEND, bounds_of_last(0.7, 0.99))
    assert best == pytest.approx(1 - 0.5 / 0.7)


def test_a_rejected_psi_never_starts_at_0():
    # All that differs is a badly known bucket in the middle; the others show nothing.
    means = [0.5, 0.2, 0.5]
    bounds = tuple(np.array([np.nan, end, np.nan]) for end in (0.05, 0.9))
    assert 0 < low_of(means, SLOPE_AND_BEND, bounds) < 1e-3


def test_clusters_are_counted_of_queries_in_a_bucket():
    # Documents of eight clusters; the queries of four clusters have no single position.
    n, buckets = 240, np.tile([0, 1, 2], 80)
    documents, rng = np.arange(n) // 3, np.random.default_rng(3)
    clusters = documents % 8
    placed = np.flatnonzero(clusters < 4)
    row = RowData((rng.random(n) < 0.6) * 1.0, documents, np.full(n, 900.0), buckets * 100.0,
                  clusters=clusters)  # fmt: skip
    figures, _ = estimate_row(row, placed, buckets[placed], n_buckets=3)
    assert (figures["n_clusters"], figures["flags"]) == (4, "few_clusters")
    assert figures["p_position"] is not None


def test_the_lower_end_is_at_most_the_psi():
    # The means are -0.1 and more of what their errors share: a constant's fit is -0.1.
    means, shared = np.array([0.6, 0.5, 0.4]), np.array([0.7, 0.6, 0.5])
    covariance = 0.01 * np.outer(shared, shared) + 1e-6 * np.eye(3)
    test = BucketTest(12, np.zeros(3), p=0.01, slope_bend_test=HotellingTest(9.0, 2, 12, 12))
    low = lower_end(Profile(means, np.zeros((12, 3)), covariance, 12), test, alpha=0.05)
    assert low == pytest.approx(1 - 0.4 / 0.6)


def test_exactly_three_misses_are_not_rare_however_they_round():
    # 1 - 27 / 30 is a little less than .1, and 1 - 57 / 60 a little more than .05.
    for n in (30, 40, 50, 60, 100, 150):
        for n_misses, is_rare in ((2, True), (3, False)):
            scores = np.ones((n, 2))
            scores[:n_misses] = 0
            every = np.arange(2 * n)
            table = document_table(scores.ravel(), every // 2, every, every % 2, n_buckets=2)
            assert _has_rare_misses(table, raw_profile(table)).tolist() == [is_rare] * 2


def test_the_upper_end_covers_few_misses():
    # 200 documents; nothing is missed in the first two thirds, 30 of 200 in the last.
    scores = np.ones((200, 3))
    scores[:30, 2] = 0
    row = estimate(scores.ravel(), np.repeat(np.arange(200), 3), np.tile(np.arange(3), 200))
    assert row.psi == pytest.approx(0.15)
    assert row.psi_low > 0
    assert row.psi_high == pytest.approx(stats.beta.ppf(0.975, 31, 170), abs=2e-3)


def test_fewer_than_thirty_documents_have_no_interval():
    rows = [estimate(*controlled(3, [1.0, 0.9, 0.6], n_documents=n)) for n in (29, 30)]
    assert [(row.psi_low, row.psi_high, row.psi_corrected) for row in rows[:1]] == [(None,) * 3]
    assert rows[0].psi is not None
    assert rows[1].psi_low <= rows[1].psi_corrected <= rows[1].psi_high


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("profile", [(1, 0.9, 0.8, 0.8), (1, 1, 0.8, 1), (1, 1, 1, 1)])
def test_intervals_start_at_0_exactly_without_rejection(seed, profile):
    row = estimate(*controlled(seed, profile, n_documents=120))
    assert (row.psi_same_low > 0) == (row.p_position <= 0.05)
    assert row.psi_same_corrected == 0 or row.p_position <= 0.5


def test_equal_bucket_means_do_not_exclude_an_effect():
    # Standard errors of .05 at means of .5: 10 % each. PSI 0 is as likely as any small one.
    errors = draw_errors(np.eye(3) * 0.05**2)
    high, corrected = invert_psi(np.full(3, 0.5), errors, centre=np.full(3, 0.5), level=0.95)
    assert corrected == 0
    assert 0.1 < high < 0.4


def test_a_second_worst_bucket_keeps_the_upper_end():
    # Which of two is the worst is not known. 1 - .4 / .6 with a normal error of the log ratio:
    # 1 - .667 exp(-1.96 * .02 (1 / .36 + 1 / .16)^.5) = .407.
    errors = draw_errors(np.eye(3) * 0.02**2)
    highs = []
    for means in (np.array([0.6, 0.4, 0.5]), np.array([0.6, 0.4, 0.4])):
        highs.append(invert_psi(means, errors, centre=means, level=0.95)[0])
    assert highs[1] == pytest.approx(highs[0], abs=0.005)
    assert highs[0] == pytest.approx(0.407, abs=0.002)


# --- Buckets --------------------------------------------------------------------------------------


def test_bucket_means_and_their_intervals():
    # Bucket 0: 36 of 100 documents hit; bucket 1 nobody asks about; bucket 2 a single query.
    # Wilson's interval at .36 with 100 queries and quantile 1.984: (.36 + .0197 -+ .0968) / 1.0394.
    scores = np.r_[np.ones(36), np.zeros(64), 1.0]
    _, buckets = row_of(scores, np.arange(101), np.r_[np.zeros(100), 2], n_buckets=4)
    assert buckets.n_queries.tolist() == [100, 0, 1, 0]
    np.testing.assert_allclose(buckets.mean, [0.36, np.nan, 1.0, np.nan])
    np.testing.assert_allclose(buckets.low, [0.272, np.nan, np.nan, np.nan], atol=0.005)
    np.testing.assert_allclose(buckets.high, [0.458, np.nan, np.nan, np.nan], atol=0.005)
    assert np.isnan(buckets.same_mean).all()


def test_mean_interval_equals_a_bucket_with_all_queries():
    scores, documents, buckets = controlled(4, [1.0, 0.8, 0.6])
    by_bucket = row_of(scores, documents, np.zeros_like(buckets))[1]
    assert mean_interval(scores, documents) == (by_bucket.low[0], by_bucket.high[0])
    assert by_bucket.low[0] < scores.mean() < by_bucket.high[0]
    # All 60 documents found: a share of 1 - .025^(1 / 60) of other documents may be missed.
    low, high = mean_interval(np.ones(180), np.repeat(np.arange(60), 3))
    assert (low, high) == (pytest.approx(0.025 ** (1 / 60)), 1.0)


def test_mean_interval_over_clusters_matches_their_means():
    rng = np.random.default_rng(3)
    level = np.array([0.72, 0.75, 0.78, 0.80, 0.82, 0.83, 0.85, 0.87, 0.90, 0.94])
    documents = np.repeat(np.arange(240), 5)
    clusters = documents // 24
    scores = (rng.random(1200) < level[clusters]).astype(float)
    means = np.array([scores[clusters == k].mean() for k in range(10)])
    half = stats.t.isf(0.025, 9) * means.std(ddof=1) / 10**0.5
    low, high = mean_interval(scores, documents, clusters)
    assert (low, high) == pytest.approx((means.mean() - half, means.mean() + half), abs=0.015)


def test_interval_of_a_bucket_of_few_documents_has_students_quantile():
    # 5 documents in bucket 0, 2 hit; 195 in bucket 1, 98 hit; mean and variance about .5 and .25.
    # Influences: variance 5 * .24 / 25 = .048 (times 200/199), and 2 / 7 * .25 / 5 = .0143 for the
    # small bucket: .0625. Smoothed mean (2 + 1) / 7, room .245; r = 2.776^2 * .0625 / .245 = 1.97.
    # Centre (.4 + .98) / 2.97 = .466, reach sqrt(1.97 * .24 + .98^2) / 2.97 = .404.
    scores = np.r_[1, 1, 0, 0, 0, np.arange(195) % 2 == 0].astype(float)
    _, buckets = row_of(scores, np.arange(200), np.r_[[0] * 5, [1] * 195])
    assert buckets.low[0] == pytest.approx(0.466 - 0.404, abs=0.004)
    assert buckets.high[0] == pytest.approx(0.466 + 0.404, abs=0.004)


def test_scores_above_one_set_the_limit():
    scores, documents, buckets = controlled(8, [1.0, 0.5])
    row, of_bucket = row_of(scores * 4, documents, buckets)
    same, _ = row_of(scores, documents, buckets)
    assert row.psi == pytest.approx(same.psi)
    assert row.p_position == pytest.approx(same.p_position)
    assert of_bucket.high.max() > 1


# --- Edges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "documents", "buckets", "n_buckets"),
    [
        pytest.param([], [], [], 0, id="empty"),
        pytest.param([0.5, 0.7], [0, 0], [1, 1], 1, id="one document, one bucket"),
        pytest.param([0.5, 0.7] * 40, np.repeat(np.arange(40), 2), [1] * 80, 1, id="one bucket"),
        pytest.param([0.0] * 120, np.repeat(np.arange(40), 3), [0, 1, 2] * 40, 3, id="all zero"),
    ],
)
def test_what_does_not_exist_is_empty_and_not_zero(scores, documents, buckets, n_buckets):
    row, of_bucket = row_of(scores, documents, buckets, n_buckets=3)
    assert row.n_buckets == n_buckets
    for name in (*ESTIMATES, *SAME, *TESTS, "psi_noise_mean", "p_confounded"):
        assert getattr(row, name) is None, name
    assert np.isnan(of_bucket.same_mean).all()


def test_ties_are_settled_by_the_first_bucket():
    row = estimate([1.0, 0.5, 1.0, 0.5] * 30, np.repeat(np.arange(30), 4), [0, 1, 2, 3] * 30)
    assert (row.best_bucket, row.worst_bucket) == (0, 1)
    assert (row.best_same, row.worst_same) == (0, 1)


def test_buckets_nobody_asks_about_change_nothing():
    scores, documents, buckets = controlled(10, [1.0, 0.6])
    one = estimate(scores, documents, buckets)
    other = estimate(scores, documents, buckets * 2 + 1, n_buckets=5)
    assert (one.best_same, one.worst_same) == (0, 1)
    assert (other.best_same, other.worst_same) == (1, 3)
    assert other.drop is None  # the first and the last bucket are empty
    named = {"best_bucket": 0, "worst_bucket": 1, "best_same": 0, "worst_same": 1}
    named |= {name: getattr(one, name) for name in ("drop", "drop_low", "drop_high")}
    assert vars(other) | named == vars(one)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.1])
def test_scores_that_are_not_scores_are_refused(bad):
    with pytest.raises(InputError, match="scores"):
        estimate([0.5, bad, 0.5], [0, 1, 1], [0, 1, 1])


@pytest.mark.parametrize("level", [0, 1, 95])
def test_a_level_that_is_none_is_refused(level):
    with pytest.raises(InputError, match=f"level is {level}"):
        estimate([0.5, 0.5], [0, 1], [0, 1], level=level)


# --- Control and truncation -----------------------------------------------------------------------


def test_truncation_is_reported_for_cut_evidence():
    rng = np.random.default_rng(16)
    documents, buckets = np.repeat(np.arange(300), 4), np.tile([0, 0, 1, 1], 300)
    seen = rng.random(1200) < np.where(buckets == 0, 0.9, 0.4)
    scores = hits(rng, np.where(seen, 0.7, 0.3))
    row = estimate(scores, documents, buckets, seen=seen)
    assert row.truncation_low < -0.4 < row.truncation_high < -0.25
    assert row.p_truncation < 0.001
    assert row.seen == pytest.approx(seen.mean())
    unknown = estimate(scores, documents, buckets)
    assert (unknown.seen, unknown.truncation) == (None, None)


def test_a_profile_that_rests_on_few_documents_is_not_given():
    # 69 documents with a query in the first bucket; only 10 hold another one and find something.
    documents = np.r_[np.arange(69), np.arange(10)]
    buckets = np.r_[np.zeros(69), np.ones(10)].astype(int)
    scores = np.r_[np.zeros(10), np.ones(59), np.ones(10)]
    row = estimate(scores, documents, buckets)
    assert row.psi == pytest.approx(1 - 59 / 69)
    assert (row.psi_same, row.psi_same_low, row.best_same) == (None, None, None)


def test_a_drop_is_plain_between_documents():
    # Beside the middle bucket the last one finds all and it finds nothing: no ratio of the two.
    documents = np.repeat(np.arange(80), 2)
    scores = [1.0, 0.0] * 20 + [0.0, 1.0] * 20 + [0.0, 1.0] * 40
    untied = estimate(scores, documents, [0, 1] * 40 + [1, 2] * 40)
    assert (untied.test, untied.psi_same, untied.drop) == ("within", None, None)
    # One third a document: plain means .5 and .25, so half is lost.
    thirds = estimate([0.5] * 40 + [0.25] * 40, np.arange(80), [0] * 40 + [1] * 40)
    assert "between_documents" in thirds.flags
    assert thirds.drop == pytest.approx(0.5)


def test_a_nearly_empty_bucket_does_not_decide_the_lower_end():
    # 1 - .05 / .6; with its small error as weight, the last bucket was the centre of the fit.
    low = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        documents, buckets = np.repeat(np.arange(200), 3), np.tile(np.arange(3), 200)
        scores = (rng.random(600) < np.where(buckets == 2, 0.05, 0.6)) * 1.0
        low.append(estimate(scores, documents, buckets).psi_same_low)
    assert sum(end > 1 - 0.05 / 0.6 for end in low) <= 4
    assert np.median(low) > 0.8
