"""Tests and estimates from queries and scores by document and bucket.

A query is written (document, bucket, score). The slow references are loops over queries.
"""

from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from psibench.errors import InputError
from psibench.metrics.inference import (
    HotellingTest,
    between_documents,
    combined_p,
    confounding,
    document_table,
    effective_documents,
    equal_means,
    information,
    intra_document_correlation,
    least_of,
    length_imbalance,
    level_of_each,
    raw_profile,
    same_document_profile,
    within_documents,
)

LEVELS = (0.0, 0.5, 1.0)


def table_of(queries, n_buckets=3, n_clusters=None):
    documents, buckets, scores = (np.array(part) for part in zip(*queries, strict=True))
    index, units = np.arange(len(scores)), n_clusters and documents % n_clusters
    return document_table(scores, documents, index, buckets, n_buckets=n_buckets, units=units)


def random_queries(seed, n_documents=60, n_buckets=3, mean=0.5, profile=None):
    rng = np.random.default_rng(seed)
    profile = np.ones(n_buckets) if profile is None else np.array(profile)
    queries = []
    for document in range(n_documents):
        level = rng.beta(4 * mean, 4 * (1 - mean))
        for bucket in rng.integers(0, n_buckets, rng.integers(1, 8)):
            queries.append((document, int(bucket), float(rng.random() < level * profile[bucket])))
    return queries


documents_of = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(LEVELS)), min_size=1, max_size=5),
    min_size=2,
    max_size=12,
)


def numbered(documents):
    return [(d, b, s) for d, held in enumerate(documents) for b, s in held]


