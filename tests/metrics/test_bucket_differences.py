"""How much more one system scores than another in each bucket."""

import numpy as np
import pytest

from psibench.metrics.comparison import bucket_differences, compare_profiles
from psibench.metrics.inference import document_table, raw_profile, same_document_profile

# 60 documents of three queries, one in each of buckets 0, 1 and 3 of four.
N = 60
DOCUMENTS = np.repeat(np.arange(N), 3)
QUERIES = np.arange(3 * N)
BUCKETS = np.tile([0, 1, 3], N)
RNG = np.random.default_rng(4)
FIRST = RNG.uniform(0.2, 0.9, 3 * N)
SECOND = np.clip(FIRST * np.tile([1.0, 0.8, 0.5], N) + RNG.normal(0, 0.05, 3 * N), 0, 1)


def differences(first=FIRST, second=SECOND, **options):
    chosen = {"n_buckets": 4, "level": 0.95} | options
    return bucket_differences(first, second, DOCUMENTS, QUERIES, BUCKETS, **chosen)


def profile(of, scores):
    return of(document_table(scores, DOCUMENTS, QUERIES, BUCKETS, n_buckets=4)).means


@pytest.mark.parametrize(("same", "of"), [(True, same_document_profile), (False, raw_profile)])
def test_the_value_is_the_difference_of_the_profiles(same, of):
    found = differences(same=same)
    assert found.is_same is same
    assert found.value[[0, 1, 3]] == pytest.approx(profile(of, FIRST) - profile(of, SECOND))
    assert np.isnan(found.value[2])
    assert np.isnan(found.low[2])


def test_copies_of_documents_in_one_cluster_make_no_interval_shorter():
    first, second, buckets = (np.tile(part, 4) for part in (FIRST, SECOND, BUCKETS))
    documents = np.concatenate([DOCUMENTS + N * k for k in range(4)])
    placed = (first, second, documents, np.arange(12 * N), buckets)
    once = differences(same=False)
    copies, clusters = (
        bucket_differences(*placed, n_buckets=4, same=False, units=units)
        for units in (None, np.tile(DOCUMENTS, 4))
    )
    width, of_copies, of_clusters = (one.high[0] - one.low[0] for one in (once, copies, clusters))
    # Not halves and wholes: the variance added to that of small buckets falls faster.
    assert of_copies < 0.6 * width
    assert of_clusters > 0.8 * width


def test_a_bucket_that_one_document_holds_has_a_difference_without_interval():
    buckets = np.where(np.arange(3 * N) == 2, 2, BUCKETS)
    found = bucket_differences(
        FIRST, SECOND, DOCUMENTS, QUERIES, buckets, n_buckets=4, level=0.95, same=False
    )
    assert found.value[2] == pytest.approx(FIRST[2] - SECOND[2])
    assert np.isnan([found.low[2], found.high[2]]).all()


def test_an_interval_ends_where_a_difference_of_scores_does():
    # Two documents hold bucket 2, and differ by 1 and 0: Student's t of one degree is far wider.
    buckets = np.where(np.isin(np.arange(3 * N), (2, 5)), 2, BUCKETS)
    first = np.where(np.arange(3 * N) == 2, 1.0, 0.0)
    found = bucket_differences(
        first, np.zeros(3 * N), DOCUMENTS, QUERIES, buckets, n_buckets=4, same=False
    )
    assert (found.low[2], found.value[2], found.high[2]) == (-1.0, 0.5, 1.0)


def test_a_system_that_finds_nothing_is_compared_by_plain_means():
    found = differences(FIRST, np.zeros(3 * N))
    assert not found.is_same
    assert found.value[[0, 1, 3]] == pytest.approx(profile(raw_profile, FIRST))


def test_intervals_cover_a_difference_of_zero_about_as_often_as_they_say():
    """100 pairs of systems that differ by noise, three buckets each, level .9: 30 of 300 missed.

    Three standard deviations of the number missed are 16.
    """
    missed = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        easy = np.repeat(rng.uniform(0.3, 0.7, N), 3)
        one, other = (np.clip(easy + rng.normal(0, 0.2, 3 * N), 0, 1) for _ in range(2))
        found = differences(one, other, level=0.9)
        held = [0, 1, 3]
        missed += int(((found.low > 0) | (found.high < 0))[held].sum())
    assert 8 <= missed <= 46


@pytest.mark.parametrize("factor", [0.5, 0.7, 1 / 3, 0.123])
def test_a_constant_factor_is_no_difference_on_the_hit_scale_whatever_the_rounding(factor):
    falling = FIRST * np.tile([1.0, 0.8, 0.6], N)
    found = compare_profiles(
        falling, factor * falling, DOCUMENTS, QUERIES, BUCKETS, np.full(3 * N, 900.0)
    )
    assert (found.p, found.p_hit) == (1.0, 1.0)
    assert found.p_miss < 0.001
