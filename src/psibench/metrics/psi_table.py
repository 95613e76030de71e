"""Queries counted by (buckets they sit in) x (score): all that bootstrap and permutation need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from psibench.errors import InputError
from psibench.metrics.psi import FloatArray

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

MAX_LEVELS = 64
"""More distinct scores than this are put on an even grid of this many values for resampling."""


@dataclass(frozen=True)
class ScoreTable:
    """Counts of queries by membership pattern and score level; independent of the input's order.

    A pattern is a set of buckets that some query sits in: with buckets that overlap there are
    more patterns than buckets.

    Attributes
    ----------
    levels : float64 array of shape (n_levels,)
        Ascending score values.
    counts : int64 array of shape (n_patterns, n_levels)
        Queries with that pattern and that score; every row holds at least one.
    member : bool array of shape (n_patterns, n_buckets)
        Which buckets a pattern belongs to.
    exact_sums : float64 array of shape (n_patterns,)
        Sum of the scores before any rounding to levels.
    """

    levels: FloatArray
    counts: IntArray
    member: BoolArray
    exact_sums: FloatArray

    @property
    def pattern_sizes(self) -> IntArray:
        """Queries per pattern, int64 ``(n_patterns,)``."""
        return self.counts.sum(axis=1)

    @property
    def bucket_sizes(self) -> IntArray:
        """Queries per bucket, int64 ``(n_buckets,)``."""
        return self.pattern_sizes @ self.member.astype(np.int64)

    def bucket_means(self, pattern_sums: FloatArray) -> FloatArray:
        """Means per bucket, ``(n_buckets, ...)``, of score sums per pattern ``(n_patterns, ...)``.

        A bucket that holds no query has NaN.
        """
        sizes = self.bucket_sizes.astype(np.float64)
        sizes[sizes == 0] = np.nan
        sums = np.asarray(self.member.T.astype(np.float64) @ pattern_sums)
        return sums / sizes.reshape(-1, *[1] * (sums.ndim - 1))


def membership_matrix(
    scores: FloatArray, query_index: npt.ArrayLike, bucket_index: npt.ArrayLike, n_buckets: int
) -> BoolArray:
    """Bool ``(n_queries, n_buckets)``: whether a query sits in a bucket; repeats count once.

    Raises InputError if the two index arrays differ in length, are not integers or point outside
    the queries or the buckets.
    """
    queries = _checked_index(query_index, "query_index", len(scores))
    buckets = _checked_index(bucket_index, "bucket_index", n_buckets)
    if len(queries) != len(buckets):
        raise InputError(
            f"query_index has {len(queries)} entries and bucket_index {len(buckets)}; "
            "give one of each per membership"
        )
    inside = np.zeros((len(scores), n_buckets), dtype=np.bool_)
    inside[queries, buckets] = True
    return inside


def checked_scores(scores: npt.ArrayLike) -> FloatArray:
    """Scores as float64 ``(n_queries,)``; InputError if not 1-d, not finite or below 0."""
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim != 1:
        raise InputError(f"scores has shape {array.shape}; give one score per query (1-d)")
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        first = int(bad.argmax())
        raise InputError(
            f"scores: {int(bad.sum())} of {array.size} are not finite numbers >= 0; the first is "
            f"query {first} with {array[first]}. Give a query without a result the score 0"
        )
    return array


def tabulate(scores: FloatArray, inside: BoolArray) -> ScoreTable:
    """Count queries by pattern and score; queries in no bucket are left out.

    Parameters
    ----------
    scores : float64 array of shape (n_queries,)
    inside : bool array of shape (n_queries, n_buckets)

    Returns
    -------
    ScoreTable
        With no patterns and one level if no query sits in a bucket.
    """
    kept = inside.any(axis=1)
    scores, inside = scores[kept], inside[kept]
    member, pattern = _patterns(inside)
    levels, level = _levels(scores)
    flat = np.bincount(pattern * len(levels) + level, minlength=len(member) * len(levels))
    order = np.lexsort((scores, pattern))
    sums: FloatArray = np.bincount(
        pattern[order], weights=scores[order], minlength=len(member)
    ).astype(np.float64)
    return ScoreTable(levels, flat.reshape(len(member), len(levels)), member, sums)


def _checked_index(index: npt.ArrayLike, name: str, size: int) -> IntArray:
    array = np.asarray(index)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"{name} is {array.dtype} of shape {array.shape}; give 1-d integers")
    outside = (array < 0) | (array >= size)
    if outside.any():
        first = int(outside.argmax())
        raise InputError(f"{name}[{first}] is {array[first]}; allowed are 0 to {size - 1}")
    return array.astype(np.int64)


def _patterns(inside: BoolArray) -> tuple[BoolArray, IntArray]:
    """Distinct rows (sorted) and the row number of every query."""
    packed = np.packbits(inside, axis=1)
    width = -packed.shape[1] % 8
    words = np.ascontiguousarray(np.pad(packed, ((0, 0), (0, width)))).view(np.uint64)
    axis = None if words.shape[1] == 1 else 0
    keys = words.ravel() if axis is None else words
    _, first, pattern = np.unique(keys, axis=axis, return_index=True, return_inverse=True)
    return inside[first], pattern.ravel().astype(np.int64)


def _levels(scores: FloatArray) -> tuple[FloatArray, IntArray]:
    """Distinct scores, or an even grid if there are too many, and every query's level."""
    values, level = np.unique(scores, return_inverse=True)
    if len(values) == 0:
        return np.zeros(1), np.zeros(0, dtype=np.int64)
    if len(values) <= MAX_LEVELS:
        return values, level.astype(np.int64)
    grid = np.linspace(values[0], values[-1], MAX_LEVELS)
    step = grid[1] - grid[0]
    return grid, np.rint((scores - grid[0]) / step).astype(np.int64)
