"""Positions before and after filters, as a table with a test and the size of the shift."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from psibench.build.chi_square import chi_square
from psibench.build.rules.frames import FloatArray, IntArray
from psibench.build.study_rows import table_of
from psibench.tables.study_schemas import POSITION_SHIFT
from psibench.text.segments import POSITIONS


@dataclass(frozen=True)
class Counts:
    """Items, and how often each position is a target among them, int64 ``(3,)``."""

    n: int
    by_position: IntArray

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.n + other.n, self.by_position + other.by_position)


@dataclass(frozen=True)
class Filtered:
    """One filter: what entered it and what it kept."""

    stage: str
    unit: str
    entered: Counts
    kept: Counts


def shift_table(found: Iterable[Filtered]) -> pl.DataFrame:
    """Make POSITION_SHIFT rows of filters, in their order."""
    rows = [row for step, one in enumerate(found) for row in _stage_rows(step, one)]
    return table_of(POSITION_SHIFT, rows)


def _stage_rows(step: int, one: Filtered) -> Iterator[dict[str, object]]:
    """Yield the row ``all`` of a stage, then one per position."""
    entered, kept = one.entered.by_position, one.kept.by_position
    before, after = _shares(entered), _shares(kept)
    test = chi_square(kept, entered - kept)
    of_stage = {
        "stage": one.stage,
        "step": step,
        "unit": one.unit,
        "shift": _distance(before, after),
        "p_value": test and test.p_value,
        "min_expected": test and test.min_expected,
    }
    yield of_stage | _sizes("all", one.entered.n, one.kept.n)
    for place, name in enumerate(POSITIONS):
        yield (
            of_stage
            | _sizes(name, int(entered[place]), int(kept[place]))
            | {
                "share_of_entered": None if before is None else float(before[place]),
                "share_of_kept": None if after is None else float(after[place]),
            }
        )


def _sizes(name: str, entered: int, kept: int) -> dict[str, object]:
    return {
        "target_position": name,
        "n_entered": entered,
        "n_kept": kept,
        "share_kept": kept / entered if entered else None,
        "share_of_entered": None,
        "share_of_kept": None,
    }


def _shares(by_position: IntArray) -> FloatArray | None:
    total = int(by_position.sum())
    return by_position / total if total else None


def _distance(before: FloatArray | None, after: FloatArray | None) -> float | None:
    """Give half the sum of absolute differences: the share that would have to move."""
    if before is None or after is None:
        return None
    return float(np.abs(after - before).sum() / 2)
