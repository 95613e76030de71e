"""The columns of PosIR's release, read with the types they are published in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.formats.tabular import read_parquet
from psibench.text.segments import POSITIONS

TEXT, NUMBER, SPAN = pl.String(), pl.Int64(), pl.List(pl.Int64)
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
        null, or a ``target_position`` is none of the three.
    """
    columns, further = COLUMNS[table], FURTHER.get(table, {})
    hint = f"a release's {table} has {', '.join(columns)}"
    frame = read_parquet(path, list(columns), optional=list(further), hint=hint)
    kinds = {name: kind for name, kind in (columns | further).items() if name in frame.columns}
    frame = frame.select(_typed(frame, name, kind, path) for name, kind in kinds.items())
    for name in columns:
        nulls = frame.get_column(name).null_count()
        if nulls:
            raise InputError(f"{path}: column {name} is null in {nulls} of {frame.height} rows")
    if "target_position" in frame.columns:
        _refuse_other_positions(frame, path)
    return frame


def _refuse_other_positions(frame: pl.DataFrame, path: Path) -> None:
    odd = frame.filter(~pl.col("target_position").is_in(POSITIONS))
    for query_id, found in odd.select("_id", "target_position").head(1).iter_rows():
        raise InputError(
            f"{path}: query {query_id!r} has target_position {found!r}; allowed: "
            f"{', '.join(POSITIONS)} or null"
        )


def _typed(frame: pl.DataFrame, name: str, kind: Any, path: Path) -> pl.Series:
    """Cast a column to its type; numbers serve as ids, and texts never as numbers."""
    column = frame.get_column(name)
    found = column.dtype
    is_text = found in (pl.String, pl.Categorical)
    fits = {
        TEXT: is_text or (found.is_integer() and name in IDS),
        NUMBER: found.is_integer() or _is_whole(column),
        SPAN: isinstance(found, pl.List | pl.Array) and found.inner.is_integer(),
    }
    if not fits[kind] and found != pl.Null:  # a column of nulls alone has no type
        expected = {TEXT: "text", NUMBER: "whole numbers", SPAN: "[start, end] numbers"}
        raise InputError(f"{path}: column {name} is {found}; expected {expected[kind]}")
    cast = column.cast(kind)
    if kind == SPAN and (cast.list.len() != 2).any():
        raise InputError(f"{path}: a {name} has not two numbers; expected [start, end]")
    return cast


def _is_whole(column: pl.Series) -> bool:
    """Say whether floats are whole numbers: some writers store grades so."""
    return column.dtype.is_float() and bool((column.is_finite() & (column == column.round())).all())
