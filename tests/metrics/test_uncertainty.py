import dataclasses

import numpy as np
import pytest

from psibench.errors import InputError
from psibench.metrics import psi_resample
from psibench.metrics.bucket_statistics import bucket_statistics
from psibench.metrics.psi_resample import bootstrap_noise
from psibench.metrics.psi_table import tabulate
from psibench.metrics.uncertainty import estimate_psi

NDCG = np.concatenate([[0.0], 1 / np.log2(1 + np.arange(10, 0, -1))])
UNDEFINED = ("psi", "psi_low", "psi_high", "psi_null_mean", "psi_null_p95", "psi_p")
UNDEFINED += ("psi_corrected", "best_bucket", "worst_bucket")


def estimate(scores, buckets, n_buckets, **settings):
    """One bucket per query; small replicate numbers."""
    settings = {"min_bucket_size": 1, "n_bootstrap": 200, "n_permutations": 200} | settings
    return estimate_psi(
        scores, np.arange(len(buckets)), buckets, n_buckets=n_buckets, **({"seed": 7} | settings)
    )


def two_valued(means, size, gain=1.0):
    """Buckets of `size` queries whose scores are 0 or `gain`, with exactly these means."""
    hits = [round(mean * size / gain) for mean in means]
    scores = np.concatenate([np.r_[np.full(h, gain), np.zeros(size - h)] for h in hits])
    return scores, np.repeat(np.arange(len(means)), size)


def overlapping_example():
    # SQuAD-like: queries 0-59 in bucket 0, 40-99 in bucket 1 (40-59 in both), 100-104 in none.
    scores = np.random.default_rng(3).choice(NDCG, 105)
    return scores, np.r_[0:60, 40:100], np.repeat([0, 1], 60)


def test_estimate_reports_means_and_ends_of_the_profile():
    # Means .8 (3 queries: 1, .8, .6), .5 (2 queries: 0, 1) and .2 (1 query).
    row = estimate([1, 0.8, 0.6, 0, 1, 0.2], [2, 2, 2, 0, 0, 1], 3)
    assert (row.n_queries, row.n_buckets) == (6, 3)
    assert row.mean == pytest.approx(3.6 / 6)
    assert row.mean_of_buckets == pytest.approx(1.5 / 3)
    assert row.psi == pytest.approx(0.75)
    assert (row.best_bucket, row.worst_bucket) == (2, 1)


def test_query_in_two_buckets_counts_in_both_but_once_in_the_mean():
    # Query 1 sits in both buckets: means (1 + .5) / 2 and (.5 + .25) / 2, so PSI = .5.
    row = estimate_psi(
        [1, 0.5, 0.25, 0.9],
        [0, 1, 1, 2],
        [0, 0, 1, 1],
        n_buckets=2,
        min_bucket_size=1,
        seed=0,
    )
    assert row.n_queries == 3  # query 3 sits in no bucket
    assert row.mean == pytest.approx(1.75 / 3)
    assert row.psi == pytest.approx(0.5)


def test_repeated_membership_counts_once():
    once = estimate_psi([1, 0.5], [0, 1], [0, 1], n_buckets=2, min_bucket_size=1, seed=0)
    twice = estimate_psi([1, 0.5], [0, 1, 1], [0, 1, 1], n_buckets=2, min_bucket_size=1, seed=0)
    assert once == twice


def test_bucket_below_minimum_size_is_left_out_of_every_value():
    scores, buckets = two_valued([0.5, 0.4], 50)
    row = estimate(np.r_[scores, 0, 0], np.r_[buckets + 1, 0, 0], 3, min_bucket_size=3)
    alone = estimate(scores, buckets, 2, min_bucket_size=3)
    assert row.psi == pytest.approx(0.2)
    assert (row.best_bucket, row.worst_bucket) == (1, 2)
    assert row == dataclasses.replace(alone, best_bucket=1, worst_bucket=2)


@pytest.mark.parametrize(
    ("scores", "buckets", "n_buckets", "mean"),
    [
        pytest.param([], [], 3, None, id="empty"),
        pytest.param([0.5, 0.7], [1, 1], 3, 0.6, id="one bucket with queries"),
        pytest.param([0.0, 0.0, 0.0], [0, 1, 2], 3, 0.0, id="all zero"),
    ],
)
def test_psi_and_its_uncertainty_are_undefined_together(scores, buckets, n_buckets, mean):
    row = dataclasses.asdict(estimate(scores, buckets, n_buckets))
    assert {row[name] for name in UNDEFINED} == {None}
    assert row["mean"] == pytest.approx(mean) if mean is not None else row["mean"] is None


