"""The Position Sensitivity Index (PSI) of bucket means, and the record of one PSI table row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

ROUNDING = 1e-12
"""PSI values closer than this are equal: the difference is floating-point rounding."""


@dataclass(frozen=True)
class PsiEstimate:
    """One row of a PSI table: the plain PSI, its uncertainty, and the means it stands beside.

    A value that does not exist is None, never 0. All PSI values lie in [0, 1].

    Attributes
    ----------
    n_queries : int
        Distinct queries that sit in at least one used bucket.
    n_buckets : int
        Used buckets: those with at least the minimum number of queries.
    mean : float or None
        Mean score of those queries, each counted once.
    mean_of_buckets : float or None
        Mean of the used buckets' means, each bucket counted once.
    psi : float or None
        Plain PSI of the used buckets' means.
    psi_low, psi_high : float or None
        Confidence interval of the true PSI.
    psi_null_mean, psi_null_p95 : float or None
        Mean and 95th percentile of the plain PSI when bucket labels are permuted among queries.
    psi_p : float or None
        Permutation p-value of "the score does not depend on the bucket".
    psi_corrected : float or None
        Noise-corrected PSI.
    best_bucket, worst_bucket : int or None
        Buckets of the highest and the lowest mean (the first of ties), as given by the caller.
    """

    n_queries: int
    n_buckets: int
    mean: float | None
    mean_of_buckets: float | None
    psi: float | None
    psi_low: float | None
    psi_high: float | None
    psi_null_mean: float | None
    psi_null_p95: float | None
    psi_p: float | None
    psi_corrected: float | None
    best_bucket: int | None
    worst_bucket: int | None


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
