"""Where the evidence is before and after every filter of a benchmark, and whether one shifts it.

Counted from the ledger and the queries that are left.
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
        Column("step", INT64, "place of the stage among the others; rows are in this order"),
        Column("unit", STRING, "what is counted: questions or queries"),
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
"""What queries and candidates for them are called in FLOW."""
UNPLACED_STAGES = (PROPOSE, LOCATE)
"""PosIR's: what they drop has the third that was asked for, what they keep the one located."""

Filtered = tuple[str, str, Sequence[int], Sequence[int]]
"""One filter: stage, unit, what entered it and what it kept, each in all, then by position."""


def position_shift(
    flow: pl.DataFrame, attrition: pl.DataFrame, queries: pl.DataFrame
) -> pl.DataFrame:
    """Rebuild the positions before and after every filter from what is left and what was dropped.

    It goes backwards from the final queries: what entered a filter is what it kept and what it
    dropped. The ledger has one position per item, so a query of two thirds (Myopic) counts in one,
    that of the single-tag rule. An item without a target position is counted in the row ``all``
    alone. Stages that drop questions before their evidence is located have no place of it to
    compare, and are left out.

    Takes the FLOW, ATTRITION and QUERIES rows of a benchmark, of one domain or of all; counts of
    documents, chunks and pairs are left out. Returns POSITION_SHIFT rows by stage, in order of
    the steps.
    """
    is_placed = ~pl.col("stage").is_in(UNPLACED_STAGES)
    filters = flow.filter(pl.col("unit").is_in(QUERY_UNITS) & is_placed)
    filters = filters.sort("step", maintain_order=True).unique(
        ["stage", "unit"], keep="first", maintain_order=True
    )
    kept = _sizes(single_positions(queries, "pos_char_length"))
    found: list[Filtered] = []
    for name, unit in filters.select("stage", "unit").reverse().iter_rows():
        dropped = _sizes(attrition.filter(stage=name, unit=unit).get_column("target_position"))
        entered = [left + gone for left, gone in zip(kept, dropped, strict=True)]
        found.append((name, unit, entered, kept))
        kept = entered
    return shift_table(reversed(found))


def _sizes(positions: pl.Series) -> list[int]:
    return [len(positions), *(int((positions == name).sum()) for name in POSITIONS)]


def shift_table(filters: Iterable[Filtered]) -> pl.DataFrame:
    """Make POSITION_SHIFT rows of filters, in their order."""
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
        for place, name in enumerate(("all", *POSITIONS)):
            rows.append(
                of_stage
                | {
                    "target_position": name,
                    "n_entered": entered[place],
                    "n_kept": kept[place],
                    "share_kept": kept[place] / entered[place] if entered[place] else None,
                    "share_of_entered": before[place],
                    "share_of_kept": after[place],
                }
            )
    return as_table(POSITION_SHIFT, rows)


def _shares(sizes: Sequence[int]) -> list[float | None]:
    """Divide by the items that have a position; null for all items, and where none has one."""
    total = sum(sizes[1:])
    return [None, *(size / total if total else None for size in sizes[1:])]


def _chi_square(entered: Sequence[int], kept: Sequence[int]) -> tuple[float | None, float | None]:
    """Test that the share kept is the same at every position: p and the smallest expected count.

    There is no test if nothing was kept, nothing dropped, or only one position has items.
    """
    from scipy.stats import chi2_contingency

    observed = np.array([kept[1:], np.subtract(entered[1:], kept[1:])])
    observed = observed[:, observed.sum(axis=0) > 0]
    if observed.shape[1] < 2 or not observed.sum(axis=1).all():
        return None, None
    test = chi2_contingency(observed, correction=False)
    return float(test.pvalue), float(test.expected_freq.min())