def test_no_bucket_reaches_the_minimum_size():
    row = estimate([0.5, 0.7], [0, 1], 2, min_bucket_size=2)
    assert (row.n_queries, row.n_buckets, row.mean, row.psi) == (0, 0, None, None)


@pytest.mark.parametrize("value", [1.0, 0.1, 1 / np.log2(3)])
def test_constant_scores_have_psi_zero_without_uncertainty(value):
    row = estimate(np.full(70, value), np.arange(70) % 7, 7)
    assert (row.psi, row.psi_low, row.psi_high, row.psi_corrected) == (0, 0, 0, 0)
    assert (row.psi_null_mean, row.psi_p) == (0, 1)


def test_bucket_of_one_query_has_a_wide_interval():
    scores, buckets = two_valued([0.5], 400)
    row = estimate(np.r_[scores, 1.0], np.r_[buckets, 1], 2)
    assert row.psi == pytest.approx(0.5)
    assert row.psi_low == 0
    assert row.psi_high - row.psi_low > 0.4


def test_bucket_of_zeros_has_psi_one_with_an_interval_that_depends_on_its_size():
    low = []
    for size in (20, 500):
        scores, buckets = two_valued([0.5, 0.0], size)
        row = estimate(scores, buckets, 2)
        assert (row.psi, row.psi_high) == (1, 1)
        low.append(row.psi_low)
    assert 0.4 < low[0] < low[1] < 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.1])
def test_scores_that_are_not_scores_are_refused(bad):
    with pytest.raises(InputError, match="query 1"):
        estimate([0.5, bad, 0.5], [0, 1, 1], 2)
    with pytest.raises(InputError, match="query 1"):
        bucket_statistics([0.5, bad], [0], [0], n_buckets=1, seed=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query_index": [0, 4]}, r"query_index\[1\] is 4; allowed are 0 to 1"),
        ({"query_index": [-1, 1]}, r"query_index\[0\] is -1"),
        ({"bucket_index": [0, 2]}, r"bucket_index\[1\] is 2"),
        ({"bucket_index": [0.0, 1.0]}, "bucket_index is float64"),
        ({"bucket_index": [0]}, "bucket_index 1"),
        ({"scores": [[0.1, 0.2]]}, "scores has shape"),
        ({"n_buckets": 0}, "n_buckets is 0"),
        ({"min_bucket_size": 0}, "min_bucket_size is 0"),
        ({"n_bootstrap": -1}, "n_bootstrap is -1"),
        ({"level": 95}, "level is 95"),
    ],
)
def test_bad_arguments_name_the_argument_and_the_value(change, message):
    arguments = {"scores": [0.1, 0.2], "query_index": [0, 1], "bucket_index": [0, 1]}
    with pytest.raises(InputError, match=message):
        estimate_psi(**({"n_buckets": 2, "seed": 0} | arguments | change))


@pytest.mark.parametrize("distinct", ["eleven values", "continuous"])
def test_shuffled_queries_give_the_same_result(distinct):
    rng = np.random.default_rng(5)
    scores, queries, buckets = overlapping_example()
    if distinct == "continuous":
        scores = rng.random(len(scores))
    straight = (scores, queries, buckets)
    new_number = rng.permutation(len(scores))
    rows = rng.permutation(len(queries))
    shuffled = (scores[np.argsort(new_number)], new_number[queries][rows], buckets[rows])
    settings = {"n_buckets": 2, "n_bootstrap": 100, "n_permutations": 100, "seed": 1}
    assert estimate_psi(*straight, **settings) == estimate_psi(*shuffled, **settings)
    one, other = (bucket_statistics(*a, n_buckets=2, seed=1) for a in (straight, shuffled))
    np.testing.assert_array_equal(one.low, other.low)


def test_seed_fixes_the_result_and_another_seed_changes_it():
    scores, buckets = two_valued([0.6, 0.5, 0.4], 60)
    assert estimate(scores, buckets, 3, seed=1) == estimate(scores, buckets, 3, seed=1)
    assert estimate(scores, buckets, 3, seed=1) != estimate(scores, buckets, 3, seed=2)


def test_number_of_permutations_does_not_touch_the_interval():
    scores, buckets = two_valued([0.6, 0.5, 0.4], 60)
    few, many = (estimate(scores, buckets, 3, n_permutations=n) for n in (50, 80))
    assert (few.psi_low, few.psi_high) == (many.psi_low, many.psi_high)


def test_zero_replicates_leave_only_the_plain_value():
    row = estimate([1.0, 0.5], [0, 1], 2, n_bootstrap=0, n_permutations=0)
    assert row.psi == 0.5
    assert (row.psi_low, row.psi_corrected, row.psi_null_mean, row.psi_p) == (None,) * 4


