"""PSI of one table row with interval, permutation null and noise correction; bucket means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from psibench.errors import InputError
from psibench.metrics.psi import (
    ROUNDING,
    FloatArray,
    PsiEstimate,
    position_sensitivity_index,
    psi_of_columns,
)
from psibench.metrics.psi_inversion import PsiInversion, invert_psi
from psibench.metrics.psi_resample import bootstrap_noise, permuted_bucket_means
from psibench.metrics.psi_table import (
    IntArray,
    ScoreTable,
    checked_scores,
    membership_matrix,
    tabulate,
)

MIN_BUCKET_SIZE = 30
N_BOOTSTRAP = 1000
N_PERMUTATIONS = 1000


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


@dataclass(frozen=True)
class _Null:
    mean: float
    p95: float
    p: float


def estimate_psi(
    scores: npt.ArrayLike,
    query_index: npt.ArrayLike,
    bucket_index: npt.ArrayLike,
    *,
    n_buckets: int,
    min_bucket_size: int = MIN_BUCKET_SIZE,
    n_bootstrap: int = N_BOOTSTRAP,
    n_permutations: int = N_PERMUTATIONS,
    level: float = 0.95,
    seed: int,
) -> PsiEstimate:
    """PSI of per-query scores over position buckets, with its uncertainty.

    Parameters
    ----------
    scores : float array of shape (n_queries,)
        Score per query, finite and >= 0 (such as nDCG@10). More than 64 distinct scores are
        resampled on a grid of 64 values; means and the plain PSI always use the exact ones.
    query_index, bucket_index : int arrays of shape (n_memberships,)
        Query ``query_index[i]`` sits in bucket ``bucket_index[i]``. A query may sit in several
        buckets or in none.
    n_buckets : int
        Buckets are numbered 0 to n_buckets - 1.
    min_bucket_size : int
        Buckets with fewer queries are left out of every value. 1 keeps all that are not empty.
    n_bootstrap, n_permutations : int
        Replicates; 0 leaves the interval and correction, or the null, undefined (None).
    level : float
        Nominal coverage of the interval.
    seed : int
        Same seed and same data, in any order: same result.

    Returns
    -------
    PsiEstimate
        PSI values are None if the best used bucket has mean 0 or fewer than two are used.

    Raises
    ------
    InputError
        Scores that are NaN, infinite or negative; indices out of range; settings out of range.
    """
    _check_settings(n_buckets, min_bucket_size, n_bootstrap, n_permutations, level)
    values = checked_scores(scores)
    inside = membership_matrix(values, query_index, bucket_index, n_buckets)
    used = np.flatnonzero(inside.sum(axis=0) >= min_bucket_size)
    table = tabulate(values, inside[:, used])
    means = table.bucket_means(table.exact_sums)
    psi = position_sensitivity_index(means)
    known = psi is not None
    ends = _invert(table, means, n_bootstrap, level, seed) if known and n_bootstrap else None
    null = _permutation_null(table, n_permutations, seed) if known and n_permutations else None
    # Shuffled positions are an exact test of PSI = 0. Where they reproduce the PSI seen, the
    # interval holds 0, also near the scores' limit, where a bootstrap sees too little spread.
    flat = null is not None and null.p > (1 - level) / 2
    n_queries = int(table.counts.sum())
    return PsiEstimate(
        n_queries=n_queries,
        n_buckets=len(used),
        mean=float(table.exact_sums.sum() / n_queries) if n_queries else None,
        mean_of_buckets=float(means.mean()) if len(used) else None,
        psi=psi,
        psi_low=(0.0 if flat else ends.low) if ends else None,
        psi_high=ends.high if ends else None,
        psi_null_mean=null.mean if null else None,
        psi_null_p95=null.p95 if null else None,
        psi_p=null.p if null else None,
        psi_corrected=ends.corrected if ends else None,
        best_bucket=int(used[means.argmax()]) if known else None,
        worst_bucket=int(used[means.argmin()]) if known else None,
    )


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
    _check_settings(n_buckets, 1, n_bootstrap, 0, level)
    if n_bootstrap < 1:
        raise InputError(f"n_bootstrap is {n_bootstrap}; give at least 1")
    values = checked_scores(scores)
    inside = membership_matrix(values, query_index, bucket_index, n_buckets)
    sizes = inside.sum(axis=0, dtype=np.int64)
    mean, low, high = (np.full(n_buckets, np.nan) for _ in range(3))
    used = np.flatnonzero(sizes)
    if len(used):
        table = tabulate(values, inside[:, used])
        mean[used] = table.bucket_means(table.exact_sums)
        errors = bootstrap_noise(table, n_bootstrap=n_bootstrap, seed=seed).errors
        tails = np.quantile(errors, [(1 - level) / 2, (1 + level) / 2], axis=1)
        low[used] = np.maximum(mean[used] + np.minimum(tails[0], 0), 0.0)
        high[used] = np.minimum(mean[used] + np.maximum(tails[1], 0), _score_limit(table))
        low[sizes < 2] = high[sizes < 2] = np.nan
    return BucketStatistics(sizes, mean, low, high)


def _invert(
    table: ScoreTable, means: FloatArray, n_bootstrap: int, level: float, seed: int
) -> PsiInversion:
    noise = bootstrap_noise(table, n_bootstrap=n_bootstrap, seed=seed)
    return invert_psi(means, noise, level=level, score_limit=_score_limit(table))


def _permutation_null(table: ScoreTable, n_permutations: int, seed: int) -> _Null:
    """Plain PSI under permuted memberships; the p-value counts the observed table too."""
    # The same rounded levels on both sides: ties between observed and permuted stay ties.
    observed = psi_of_columns(table.bucket_means(table.counts @ table.levels)[:, None])[0]
    permuted = psi_of_columns(
        permuted_bucket_means(table, n_permutations=n_permutations, seed=seed)
    )
    at_least = int((permuted >= observed - ROUNDING).sum())
    return _Null(
        mean=float(permuted.mean()),
        p95=float(np.quantile(permuted, 0.95)),
        p=(1 + at_least) / (1 + n_permutations),
    )


def _score_limit(table: ScoreTable) -> float:
    """Largest possible score: 1, or the largest seen if a metric goes beyond."""
    return max(1.0, float(table.levels[-1]))


def _check_settings(
    n_buckets: int, min_bucket_size: int, n_bootstrap: int, n_permutations: int, level: float
) -> None:
    for name, value, least in (
        ("n_buckets", n_buckets, 1),
        ("min_bucket_size", min_bucket_size, 1),
        ("n_bootstrap", n_bootstrap, 0),
        ("n_permutations", n_permutations, 0),
    ):
        if value < least:
            raise InputError(f"{name} is {value}; give {least} or more")
    if not 0 < level < 1:
        raise InputError(f"level is {level}; give a value between 0 and 1, such as 0.95")
