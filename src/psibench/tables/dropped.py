"""Dropped items and counts: what sources, recipes and stages leave out, with reasons."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from psibench.errors import InputError
from psibench.reading import shown
from psibench.tables.build_schemas import FLOW
from psibench.tables.domains import OfDomain, TablePath
from psibench.tables.io import read_table
from psibench.tables.schemas import ATTRITION
from psibench.tables.spec import TableSpec

logger = logging.getLogger("psibench")

OnEmpty = Literal["drop", "fail"]
"""How to treat a language and domain without queries (`leave_empty`)."""
DROPPED_SCHEMA = {
    name: kind
    for name, kind in ATTRITION.empty().schema.items()
    if name not in ("length_bin", "language", "domain")
}
"""The ATTRITION columns, except the columns that the ledger adds."""


class Dropped(NamedTuple):
    """One dropped item: a row of ``DROPPED_SCHEMA``, whose columns ATTRITION describes.

    ``stage`` and ``unit`` join the item with the counts in FLOW. ``item_id`` is unique among the
    items of that unit that the stage drops.
    """

    stage: str
    unit: str
    item_id: str
    doc_id: str | None
    reason: str
    detail: str | None = None
    score: float | None = None
    target_position: str | None = None
    char_length: int | None = None


def dropped_frame(rows: Iterable[Dropped] = ()) -> pl.DataFrame:
    """Make a frame of ``DROPPED_SCHEMA`` from dropped items."""
    return pl.DataFrame(list(rows), schema=DROPPED_SCHEMA, orient="row")


def as_attrition(dropped: pl.DataFrame, *, language: str, domain: str) -> pl.DataFrame:
    """Make ATTRITION rows of one domain; the ledger fills in ``length_bin``."""
    return dropped.with_columns(
        length_bin=pl.lit(None, pl.String), language=pl.lit(language), domain=pl.lit(domain)
    )


@dataclass(frozen=True)
class Flow:
    """One count: items of a unit that entered a stage and that it kept; it dropped the rest."""

    unit: str
    entered: int
    kept: int


def flow_of(unit: str, n_kept: int, dropped: pl.DataFrame) -> Flow:
    """Count a unit: ``n_kept`` items and the dropped rows of that unit."""
    return Flow(unit, n_kept + dropped.filter(pl.col("unit") == unit).height, n_kept)


def flow_frame(stage: str, step: int, counts: Sequence[Flow]) -> pl.DataFrame:
    """Turn counts into FLOW rows."""
    rows = [(stage, step, f.unit, f.entered, f.kept, f.entered - f.kept) for f in counts]
    empty = FLOW.empty()
    return pl.DataFrame(rows, schema=empty.schema, orient="row")


def reasons_text(dropped: pl.DataFrame) -> str:
    """Count dropped items by reason, most frequent first, each with one example."""
    counts = dropped.group_by("reason", maintain_order=True).agg(
        pl.len().alias("n"), pl.col("detail").drop_nulls().first()
    )
    return ", ".join(
        f"{reason} {n}" + (f" (e.g. {shown(detail)})" if detail else "")
        for reason, n, detail in counts.sort("n", descending=True, maintain_order=True).iter_rows()
    )


def steps_text(flow: pl.DataFrame, dropped: pl.DataFrame) -> str:
    """List entered -> kept of each step of a domain, up to the first that kept nothing.

    ``flow`` and ``dropped`` are the domain's FLOW and ATTRITION rows. The last step listed has its
    reasons if it kept nothing.
    """
    steps = []
    for row in flow.sort("step", maintain_order=True).iter_rows(named=True):
        steps.append(f"{row['stage']} {row['entered']} -> {row['kept']} {row['unit']}")
        if row["entered"] and not row["kept"]:
            reasons = reasons_text(dropped.filter(stage=row["stage"], unit=row["unit"]))
            steps[-1] += f" ({reasons})"
            break
    return ", ".join(steps)


def where_nothing_was_left(table: TablePath) -> str:
    """List the steps before a table that has no rows, from the tables in its folder."""
    domain = table.domain if isinstance(table, OfDomain) else None
    folder = Path(table).parent

    def stacked(kind: str, spec: TableSpec) -> pl.DataFrame:
        paths = map(str, sorted(folder.rglob(f"*.{kind}.parquet")))  # a folder has shards
        return pl.concat(
            [
                spec.empty(),
                *(read_table(p if domain is None else OfDomain(p, domain), spec) for p in paths),
            ],
            how="diagonal",
        )

    keys = ["stage", "step", "unit"]
    counts = stacked("flow", FLOW).group_by(keys, maintain_order=True)
    flow = counts.agg(pl.col("entered", "kept").sum())
    steps = steps_text(flow, stacked("dropped", ATTRITION)) or "no step has counted its items"
    return f"entered -> kept of each step: {steps}. See the rows in {folder}/*.dropped.parquet"


def leave_empty(problem: str, on_empty: OnEmpty) -> None:
    """Log that a language and domain has no queries left; with ``fail``, raise.

    The step then writes empty tables for the domain. Later steps skip it, and the result tables
    have no row for it.

    Raises
    ------
    InputError
        With ``fail``: ``problem``, and how to go on without the domain.
    """
    if on_empty == "fail":
        raise InputError(f"{problem} (on_empty: fail)")
    logger.warning("%s. The domain is left out in this language (on_empty: drop)", problem)
