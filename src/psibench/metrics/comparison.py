"""Two systems on the same queries: whether one depends more on position than the other.

Questions differ in difficulty, and the difficulty may go with position: then every system shows
a profile, the position-blind control too. What is a system's own shows only against another one
on the same queries. A difference of two PSIs is not enough for that where the means differ, since
a ratio means another thing at .9 than at .5; so profiles are compared on two scales.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from psibench.metrics.inference import (
    FEWEST_DOCUMENTS,
    DocumentTable,
    Effect,
    FloatArray,
    IntArray,
    PositionTest,
    between_documents,
    clustered_effect,
    document_table,
    raw_profile,
    renumbered,
    same_document_profile,
    within_documents,
)

ROUNDING = 1e-9
"""Differences of scores on a scale of mean 1 that are rounding: no score is known to so much."""


@dataclass(frozen=True)
class ProfileComparison:
    """Whether two systems' profiles differ (slope, bend, one bucket); None: not to be told.

    Attributes
    ----------
    p : float or None
        The larger of the two below; 1 where they point in opposite directions. A difference is
        claimed only where both scales show it.
    p_hit : float or None
        On the hit scale, ``yA / mean(yA) - yB / mean(yB)``: equal if what one finds is a constant
        share of what the other finds.
    p_miss : float or None
        On the miss scale, ``(1 - yA) / (1 - mean yA) - (1 - yB) / (1 - mean yB)``.
    """

    p: float | None
    p_hit: float | None
    p_miss: float | None


def compare_profiles(
    first: FloatArray,
    second: FloatArray,
    documents: IntArray,
    query_index: IntArray,
    bucket_index: IntArray,
    lengths: FloatArray,
    *,
    within: bool = True,
) -> ProfileComparison:
    """Compare the position profiles of two systems on the same queries.

    Parameters
    ----------
    first, second, documents, lengths : arrays of shape (n_queries,)
        Scores of both, in [0, 1]; the query's document and its length.
    query_index, bucket_index : int arrays of shape (n_memberships,)
        Which query sits in which bucket, a document's queries in order of position.
    within : bool
        Whether documents hold several buckets: `within_documents`, else `between_documents`.
    """
    if not len(query_index):
        return ProfileComparison(None, None, None)
    means = first[query_index].mean(), second[query_index].mean()

    def shape_of(difference: FloatArray) -> PositionTest:
        difference = np.where(np.abs(difference) < ROUNDING, 0.0, difference)
        if not difference.any():  # one finds a constant share of what the other finds
            return PositionTest(1.0, 1.0, 1.0, 1.0, 0, np.zeros(1))
        if within:
            n_buckets = int(bucket_index.max(initial=-1)) + 1
            return within_documents(
                document_table(
                    difference, documents, query_index, bucket_index, n_buckets=n_buckets
                )
            )
        return between_documents(
            difference[query_index], documents[query_index], bucket_index, lengths[query_index]
        )

    hit = miss = None
    if min(means) > 0:
        hit = shape_of(first / means[0] - second / means[1])
    if max(means) < 1:
        miss = shape_of((1 - first) / (1 - means[0]) - (1 - second) / (1 - means[1]))
    if hit is None or miss is None or hit.p is None or miss.p is None:
        return ProfileComparison(None, hit.p if hit else None, miss.p if miss else None)
    # More hits are fewer misses.
    agree = hit.n_documents > 0 < miss.n_documents and float(hit.statistic @ miss.statistic) < 0
    p = max(hit.p, miss.p) if agree else 1.0
    return ProfileComparison(p, hit.p, miss.p)


def mean_difference(
    first: FloatArray, second: FloatArray, documents: IntArray, *, level: float
) -> Effect | None:
    """Difference of two systems' mean scores on the same queries, documents as units.

    Arrays of shape (n_queries,). None with fewer than `FEWEST_DOCUMENTS` documents.
    """
    _, owner, _ = renumbered(documents)
    n_documents = int(owner.max(initial=-1)) + 1
    if n_documents < FEWEST_DOCUMENTS:
        return None
    sums = np.bincount(owner, weights=first - second).astype(np.float64)
    return clustered_effect(sums, np.bincount(owner).astype(np.float64), level=level)


def psi_difference(
    first: tuple[float, float, float], second: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Difference of two PSIs with its interval, by the method of variance estimates recovery.

    Each is (corrected value, low, high). ``low = d - sqrt((a - a_low)^2 + (b_high - b)^2)``, high
    likewise (Zou and Donner, Statistics in Medicine 27, 2008). A corrected value cannot be
    negative, so it is too high on average where the interval reaches 0: there the interval of the
    difference is the one that takes both it and 0 for the estimate. That both answered the same
    queries is not used, which makes the interval a little too wide.
    """
    (a, a_low, a_high), (b, b_low, b_high) = first, second
    pairs = [(x, y) for x in (a, a if a_low > 0 else 0.0) for y in (b, b if b_low > 0 else 0.0)]
    return (
        a - b,
        min(x - y - float(np.hypot(x - a_low, b_high - y)) for x, y in pairs),
        max(x - y + float(np.hypot(a_high - x, y - b_low)) for x, y in pairs),
    )


