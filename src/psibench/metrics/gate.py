"""Gates: whether a system lost in its mean, or in a bucket or slice, compared with another.

Each cell of a gate is a mean over some queries: all queries, a position bucket,
or a slice.
The cells overlap and share documents, so all tests and bounds use the largest statistic over cells
under joint sign flips of the documents (or clusters of documents). They hold for all cells
together, whatever the correlation of the cells, and also for few documents. `studies/gate` has the
error rates and the power.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np

from psibench.metrics.constants import (
    FEWEST_FOR_SPREAD,
    GATE_POWER,
    HALVING_FLIPS,
    HALVINGS,
    SCORE_ROUNDING,
    SIGN_FLIPS,
    SIGNIFICANCE_LEVEL,
    SPREAD_MARGIN,
)
from psibench.metrics.effects import clustered_effect
from psibench.metrics.flips import sign_flips, step_down
from psibench.metrics.inference import FloatArray

Kind = Literal["fail-if-worse", "within"]
"""``fail-if-worse``: fails if a loss is shown. ``within``: fails unless a loss is excluded."""
PASSES, FAILS, UNCLEAR = "passes", "fails", "cannot tell"


@dataclass(frozen=True)
class Losses:
    """Losses in all cells; arrays of shape (n_cells,) with n independent units.

    Attributes
    ----------
    value : float array
        The mean loss; negative for a gain.
    p : float array
        Family-wise p-value of "no loss" (one-sided).
    high : float array
        Upper confidence bounds of the losses, at ``1 - SIGNIFICANCE_LEVEL`` for all cells together;
        at most the largest possible loss.
    shown_from : float array
        Smallest loss in only this cell that would be significant; infinite if no loss would be.
    needed_to_show, needed_to_exclude : float array
        Units (in all cells) with which the smallest significant loss is the gate's limit, and with
        which equal systems have all bounds below the limit with probability `GATE_POWER`. NaN if
        there are too few units to estimate.
    all_equal : bool
        Whether the systems have equal sums in all units and cells.
    """

    value: FloatArray
    p: FloatArray
    high: FloatArray
    shown_from: FloatArray
    needed_to_show: FloatArray
    needed_to_exclude: FloatArray
    all_equal: bool


def measure_losses(
    sums: FloatArray,
    weights: FloatArray,
    limit: float,
    *,
    most: float = 1.0,
    n_flips: int = SIGN_FLIPS,
) -> Losses:
    """Estimate the loss in each cell, and test all cells together.

    A cell's loss is ``sum(sums) / sum(weights)``. With D a unit's sum, the statistic is
    ``T = sum D / sqrt(sum D^2)``; its p-value comes from `step_down` over sign flips of the D, for
    all cells together. It is exact if the D are symmetric about 0, e.g. if each document's scores
    of the two systems could be exchanged.

    The critical value c of all cells together comes from flips of the D that have the observed
    deviations and a loss of ``limit`` in each cell. `clustered_effect`
    gives the upper bounds at c, which also hold if few documents differ.

    Parameters
    ----------
    sums : float array of shape (n_units, n_cells)
        Sums over queries of the score of the other system minus the score of the tested system.
    weights : float array of shape (n_units, n_cells)
        Numbers of queries, or other weights of 0 or more; no cell has only 0.
    limit : float
        The loss that matters, above 0.
    most : float
        Largest possible loss of a query.
    """
    n_units, total = len(sums), weights.sum(axis=0)
    sums = np.where(np.abs(sums) < SCORE_ROUNDING, 0.0, sums)
    value = sums.sum(axis=0) / total
    rest = sums - value * weights
    rest[np.abs(rest) < SCORE_ROUNDING * weights] = 0.0
    columns = np.hstack([sums, rest + limit * weights])
    norms = np.sqrt((columns**2).sum(axis=0))
    norms[norms == 0] = np.inf
    drawn = np.concatenate(
        [signs @ columns / norms for signs in sign_flips(n_units, n_flips=n_flips)]
    )
    observed, at_limit = np.split(drawn, 2, axis=1)
    p = step_down(sums.sum(axis=0) / norms[: len(value)], [observed])
    critical = _critical(at_limit.max(axis=1))
    high = np.array([
        _upper_bound(one, of_one, critical, most)
        for one, of_one in zip(sums.T, weights.T, strict=True)
    ])  # fmt: skip
    return Losses(
        value,
        p,
        high,
        _smallest_significant(rest, weights, critical),
        *_needed(rest, weights, limit, high - value, critical),
        all_equal=not sums.any(),
    )


def _critical(largest: FloatArray) -> float:
    """Return the smallest drawn value that at most `SIGNIFICANCE_LEVEL` of the draws reach.

    Infinite if there is none, e.g. with four documents.
    """
    values, counts = np.unique(np.round(largest, 9), return_counts=True)
    reached = np.cumsum(counts[::-1])[::-1]
    rare = values[reached <= SIGNIFICANCE_LEVEL * len(largest)]
    return float(rare[0]) if len(rare) else np.inf


def _upper_bound(sums: FloatArray, weights: FloatArray, critical: float, most: float) -> float:
    from scipy.special import betaincc

    n_units = np.count_nonzero(weights)
    if n_units < 2 or critical**2 >= n_units:
        return most
    error = float(betaincc(0.5, (n_units - 1) / 2, critical**2 / n_units))
    return clustered_effect(sums, weights, level=1 - error, limit=most).high


def _smallest_significant(rest: FloatArray, weights: FloatArray, critical: float) -> FloatArray:
    """Solve ``sum D = critical sqrt(sum D^2)`` for the loss v in ``D = rest + v w``."""
    smallest = np.full(rest.shape[1], np.inf)
    if not np.isfinite(critical):
        return smallest
    # (v sum w)^2 = critical^2 (sum rest^2 + 2 v sum rest w + v^2 sum w^2)
    a = weights.sum(axis=0) ** 2 - critical**2 * (weights**2).sum(axis=0)
    b = critical**2 * (rest * weights).sum(axis=0)
    c = critical**2 * (rest**2).sum(axis=0)
    tolerance = SCORE_ROUNDING * weights.sum(axis=0) ** 2
    able = a > tolerance
    root = np.sqrt(b[able] ** 2 + a[able] * c[able])
    smallest[able] = (b[able] + root) / a[able]
    smallest[(c == 0) & (a > -tolerance)] = 0.0  # all documents differ alike
    return smallest


def _needed(
    rest: FloatArray, weights: FloatArray, limit: float, reach: FloatArray, critical: float
) -> tuple[FloatArray, FloatArray]:
    """Return `Losses.needed_to_show` and `Losses.needed_to_exclude`.

    The standard error of a cell's loss falls with the square root of the units, and the reach of an
    upper bound that rests on few differing units falls with their number. The critical value
    is for independent cells (Sidak), the largest possible.
    """
    from scipy.special import ndtri

    n_units, n_cells = rest.shape
    level = (1 - SIGNIFICANCE_LEVEL) ** (1 / n_cells)
    alone = float(ndtri(level))
    together = alone + float(ndtri(GATE_POWER ** (1 / n_cells)))
    total = weights.sum(axis=0)
    effective = total**2 / (weights**2).sum(axis=0)
    error = np.sqrt((rest**2).sum(axis=0)) / total
    spread = error * np.sqrt(effective)
    few = effective < FEWEST_FOR_SPREAD
    spread[few] = np.maximum(
        spread[few], spread.max(where=~few, initial=spread[effective.argmax()])
    )
    by_spread = n_units * (spread / limit) ** 2 / effective
    fewest_held = np.ceil(-np.log2(1 - level))  # flips of fewer units are never rare enough
    fewest = n_units * fewest_held / effective
    to_show = np.maximum(SPREAD_MARGIN * alone**2 * by_spread, fewest)
    to_exclude = np.maximum(together**2 * by_spread, fewest)
    by_few = spread == 0
    if np.isfinite(critical):
        by_few |= reach > 1.1 * critical * error  # few units differ
    to_exclude[by_few] = np.maximum(to_exclude, n_units * reach / limit)[by_few]
    if effective.max() < fewest_held:
        return np.full(n_cells, np.nan), np.full(n_cells, np.nan)
    return to_show, to_exclude


def judge(losses: Losses, kind: Kind, limit: float, n_units: int) -> list[str]:
    """Return `PASSES`, `FAILS` or `UNCLEAR` for each cell.

    ``fail-if-worse`` fails for a significant loss (family-wise) of at least the limit. It cannot
    tell if a loss of the limit would not be significant and is not excluded; equal scores in all
    queries pass.
    ``within`` passes if the upper bound is below the limit. It fails for a significant loss of at
    least the limit, and if there are enough units to exclude the limit; else it cannot tell.
    """
    return [_judge_cell(losses, kind, limit, n_units, k) for k in range(len(losses.value))]


def _judge_cell(losses: Losses, kind: Kind, limit: float, n_units: int, k: int) -> str:
    is_large = losses.value[k] >= limit - SCORE_ROUNDING
    if is_large and losses.p[k] <= SIGNIFICANCE_LEVEL:
        return FAILS
    if losses.high[k] < limit:
        return PASSES
    if kind == "within":
        return FAILS if losses.needed_to_exclude[k] <= n_units else UNCLEAR
    can_tell = losses.shown_from[k] <= limit + SCORE_ROUNDING and not is_large
    return PASSES if can_tell or losses.all_equal else UNCLEAR


def worst(results: list[str]) -> str:
    """Return the result of a gate, the worst result of its cells."""
    return next((one for one in (FAILS, UNCLEAR) if one in results), PASSES)


def halvings(
    sums: FloatArray,
    weights: FloatArray,
    kind: Kind,
    limit: float,
    *,
    most: float = 1.0,
    n_halvings: int = HALVINGS,
) -> Counter[str]:
    """Count the gate's results for the two halves of one system's units, in random halvings.

    A difference of two halves of the same run is chance. In each halving, a coin assigns each unit
    to a half. The scores on one half are the tested system, the scores on the other half the other
    system, and the loss in a cell is the difference of their means: the sum of the units'
    deviations from the cell's mean, with opposite signs in the halves, divided by half of the
    cell's weight. The same data give the same halvings.

    Parameters
    ----------
    sums, weights : float arrays of shape (n_units, n_cells)
        Score sums and numbers of queries of one system.
    """
    rng = np.random.default_rng(0)
    rest = sums - sums.sum(axis=0) / weights.sum(axis=0) * weights
    found = Counter[str]()
    for _ in range(n_halvings):
        signs = rng.choice([-2.0, 2.0], (len(sums), 1))
        losses = measure_losses(signs * rest, weights, limit, most=most, n_flips=HALVING_FLIPS)
        found[worst(judge(losses, kind, limit, len(sums)))] += 1
    return found
