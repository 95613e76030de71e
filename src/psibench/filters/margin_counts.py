"""Counts of queries by margin: at each threshold, and by length bin.

These are Controlled's tables 6 and 8.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from psibench.filters.decide import as_table
from psibench.tables.spec import FLOAT64, INT64, STRING, Column, TableSpec
from psibench.text.segments import POSITIONS

CountCondition = tuple[str, float | None, pl.Expr]
"""A row of a table of counts: its label, its threshold, and an expression for the queries that
count."""

# Tables.

_CONDITION = (
    Column(
        "condition", STRING, "all, no_margin, failed (below the lowest threshold), m>=threshold"
    ),
    Column("threshold", FLOAT64, "threshold of the condition", True),
)
COUNTS = (
    Column("n", INT64, "queries that meet the condition"),
    Column("share", FLOAT64, "their share of all queries; null without queries", True),
    *(Column(f"n_{name}", INT64, f"n, only queries with target {name}") for name in POSITIONS),
    *(Column(f"share_{name}", FLOAT64, f"n_{name} / n", True) for name in POSITIONS),
)
"""Columns of `count_by_position`."""

MARGIN_TABLE = TableSpec("margin_table", (*_CONDITION, *COUNTS), key=("condition",))

CELL_TABLE = TableSpec(
    "cell_table",
    (
        *_CONDITION,
        Column("length_bin", STRING, "length bin, or all"),
        *(
            Column(f"n_{name}", INT64, f"queries that meet the condition, with target {name}")
            for name in POSITIONS
        ),
        Column("budget", INT64, "smallest cell of the condition; row all: times the bins", True),
    ),
    key=("condition", "length_bin"),
)

# Counts.


def margin_conditions(thresholds: Sequence[float]) -> Iterator[CountCondition]:
    """Yield the conditions of Controlled's table 6: all, no_margin, failed, m>=each threshold."""
    margin = pl.col("margin")
    yield "all", None, pl.lit(True)
    yield "no_margin", None, margin.is_null()
    yield "failed", None, margin < thresholds[0]
    for cut in thresholds:
        yield f"m>={cut:g}", cut, margin >= cut


def count_by_position(
    queries: pl.DataFrame, conditions: Sequence[CountCondition]
) -> Iterator[dict[str, Any]]:
    """Count the queries that meet each condition, by target position (Controlled, table 6).

    ``queries`` has ``targets`` and the columns of the conditions. A query with several targets
    counts at each of its positions, so shares by position may then add up to more than 1.
    """
    for label, threshold, members in conditions:
        targets = queries.filter(members).get_column("targets")
        n, counts = len(targets), _position_counts(targets)
        row: dict[str, Any] = {"condition": label, "threshold": threshold, "n": n, **counts}
        row |= {"share": n / queries.height if queries.height else None}
        yield row | {f"share_{p}": counts[f"n_{p}"] / n if n else None for p in POSITIONS}


def _position_counts(targets: pl.Series) -> dict[str, int]:
    return {f"n_{name}": int(targets.list.contains(name).sum()) for name in POSITIONS}


def count_by_cell(
    queries: pl.DataFrame, conditions: Sequence[CountCondition], *, length_bins: Sequence[str]
) -> pl.DataFrame:
    """Count the queries in every cell of length bin and position (Controlled, table 8).

    ``queries`` has ``targets``, ``length_bin`` and the columns of the conditions.

    Returns
    -------
    CELL_TABLE rows: for each condition one row per bin, in their order, then ``all``. ``budget`` is
    the smallest cell per bin, and the sum over bins in the row all; it is null for conditions
    without a threshold.
    """
    rows = []
    for label, threshold, members in conditions:
        chosen = queries.filter(members)
        cells = {
            name: _position_counts(chosen.filter(length_bin=name)["targets"])
            for name in length_bins
        }
        smallest = min(n for counts in cells.values() for n in counts.values())
        every = chosen.filter(pl.col("length_bin").is_in(length_bins))
        cells["all"] = _position_counts(every["targets"])
        for name, counts in cells.items():
            budget = smallest * len(length_bins) if name == "all" else smallest
            row: dict[str, Any] = {"condition": label, "threshold": threshold, "length_bin": name}
            rows.append({**row, **counts, "budget": budget if threshold is not None else None})
    return as_table(CELL_TABLE, rows)
