"""Does a filter itself shift where the evidence lies? Positions before and after every filter.

An item without a target position is counted in the row ``all`` alone.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from psibench.build.rules.frames import require_columns
from psibench.build.rules.targets import target_mask, targets_of
from psibench.build.shift_table import Counts, Filtered, shift_table
from psibench.errors import InputError
from psibench.generate.posir import LOCATE, PROPOSE
from psibench.text.segments import POSITIONS, tag_posq

QUERY_UNITS = ("questions", "queries")
"""What queries and candidates for them are called in FLOW."""
UNPLACED_STAGES = (PROPOSE, LOCATE)
"""PosIR's: what they drop has the third that was asked for, what they keep the one located."""


def position_shift(
    flow: pl.DataFrame, attrition: pl.DataFrame, queries: pl.DataFrame
) -> pl.DataFrame:
    """Rebuild the positions before and after every filter from what is left and what was dropped.

    It goes backwards from the final queries: what entered a filter is what it kept and what it
    dropped. The ledger has one position per item, so a query of two thirds (Myopic) counts in one,
    that of the single-tag rule. Stages that drop questions before their evidence is located have no
    place of it to compare, and are left aside.

    Parameters
    ----------
    flow, attrition
        FLOW and ATTRITION rows of a benchmark, of one domain or of all; counts of documents,
        chunks and pairs are left aside.
    queries
        QUERIES rows of the same domains.

    Returns
    -------
    POSITION_SHIFT rows by stage, in order of the steps.

    Raises
    ------
    InputError
        If the counts, the dropped items and the queries do not add up.
    """
    require_columns(attrition, ("stage", "unit", "target_position"), "attrition")
    is_placed = ~pl.col("stage").is_in(UNPLACED_STAGES)
    steps = (
        flow.filter(pl.col("unit").is_in(QUERY_UNITS) & is_placed)
        .group_by("stage", "unit", maintain_order=True)
        .agg(pl.col("step").min(), pl.col("entered", "kept", "dropped").sum())
        .sort("step", maintain_order=True)
    )
    kept = _counts(targets_of(_single_tags(queries)))
    found: list[Filtered] = []
    for row in reversed(list(steps.iter_rows(named=True))):
        own = (pl.col("stage") == row["stage"]) & (pl.col("unit") == row["unit"])
        dropped = _listed(attrition.filter(own).get_column("target_position"))
        _refuse_gap(row, kept.n, dropped.n)
        found.append(Filtered(row["stage"], row["unit"], kept + dropped, kept))
        kept = found[-1].entered
    return shift_table(reversed(found))


def _counts(targets: pl.DataFrame) -> Counts:
    return Counts(targets.height, target_mask(targets).sum(axis=0, dtype=np.int64))


def _listed(positions: pl.Series) -> Counts:
    """Count the positions of dropped items; null is none of them."""
    found = [int((positions == name).sum()) for name in POSITIONS]
    return Counts(len(positions), np.array(found, dtype=np.int64))


def _single_tags(queries: pl.DataFrame) -> pl.DataFrame:
    """Give every query one position: its target, or the single tag of its span."""
    columns = ("target_position", "pos_char_span", "pos_char_length")
    found = [
        position or tag_posq(span[0], span[1], n_chars)
        for position, span, n_chars in queries.select(columns).iter_rows()
    ]
    return queries.select("_id", pl.Series("target_position", found, dtype=pl.String))


def _refuse_gap(row: Mapping[str, Any], n_after: int, n_dropped: int) -> None:
    """Raise InputError where FLOW and the items themselves do not agree on a stage."""
    for outcome, found, where in (
        ("kept", n_after, "came after it"),
        ("dropped", n_dropped, "are in the ledger"),
    ):
        if row[outcome] != found:
            raise InputError(
                f"stage {row['stage']}: {row[outcome]} {row['unit']} {outcome} by its counts, but "
                f"{found} {where}; give the counts, the ledger and the queries of the same run "
                "and domains"
            )