# --- Counting -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": [0.5]}, "documents 2 entries"),
        ({"query_index": [0]}, "query_index has 1 entries"),
        ({"query_index": [-1, 0]}, "query_index has -1"),
        ({"bucket_index": [0, 3]}, "bucket_index has 0 to 3; allowed: 0 to 2"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    given_ = {"scores": [0.1, 0.2], "documents": [0, 1], "query_index": [0, 1]}
    given_ |= {"bucket_index": [0, 1]} | change
    with pytest.raises(InputError, match=message):
        document_table(**{k: np.array(v) for k, v in given_.items()}, n_buckets=3)


# --- Within documents -----------------------------------------------------------------------------


def test_two_buckets_of_one_query_each_are_mcnemars_test():
    # 25 documents score (1, 0), 10 score (0, 1), 5 score (1, 1). U = (s0 - s1) / 2 (1, -1): 25
    # times +.5, 10 times -.5, 5 times 0, so G = 35. b = 7.5 (1, -1), V = 35 / 4 (1, -1)(1, -1)',
    # Q = (2 * 7.5)^2 / 35 = (25 - 10)^2 / 35 = 6.43 as McNemar's statistic. As F: Q 34 / (35 - Q) =
    # 7.65 with 1 and 34 degrees of freedom, t = 2.766.
    patterns = [(1, 0)] * 25 + [(0, 1)] * 10 + [(1, 1)] * 5
    queries = [(d, b, float(s)) for d, pair in enumerate(patterns) for b, s in enumerate(pair)]
    test = within_documents(table_of(queries, 2))
    assert test.n_documents == 35
    assert test.statistic.tolist() == [7.5, -7.5]
    q = 225 / 35
    assert test.p_shape == pytest.approx(2 * stats.t.sf((q * 34 / (35 - q)) ** 0.5, 34))
    assert test.p_shape == pytest.approx(0.0091, abs=1e-4)
    assert test.p_trend == test.p == pytest.approx(test.p_shape)
    assert test.p_bucket is None  # of two buckets, one against the rest is the slope


def slow_test(queries):
    """Sums of scores less their document's mean by bucket; F of shape, slope, each bucket."""
    by_document = {}
    for document, bucket, score in queries:
        by_document.setdefault(document, []).append((bucket, score))
    buckets = sorted({bucket for _, bucket, _ in queries})
    rows = []
    for held in by_document.values():
        mean = sum(score for _, score in held) / len(held)
        row = [sum(s - mean for b, s in held if b == bucket) for bucket in buckets]
        if max(abs(value) for value in row) > 1e-9:
            rows.append(row)
    rows = np.array(rows).reshape(-1, len(buckets))
    x = np.arange(len(buckets)) - (len(buckets) - 1) / 2
    found = []
    each = [np.eye(len(buckets))[:, [k]] for k in range(len(buckets))]
    for directions in (np.stack([x, x**2 - np.mean(x**2)]).T, x[:, None], *each):
        along = rows @ directions
        if directions.shape[1] == 1 and set(directions[:, 0]) == {0, 1}:
            # documents with information on the bucket
            along = along[np.abs(along[:, 0]) > 1e-12]
        n, total = len(along), along.sum(axis=0)
        v = sum(np.outer(row, row) for row in along)
        rank = np.linalg.matrix_rank(v, tol=1e-8)
        q = total @ np.linalg.pinv(v, rcond=1e-9) @ total
        found.append(stats.f.sf(q / (n - q) * (n - rank) / rank, rank, n - rank))
    return len(rows), found


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5), st.sampled_from([0.2, 0.5, 0.8]))
def test_p_values_are_those_of_a_slow_reference(seed, n_buckets, mean):
    queries = random_queries(seed, 150, n_buckets, mean)
    test = within_documents(table_of(queries, n_buckets))
    n, (p_shape, p_trend, *each) = slow_test(queries)
    assert test.n_documents == n
    assert (test.p_shape, test.p_trend) == pytest.approx((p_shape, p_trend), rel=1e-6, abs=1e-12)
    if test.buckets:
        p_bucket = 1 - (1 - min(each[k] for k in test.buckets)) ** len(test.buckets)
        assert test.p_bucket == pytest.approx(p_bucket, rel=1e-6, abs=1e-12)
        assert test.p == pytest.approx(combined_p(p_shape, p_bucket), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("n_units", [10, 20, 1000])
def test_deviations_that_are_just_significant_leave_next_to_nothing(n_units):
    for size in (0.05, 0.05 / 6, 0.05 / 20):
        b = stats.beta.isf(size, 0.5, (n_units - 1) / 2)
        for excess in np.geomspace(1e-16, 1e-9, 50):  # to the last digit
            test = HotellingTest(n_units * b * (1 + excess), 1, n_units, n_units)
            assert 0 <= test.least_share(size, alpha=0.05) < 1e-3


@pytest.mark.parametrize("rank", [1, 2])
def test_least_share_is_one_sided_for_small_deviations(rank):
    n = 1000

    def least(t: float) -> float:
        odds = t**2 / (n - rank)
        test = HotellingTest(n * odds / (1 + odds), rank, n, n)
        return test.least_share(0.05, alpha=0.05) * t

    rest = n - rank
    just = (rank * stats.f.isf(0.05, rank, rest)) ** 0.5
    assert least(just - 0.001) == 0 < least(just + 0.001)
    for t in (2.5, 2.8, 3.2):  # of the true T, the observed one is the 95 % quantile
        assert stats.ncf.cdf(t**2 / rank, rank, rest, least(t) ** 2) == pytest.approx(0.95)
    one = stats.t.isf(0.025, n - 1)
    assert least(3.8) == pytest.approx(one, abs=0.01)
    for t in (8.0, 40.0, 800.0):
        assert t - one - 0.2 < least(t) < t - one + 0.01


P_VALUES = st.one_of(
    st.floats(0, 1, allow_subnormal=False), st.sampled_from([0.0, 1e-300, 1e-12, 1 - 1e-16, 1.0])
)


@settings(max_examples=300)
@given(P_VALUES, P_VALUES, P_VALUES)
def test_a_combined_p_is_at_most_twice_the_smallest(one, other, lower):
    found, least = combined_p(one, other), min(one, other)
    assert least <= found * (1 + 1e-12)
    assert found <= min(2 * least, 1.0) * (1 + 1e-12)
    assert found == combined_p(other, one)
    assert combined_p(min(one, lower), other) <= found * (1 + 1e-12)
    assert combined_p(one, None) == one


@settings(max_examples=200)
@given(st.lists(P_VALUES, min_size=1, max_size=20))
def test_least_of_is_1_only_if_all_p_are(p_values):
    found, n = least_of(p_values), len(p_values)
    assert found == pytest.approx(float(1 - (1 - Fraction(min(p_values))) ** n), rel=1e-9, abs=0)
    assert min(p_values) <= found * (1 + 1e-12)
    assert found <= n * min(p_values) * (1 + 1e-12)
    # The level of each test is where the adjusted p is the level of all.
    assert least_of([level_of_each(0.05, n)] * n) == pytest.approx(0.05)


def test_a_strong_slope_is_found_despite_flat_buckets():
    assert combined_p(0.001, 1.0) == pytest.approx(0.002, rel=0.01)
    assert combined_p(1e-6, 1.0) == pytest.approx(2e-6)
    assert combined_p(1e-320, 1e-320) < 1e-300
    assert combined_p(None, None) is None
    assert least_of([]) is None


# --- Information ----------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(documents_of)
def test_information_is_the_least_share_of_a_contrast_inside_documents(documents):
    queries = numbered(documents)
    assume({bucket for _, bucket, _ in queries} == {0, 1, 2})
    worst = 1.0
    for angle in np.linspace(0, np.pi, 721):  # any contrast of three buckets is slope and bend
        value = np.cos(angle) * np.array([-1, 0, 1]) + np.sin(angle) * np.array([1, -2, 1]) / 3**0.5
        every = np.array([value[bucket] for _, bucket, _ in queries])
        total = ((every - every.mean()) ** 2).sum()
        inside = sum(
            ((own - own.mean()) ** 2).sum()
            for held in documents
            for own in [np.array([value[bucket] for bucket, _ in held])]
        )
        worst = min(worst, inside / total)
    found = information(table_of(queries))
    assert found.least == pytest.approx(worst, abs=1e-4)
    assert found.slope_bend == pytest.approx(worst, abs=1e-4)


# --- Profiles -------------------------------------------------------------------------------------


def slow_profile(queries):
    """Means at equal documents by the iteration r_k <- r_k S_k / sum_d t_d p_dk, by loops."""
    documents = sorted({d for d, _, _ in queries})
    buckets = sorted({b for _, b, _ in queries})
    n = {(d, b): 0 for d in documents for b in buckets}
    total, scored = dict.fromkeys(documents, 0.0), dict.fromkeys(buckets, 0.0)
    for d, b, score in queries:
        n[d, b] += 1
        total[d] += score
    informs = [d for d in documents if total[d] > 0 and sum(n[d, b] > 0 for b in buckets) > 1]
    for d, b, score in queries:
        scored[b] += score if d in informs else 0.0
    r = dict.fromkeys(buckets, 1.0)
    for _ in range(4000):
        expected = dict.fromkeys(buckets, 0.0)
        for d in informs:
            bottom = sum(n[d, b] * r[b] for b in buckets)
            for b in buckets:
                expected[b] += total[d] * n[d, b] * r[b] / bottom if bottom > 0 else 0.0
        new = {b: r[b] * scored[b] / expected[b] if expected[b] > 0 else 0.0 for b in buckets}
        change = max(abs(new[b] - r[b]) for b in buckets)
        r = new
        if change < 1e-13:
            break
    else:
        return None
    share = {b: sum(n[d, b] for d in documents) / len(queries) for b in buckets}
    mean = sum(score for _, _, score in queries) / len(queries)
    return [mean * r[b] / sum(share[c] * r[c] for c in buckets) for b in buckets]


@settings(max_examples=40, deadline=None)
@given(documents_of)
def test_profile_at_equal_documents_is_that_of_the_plain_iteration(documents):
    queries = numbered(documents)
    profile = same_document_profile(table_of(queries))
    assume(profile is not None)
    slow = slow_profile(queries)
    assume(slow is not None)
    assert profile.means.tolist() == pytest.approx(slow, rel=1e-5, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(documents_of)
def test_profile_is_given_exactly_where_documents_tie_the_buckets_together(documents):
    # It has no finite solution if some set A of buckets wins always: a document that has queries in
    # A and others scores in A only. And nothing is known of a bucket that no document with scores
    # shares with another one.
    queries = numbered(documents)
    informs = [
        {b: [s for own, s in held if own == b] for b, _ in held}
        for held in documents
        if len({b for b, _ in held}) > 1 and sum(s for _, s in held) > 0
    ]
    buckets = {b for _, b, _ in queries}
    found = {b for held in informs for b, scores in held.items() if sum(scores) > 0}
    tied = bool(found) and all(any(b in held for held in informs) for b in buckets)
    for size in range(1, len(found)):
        for chosen in combinations(sorted(found), size):
            wins = all(
                sum(sum(scores) for b, scores in held.items() if b not in chosen) == 0
                for held in informs
                if set(held) & set(chosen)
            )
            tied &= not wins
    assert (same_document_profile(table_of(queries)) is not None) == (tied and len(buckets) > 1)


def test_profile_at_equal_documents_by_hand():
    # Two documents hold both buckets. Scores 4 and 2 of 4 queries each in the first; 1 and 1 of
    # 2 and 4 in the second. r solves 5 = 6 * 4r/(4r + 4) + 2 * 2r/(2r + 4), r the first bucket's
    # share of the second: 6r/(r + 1) + 2r/(r + 2) = 5, so 3r^2 - r - 10 = 0 and r = 2.
    queries = [(0, 0, 1.0)] * 4 + [(0, 1, 0.5)] * 4
    queries += [(1, 0, 0.5)] * 2 + [(1, 1, 0.25)] * 4
    profile = same_document_profile(table_of(queries, 2))
    # Overall mean 8/14; shares 6/14 and 8/14: m = 8/14 * r / ((6 * 2 + 8) / 14) = .4 r.
    assert profile.means.tolist() == pytest.approx([0.8, 0.4])


@pytest.mark.parametrize("profile_of", [raw_profile, same_document_profile])
def test_influences_sum_to_0_and_match_the_jackknife(profile_of):
    queries = random_queries(11, 150, profile=[1, 0.8, 0.6])
    profile = profile_of(table_of(queries))
    assert profile.influence.sum(axis=0) == pytest.approx(np.zeros(3), abs=1e-9)
    left = np.array(
        [profile_of(table_of([q for q in queries if q[0] != d])).means for d in range(150)]
    )
    jackknife = np.sqrt(149 / 150 * ((left - left.mean(axis=0)) ** 2).sum(axis=0))
    se = np.sqrt((profile.influence**2).sum(axis=0))
    assert se.tolist() == pytest.approx(jackknife.tolist(), rel=0.02)


def test_covariance_of_plain_means_by_hand():
    # Documents (1, 0), (1, 1), (0, 0) of one query per bucket: means 2/3 and 1/3. Influences
    # (s - m) / 3: of the first bucket (1, 1, -2) / 9, of the second (-1, 2, -1) / 9. Times
    # G / (G - 1) = 3/2: variances 6 / 81 * 3 / 2 = 1/9, covariance (-1 + 2 + 2) / 81 * 3/2 = 1/18.
    # The scores' variance is 1/4: a bucket of 3 queries adds 2 / 5 * 1/4 / 3 = 1/30.
    queries = [(0, 0, 1.0), (0, 1, 0.0), (1, 0, 1.0), (1, 1, 1.0), (2, 0, 0.0), (2, 1, 0.0)]
    covariance = raw_profile(table_of(queries, 2)).covariance
    assert covariance.ravel().tolist() == pytest.approx(
        [1 / 9 + 1 / 30, 1 / 18, 1 / 18, 1 / 9 + 1 / 30]
    )


def test_a_bucket_without_misses_has_no_separate_test():
    # 300 documents of four queries in any of 20 buckets, 48 of 1,200 missed, none in bucket 3.
    rng = np.random.default_rng(8)
    places = [(d, int(b)) for d in range(300) for b in rng.integers(0, 20, 4)]
    missed = set(rng.permutation([i for i, (_, b) in enumerate(places) if b != 3])[:48].tolist())
    test = equal_means(table_of([(*p, float(i not in missed)) for i, p in enumerate(places)], 20))
    assert not test.buckets
    assert test.p > 0.05


# --- Between documents ----------------------------------------------------------------------------


def test_between_documents_has_the_covariance_of_all_exchanges():
    # Five strata of three documents with 2 queries and three with 1: 30 documents. All 3! orders of
    # each group are enumerated; a document hands its whole sequence of buckets over.
    rng = np.random.default_rng(5)
    rows = []  # document, bucket, score, length
    groups = []
    for stratum in range(5):
        for size in (2, 1):
            group = []
            for _ in range(3):
                held = [(int(rng.integers(3)), float(rng.random())) for _ in range(size)]
                rows += [
                    (len(groups) * 3 + len(group), b, s, 100.0 * (stratum + 1)) for b, s in held
                ]
                group.append(held)
            groups.append(group)
    total, covariance = np.zeros(3), np.zeros((3, 3))
    for group in groups:
        sums = []
        for order in permutations(range(3)):
            row = np.zeros(3)
            for document, other in enumerate(order):
                for (_, score), (bucket, _) in zip(group[document], group[other], strict=True):
                    row[bucket] += score
            sums.append(row)
        total += sums[0] - np.mean(sums, axis=0)  # the first order is the one observed
        covariance += np.cov(np.array(sums).T, bias=True)
    x = np.array([-1.0, 0.0, 1.0])
    p_trend = 2 * stats.norm.sf(abs(x @ total) / (x @ covariance @ x) ** 0.5)
    documents, buckets, scores, lengths = (np.array(part) for part in zip(*rows, strict=True))
    places = np.arange(len(scores)) + 0.0
    mixed = rng.permutation(len(scores))  # the order of rows does not matter
    columns = (scores, documents, buckets, lengths, places)
    test = between_documents(*(column[mixed] for column in columns))
    assert test.statistic.tolist() == pytest.approx(total.tolist())
    assert test.p_trend == pytest.approx(p_trend)
    assert (test.p, test.p_bucket) == (test.p_shape, None)  # no bucket has 30 documents


def test_buckets_are_tested_between_documents_with_enough_clusters():
    # Only the shortest documents have queries in the first bucket; there, everything is found.
    rng = np.random.default_rng(2)
    buckets = np.r_[np.tile([0, 1], 30), rng.integers(1, 3, 240)]
    scores = np.r_[np.ones(60), rng.random(240) < 0.5]
    documents, lengths = np.arange(300), np.repeat(np.arange(5) * 100.0 + 500, 60)

    def test(n_clusters):
        units = rng.permutation(documents % n_clusters)
        return between_documents(scores, documents, buckets, lengths, np.zeros(300), units=units)

    few, many = test(12), test(60)
    assert few.p_bucket is None
    assert few.p == few.p_shape
    assert 0 < many.p_bucket <= 1
    assert many.buckets.keys() == {1, 2}


@pytest.mark.parametrize(("n_documents", "is_tested"), [(29, False), (30, True)])
def test_fewer_than_thirty_documents_that_differ_inside_give_no_p(n_documents, is_tested):
    # In 15 clusters, which are enough; the other documents score alike and are not informative.
    queries = [(d, b, float(b == 0 or d >= n_documents)) for d in range(70) for b in (0, 1)]
    test = within_documents(table_of(queries, 2, n_clusters=15))
    assert (test.n_documents, test.p is not None) == (n_documents, is_tested)


def test_a_cluster_whose_documents_cancel_out_does_not_count():
    # Thirds of 1/3 do not sum to 0 exactly in binary.
    queries = random_queries(7, n_documents=120)
    mirrored = [(120 + d, b, float(d == b)) for d in range(3) for b in range(3)]

    def p_shape(held):
        documents, buckets, scores = (np.array(part) for part in zip(*held, strict=True))
        units = np.where(documents < 120, documents % 20, 20)
        index = np.arange(len(scores))
        table = document_table(scores, documents, index, buckets, n_buckets=3, units=units)
        return within_documents(table).p_shape

    assert p_shape(queries + mirrored) == pytest.approx(p_shape(queries), rel=1e-12)


def test_a_slope_that_no_document_has_is_not_found():
    queries = [(d, b, float((b == 1) == (d % 3 > 0))) for d in range(60) for b in range(3)]
    test = within_documents(table_of(queries))
    assert test.p_trend == 1.0
    assert test.p_shape < 0.05


# --- Describing a row, confounding ----------------------------------------------------------------


def test_effective_documents_by_hand():
    # Documents of 3, 1 and 1 queries: 25 / (9 + 1 + 1).
    assert effective_documents(table_of([(0, 0, 1.0)] * 3 + [(1, 1, 1.0), (2, 1, 1.0)])) == (
        pytest.approx(25 / 11)
    )


def test_intra_document_correlation_by_hand():
    # Three documents (1, 1), (0, 0), (1, 0) in one bucket; mean 1/2. Between: 2 (1/4 + 1/4) / 2 =
    # 1/2, within: (1/4 + 1/4) / 3 = 1/6, n0 = 2: (1/2 - 1/6) / (1/2 + 1/6) = 1/2.
    scores, documents = np.array([1.0, 1, 0, 0, 1, 0]), np.array([0, 0, 1, 1, 2, 2])
    assert intra_document_correlation(scores, documents, np.zeros(6, int)) == pytest.approx(0.5)
    assert intra_document_correlation(scores, np.arange(6), np.zeros(6, int)) is None


def test_length_imbalance_by_hand():
    # Lengths 1, 1, 3, 5 in buckets 0, 0, 1, 1: mean 2.5, total 11; means 1 and 4: 4 * 1.5^2 = 9.
    lengths = np.array([1.0, 1, 3, 5])
    assert length_imbalance(lengths, np.array([0, 0, 1, 1])) == pytest.approx(9 / 11)
    assert length_imbalance(np.ones(4), np.array([0, 0, 1, 1])) is None


def test_a_bucket_of_one_document_is_not_confounding():
    # A Wald test takes the one document's mean as certain. 200 documents in two buckets, nothing
    # differs; one more query in a third bucket of document 0 finds nothing.
    rng = np.random.default_rng(6)
    queries = [(d, b, float(rng.random() < 0.5)) for d in range(200) for b in (0, 1, 0, 1)]
    queries += [(d, 0, float(d % 2)) for d in range(200, 230)] + [(0, 2, 0.0)]
    table = table_of(queries)
    assert confounding(table, raw_profile(table)) > 0.01


def test_confounding_needs_more_clusters_than_ranks():
    queries = random_queries(2, n_documents=240, n_buckets=20)
    few, many = (table_of(queries, 20, n_clusters) for n_clusters in (12, 60))
    assert confounding(few, raw_profile(few)) is None
    assert 0 < confounding(many, raw_profile(many)) < 1
