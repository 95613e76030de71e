"""Bootstrap of bucket means, drawn on count tables instead of queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psibench.metrics.psi import FloatArray
from psibench.metrics.psi_table import ScoreTable

PSEUDO_QUERIES = 2.0
"""Weight, in queries, of the pooled scores when a bucket's scores are resampled."""

CHUNK_CELLS = 4_000_000
"""Upper limit of table cells held at once by a resampling loop (32 MB of int64)."""


@dataclass(frozen=True)
class BootstrapNoise:
    """Sampling errors of the bucket means, as a bootstrap over queries shows them.

    Attributes
    ----------
    centre : float64 array of shape (n_buckets,)
        Means of the distributions that were resampled (slightly smoothed bucket means).
    errors : float64 array of shape (n_buckets, n_bootstrap)
        Resampled means less `centre`. Buckets that share queries have correlated errors.
    """

    centre: FloatArray
    errors: FloatArray


def bootstrap_noise(table: ScoreTable, *, n_bootstrap: int, seed: int) -> BootstrapNoise:
    """Resample queries with replacement within each pattern; sizes of patterns stay fixed.

    Each pattern's scores are mixed with the pooled scores of all queries, which weigh as much as
    `PSEUDO_QUERIES` of its own. A bucket whose few queries all score 0 then still has some
    uncertainty. Errors are stretched by ``sqrt(n / (n - 1))`` to make the variance unbiased.
    Every bucket must hold at least one query.
    """
    rng = np.random.default_rng([seed, 0])
    sizes = table.pattern_sizes
    weights: FloatArray = PSEUDO_QUERIES / (PSEUDO_QUERIES + sizes.astype(np.float64))
    expected = sizes * (_smoothed_shares(table, weights) @ table.levels)
    draw = _draw_bootstrap_by_query if is_sparse(table) else _draw_bootstrap_by_cell
    sums = np.concatenate(
        [draw(table, weights, n, rng) for n in chunks(n_bootstrap, table)], axis=1
    )
    n = table.bucket_sizes.astype(np.float64)
    stretch = np.sqrt(n / np.maximum(n - 1, 1))
    errors = table.bucket_means(sums - expected[:, None]) * stretch[:, None]
    return BootstrapNoise(table.bucket_means(expected), errors)


# Each _draw function returns score sums per pattern, (n_patterns, n_draws). The two of a pair
# draw from the same distribution; which is used depends on the table's shape alone.


def _draw_bootstrap_by_cell(
    table: ScoreTable, weights: FloatArray, n_draws: int, rng: np.random.Generator
) -> FloatArray:
    sizes, shares = table.pattern_sizes, _smoothed_shares(table, weights)
    return (rng.multinomial(sizes, shares, size=(n_draws, len(sizes))) @ table.levels).T


def _draw_bootstrap_by_query(
    table: ScoreTable, weights: FloatArray, n_draws: int, rng: np.random.Generator
) -> FloatArray:
    scores, sizes = scores_by_pattern(table), table.pattern_sizes
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    shape = (n_draws, len(scores))
    own = first + rng.integers(np.repeat(sizes, sizes), size=shape)
    pooled = rng.integers(len(scores), size=shape)
    drawn = scores[np.where(rng.random(shape) < np.repeat(weights, sizes), pooled, own)]
    return np.add.reduceat(drawn, np.cumsum(sizes) - sizes, axis=1).T


def _smoothed_shares(table: ScoreTable, weights: FloatArray) -> FloatArray:
    """Probabilities ``(n_patterns, n_levels)`` to draw from: own scores and pooled ones mixed."""
    sizes = table.pattern_sizes
    pooled = table.counts.sum(axis=0) / sizes.sum()
    shares = (1 - weights[:, None]) * table.counts / sizes[:, None] + weights[:, None] * pooled
    return shares / shares.sum(axis=1, keepdims=True)


def scores_by_pattern(table: ScoreTable) -> FloatArray:
    """Every query's level value, ``(n_queries,)``, sorted by pattern and value."""
    return np.repeat(np.tile(table.levels, len(table.counts)), table.counts.ravel())


def is_sparse(table: ScoreTable) -> bool:
    """Whether there are more cells than queries, so that drawing query by query is cheaper."""
    return table.counts.size > int(table.counts.sum())


def chunks(n_replicates: int, table: ScoreTable) -> list[int]:
    """Split replicates into runs whose arrays stay within `CHUNK_CELLS` elements."""
    step = max(1, CHUNK_CELLS // min(table.counts.size, int(table.counts.sum())))
    full, rest = divmod(n_replicates, step)
    return [step] * full + [rest] * (rest > 0)
