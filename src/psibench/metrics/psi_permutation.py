"""Bucket means when positions are shuffled, drawn on count tables instead of queries."""

from __future__ import annotations

import numpy as np

from psibench.metrics.psi import FloatArray
from psibench.metrics.psi_resample import chunks, is_sparse, scores_by_pattern
from psibench.metrics.psi_table import MAX_LEVELS, IntArray, ScoreTable

NS_PER_CELL, NS_PER_QUERY = 110, 20
"""What a hypergeometric number and a shuffled query take; they choose between ways to draw."""

MANY_PATTERNS = 12
"""Tables of fewer patterns are drawn cell by cell in any case: that is quick."""

DRAWS_AT_ONCE = 200
"""Permutations whose rare scores are shuffled at once."""

CODE_BITS = np.uint64((MAX_LEVELS - 1).bit_length())


def permuted_bucket_means(table: ScoreTable, *, n_permutations: int, seed: int) -> FloatArray:
    """Bucket means when memberships are permuted among the queries.

    A query hands over its whole set of buckets, so overlaps stay as they are.

    Returns
    -------
    float64 array of shape (n_buckets, n_permutations)
    """
    rng = np.random.default_rng([seed, 1])
    n_common = _n_common(table)
    if is_sparse(table):
        sums = [_draw_by_query(table, n, rng) for n in chunks(n_permutations, table)]
    elif n_common is None:
        sums = [_draw_by_cell(table, n, rng) for n in chunks(n_permutations, table)]
    else:
        sums = [_draw_mixed(table, n_permutations, n_common, rng)]
    return table.bucket_means(np.concatenate(sums, axis=1))


# Each _draw function returns score sums per pattern, (n_patterns, n_draws). All draw from the same
# distribution; which is used depends on the table's shape alone.


def _draw_by_cell(table: ScoreTable, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """Random tables with the given row and column totals, hypergeometric cell by cell."""
    n_patterns, n_levels = table.counts.shape
    left = np.repeat(table.counts.sum(axis=0)[:, None], n_draws, axis=1)
    sums = np.zeros((n_patterns, n_draws))
    for row, size in enumerate(table.pattern_sizes[:-1]):
        others = left.sum(axis=0)
        wanted = np.full(n_draws, size)
        for column in range(n_levels):
            others -= left[column]
            drawn = rng.hypergeometric(left[column], others, wanted)
            left[column] -= drawn
            wanted -= drawn
            sums[row] += drawn * table.levels[column]
    sums[-1] = table.levels @ left
    return sums


def _draw_by_query(table: ScoreTable, n_draws: int, rng: np.random.Generator) -> FloatArray:
    scores, sizes = scores_by_pattern(table), table.pattern_sizes
    drawn = rng.permuted(np.tile(scores, (n_draws, 1)), axis=1)
    return np.add.reduceat(drawn, np.cumsum(sizes) - sizes, axis=1).T


def _draw_mixed(
    table: ScoreTable, n_draws: int, n_common: int, rng: np.random.Generator
) -> FloatArray:
    """Spread the most frequent scores over patterns cell by cell; deal out the rest as shuffled."""
    totals = table.counts.sum(axis=0)
    order = np.argsort(-totals, kind="stable")
    room = np.repeat(table.pattern_sizes[:, None], n_draws, axis=1)
    sums = np.zeros((len(room), n_draws))
    for level in order[:n_common]:
        drawn = _spread(int(totals[level]), room, rng)
        room -= drawn
        sums += drawn * table.levels[level]
    rare = order[n_common:]
    queries = np.repeat(rare, totals[rare])
    for start in range(0, n_draws, DRAWS_AT_ONCE):
        part = slice(start, start + DRAWS_AT_ONCE)
        sums[:, part] += _deal(queries, table.levels, room[:, part], rng)
    return sums


def _spread(n_queries: int, room: IntArray, rng: np.random.Generator) -> IntArray:
    """How many of these queries fall to each pattern, given its free places; shapes alike."""
    drawn = np.empty_like(room)
    wanted, others = np.full(room.shape[1], n_queries), room.sum(axis=0)
    for row, free in enumerate(room[:-1]):
        others -= free
        drawn[row] = rng.hypergeometric(free, others, wanted)
        wanted -= drawn[row]
    drawn[-1] = wanted
    return drawn


def _deal(
    queries: IntArray, levels: FloatArray, room: IntArray, rng: np.random.Generator
) -> FloatArray:
    """Score sums of patterns whose free places are filled with shuffled queries, in turn.

    A query is its level's number. Queries are shuffled by sorting random keys that carry the
    number in their low bits. Sums are over whole numbers, so that equal tables have equal sums.
    """
    n_draws = room.shape[1]
    most = len(queries) * float(levels.max())
    if most == 0:
        return np.zeros(room.shape)
    keys = rng.integers(0, 2 ** int(64 - CODE_BITS), (n_draws, len(queries)), dtype=np.uint64)
    keys <<= CODE_BITS
    keys |= queries.astype(np.uint64)
    keys.sort(axis=1)
    keys &= (np.uint64(1) << CODE_BITS) - np.uint64(1)
    unit = 2.0 ** np.ceil(np.log2(most) - 62)
    running = np.zeros((n_draws, len(queries) + 1), dtype=np.int64)
    np.cumsum(np.rint(levels / unit).astype(np.int64)[keys], axis=1, out=running[:, 1:])
    upto = np.take_along_axis(running, np.cumsum(room, axis=0).T, axis=1)
    sums: FloatArray = np.diff(upto, axis=1, prepend=0).T * unit
    return sums


def _n_common(table: ScoreTable) -> int | None:
    """Number of scores to spread cell by cell; None if all of them, which is then quick enough."""
    n_patterns, n_levels = table.counts.shape
    per_level = NS_PER_CELL * (n_patterns - 1)
    totals = np.sort(table.counts.sum(axis=0))[::-1]
    rare = totals.sum() - np.r_[0, np.cumsum(totals)]
    cost = per_level * np.arange(n_levels + 1) + NS_PER_QUERY * rare
    best = int(cost.argmin())
    return best if best < n_levels and n_patterns >= MANY_PATTERNS else None
