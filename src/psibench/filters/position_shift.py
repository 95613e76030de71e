"""Positions of evidence before and after each filter, and a test for a shift.

The counts come from the ledger and the final queries.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from psibench.filters.decide import LOCATE, PROPOSE, as_table, single_positions
from psibench.tables.spec import FLOAT64, INT64, STRING, Column, TableSpec
from psibench.text.segments import POSITIONS

POSITION_SHIFT = TableSpec(
    "position_shift",
    (
        Column("stage", STRING, "stage that filters"),
        Column("step", INT64, "position of the stage among the stages; rows are in this order"),
        Column("unit", STRING, "unit of the counts: questions or queries"),
        Column("target_position", STRING, "all (with or without a target), beginning, middle, end"),
        Column("n_entered", INT64, "items that entered"),
        Column("n_kept", INT64, "items kept"),
        Column("share_kept", FLOAT64, "n_kept / n_entered", True),
        Column(
            "share_of_entered", FLOAT64, "share of all targets that entered; null for all", True
        ),
        Column("share_of_kept", FLOAT64, "share of all targets kept; null for all", True),
        Column("shift", FLOAT64, "of the stage: half the sum of absolute share differences", True),
        Column("p_value", FLOAT64, "of the stage: chi-square test that all are kept alike", True),
        Column("min_expected", FLOAT64, "its smallest expected count; below 5 it is rough", True),
    ),
    key=("stage", "unit", "target_position"),
)

QUERY_UNITS = ("questions", "queries")
"""Units of queries and their candidates in FLOW."""
UNPLACED_STAGES = (PROPOSE, LOCATE)
"""PosIR's stages before the position is known: their dropped items have the requested third, their
kept items the located one."""

FilterCounts = tuple[str, str, Sequence[int], Sequence[int]]
"""Stage, unit, items that entered and items kept; each count in total, then by position."""


def position_shift(
    flow: pl.DataFrame, attrition: pl.DataFrame, queries: pl.DataFrame
) -> pl.DataFrame:
    """Return POSITION_SHIFT rows by stage, in order of the steps.

    Takes the FLOW, ATTRITION and QUERIES rows of a benchmark, of one domain or of all. The function
    goes backwards from the final queries: the items that entered a filter are those that it kept
    and those that it dropped. The ledger has one position per item, so a query of two thirds
    (Myopic) counts only at the position of the single-tag rule. An item without a target position
    counts only in the row ``all``. Stages that drop questions before their evidence is located are
    left out, as are counts of documents, chunks and pairs.
    """
    is_placed = ~pl.col("stage").is_in(UNPLACED_STAGES)
    filters = flow.filter(pl.col("unit").is_in(QUERY_UNITS) & is_placed)
    filters = filters.sort("step", maintain_order=True).unique(
        ["stage", "unit"], keep="first", maintain_order=True
    )
    kept = _sizes(single_positions(queries, "pos_char_length"))
    counts: list[FilterCounts] = []
    for name, unit in filters.select("stage", "unit").reverse().iter_rows():
        dropped = _sizes(attrition.filter(stage=name, unit=unit).get_column("target_position"))
        entered = [left + gone for left, gone in zip(kept, dropped, strict=True)]
        counts.append((name, unit, entered, kept))
        kept = entered
    return shift_rows(reversed(counts))


def _sizes(positions: pl.Series) -> list[int]:
    return [len(positions), *(int((positions == name).sum()) for name in POSITIONS)]


def shift_rows(filters: Iterable[FilterCounts]) -> pl.DataFrame:
    """Return POSITION_SHIFT rows of filters, in their order."""
    rows = []
    for step, (filtered_by, unit, entered, kept) in enumerate(filters):
        before, after = _shares(entered), _shares(kept)
        p_value, min_expected = _chi_square(entered, kept)
        pairs = zip(before, after, strict=True)
        changes = [abs(b - a) for a, b in pairs if a is not None and b is not None]
        of_stage = {
            "stage": filtered_by,
            "step": step,
            "unit": unit,
            "shift": sum(changes) / 2 if changes else None,
            "p_value": p_value,
            "min_expected": min_expected,
        }
        for column, name in enumerate(("all", *POSITIONS)):
            rows.append(
                of_stage
                | {
                    "target_position": name,
                    "n_entered": entered[column],
                    "n_kept": kept[column],
                    "share_kept": kept[column] / entered[column] if entered[column] else None,
                    "share_of_entered": before[column],
                    "share_of_kept": after[column],
                }
            )
    return as_table(POSITION_SHIFT, rows)


def _shares(sizes: Sequence[int]) -> list[float | None]:
    """Return shares of the items that have a position; None for all, or if none has one."""
    total = sum(sizes[1:])
    return [None, *(size / total if total else None for size in sizes[1:])]


def _chi_square(entered: Sequence[int], kept: Sequence[int]) -> tuple[float | None, float | None]:
    """Return p of a test for equal shares kept at every position, and the smallest expected count.

    Both are None if nothing was kept, nothing dropped, or only one position has items.
    """
    from scipy.stats import chi2_contingency

    observed = np.array([kept[1:], np.subtract(entered[1:], kept[1:])])
    observed = observed[:, observed.sum(axis=0) > 0]
    if observed.shape[1] < 2 or not observed.sum(axis=1).all():
        return None, None
    test = chi2_contingency(observed, correction=False)
    return float(test.pvalue), float(test.expected_freq.min())
