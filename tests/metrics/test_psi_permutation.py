"""Bucket means under shuffled positions: three ways to draw them, one distribution."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from psibench.metrics import psi_permutation
from psibench.metrics.psi_permutation import permuted_bucket_means
from psibench.metrics.psi_table import tabulate

NDCG = np.concatenate([[0.0], 1 / np.log2(1 + np.arange(10, 0, -1))])
WAYS = {
    "by query": psi_permutation._draw_by_query,
    "by cell": psi_permutation._draw_by_cell,
    **{
        f"{n_common} scores by cell": lambda table, n, rng, k=n_common: psi_permutation._draw_mixed(
            table, n, k, rng
        )
        for n_common in range(4)
    },
}


def overlapping_example():
    # SQuAD-like: queries 0-59 in bucket 0, 40-99 in bucket 1 (40-59 in both), 100-104 in none.
    scores = np.random.default_rng(3).choice(NDCG, 105)
    return scores, np.r_[0:60, 40:100], np.repeat([0, 1], 60)


def table_of(scores, buckets):
    buckets = np.array(buckets)
    return tabulate(np.array(scores, dtype=float), np.eye(buckets.max() + 1, dtype=bool)[buckets])


@pytest.mark.parametrize("draw", WAYS.values(), ids=WAYS.keys())
def test_every_way_draws_all_orders_alike(draw):
    scores = [1, 1, 1, 0.5, 0.5, 0]
    table = table_of(scores, [0, 0, 0, 1, 1, 2])
    n_draws = 24_000
    sums = table.member.T.astype(float) @ draw(table, n_draws, np.random.default_rng(5))
    assert sums.shape == (3, n_draws)
    np.testing.assert_array_equal(sums.sum(axis=0), 4)
    found = Counter(map(tuple, sums.T.tolist()))
    expected = Counter(
        (sum(order[:3]), sum(order[3:5]), order[5]) for order in permutations(scores)
    )
    assert found.keys() == expected.keys()
    for sums_of_one, ways in expected.items():
        assert found[sums_of_one] / n_draws == pytest.approx(ways / 720, abs=0.015)


@pytest.mark.parametrize("n_common", [None, 1, 2, 5])
def test_ways_agree_on_spread_and_chance_level(n_common):
    # 20 buckets of about 68 queries with eleven scores, as in one domain of PosIR.
    rng = np.random.default_rng(4)
    scores = rng.choice(NDCG, 1360, p=[0.4, *[0.04] * 5, 0.05, 0.05, 0.05, 0.05, 0.2])
    table = table_of(scores, rng.integers(0, 20, 1360))
    draw = psi_permutation._draw_by_cell if n_common is None else psi_permutation._draw_mixed
    options = () if n_common is None else (n_common,)
    means = table.bucket_means(draw(table, 4000, *options, np.random.default_rng(1)))
    np.testing.assert_allclose(means.mean(axis=1), scores.mean(), atol=0.004)
    # Without replacement: variance of the mean of m among n is s2 / m * (n - m) / (n - 1).
    sizes = table.bucket_sizes
    expected = np.sqrt(scores.var() / sizes * (1360 - sizes) / 1359)
    np.testing.assert_allclose(means.std(axis=1), expected, rtol=0.06)


def test_large_tables_of_many_buckets_are_drawn_the_mixed_way_and_others_are_not():
    rng = np.random.default_rng(4)
    scores = rng.choice(NDCG, 1360, p=[0.5, *[0.02] * 9, 0.32])
    many, few = (table_of(scores, rng.integers(0, n, 1360)) for n in (20, 3))
    assert psi_permutation._n_common(many) in range(1, 11)
    assert psi_permutation._n_common(few) is None


@pytest.mark.parametrize("jitter", [0.0, 1e-4], ids=["drawn by cell", "drawn by query"])
def test_permutation_keeps_overlaps_and_the_score_total(jitter):
    scores, queries, buckets = overlapping_example()
    scores = scores + jitter * np.arange(105)
    inside = np.zeros((105, 2), dtype=bool)
    inside[queries, buckets] = True
    table = tabulate(scores, inside)
    means = permuted_bucket_means(table, n_permutations=3000, seed=2)
    # Each query is in bucket 0 with probability 60/100, so every bucket expects the grand mean.
    np.testing.assert_allclose(means.mean(axis=1), scores[:100].mean(), atol=0.005)
    # Two samples of 60 from 100 without replacement that share 20: the correlation of their means
    # is (20/60**2 - 1/100) / (1/60 - 1/100) = -2/3.
    assert np.corrcoef(means)[0, 1] == pytest.approx(-2 / 3, abs=0.03)
