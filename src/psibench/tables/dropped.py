"""Items that a source, a recipe or a stage left out: rows of the ledger of what was dropped."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from psibench.tables.build_schemas import FLOW

DROPPED_SCHEMA = {
    "stage": pl.String,
    "unit": pl.String,
    "item_id": pl.String,
    "doc_id": pl.String,
    "reason": pl.String,
    "detail": pl.String,
    "score": pl.Float64,
    "target_position": pl.String,
    "char_length": pl.Int32,
}
"""The ATTRITION columns that whoever drops an item knows."""


class Dropped(NamedTuple):
    """One item left out; a row of ``DROPPED_SCHEMA``.

    Attributes
    ----------
    stage, unit
        As in FLOW: (stage, unit) joins the item with the counts. ``unit`` is what the item is.
    item_id
        Unique among the items of that unit that the stage drops.
    doc_id
        Document the item belongs to; of a document, its own id.
    reason, detail
        Reason code, and what was found.
    score
        The score the decision was made on.
    target_position
        beginning, middle or end.
    char_length
        Characters in the item's document.
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
    """Make ATTRITION rows of one domain: ``length_bin`` is null, the ledger knows it."""
    return dropped.with_columns(
        length_bin=pl.lit(None, pl.String), language=pl.lit(language), domain=pl.lit(domain)
    )


@dataclass(frozen=True)
class Flow:
    """One count: items of a unit that entered a stage, and those kept; the rest was dropped."""

    unit: str
    entered: int
    kept: int


def flow_frame(stage: str, step: int, counts: Sequence[Flow]) -> pl.DataFrame:
    """Turn counts into FLOW rows."""
    rows = [(stage, step, f.unit, f.entered, f.kept, f.entered - f.kept) for f in counts]
    empty = FLOW.empty()
    return pl.DataFrame(rows, schema=empty.schema, orient="row")
