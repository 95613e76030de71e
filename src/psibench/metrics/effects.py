"""Effects with interval and p-value, with documents or clusters as independent units.

Has the effect of truncated evidence, and ratios of sums such as a difference of means.
`studies/inference` has their sizes and coverage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from psibench.metrics.constants import (
    ALMOST_NONE,
    ENOUGH_UNLIKE,
    FEW_UNLIKE,
    FEWEST_CLUSTERS,
    FEWEST_DOCUMENTS,
    LEAST_VARIANCE,
)
from psibench.metrics.inference import BoolArray, FloatArray, IntArray, pinv, renumbered


@dataclass(frozen=True)
class Effect:
    """An estimate with its interval and p-value."""

    value: float
    low: float
    high: float
    p: float


def truncation_effect(
    scores: FloatArray,
    documents: IntArray,
    buckets: IntArray,
    is_cut: BoolArray,
    *,
    level: float,
    units: IntArray | None = None,
) -> Effect | None:
    """Change in score when evidence is truncated (negative: loss), at equal document and bucket.

    The least-squares coefficient delta of ``score = document + bucket + delta [evidence beyond the
    input]``, with errors by document or by ``units``. Arrays of shape (n_memberships,).

    Returns
    -------
    Effect or None
        None if fewer than `FEWEST_DOCUMENTS` documents, or `FEWEST_CLUSTERS` units, are
        informative, i.e. have buckets with and without cut evidence.
    """
    if not is_cut.any() or is_cut.all():
        return None
    _, owner, sizes = renumbered(documents)
    used, column, _ = renumbered(buckets)

    def within(values: FloatArray) -> FloatArray:
        means = np.bincount(owner, weights=values) / sizes
        return values - means[owner]

    # The columns of the design are bucket indicators, centred by document.
    counts = np.bincount(owner * len(used) + column, minlength=len(sizes) * len(used))
    held = counts.reshape(len(sizes), len(used)).astype(np.float64)
    normal = pinv(np.diag(held.sum(axis=0)) - (held / sizes[:, None]).T @ held)

    def without_buckets(values: FloatArray) -> FloatArray:
        return values - within((normal @ np.bincount(column, weights=values))[column])

    cut = without_buckets(within(is_cut.astype(np.float64)))
    cut[np.abs(cut) < 1e-9] = 0.0
    score = without_buckets(within(scores.astype(np.float64)))
    weight = float(cut @ cut)
    informs = np.bincount(owner, weights=cut**2) > 1e-9
    if int(informs.sum()) < FEWEST_DOCUMENTS or weight <= LEAST_VARIANCE * len(cut):
        return None
    unit = owner if units is None else units
    sums = np.bincount(unit, weights=cut * score).astype(np.float64)
    weights = np.bincount(unit, weights=cut * cut).astype(np.float64)
    if np.count_nonzero(weights > 1e-9) < FEWEST_CLUSTERS:
        return None
    limit = max(1.0, float(scores.max()))
    return clustered_effect(sums, weights, level=level, limit=limit)


def clustered_effect(
    sums: FloatArray, weights: FloatArray, *, level: float, limit: float | None = None
) -> Effect:
    """Estimate ``sum(sums) / sum(weights)`` with independent units (documents or clusters).

    ``sums`` and ``weights`` have shape (n_units,); weights are 0 or more, and not all 0. The test
    of a value v checks that ``sums - v weights`` have mean 0, as in `within_documents` with one
    degree of freedom. The interval has all values that are not rejected, so it excludes 0 exactly
    if p is at most ``1 - level``. With equal weights it is Student's t interval; if about four
    documents have nearly all the weight, it is unbounded (infinite ends). ``limit`` is the largest
    possible effect: the interval ends there, and is wider if few units differ (`_with_rare_units`).
    """
    from scipy.special import betaincc, betainccinv

    informs = (sums != 0) | (weights != 0)
    sums, weights = sums[informs], weights[informs]
    n, total, weight = len(sums), float(sums.sum()), float(weights.sum())
    value = total / weight
    spread = float(sums @ sums)
    rest = (n - 1) / 2
    p = float(betaincc(0.5, rest, min(total**2 / (n * spread), 1.0))) if spread > 0 else 1.0
    allowed = n * float(betainccinv(0.5, rest, 1 - level))
    # (total - v weight)^2 <= allowed * sum (sums - v weights)^2, a quadratic inequality in v
    a = weight**2 - allowed * float(weights @ weights)
    b = total * weight - allowed * float(sums @ weights)
    c = total**2 - allowed * spread
    low, high = -np.inf, np.inf
    if a > 0:
        reach = float(np.sqrt(max(b * b - a * c, 0.0)))
        low, high = (b - reach) / a, (b + reach) / a
    effect = Effect(value, low, high, p)
    return effect if limit is None else _with_rare_units(effect, sums, weights, level, limit)


def _with_rare_units(
    effect: Effect, sums: FloatArray, weights: FloatArray, level: float, limit: float
) -> Effect:
    """Widen the interval if few units differ from the typical unit (`ENOUGH_UNLIKE`).

    If all units agree, Student's t interval has no width. Here the parts above and below 0 are
    treated as shares of one value, with Clopper and Pearson's bounds (`binomial_ends`). That value
    is ``limit`` if at most `ALMOST_NONE` units differ, else the largest observed value; from
    `FEW_UNLIKE` units on it is the mean observed size, weighted by size. An interval that excludes
    0 still excludes it.
    """
    means = sums[weights > 0] / weights[weights > 0]
    n_unlike = int((np.abs(means - np.median(means)) > 1e-9).sum())
    value, low, high = (min(max(v, -limit), limit) for v in (effect.value, effect.low, effect.high))
    effect = replace(effect, value=value, low=low, high=high)
    if n_unlike >= np.clip(len(means) / 2, FEW_UNLIKE, ENOUGH_UNLIKE):
        return effect
    weight = float(weights.sum())
    size = limit if n_unlike <= ALMOST_NONE else float(np.abs(means).max())
    if n_unlike >= FEW_UNLIKE:
        size = float(means @ sums[weights > 0] / np.abs(sums).sum())
    shares = (float(side.clip(0).sum()) / weight / size for side in (sums, -sums))
    above, below = (min(share, 1.0) for share in shares)
    n = weight**2 / float(weights @ weights)
    (least_above, most_above), (least_below, most_below) = (
        binomial_ends(n * share, n * (1 - share), (1 - level) / 2) for share in (above, below)
    )
    low = size * min(above - most_below, least_above - below)
    high = size * max(most_above - below, above - least_below)
    if not effect.low > 0 >= low:
        effect = replace(effect, low=min(low, effect.low))
    if not effect.high < 0 <= high:
        effect = replace(effect, high=max(high, effect.high))
    return effect


def binomial_ends(hits: Any, misses: Any, alpha: float) -> tuple[Any, Any]:
    """Return Clopper and Pearson's bounds of a share, at alpha each (Biometrika 26, 1934).

    ``hits`` and ``misses`` are numbers or arrays of one shape, 0 or more, and may be fractional.
    """
    from scipy.special import betaincinv

    least = betaincinv(np.maximum(hits, 1e-12), misses + 1, alpha)
    return least, 1 - betaincinv(np.maximum(misses, 1e-12), hits + 1, alpha)
