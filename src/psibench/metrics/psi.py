"""The Position Sensitivity Index (PSI) of bucket means, as the papers define it."""

from __future__ import annotations

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
