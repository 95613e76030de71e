"""The columns of PosIR's release, read with the types they are published in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.formats.tabular import NUMBER, SPAN, TEXT, read_parquet, typed_column
from psibench.text.lengths import MOST_CHARS
from psibench.text.segments import POSITIONS

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
    frame = frame.select(
        typed_column(frame, name, kind, path, is_id=name in IDS) for name, kind in kinds.items()
    )
    for name in columns:
        nulls = frame.get_column(name).null_count()
        if nulls:
            raise InputError(f"{path}: column {name} is null in {nulls} of {frame.height} rows")
    if table == "queries":
        _refuse_odd_places(frame, path)
    if "target_position" in frame.columns:
        _refuse_other_positions(frame, path)
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


def _refuse_other_positions(frame: pl.DataFrame, path: Path) -> None:
    odd = frame.filter(~pl.col("target_position").is_in(POSITIONS))
    for query_id, found in odd.select("_id", "target_position").head(1).iter_rows():
        raise InputError(
            f"{path}: query {query_id!r} has target_position {found!r}; allowed: "
            f"{', '.join(POSITIONS)} or null"
        )
