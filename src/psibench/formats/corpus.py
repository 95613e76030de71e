"""Texts of documents, in the layouts of BEIR and PosIR: `_id`, `text`, and in BEIR's a `title`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.formats.suffixes import choose_format
from psibench.formats.tabular import TEXT, read_parquet, typed_column
from psibench.formats.text import read_records
from psibench.metrics.query_scores import name_some
from psibench.reading import identifier, shown, utf8

CORPUS_FORMATS = {"parquet": (".parquet",), "jsonl": (".jsonl", ".jsonl.gz")}
_SCHEMA = {"_id": TEXT, "text": TEXT, "title": TEXT}


def read_texts(paths: Sequence[Path], ids: pl.Series) -> pl.DataFrame:
    """Read some documents of a corpus in one or more files.

    Parameters
    ----------
    ids
        Of the documents wanted.

    Returns
    -------
    (n_ids, 3) frame of `_id`, `text` and `title`; a document without title has null.

    Raises
    ------
    InputError
        If a file is of no known format or lacks a column, a document has no text or several, or is
        in none of the files.
    """
    frames = []
    for path in paths:
        chosen = choose_format(path, None, CORPUS_FORMATS, option="a suffix")
        read = _of_parquet if chosen == "parquet" else _of_jsonl
        frames.append(read(path, ids.unique()))
    found = pl.concat(frames).unique(maintain_order=True)
    named = ", ".join(str(path) for path in paths)
    own = found.get_column("_id")
    for problem, odd in (
        ("documents with two texts", own.filter(own.is_duplicated()).unique()),
        ("documents without a text", own.filter(found.get_column("text").is_null())),
        ("no text of the positives", ids.filter(~ids.is_in(own.implode())).unique()),
    ):
        if len(odd):
            raise InputError(f"{named}: {problem} {name_some(odd)}")
    return found


def _of_parquet(path: Path, ids: pl.Series) -> pl.DataFrame:
    frame = read_parquet(path, ("_id", "text"), optional=("title",))
    if "title" not in frame.columns:
        frame = frame.with_columns(title=pl.lit(None))
    frame = frame.select(
        typed_column(frame, name, kind, path, is_id=name == "_id") for name, kind in _SCHEMA.items()
    )
    return frame.filter(pl.col("_id").is_in(ids.implode()))


def _of_jsonl(path: Path, ids: pl.Series) -> pl.DataFrame:
    wanted = set(ids.to_list())
    rows = []
    for line, record in read_records(path):
        missing = [name for name in ("_id", "text") if name not in record]
        if missing:
            raise InputError(
                f"{path}, line {line}: missing {', '.join(missing)}; found "
                f"{', '.join(record) or 'nothing'}"
            )
        where = f"{path}, line {line}"
        if identifier(record["_id"], where=where, column="_id") in wanted:
            rows.append({"_id": str(record["_id"]), **_texts(record, where)})
    return pl.DataFrame(rows, schema=_SCHEMA)


def _texts(record: dict[str, Any], where: str) -> dict[str, str | None]:
    """Return text and title; null where there is none."""
    found: dict[str, str | None] = {}
    for name in ("text", "title"):
        value = record.get(name)
        if not isinstance(value, str | None):
            raise InputError(f"{where}: {name} is {shown(value)}; expected text")
        found[name] = None if value is None else utf8(value, where=where, column=name)
    return found
