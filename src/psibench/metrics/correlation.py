"""Correlations of two columns of scores, and of many short rows with positions.

The coefficients are Spearman's, Pearson's and Kendall's tau-b, as in scipy.stats. Values are
rounded to `CORRELATION_DECIMALS`, so that equal means stay equal. A correlation of fewer than three
pairs, or of a constant column, is undefined: None or NaN, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import permutations
from math import factorial, sqrt

import numpy as np
import numpy.typing as npt

from psibench.metrics.inference import FloatArray

FEWEST_PAIRS = 3
LARGEST_EXACT = 7
"""Up to this many pairs Spearman's p-value is exact, from all orders; beyond, from Student's t."""

LARGEST_EXACT_TAU = 33
"""Up to this many pairs without ties Kendall's p-value is exact; else from the normal limit."""

CORRELATION_DECIMALS = 12


@dataclass(frozen=True)
class Correlation:
    """A coefficient, its two-sided p-value, and its number of pairs."""

    value: float | None
    p: float | None
    n: int


def spearman(x: npt.ArrayLike, y: npt.ArrayLike) -> Correlation:
    """Spearman's rank correlation of two columns of equal length, without pairs that have a NaN.

    The p-value is exact for up to `LARGEST_EXACT` pairs (also with ties), else from Student's t
    with n - 2 degrees of freedom, like scipy.stats.spearmanr.
    """
    from scipy.stats import spearmanr

    one, other = (np.asarray(side, dtype=np.float64).round(CORRELATION_DECIMALS) for side in (x, y))
    both = ~(np.isnan(one) | np.isnan(other))
    one, other = one[both], other[both]
    n = len(one)
    if n < FEWEST_PAIRS or np.ptp(one) == 0 or np.ptp(other) == 0:
        return Correlation(None, None, n)
    found = spearmanr(one, other)
    p = _exact_spearman_p(one, other) if n <= LARGEST_EXACT else float(found.pvalue)
    return Correlation(float(found.statistic), p, n)


def _exact_spearman_p(x: FloatArray, y: FloatArray) -> float:
    """Share of all orders of one column with a coefficient at least as far from 0."""
    ranks = average_ranks(np.stack([x, y]))
    first, second = ranks - ranks.mean(axis=1, keepdims=True)
    orders = np.array(list(permutations(range(len(x)))))
    products = np.abs(first[orders] @ second)
    return float((products >= abs(first @ second) - 1e-9).mean())


def average_ranks(rows: FloatArray) -> FloatArray:
    """Ranks from 1 within each row ``(n_rows, n)``, ties at their average."""
    below = (rows[:, None, :] < rows[:, :, None]).sum(axis=2)
    equal = (rows[:, None, :] == rows[:, :, None]).sum(axis=2)
    ranks: FloatArray = below + (equal + 1) / 2
    return ranks


ROW_STATISTICS = ("slope", "pearson", "spearman", "kendall", "kendall_p")


def correlate_rows(x: FloatArray, y: FloatArray) -> dict[str, FloatArray]:
    """Correlate each row of ``y`` with the same row of ``x``, ``(n_rows, n)`` each, without NaN.

    The values in a row of ``x`` (positions) must differ. For short rows: it compares all pairs.

    Returns
    -------
    Arrays by name in `ROW_STATISTICS`, float64 ``(n_rows,)`` each: least-squares slope,
    coefficients, and Kendall's two-sided p-value; NaN if undefined.
    """
    rounded = y.round(CORRELATION_DECIMALS)
    if x.shape[1] < FEWEST_PAIRS:
        return {name: np.full(len(x), np.nan) for name in ROW_STATISTICS}
    centred, deviation = (side - side.mean(axis=1, keepdims=True) for side in (x, rounded))
    slope = (centred * deviation).sum(axis=1) / (centred**2).sum(axis=1)
    values = (
        _product_moment(x, rounded),
        _product_moment(average_ranks(x), average_ranks(rounded)),
        *_kendall_of_rows(x, rounded),
    )
    constant = np.ptp(rounded, axis=1) == 0
    defined = [np.where(constant, np.nan, value) for value in values]
    return dict(zip(ROW_STATISTICS, (slope, *defined), strict=True))


def _product_moment(x: FloatArray, y: FloatArray) -> FloatArray:
    one, other = (side - side.mean(axis=1, keepdims=True) for side in (x, y))
    norm = np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
    value: FloatArray = (one * other).sum(axis=1) / np.where(norm > 0, norm, np.nan)
    return np.clip(value, -1, 1)


def _kendall_of_rows(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Tau-b and its two-sided p-value; the normal limit has the variance under ties."""
    n = x.shape[1]
    n_pairs = n * (n - 1) / 2
    above = np.triu_indices(n, 1)
    sign = np.sign(x[:, above[0]] - x[:, above[1]]) * np.sign(y[:, above[0]] - y[:, above[1]])
    score, n_tied = sign.sum(axis=1), (sign == 0).sum(axis=1)
    untied = n_pairs - n_tied
    tau = score / np.sqrt(n_pairs * np.where(untied > 0, untied, np.nan))
    same = (y[:, None, :] == y[:, :, None]).sum(axis=2)  # number of equal values, with itself
    variance = (n * (n - 1) * (2 * n + 5) - ((same - 1) * (2 * same + 5)).sum(axis=1)) / 18
    p = _two_sided_normal(score / np.sqrt(np.where(variance > 0, variance, np.nan)))
    if n <= LARGEST_EXACT_TAU:
        fewer = np.rint((n_pairs - np.abs(score)) / 2).astype(np.int64)  # discordant or concordant
        p = np.where(n_tied == 0, _inversion_tails(n)[fewer], p)
    return np.clip(tau, -1, 1), p


def _two_sided_normal(z: FloatArray) -> FloatArray:
    from scipy.special import erfc

    p: FloatArray = erfc(np.abs(z) / sqrt(2))
    return p


@cache
def _inversion_tails(n: int) -> FloatArray:
    """Two-sided p-values by the smaller number of discordant or concordant pairs.

    All orders are equally likely. The number of orders of n values with k inversions is the
    coefficient of x**k in the product of (1 + x + ... + x**i) for i below n.
    """
    counts = [1]
    for i in range(1, n):
        grown = [0] * (len(counts) + i)
        for k, count in enumerate(counts):
            for j in range(i + 1):
                grown[k + j] += count
        counts = grown
    half, total = len(counts) // 2 + 1, factorial(n)
    return np.array([min(1.0, 2 * sum(counts[: k + 1]) / total) for k in range(half)])
