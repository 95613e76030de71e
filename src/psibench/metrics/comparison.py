"""Comparison of systems on the same queries: means, and dependence on position.

The difficulty of questions may vary with position. Then every system has a profile, also the
position-blind control, so a system's effect shows only in a comparison on the same queries. If the
means differ, the difference of two PSIs is not enough, because a ratio at .9 means something else
than at .5. So profiles are compared on two scales.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from psibench.metrics.constants import FEWEST_CLUSTERS, FEWEST_DOCUMENTS, SCORE_ROUNDING
from psibench.metrics.effects import Effect, clustered_effect
from psibench.metrics.flips import sign_flips, step_down
from psibench.metrics.inference import (
    BucketTest,
    FloatArray,
    IntArray,
    between_documents,
    document_table,
    renumbered,
    within_documents,
)


@dataclass(frozen=True)
class ProfileComparison:
    """Test of whether two systems' profiles differ (slope, bend, one bucket); None: not tested.

    Attributes
    ----------
    p : float or None
        The larger of the two below; 1 if they point in opposite directions, or if one scale shows
        no difference at all. Profiles differ only if both scales show it.
    p_hit : float or None
        On the hit scale, ``yA / mean(yA) - yB / mean(yB)``: 0 if one system finds a constant share
        of the other's hits.
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
    positions: FloatArray,
    *,
    within: bool = True,
    units: IntArray | None = None,
) -> ProfileComparison:
    """Compare the position profiles of two systems on the same queries.

    Parameters
    ----------
    first, second, documents, lengths, positions : arrays of shape (n_queries,)
        Scores of both, in [0, 1]; the query's document, its length, and the sort key of a
        document's queries.
    query_index, bucket_index : int arrays of shape (n_memberships,)
        Query ``query_index[i]`` is in bucket ``bucket_index[i]``.
    within : bool
        Whether to use `within_documents` (documents with several buckets), or
        `between_documents`.
    units : int array of shape (n_queries,), or None
        The independent unit of each query's document (see `units_of`).
    """
    if not len(query_index):
        return ProfileComparison(None, None, None)
    means = first[query_index].mean(), second[query_index].mean()

    def test(difference: FloatArray) -> BucketTest:
        difference = np.where(np.abs(difference) < SCORE_ROUNDING, 0.0, difference)
        if not difference.any():  # a constant share of the other's hits or misses
            return BucketTest(0, np.zeros(1), p=1.0)
        if within:
            n_buckets = int(bucket_index.max(initial=-1)) + 1
            table = document_table(
                difference, documents, query_index, bucket_index, n_buckets=n_buckets, units=units
            )
            return within_documents(table, of_differences=True)
        return between_documents(
            difference[query_index],
            documents[query_index],
            bucket_index,
            lengths[query_index],
            positions[query_index],
            units=None if units is None else units[query_index],
        )

    hit = miss = None
    if min(means) > 0:
        hit = test(first / means[0] - second / means[1])
    if max(means) < 1:
        miss = test((1 - first) / (1 - means[0]) - (1 - second) / (1 - means[1]))
    if hit is None or miss is None or hit.p is None or miss.p is None:
        return ProfileComparison(None, hit.p if hit else None, miss.p if miss else None)
    # More hits are fewer misses.
    both_differ = hit.n_documents > 0 and miss.n_documents > 0
    agree = both_differ and float(hit.statistic @ miss.statistic) < 0
    p = max(hit.p, miss.p) if agree else 1.0
    return ProfileComparison(p, hit.p, miss.p)


def mean_difference(
    first: FloatArray,
    second: FloatArray,
    documents: IntArray,
    *,
    level: float,
    units: IntArray | None = None,
) -> Effect | None:
    """Difference of two systems' means on the same queries; documents (or units) are independent.

    Arrays of shape (n_queries,). None with fewer than `FEWEST_DOCUMENTS` documents, or with fewer
    than `FEWEST_CLUSTERS` units.
    """
    _, owner, sizes = renumbered(documents)
    if len(sizes) < FEWEST_DOCUMENTS:
        return None
    if units is not None:
        _, owner, sizes = renumbered(units)
        if len(sizes) < FEWEST_CLUSTERS:
            return None
    sums = np.bincount(owner, weights=first - second).astype(np.float64)
    limit = max(1.0, float(first.max()), float(second.max()))
    return clustered_effect(sums, np.bincount(owner).astype(np.float64), level=level, limit=limit)


def mean_difference_of_few(
    first: FloatArray, second: FloatArray, documents: IntArray
) -> Effect | None:
    """Difference of two systems' means where documents are too few for `mean_difference`.

    p is that of sign flips (`step_down_p`), which is exact if differences are symmetric. There is
    no interval (its ends are NaN). Arrays of shape (n_queries,); ``documents`` are the documents or
    other independent units. None with fewer than `FEWEST_CLUSTERS` of them.
    """
    if len(renumbered(documents)[2]) < FEWEST_CLUSTERS:
        return None
    (p,) = step_down_p(np.array([first, second]), documents)
    return Effect(float((first - second).mean()), np.nan, np.nan, float(p))