def test_resampling_in_chunks_gives_the_same_draws(monkeypatch):
    scores, buckets = two_valued([0.6, 0.5, 0.4], 60)
    table = tabulate(scores, np.eye(3, dtype=bool)[buckets])
    whole = bootstrap_noise(table, n_bootstrap=50, seed=1).errors
    monkeypatch.setattr(psi_resample, "CHUNK_CELLS", 7 * table.counts.size)  # 8 runs
    np.testing.assert_array_equal(bootstrap_noise(table, n_bootstrap=50, seed=1).errors, whole)


def test_permutation_null_matches_enumeration():
    # Scores 1 1 0 0 in two buckets of two: of 6 labelings, 2 put both ones together (PSI 1),
    # 4 split them (PSI 0). The observed PSI is 1, so p = 1/3 and the null mean is 1/3.
    row = estimate([1, 1, 0, 0], [0, 0, 1, 1], 2, n_permutations=4000)
    assert row.psi_p == pytest.approx(1 / 3, abs=0.03)
    assert row.psi_null_mean == pytest.approx(1 / 3, abs=0.03)
    assert row.psi_null_p95 == 1


@pytest.mark.parametrize("jitter", [0.0, 1e-4], ids=["drawn by cell", "drawn by query"])
def test_bootstrap_errors_have_the_textbook_standard_error_and_overlap_correlation(jitter):
    scores, queries, buckets = overlapping_example()
    scores = scores + jitter * np.arange(105)
    inside = np.zeros((105, 2), dtype=bool)
    inside[queries, buckets] = True
    errors = bootstrap_noise(tabulate(scores, inside), n_bootstrap=4000, seed=2).errors
    own_0, shared, own_1 = scores[:40].var(), scores[40:60].var(), scores[60:100].var()
    variance = np.array([40 * own_0 + 20 * shared, 20 * shared + 40 * own_1])  # of the sums of 60
    np.testing.assert_allclose(errors.std(axis=1), np.sqrt(variance) / 60, rtol=0.06)
    correlation = 20 * shared / np.sqrt(variance.prod())
    assert np.corrcoef(errors)[0, 1] == pytest.approx(correlation, abs=0.05)


def test_score_grid_for_many_distinct_scores_hardly_changes_the_result():
    rng = np.random.default_rng(8)
    fine = rng.choice(NDCG, 1200) * 0.99 + rng.random(1200) * 1e-9
    coarse = np.round(fine, 6)  # 11 values
    buckets = np.arange(1200) % 4
    a, b = (estimate(s, buckets, 4, n_bootstrap=1000, n_permutations=1000) for s in (fine, coarse))
    assert a.psi == pytest.approx(b.psi, abs=1e-6)
    assert a.psi_high == pytest.approx(b.psi_high, abs=0.02)
    assert a.psi_null_mean == pytest.approx(b.psi_null_mean, abs=0.01)


def test_strong_effect_is_found_and_hardly_corrected():
    scores, buckets = two_valued([0.6, 0.5, 0.3], 2000)
    row = estimate(scores, buckets, 3, n_bootstrap=500)
    assert row.psi == pytest.approx(0.5)
    assert row.psi_p == pytest.approx(1 / 201)
    assert row.psi_corrected == pytest.approx(0.5, abs=0.005)
    # Relative standard error of the ratio: sqrt(.7/(.3 n) + .4/(.6 n)) = .0387, so PSI +- .038.
    assert row.psi_low == pytest.approx(0.462, abs=0.008)
    assert row.psi_high == pytest.approx(0.538, abs=0.008)


def test_interval_widens_with_the_level_and_contains_the_corrected_value():
    scores, buckets = two_valued([0.6, 0.5, 0.4], 100)
    narrow, wide = (estimate(scores, buckets, 3, level=level) for level in (0.5, 0.95))
    assert wide.psi_low < narrow.psi_low <= narrow.psi_corrected <= narrow.psi_high < wide.psi_high
    assert narrow.psi <= narrow.psi_high


def simulated_rows(true_means, size, replications):
    rng = np.random.default_rng(11)
    buckets = np.repeat(np.arange(len(true_means)), size)
    for _ in range(replications):
        hit = rng.random(len(buckets)) < np.repeat(true_means, size) / 0.75
        gain = rng.choice([1.0, NDCG[-2], NDCG[-4]], len(buckets), p=[0.534, 0.2, 0.266])
        scores = hit * gain  # mean gain .534 + .2 * .6309 + .266 * .4307 = .775
        yield scores, buckets, estimate(scores, buckets, len(true_means), n_permutations=0)


