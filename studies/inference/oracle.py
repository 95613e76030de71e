"""An interval of a PSI that is right by construction, to compare with psibench's.

PSI = 1 - min m / max m is at least x exactly if some pair of buckets has m_j <= (1 - x) m_i, and at
most x exactly if no pair falls short of (1 - x). So, with the log ratios of all pairs of bucket
means, taken as normal with the covariance of the means:

- lower end: the largest x that the *largest* of all pairs rejects, at a critical value of their
  maximum (max-t: Hothorn, Bretz and Westfall, Biometrical Journal 50, 2008);
- upper end: the smallest x that *every* pair rejects, each at half of the error
  (intersection-union: Berger, Technometrics 24, 1982).

It shares means and covariance with `psibench.metrics.psi`, and nothing else. It is wide: it makes
no use of the order of the buckets, and its two errors add up however small an effect is.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from psibench.metrics.inference import FloatArray, Profile

DRAWS = 4000


def oracle_interval(
    profile: Profile, rng: np.random.Generator, *, level: float = 0.95
) -> tuple[float, float]:
    """Return the interval of the PSI of a profile; (0, 1) where a bucket finds nothing."""
    if profile.means.min() <= 0:
        return 0.0, 1.0
    tail = (1 - level) / 2
    logs = np.log(profile.means)
    covariance = profile.covariance / np.outer(profile.means, profile.means)
    variance = np.diag(covariance)
    se = np.sqrt(np.maximum(variance[:, None] + variance - 2 * covariance, 1e-18))
    errors = rng.multivariate_normal(np.zeros(len(logs)), covariance, DRAWS, method="eigh")
    pairs = ~np.eye(len(logs), dtype=bool)
    largest = _largest_of_pairs(errors, se, pairs)
    fall = logs[:, None] - logs  # of bucket j below bucket i
    low = float(np.max(np.where(pairs, fall - np.quantile(largest, 1 - tail) * se, -np.inf)))
    high = float(np.max(np.where(pairs, fall + norm.isf(tail) * se, -np.inf)))
    return 1 - np.exp(-max(low, 0.0)), 1 - np.exp(-max(high, 0.0))


def _largest_of_pairs(errors: FloatArray, se: FloatArray, pairs: np.ndarray) -> FloatArray:
    """The largest standardised difference of two buckets' errors, (n_draws,)."""
    scaled = (errors[:, :, None] - errors[:, None, :]) / se
    return np.where(pairs, scaled, -np.inf).max(axis=(1, 2))