def psi_differences(
    first: Mapping[str, Any], second: Mapping[str, Any], *, kind: str
) -> dict[str, float | None]:
    """Return the columns of the difference of two rows' PSI, ``psi`` or ``psi_same``.

    psi_difference, psi_difference_low and psi_difference_high; null where a row has no such PSI.
    """
    names = (f"{kind}_corrected", f"{kind}_low", f"{kind}_high")
    one, other = (tuple(row[name] for name in names) for row in (first, second))
    found = (None,) * 3 if None in (*one, *other) else psi_difference(one, other)
    ends = ("psi_difference", "psi_difference_low", "psi_difference_high")
    return dict(zip(ends, found, strict=True))


@dataclass(frozen=True)
class BucketDifferences:
    """How much more the first of two systems scores in each bucket; NaN in one without queries.

    Attributes
    ----------
    value, low, high : float64 arrays of shape (n_buckets,)
        Difference of the bucket means and its interval, documents as independent units (Student's
        t of those that hold the bucket); no interval with fewer than two.
    is_same : bool
        Whether the means are those at equal documents; else they are plain.
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray
    is_same: bool


def bucket_differences(
    first: FloatArray,
    second: FloatArray,
    documents: IntArray,
    query_index: IntArray,
    bucket_index: IntArray,
    *,
    n_buckets: int,
    level: float = 0.95,
    same: bool = True,
) -> BucketDifferences:
    """Difference of two systems' bucket means on the same queries, at equal documents if `same`.

    The variance is that of the differences of influence, a document at a time, so that what both
    make of a document's queries is used; that of tiny buckets is added as in each profile. Where
    one of the two has no profile at equal documents, plain means are compared. Other arguments as
    of `compare_profiles`.
    """
    from scipy.stats import t

    def table(scores: FloatArray) -> DocumentTable:
        return document_table(scores, documents, query_index, bucket_index, n_buckets=n_buckets)

    tables = [table(scores) for scores in (first, second)]
    equal = [same_document_profile(one) for one in tables] if same else [None, None]
    is_same = None not in equal
    one, other = (
        found or raw_profile(own)
        for found, own in zip(equal if is_same else [None, None], tables, strict=True)
    )
    influence = one.influence - other.influence
    n_units = int(np.abs(influence).max(axis=1, initial=0.0).astype(bool).sum())
    scale = n_units / (n_units - 1) if n_units > 1 else 1.0
    difference = table(first - second)
    floor = difference.small_bucket_variance(difference.bucket_sizes)
    variance = scale * (influence**2).sum(axis=0) + floor
    holding = (tables[0].counts > 0).sum(axis=0)
    reach = t.ppf((1 + level) / 2, np.maximum(holding - 1, 1)) * np.sqrt(variance)
    reach[holding < 2] = np.nan
    held = tables[0].buckets
    value, low, high = (np.full(n_buckets, np.nan) for _ in range(3))
    value[held] = one.means - other.means
    low[held], high[held] = value[held] - reach, value[held] + reach
    return BucketDifferences(value, low, high, is_same)
