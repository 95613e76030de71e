"""Two systems on the same queries, and several."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from psibench.metrics.comparison import (
    compare_profiles,
    groups_without_difference,
    mean_difference,
    psi_difference,
    step_down_p,
)


def layout(n_documents=400, n_buckets=3):
    return np.repeat(np.arange(n_documents), n_buckets), np.tile(np.arange(n_buckets), n_documents)


def hits(rng, chances):
    return (rng.random(len(chances)) < chances).astype(float)


def compared(first, second, documents, buckets, *, within=True):
    return compare_profiles(
        first,
        second,
        documents,
        np.arange(len(first)),
        buckets,
        np.full(len(first), 900.0),
        np.arange(len(first)),
        within=within,
    )


# --- Profiles -------------------------------------------------------------------------------------


def test_profiles_are_compared_by_documents_by_hand():
    # 40 documents with a query per bucket. The first system finds all in bucket 0 and 20 in bucket
    # 1, the second one 30 in each. Means .75 and .75: the hit scale is the difference / .75, the
    # miss scale its negative / .25: one statistic.
    first = np.array([1.0, 1.0] * 20 + [1.0, 0.0] * 20)
    second = np.array([1.0, 0.0] * 10 + [0.0, 1.0] * 10 + [1.0, 1.0] * 20)
    documents, buckets = layout(40, 2)
    found = compared(first, second, documents, buckets)
    # first - second: (0, 1) 10 times, (1, 0) 10 times, (0, -1) 20 times. Half their inner
    # differences: -.5, +.5 and +.5: 30 of one sign and 10 of the other. Q = (30 - 10)^2 / 40 = 10,
    # F = Q 39 / (40 - Q) = 13 with 1 and 39 degrees of freedom.
    p = 2 * stats.t.sf(13**0.5, 39)
    assert (found.p_hit, found.p_miss, found.p) == pytest.approx((p, p, p))


@pytest.mark.parametrize("scale", ["hit", "miss"])
def test_a_shared_profile_is_no_difference(scale):
    rng = np.random.default_rng(1)
    documents, buckets = layout(900)
    shared = rng.beta(5, 2, 900)[documents] * np.array([1.0, 0.8, 0.6])[buckets]
    a, b = (
        (hits(rng, shared), hits(rng, 0.5 * shared))
        if scale == "hit"
        else (hits(rng, 1 - shared), hits(rng, 1 - 0.4 * shared))
    )
    found = compared(a, b, documents, buckets)
    own, other = (found.p_hit, found.p_miss) if scale == "hit" else (found.p_miss, found.p_hit)
    assert own > 0.05
    assert other < 0.01  # means far apart: one scale would show a difference
    assert found.p > 0.05


def test_only_rounding_differences_are_ignored():
    """A third of the hits in each bucket, in floating point; then a hit moved by .0002."""
    documents, buckets = layout(40)
    first = np.random.default_rng(6).uniform(0.3, 0.9, len(documents))
    share = first / 3
    assert np.ptp(share / share.mean() - first / first.mean()) > 0  # by rounding
    assert compared(first, share, documents, buckets).p_hit == 1
    # Every document loses .0002 in the first bucket and gains it in the last: the same sign 40
    # times, without spread.
    moved = share + 0.0002 * (buckets - 1)
    assert compared(first, moved, documents, buckets).p_hit < 1e-9


def test_scales_that_disagree_in_direction_claim_nothing():
    # The first system falls from 1 to .9 in hits; in misses it rises from 0 to .1 of a mean of .05,
    # a doubling; the other one falls from .5 to .4, more of its hits and less of its misses.
    rng = np.random.default_rng(3)
    documents, buckets = layout(3000, 2)
    a = hits(rng, np.array([1.0, 0.9])[buckets])
    b = hits(rng, np.array([0.5, 0.38])[buckets])
    found = compared(a, b, documents, buckets)
    assert found.p_hit < 0.01
    assert found.p_miss < 0.01
    assert found.p == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(np.zeros(120), np.ones(120), id="nothing and all"),
        pytest.param(np.tile([1.0, 0.0, 1.0], 40), np.zeros(120), id="one finds nothing"),
        pytest.param(np.tile([1.0, 0.0, 1.0], 40), np.ones(120), id="one finds all"),
    ],
)
def test_profiles_need_both_scales_for_a_p(first, second):
    assert compared(first, second, *layout(40)).p is None


# --- Means ----------------------------------------------------------------------------------------


def test_difference_of_means_has_documents_as_units():
    # 40 documents of 5 queries that agree: the first system is better by 1 in 15 documents, worse
    # by 1 in 5. Difference .25; influences (d - .25) / 40; Student's t with 39 degrees of freedom.
    difference = np.repeat([1.0] * 15 + [-1.0] * 5 + [0.0] * 20, 5)
    documents = np.repeat(np.arange(40), 5)
    found = mean_difference(0.5 + difference / 2, 0.5 - difference / 2, documents, level=0.95)
    se = (40 / 39 * (15 * 0.75**2 + 5 * 1.25**2 + 20 * 0.25**2)) ** 0.5 / 40
    assert found.value == pytest.approx(0.25)
    assert found.low == pytest.approx(0.25 - stats.t.ppf(0.975, 39) * se)
    assert found.p == pytest.approx(2 * stats.t.sf(0.25 / se, 39))
    # 37 of 50 differ from the median of .1: more than half, which is enough for Student's t.
    cost = np.repeat([0, 0.1, 1], [24, 13, 13])
    found = mean_difference(np.ones(50), 1 - cost, np.arange(50), level=0.95)
    assert found.high == pytest.approx(0.286 + stats.t.ppf(0.975, 49) * cost.std() / 49**0.5)


@pytest.mark.parametrize("n_worse", [0, 1, 3, 6, 20])
def test_difference_of_means_is_not_certain_where_few_documents_differ(n_worse):
    # The first system finds all of 60 documents, the second misses a few. The upper end is Clopper
    # and Pearson's bound of the misses; the lower end is at least as far as with no misses.
    first, second = np.ones(60), (np.arange(60) >= n_worse).astype(float)
    found = mean_difference(first, second, np.arange(60), level=0.95)
    most = stats.beta.ppf(0.975, n_worse + 1, 60 - n_worse)
    assert found.high == pytest.approx(most)
    assert found.low <= n_worse / 60 - (1 - 0.025 ** (1 / 60)) + 1e-12
    assert (found.low > 0) == (found.p <= 0.05)
    other = mean_difference(second, first, np.arange(60), level=0.95)
    assert (other.low, other.high) == pytest.approx((-found.high, -found.low))


@pytest.mark.parametrize(
    ("costs", "documents", "size"),
    [
        ([0.2, 0.4, 0], [2, 1, 57], 1),  # of three the largest that there can be
        ([0.2, 0.4, 0], [4, 1, 55], 0.4),  # below ten the largest seen
        ([0.2, 1, 0], [6, 6, 48], 0.8667),  # sum of squares / sum: as 8.3 that are worse by .867
    ],
)
def test_unlike_differences_of_few_documents_count_by_their_size(costs, documents, size):
    cost = np.repeat(costs, documents)
    found = mean_difference(np.ones(60), 1 - cost, np.arange(60), level=0.95)
    n_worse = cost.sum() / size
    most = stats.beta.ppf(0.975, n_worse + 1, 60 - n_worse)
    assert found.high == pytest.approx(size * most, abs=1e-4)


def test_a_difference_of_means_is_limited():
    found = mean_difference(np.ones(60), np.zeros(60), np.arange(60), level=0.95)
    assert (found.low, found.high) == pytest.approx((0.025 ** (1 / 60), 1.0))
    one_document = np.repeat(np.arange(30), [1000] + [1] * 29)
    better = one_document % 2 == 0
    found = mean_difference(better.astype(float), 0.0 * better, one_document, level=0.95)
    assert (found.low, found.high) == (-1.0, 1.0)


def test_difference_of_means_needs_thirty_documents():
    assert mean_difference(np.ones(29), np.zeros(29), np.arange(29), level=0.95) is None
    assert mean_difference(np.ones(0), np.zeros(0), np.arange(0), level=0.95) is None


# --- Several systems ------------------------------------------------------------------------------


def every_flip(sums):
    """Step-down max-T of sums (n_pairs, n_documents) over all sign vectors, by definition."""
    length = np.sqrt((sums**2).sum(axis=1))
    found = np.abs(sums.sum(axis=1)) / length
    flipped = [np.abs(sums @ signs) / length for signs in product([-1, 1], repeat=sums.shape[1])]
    p = np.zeros(len(sums))
    least = 0.0
    for place in np.argsort(-found):
        rest = found <= found[place]
        reaches = [flip[rest].max() >= found[place] - 1e-9 for flip in flipped]
        p[place] = least = max(least, np.mean(reaches))
    return p


def test_family_wise_p_is_the_share_of_all_sign_flips():
    # Four systems on 10 documents of 1 to 3 queries: 1,024 flips.
    rng = np.random.default_rng(5)
    documents = np.repeat(np.arange(10), [1, 2, 3, 1, 2, 3, 1, 2, 3, 2])
    scores = rng.choice([0.0, 0.5, 1.0], (4, len(documents)))
    scores += np.array([[0.5], [0.1], [0.0], [0.0]])
    differences = np.array([scores[a] - scores[b] for a, b in combinations(range(4), 2)])
    exact = every_flip(np.array([np.bincount(documents, weights=one) for one in differences]))
    assert 0.001 < exact.min() < 0.1 < exact.max() < 0.99
    found = step_down_p(scores, documents + 7)
    assert found == pytest.approx(exact, abs=0.02)  # 4 standard errors of 9,999 flips
    assert step_down_p(1 - scores, documents) == pytest.approx(found)


def test_equal_systems_have_a_family_wise_p_of_1():
    # The first two have the same sum in each of 40 documents of two queries, the third one less.
    scores = np.array([[0.3, 0.6] * 40, [0.6, 0.3] * 40, [0.1, 0.2] * 40])
    found = step_down_p(scores, np.repeat(np.arange(40), 2))
    assert found.tolist() == [1.0, 0.0001, 0.0001]  # no flip but the data themselves


def test_no_family_wise_p_is_above_1_however_many_documents():
    # Either is better in every other document: T is 0, which all flips reach. From 210 documents on
    # they are done in several parts.
    better = np.tile([1.0, 0.0], 105)
    assert step_down_p(np.array([better, 1 - better]), np.arange(210)).tolist() == [1.0]


@given(
    st.integers(2, 6).flatmap(
        lambda n: st.tuples(st.just(n), st.sets(st.sampled_from(list(combinations(range(n), 2)))))
    )
)
def test_systems_share_a_group_exactly_where_they_do_not_differ(case):
    n, differ = case
    groups = groups_without_difference(n, sorted(differ))
    shared = {pair for group in groups for pair in combinations(group, 2)}
    assert shared == set(combinations(range(n), 2)) - differ
    assert {one for group in groups for one in group} == set(range(n))
    assert not any(set(one) < set(other) for one in groups for other in groups)
    assert groups == sorted(set(groups))


# --- PSI ------------------------------------------------------------------------------------------


def test_difference_of_psi_adds_the_distances_to_the_ends():
    # .4 [.37, .45] less .1 [.06, .22]: down sqrt(.03^2 + .12^2), up sqrt(.05^2 + .04^2).
    assert psi_difference((0.4, 0.37, 0.45), (0.1, 0.06, 0.22)) == pytest.approx(
        (0.3, 0.3 - 0.0153**0.5, 0.3 + 0.0041**0.5)
    )


def test_a_difference_to_a_possible_0_reaches_the_other_psi():
    # .4 [.37, .45] less .1 [0, .14]: with .1, .25 to .3 + sqrt(.05^2 + .1^2) = .41; with 0,
    # .4 - sqrt(.03^2 + .14^2) = .257 to .45.
    assert psi_difference((0.4, 0.37, 0.45), (0.1, 0.0, 0.14)) == pytest.approx((0.3, 0.25, 0.45))
