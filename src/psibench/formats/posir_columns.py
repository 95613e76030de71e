"""The columns of PosIR's release, read with the types they are published in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.formats.checks import refuse_odd_spans, refuse_other_positions
from psibench.formats.tabular import (
    NUMBER,
    SPAN,
    SPANS,
    TEXT,
    TEXTS,
    read_parquet,
    typed_column,
)
from psibench.metrics.query_scores import SEVERAL_SPANS
from psibench.text.lengths import MOST_CHARS

COLUMNS: Mapping[str, dict[str, Any]] = {
    "corpus": {"_id": TEXT, "text": TEXT},
    "queries": {
        "_id": TEXT,
        "text": TEXT,
        "pos_char_span": SPAN,
        "pos_char_length": NUMBER,
        "pos_token_length": NUMBER,
    },
    "qrels": {"query-id": TEXT, "corpus-id": TEXT, "score": NUMBER},
}
"""The published columns with the types they are written in."""
FURTHER: Mapping[str, dict[str, Any]] = {
    "queries": {
        "target_position": TEXT,
        "pos_corpus_id": TEXT,
        "pos_translated_char_length": NUMBER,
        "positions": TEXTS,
        SEVERAL_SPANS: SPANS,
    }
}
"""Columns that psibench adds: read where they are there; a value may be null."""
IDS = ("_id", "query-id", "corpus-id", "pos_corpus_id")


def read_columns(path: Path, table: str) -> pl.DataFrame:
    """Read the columns of a table of a release, and those of `FURTHER` that it has.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing or of another type, a published value is
        null (a span of evidence that is several, or known by class alone, may be), or a position
        is none of the three.
    """
    columns, further = COLUMNS[table], FURTHER.get(table, {})
    hint = f"a release's {table} has {', '.join(columns)}"
    frame = read_parquet(path, list(columns), optional=list(further), hint=hint)
    kinds = {name: kind for name, kind in (columns | further).items() if name in frame.columns}
    frame = frame.select(
        typed_column(frame, name, kind, path, is_id=name in IDS) for name, kind in kinds.items()
    )
    elsewhere = [n for n in ("target_position", SEVERAL_SPANS) if n in frame.columns]
    is_elsewhere = pl.any_horizontal(pl.lit(value=False), pl.col(elsewhere).is_not_null())
    for name in columns:
        nulls = frame.filter(
            pl.col(name).is_null(), ~is_elsewhere if name == "pos_char_span" else pl.lit(value=True)
        ).height
        if nulls:
            raise InputError(f"{path}: column {name} is null in {nulls} of {frame.height} rows")
    if table == "queries":
        _refuse_odd_places(frame, path)
        refuse_other_positions(frame, source=str(path))
        refuse_odd_spans(frame, source=str(path), spans_may_overrun=False)
    return frame


def _refuse_odd_places(frame: pl.DataFrame, path: Path) -> None:
    """Refuse spans that are no pair, and lengths that no text has."""
    if (frame.get_column("pos_char_span").list.len() != 2).any():
        raise InputError(f"{path}: a pos_char_span has not two numbers; expected [start, end]")
    for name in (name for name in frame.columns if name.endswith("_length")):
        odd = frame.filter(~pl.col(name).is_between(1, MOST_CHARS))
        for query_id, found in odd.select("_id", name).head(1).iter_rows():
            raise InputError(
                f"{path}: query {query_id!r} has the {name} {found}; allowed: 1 to {MOST_CHARS}"
            )
