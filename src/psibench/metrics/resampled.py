"""Scores of one table row by bucket, counted and resampled once for whoever asks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from psibench.errors import InputError
from psibench.metrics.psi_resample import BootstrapNoise, bootstrap_noise
from psibench.metrics.psi_table import (
    IntArray,
    ScoreTable,
    checked_scores,
    membership_matrix,
    tabulate,
)

N_BOOTSTRAP = 1000
N_PERMUTATIONS = 1000


class ResampledScores:
    """The queries of one row, their scores and buckets; arguments as in `estimate_psi`.

    Bucket means and PSI are mostly about the same buckets. What is costly, the count table and
    its bootstrap, is made once per set of buckets.

    Attributes
    ----------
    sizes : int64 array of shape (n_buckets,)
        Queries in each bucket.
    n_bootstrap, seed : int
        As given.
    """

    def __init__(
        self,
        scores: npt.ArrayLike,
        query_index: npt.ArrayLike,
        bucket_index: npt.ArrayLike,
        *,
        n_buckets: int,
        n_bootstrap: int,
        seed: int,
    ) -> None:
        refuse_below("n_buckets", n_buckets, 1)
        refuse_below("n_bootstrap", n_bootstrap, 0)
        self._values = checked_scores(scores)
        self._inside = membership_matrix(self._values, query_index, bucket_index, n_buckets)
        self._tables: dict[bytes, ScoreTable] = {}
        self._noise: dict[bytes, BootstrapNoise] = {}
        self.sizes: IntArray = self._inside.sum(axis=0, dtype=np.int64)
        self.n_bootstrap = n_bootstrap
        self.seed = seed

    def held(self, min_size: int) -> IntArray:
        """Return the buckets that hold at least so many queries, ascending."""
        return np.flatnonzero(self.sizes >= min_size).astype(np.int64)

    def table(self, buckets: IntArray) -> ScoreTable:
        """Count the queries of these buckets by pattern and score."""
        key = buckets.tobytes()
        if key not in self._tables:
            self._tables[key] = tabulate(self._values, self._inside[:, buckets])
        return self._tables[key]

    def noise(self, buckets: IntArray) -> BootstrapNoise:
        """Return the sampling errors of these buckets' means; each must hold a query."""
        key = buckets.tobytes()
        if key not in self._noise:
            self._noise[key] = bootstrap_noise(
                self.table(buckets), n_bootstrap=self.n_bootstrap, seed=self.seed
            )
        return self._noise[key]


def score_limit(table: ScoreTable) -> float:
    """Largest possible score: 1, or the largest seen if a metric goes beyond."""
    return max(1.0, float(table.levels[-1]))


def refuse_below(name: str, value: int, least: int) -> None:
    """Raise InputError if a setting is below its least value."""
    if value < least:
        raise InputError(f"{name} is {value}; give {least} or more")


def refuse_odd_level(level: float) -> None:
    """Raise InputError if a confidence level is no share between 0 and 1."""
    if not 0 < level < 1:
        raise InputError(f"level is {level}; give a value between 0 and 1, such as 0.95")