@pytest.mark.parametrize("true_psi", [0.0, 0.1])
def test_interval_covers_a_small_true_psi_where_the_percentile_bootstrap_fails(true_psi):
    # 60 data sets of 6 x 150 queries. A 95 % interval misses 3 of 60 on average.
    true_means = np.array([0.45, 0.45, 0.45, 0.45, 0.45, 0.45 * (1 - true_psi)])
    covered = naive_covered = 0
    for scores, buckets, row in simulated_rows(true_means, 150, 60):
        covered += row.psi_low <= true_psi <= row.psi_high
        table = tabulate(scores, np.eye(6, dtype=bool)[buckets])
        noise = bootstrap_noise(table, n_bootstrap=200, seed=1)
        means = table.bucket_means(table.exact_sums)[:, None] + noise.errors
        naive = np.quantile(1 - means.min(axis=0) / means.max(axis=0), [0.025, 0.975])
        naive_covered += naive[0] <= true_psi <= naive[1]
    assert covered >= 55
    assert naive_covered <= 30


def test_corrected_psi_is_less_biased_than_the_plain_one():
    rows = [row for _, _, row in simulated_rows(np.full(6, 0.45), 150, 60)]
    plain = np.mean([row.psi for row in rows])
    corrected = np.mean([row.psi_corrected for row in rows])
    assert plain > 0.13
    assert corrected < plain / 2


def test_bucket_statistics_of_known_counts():
    # Bucket 0: 36 of 100 hit, standard error .048; bucket 1 empty; bucket 2 a single query.
    scores = np.r_[np.ones(36), np.zeros(64), 0.5]
    stats = bucket_statistics(
        scores, np.arange(101), np.r_[np.zeros(100, int), 2], n_buckets=3, n_bootstrap=4000, seed=1
    )
    assert stats.n_queries.tolist() == [100, 0, 1]
    np.testing.assert_allclose(stats.mean, [0.36, np.nan, 0.5])
    np.testing.assert_allclose(stats.low, [0.36 - 1.96 * 0.048, np.nan, np.nan], atol=0.012)
    np.testing.assert_allclose(stats.high, [0.36 + 1.96 * 0.048, np.nan, np.nan], atol=0.012)


def test_bucket_statistics_stay_inside_the_range_of_scores():
    stats = bucket_statistics(
        np.r_[np.zeros(40), np.ones(40)],
        np.arange(80),
        np.repeat([0, 1], 40),
        n_buckets=2,
        seed=1,
    )
    assert stats.low[0] == 0
    assert 0 < stats.high[0] < 0.2
    assert 0.8 < stats.low[1] < 1
    assert stats.high[1] == 1


def test_bucket_statistics_without_queries_are_nan():
    stats = bucket_statistics([], [], [], n_buckets=2, seed=1)
    assert stats.n_queries.tolist() == [0, 0]
    assert np.isnan([stats.mean, stats.low, stats.high]).all()


def test_every_query_in_its_own_set_of_buckets_still_has_uncertainty():
    rng = np.random.default_rng(6)
    queries, buckets = np.nonzero(rng.random((600, 20)) < 0.5)
    row = estimate_psi(rng.random(600), queries, buckets, n_buckets=20, seed=0)
    # Means of 300 uniform scores: standard error .29 / sqrt(300) = 3 % of the mean; 20 of them
    # spread over about 3.7 standard errors.
    assert row.psi_null_mean == pytest.approx(0.09, abs=0.03)
    assert row.psi_low == 0
    assert row.psi_high >= row.psi


def test_more_than_64_buckets_are_supported():
    scores, buckets = two_valued([0.5] * 69 + [0.25], 40)
    row = estimate(scores, buckets, 70)
    assert row.n_buckets == 70
    assert row.worst_bucket == 69
    assert row.psi == 0.5


def test_one_miss_among_perfect_scores_does_not_exclude_no_effect():
    # 3 buckets of 40 queries, one query misses: any shuffle gives the same PSI.
    scores = np.ones(120)
    scores[7] = 0.0
    found = estimate_psi(scores, np.arange(120), np.repeat([0, 1, 2], 40), n_buckets=3, seed=1)
    assert found.psi == pytest.approx(1 / 40)
    assert found.psi_p == 1.0
    assert found.psi_low == 0.0


def test_near_perfect_scores_rarely_exclude_no_effect():
    # Mean .97, 20 buckets of 50: the bootstrap alone excluded 0 in about a fifth of such sets.
    rng = np.random.default_rng(5)
    excluded = 0
    for seed in range(60):
        scores = (rng.random(1000) < 0.97).astype(float)
        buckets = np.repeat(np.arange(20), 50)
        found = estimate_psi(
            scores, np.arange(1000), buckets, n_buckets=20, n_permutations=200, seed=seed
        )
        excluded += found.psi_low > 0
    assert excluded <= 6  # nominal 2.5 % of 60 is 1.5
