"""PSI of one table row with interval, permutation null and noise correction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from psibench.metrics.psi import (
    ROUNDING,
    FloatArray,
    PsiEstimate,
    position_sensitivity_index,
    psi_of_columns,
)
from psibench.metrics.psi_inversion import PsiInversion, invert_psi
from psibench.metrics.psi_permutation import permuted_bucket_means
from psibench.metrics.psi_resample import BootstrapNoise
from psibench.metrics.psi_table import ScoreTable
from psibench.metrics.resampled import (
    N_BOOTSTRAP,
    N_PERMUTATIONS,
    ResampledScores,
    refuse_below,
    refuse_odd_level,
    score_limit,
)

MIN_BUCKET_SIZE = 30


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
    row = ResampledScores(
        scores, query_index, bucket_index, n_buckets=n_buckets, n_bootstrap=n_bootstrap, seed=seed
    )
    return psi_estimate_of(
        row, min_bucket_size=min_bucket_size, n_permutations=n_permutations, level=level
    )


def psi_estimate_of(
    row: ResampledScores, *, min_bucket_size: int, n_permutations: int, level: float
) -> PsiEstimate:
    """`estimate_psi` of a row whose bootstrap may be shared with its bucket means."""
    refuse_below("min_bucket_size", min_bucket_size, 1)
    refuse_below("n_permutations", n_permutations, 0)
    refuse_odd_level(level)
    used = row.held(min_bucket_size)
    table = row.table(used)
    means = table.bucket_means(table.exact_sums)
    psi = position_sensitivity_index(means)
    known = psi is not None
    ends = _invert(table, means, row.noise(used), level) if known and row.n_bootstrap else None
    null = _permutation_null(table, n_permutations, row.seed) if known and n_permutations else None
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


def _invert(
    table: ScoreTable, means: FloatArray, noise: BootstrapNoise, level: float
) -> PsiInversion:
    return invert_psi(means, noise, level=level, score_limit=score_limit(table))


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
