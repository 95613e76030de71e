"""The Position Sensitivity Index (PSI) of bucket means: as the papers define it, and its interval.

Interval and corrected value by test inversion over worlds with a known PSI. For a candidate value
p, a world is a set of true bucket means whose PSI is exactly p. Sampling errors added to it show
which plain PSI one would see. The corrected PSI is the p whose expected plain PSI equals the
observed one. The interval holds each p that neither tail test rejects; both tests place the buckets
where they make rejection hardest, within what the data allow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

ROUNDING = 1e-12
"""PSI values closer than this are equal: the difference is floating-point rounding."""


def position_sensitivity_index(bucket_means: npt.ArrayLike) -> float | None:
    """Plain PSI of one row of bucket means: ``1 - min / max``.

    Parameters
    ----------
    bucket_means : array of shape (n_buckets,)
        Mean score per bucket, >= 0; NaN marks an empty bucket and is left out.

    Returns
    -------
    float or None
        Value in [0, 1]; None if fewer than two buckets hold a mean or the best mean is 0.
    """
    means = np.asarray(bucket_means, dtype=np.float64)
    means = means[~np.isnan(means)]
    if means.size < 2 or means.max() <= 0:
        return None
    return float(psi_of_columns(means[:, None])[0])


def psi_of_columns(means: FloatArray) -> FloatArray:
    """Plain PSI of every column of a table of bucket means.

    Parameters
    ----------
    means : array of shape (n_buckets, n_columns)
        No NaN. A mean below 0 (a simulated one) counts as 0.

    Returns
    -------
    array of shape (n_columns,)
        Values in [0, 1]; 1 where no bucket has a positive mean, so check for that case first if
        it has to be told apart. Rounding errors are snapped to an exact 0.
    """
    best = means.max(axis=0)
    worst = np.maximum(means.min(axis=0), 0.0)
    psi = 1.0 - worst / np.where(best > 0, best, 1.0)
    psi[psi < ROUNDING] = 0.0
    return psi


# --- Interval and corrected value --------------------------------------------------------------

SELECTION_SE = 2.0
"""A bucket may be moved this many standard errors to make a tail test harder to pass."""

SPREAD_FLOOR = 0.25
"""Least variance between true means, as a share of the sampling variance, in a world's shape."""

LEAST_SEEN = 0.16
"""Quantile of the plain PSI of noise alone below which an observed one says no more than it."""

BISECTIONS = 16
"""Halvings of [0, 1] when p is solved for: a resolution of 0.000015."""


@dataclass(frozen=True)
class PsiInversion:
    """Interval and noise-corrected value of the true PSI, ``0 <= low <= corrected <= high <= 1``.

    Attributes
    ----------
    low, high : float
        Ends of the interval; `low` is exactly 0 where a PSI of 0 is not rejected, `high` is never
        below the plain PSI. Bucket means that happen to be more alike than noise alone makes them
        do not bring it down to 0: see `LEAST_SEEN`.
    corrected : float
        Point estimate; exactly 0 where noise alone explains the plain PSI.
    """

    low: float
    high: float
    corrected: float


@dataclass(frozen=True)
class _Worlds:
    """True bucket means for any PSI: `centre` plus a multiple of `shape` (n_buckets,)."""

    observed: FloatArray
    se: FloatArray
    centre: float
    shape: FloatArray

    def at(self, psi: float) -> FloatArray:
        """Bucket means with exactly this PSI, the deviations in proportion to `shape`."""
        reach = (1 - psi) * self.shape.max() - self.shape.min()
        return self.centre + self.shape * (psi * self.centre / reach)

    def crowded_ends(self, psi: float) -> FloatArray:
        """Push buckets towards the nearer end: the plain PSI comes out as high as it can."""
        means = self.at(psi)
        low, high = means.min(), means.max()
        away = means - (low + high) / 2
        pushed = means + np.sign(away) * SELECTION_SE * self.se
        return np.clip(pushed, low, high)

    def lonely_ends(self, psi: float, worst: int, best: int) -> FloatArray:
        """Leave one bucket at each end, pull in the rest: the plain PSI comes out low."""
        means = self.at(psi)
        low, high = means.min(), means.max()
        middle = (low + high) / 2
        away = means - middle
        pulled = middle + np.sign(away) * np.maximum(np.abs(away) - SELECTION_SE * self.se, 0)
        pulled[worst], pulled[best] = low, high
        return pulled

    def end_pairs(self) -> set[tuple[int, int]]:
        """(worst, best) buckets as observed, and those that could be furthest apart."""
        gap = self.observed[None, :] - self.observed[:, None]
        reach = gap + SELECTION_SE * np.hypot(self.se[None, :], self.se[:, None])
        np.fill_diagonal(reach, -np.inf)
        worst, best = np.unravel_index(reach.argmax(), reach.shape)
        pairs = {
            (int(worst), int(best)),
            (int(self.observed.argmin()), int(self.observed.argmax())),
        }
        return {pair for pair in pairs if pair[0] != pair[1]}  # all means may be equal


