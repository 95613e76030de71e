"""Sign flips of independent units, and family-wise p-values by step-down max-T."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from psibench.metrics.constants import SCORE_ROUNDING, SIGN_FLIPS
from psibench.metrics.inference import FloatArray


def sign_flips(n_units: int, *, n_flips: int = SIGN_FLIPS) -> Iterator[FloatArray]:
    """Yield signs of units in blocks of shape (n, n_units): 1 and -1, the same at each call.

    Yields all ``2^n_units`` assignments of signs if there are at most ``n_flips + 1``, else all
    signs 1 and ``n_flips`` random assignments. So the share of assignments in which a statistic
    reaches its observed value is a valid p-value in both cases (Phipson and Smyth, Statistical
    Applications in Genetics and Molecular Biology 9, 2010).
    """
    if 2**n_units <= n_flips + 1:
        numbers = np.arange(2**n_units)[:, None]
        yield (1 - 2 * ((numbers >> np.arange(n_units)) & 1)).astype(np.float64)
        return
    yield np.ones((1, n_units))
    rng = np.random.default_rng(0)
    at_once = max(1, 2**21 // n_units)
    for start in range(0, n_flips, at_once):
        shape = (min(at_once, n_flips - start), n_units)
        yield (2 * rng.integers(0, 2, shape, dtype=np.int8) - 1).astype(np.float64)


def step_down(found: FloatArray, drawn: Iterable[FloatArray]) -> FloatArray:
    """Family-wise p-values of statistics whose large values are unusual.

    Step-down max-T (Westfall and Young, Resampling-Based Multiple Testing, 1993, algorithm 4.1;
    Romano and Wolf, Journal of the American Statistical Association 100, 2005). The p of a
    statistic is the share of draws in which the largest among it and all smaller statistics reaches
    it; it is at least the p of every larger statistic.

    Parameters
    ----------
    found : float array of shape (n_statistics,)
    drawn : blocks of shape (n, n_statistics)
        The statistics under the null hypothesis, with the observed data as one of the draws.
    """
    order = np.argsort(-found, kind="stable")
    reached, n_drawn = np.zeros(len(found)), 0
    for block in drawn:
        largest = np.maximum.accumulate(block[:, order][:, ::-1], axis=1)[:, ::-1]
        reached += (largest >= found[order] - SCORE_ROUNDING).sum(axis=0)
        n_drawn += len(block)
    p: FloatArray = np.empty(len(found))
    p[order] = np.maximum.accumulate(reached / n_drawn)
    return p
