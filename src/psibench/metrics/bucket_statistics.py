"""Mean score of every bucket with a bootstrap interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from psibench.metrics.psi import FloatArray
from psibench.metrics.psi_table import IntArray
from psibench.metrics.resampled import (
    N_BOOTSTRAP,
    ResampledScores,
    refuse_below,
    refuse_odd_level,
    score_limit,
)


@dataclass(frozen=True)
class BucketStatistics:
    """Mean score per bucket with a confidence interval, arrays of shape ``(n_buckets,)``.

    Attributes
    ----------
    n_queries : int64 array
    mean : float64 array
        NaN where the bucket is empty.
    low, high : float64 array
        Bootstrap interval of the mean; NaN where the bucket holds fewer than two queries.
    """

    n_queries: IntArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray


def bucket_statistics(
    scores: npt.ArrayLike,
    query_index: npt.ArrayLike,
    bucket_index: npt.ArrayLike,
    *,
    n_buckets: int,
    n_bootstrap: int = N_BOOTSTRAP,
    level: float = 0.95,
    seed: int,
) -> BucketStatistics:
    """Mean score of every bucket with a percentile-bootstrap interval over queries.

    Arguments and errors as in `estimate_psi`; `n_bootstrap` must be at least 1. The interval is
    for one bucket at a time, so of 20 buckets about one misses its true mean.
    """
    row = ResampledScores(
        scores, query_index, bucket_index, n_buckets=n_buckets, n_bootstrap=n_bootstrap, seed=seed
    )
    return bucket_statistics_of(row, level=level)


def bucket_statistics_of(row: ResampledScores, *, level: float) -> BucketStatistics:
    """`bucket_statistics` of a row whose bootstrap may be shared with its PSI."""
    refuse_below("n_bootstrap", row.n_bootstrap, 1)
    refuse_odd_level(level)
    mean, low, high = (np.full(len(row.sizes), np.nan) for _ in range(3))
    used = row.held(1)
    if len(used):
        table = row.table(used)
        mean[used] = table.bucket_means(table.exact_sums)
        tails = np.quantile(row.noise(used).errors, [(1 - level) / 2, (1 + level) / 2], axis=1)
        low[used] = np.maximum(mean[used] + np.minimum(tails[0], 0), 0.0)
        high[used] = np.minimum(mean[used] + np.maximum(tails[1], 0), score_limit(table))
        low[row.sizes < 2] = high[row.sizes < 2] = np.nan
    return BucketStatistics(row.sizes, mean, low, high)