def invert_psi(
    means: FloatArray,
    errors: FloatArray,
    *,
    centre: FloatArray,
    level: float,
    score_limit: float = 1.0,
) -> PsiInversion:
    """Interval and noise-corrected value of PSI.

    Parameters
    ----------
    means : float64 array of shape (n_buckets,)
        Observed bucket means, n_buckets >= 2, the largest > 0.
    errors : float64 array of shape (n_buckets, n_draws)
        Draws of the sampling errors of those means.
    centre : float64 array of shape (n_buckets,)
        Means that those errors are of: smoothed ones, so that a bucket in which nothing is found
        has a variance to scale.
    level : float
        Nominal coverage of the interval, in (0, 1).
    score_limit : float
        Largest score a query can have. A bucket's variance is taken to change with its true mean
        m as ``m * (score_limit - m)``.

    Returns
    -------
    PsiInversion
        All three equal the plain PSI if the means have no sampling error at all.

    Notes
    -----
    Test inversion with an estimated nuisance parameter follows Chuang and Lai (2000), Statistica
    Sinica 10; moving only what the data leave open is the moment selection of Andrews and Soares
    (2010), Econometrica 78; a limit kept from falling below what such data can show is that of
    Cowan, Cranmer, Gross and Vitells, arXiv:1105.3166 (2011). `docs/psi.md` has coverage and bias.
    """
    observed = float(psi_of_columns(means[:, None])[0])
    worlds = _fit_worlds(means, errors)
    if worlds is None:
        return PsiInversion(observed, observed, observed)
    variance = _mean_variance(centre, score_limit)

    def simulate(world: FloatArray) -> FloatArray:
        possible = world * min(1.0, score_limit / float(world.max()))
        stretch = np.sqrt(_mean_variance(possible, score_limit) / variance)
        return psi_of_columns(possible[:, None] + stretch[:, None] * errors)

    tail = (1 - level) / 2
    least_seen = float(np.quantile(simulate(worlds.at(0.0)), LEAST_SEEN))
    observed_up = max(observed, least_seen) + ROUNDING

    def upper_end(worst: int, best: int) -> float:
        return _solve(
            lambda p: tail - _share(simulate(worlds.lonely_ends(p, worst, best)) <= observed_up)
        )

    low = _solve(lambda p: _share(simulate(worlds.crowded_ends(p)) >= observed - ROUNDING) - tail)
    high = max(observed, *(upper_end(*pair) for pair in worlds.end_pairs()))
    corrected = _solve(lambda p: float(simulate(worlds.at(p)).mean()) - observed)
    return PsiInversion(low, high, min(max(corrected, low), high))


def _fit_worlds(means: FloatArray, errors: FloatArray) -> _Worlds | None:
    """Centre and shape from shrunken means; None if there is no sampling error."""
    se = errors.std(axis=1)
    if se.max() <= ROUNDING:
        return None
    se = np.maximum(se, 1e-3 * se.max())
    spread = max(_between_variance(means, se), SPREAD_FLOOR * float(np.median(se**2)))
    weights = 1 / (spread + se**2)
    centre = float(weights @ means / weights.sum())
    shape = (means - centre) * np.sqrt(spread * weights)
    if np.ptp(shape) <= ROUNDING:
        shape = np.linspace(-1.0, 1.0, len(means)) * se.max()
    return _Worlds(means, se, centre, shape)


def _between_variance(means: FloatArray, se: FloatArray) -> float:
    """Variance of the true means by the moment estimator of DerSimonian and Laird (1986)."""
    weights = 1 / se**2
    centre = weights @ means / weights.sum()
    excess = weights @ (means - centre) ** 2 - (len(means) - 1)
    return max(0.0, float(excess / (weights.sum() - (weights**2).sum() / weights.sum())))


def _mean_variance(means: FloatArray, score_limit: float) -> FloatArray:
    return np.maximum(means * (score_limit - means), 1e-6 * score_limit**2)


def _share(rejects: np.ndarray) -> float:
    """Share of replicates, the observed table counted as one of them."""
    return float((rejects.sum() + 1) / (rejects.size + 1))


def _solve(increasing: Callable[[float], float]) -> float:
    """Root in [0, 1] by bisection: 0 if already positive there, 1 if still negative there."""
    if increasing(0.0) >= 0:
        return 0.0
    if increasing(1.0) < 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if increasing(middle) < 0 else (low, middle)
    return (low + high) / 2