def step_down_p(scores: FloatArray, documents: IntArray) -> FloatArray:
    """Family-wise p-values, over all pairs, of "two systems have the same mean".

    With D a document's sum of differences, a pair's statistic is ``T = |sum D| / sqrt(sum D^2)``,
    as in `mean_difference`. If the D are symmetric about 0, flipping the signs of a document's D,
    for all pairs together, does not change the distribution of the T (`sign_flips`, `step_down`).

    Parameters
    ----------
    scores : float array of shape (n_systems, n_queries)
    documents : int array of shape (n_queries,)
        The document, or other independent unit, of each query.

    Returns
    -------
    float64 array of shape (n_pairs,)
        In the order of `itertools.combinations`; 1 for systems with equal sums in every document.
    """
    _, owner, _ = renumbered(documents)
    sums = np.array([np.bincount(owner, weights=one) for one in scores])
    sums -= sums.mean(axis=0)
    sums = sums[:, np.ptp(sums, axis=0) > SCORE_ROUNDING]
    one, other = np.array(list(combinations(range(len(scores)), 2))).T
    norm, total = np.empty(len(one)), np.empty(len(one))
    for k, difference in enumerate(sums[i] - sums[j] for i, j in zip(one, other, strict=True)):
        total[k] = abs(difference.sum())
        norm[k] = np.sqrt(difference @ difference)
    norm[norm < SCORE_ROUNDING] = np.inf
    flipped = (signs @ sums.T for signs in sign_flips(sums.shape[1]))
    return step_down(total / norm, (np.abs(f[:, one] - f[:, other]) / norm for f in flipped))


def simultaneous_differences(
    scores: FloatArray, units: IntArray, *, level: float
) -> tuple[FloatArray, FloatArray]:
    """Differences of all systems' means, with intervals that hold together for all pairs.

    With A a unit's sum of scores and w its number of queries, the residual of a system with mean m
    is ``R = A - m w``. A pair's difference has the standard error ``sqrt(sum (R - R')^2) / sum w``,
    and the critical value is the ``level`` quantile of the largest ``|sum s (R - R')|`` over all
    pairs, in standard errors, over random signs s of the units (single-step max-T; Westfall and
    Young 1993). The chosen best system needs no further correction, because all pairs hold
    together. The same data give the same signs.

    Parameters
    ----------
    scores : float array of shape (n_systems, n_queries)
    units : int array of shape (n_queries,)
        The document, or other independent unit, of each query.

    Returns
    -------
    difference, half : float64 arrays of shape (n_systems, n_systems)
        ``difference[i, j]`` is the mean of i minus that of j, and its interval is this plus and
        minus ``half[i, j]``; half is 0 for systems with equal residuals, and infinite with fewer
        than `FEWEST_DOCUMENTS` units.
    """
    _, owner, sizes = renumbered(units)
    n_units, n_queries = len(sizes), scores.shape[1]
    means = scores.mean(axis=1)
    difference: FloatArray = means[:, None] - means
    if n_units < FEWEST_DOCUMENTS:
        return difference, np.full(difference.shape, np.inf)
    residuals = np.array([np.bincount(owner, weights=one) for one in scores])
    residuals -= means[:, None] * sizes
    gram = residuals @ residuals.T
    norm = np.sqrt(np.maximum(np.diag(gram)[:, None] + np.diag(gram) - 2 * gram, 0.0))
    norm[norm < SCORE_ROUNDING] = 0.0
    one, other = np.nonzero(np.triu(norm))
    if not len(one):
        return difference, norm
    flipped = (signs @ residuals.T for signs in sign_flips(n_units))
    largest = [(np.abs(f[:, one] - f[:, other]) / norm[one, other]).max(axis=1) for f in flipped]
    critical = float(np.quantile(np.concatenate(largest), level))
    return difference, critical * np.sqrt(n_units / (n_units - 1)) * norm / n_queries


def groups_without_difference(n: int, differ: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Return the largest groups of n systems in which no two systems differ, sorted by members.

    Insert and absorb (Piepho, Journal of Computational and Graphical Statistics 13, 2004): each
    pair in ``differ`` splits the groups with both systems. Two systems share a group exactly if
    their pair is not in ``differ``.
    """
    groups = [frozenset(range(n))]
    for pair in differ:
        split = [
            part
            for group in groups
            for part in ([group - {one} for one in pair] if group.issuperset(pair) else [group])
        ]
        groups = [part for part in dict.fromkeys(split) if not any(part < other for other in split)]
    return sorted(tuple(sorted(group)) for group in groups)


def psi_difference(
    first: tuple[float, float, float], second: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Difference of two PSIs with its interval, by the method of variance estimates recovery.

    Each PSI is (corrected value, low, high). ``low = d - sqrt((a - a_low)^2 + (b_high - b)^2)``,
    and high likewise (Zou and Donner, Statistics in Medicine 27, 2008). A corrected value cannot be
    negative, so it is too high on average if its interval reaches 0. The interval of the difference
    then is the union of the intervals with the estimate and with 0. The method treats the systems
    as if they had different queries, so the interval is too wide if both find the same
    (`compare_profiles` tests the pairs).
    """
    (a, a_low, a_high), (b, b_low, b_high) = first, second
    pairs = [(x, y) for x in (a, a if a_low > 0 else 0.0) for y in (b, b if b_low > 0 else 0.0)]
    return (
        a - b,
        min(x - y - float(np.hypot(x - a_low, b_high - y)) for x, y in pairs),
        max(x - y + float(np.hypot(a_high - x, y - b_low)) for x, y in pairs),
    )


def psi_difference_columns(
    first: Mapping[str, Any], second: Mapping[str, Any], *, kind: str
) -> dict[str, float | None]:
    """Return the difference of two rows' PSI (``psi`` or ``psi_same``) and its interval.

    The columns are psi_difference, psi_difference_low and psi_difference_high; null if a row lacks
    the PSI.
    """
    names = (f"{kind}_corrected", f"{kind}_low", f"{kind}_high")
    one, other = (tuple(row[name] for name in names) for row in (first, second))
    found = (None,) * 3 if None in (*one, *other) else psi_difference(one, other)
    ends = ("psi_difference", "psi_difference_low", "psi_difference_high")
    return dict(zip(ends, found, strict=True))
