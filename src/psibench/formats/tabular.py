"""Named columns out of Parquet, CSV, TSV and JSON Lines files."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from psibench.errors import InputError
from psibench.formats.text import number, read_delimited, read_records


def read_parquet(
    path: Path, columns: Sequence[str], *, optional: Sequence[str] = (), hint: str = ""
) -> pl.DataFrame:
    """Read columns of a Parquet file, and those of `optional` that it has.

    Raises InputError if it is no sound Parquet file or lacks a column; `hint` ends that message.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        file = pq.ParquetFile(path)
        found = file.schema_arrow.names
        _refuse_missing(columns, found, str(path), hint=hint)
        wanted = [*columns, *(name for name in optional if name in found)]
        return pl.DataFrame(pl.from_arrow(file.read(columns=wanted).select(wanted)))
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{path}: not a readable Parquet file, maybe truncated ({error})"
        ) from error


def read_scored_pairs(
    path: Path, table_format: str, columns: tuple[str, str, str], *, optional: Sequence[str] = ()
) -> pl.DataFrame:
    """Read (query id, document id, number) under the given column names, in file order.

    Ids come back as String, the number as it is stored (Parquet) or as Float64; of the `optional`
    columns those that the file has, as they are. `table_format` is parquet or a key of
    `TEXT_FORMATS`.
    """
    query, doc, score = columns
    if table_format == "parquet":
        frame = read_parquet(path, columns, optional=optional)
        if not frame.schema[score].is_numeric():
            raise InputError(f"{path}: {score} is {frame.schema[score]}; expected numbers")
        return frame.with_columns(pl.col(query, doc).cast(pl.String))
    queries, docs, scores = [], [], []
    more: dict[str, list[str | None]] = {name: [] for name in optional}
    for line, record in TEXT_FORMATS[table_format](path):
        _refuse_missing(columns, list(record), f"{path}, line {line}")
        queries.append(_identifier(record[query], path, line, query))
        docs.append(_identifier(record[doc], path, line, doc))
        scores.append(number(record[score], where=f"{path}, line {line}", column=score))
        for name, values in more.items():
            value = record.get(name)
            values.append(None if value is None else str(value))
    schema = {query: pl.String, doc: pl.String, score: pl.Float64}
    frame = pl.DataFrame({query: queries, doc: docs, score: scores}, schema=schema)
    found = {name: values for name, values in more.items() if any(v is not None for v in values)}
    return frame.with_columns(pl.Series(name, v, dtype=pl.String) for name, v in found.items())


def _identifier(value: Any, path: Path, line: int, column: str) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise InputError(f"{path}, line {line}: {column} is {value!r}; expected an id")


def _refuse_missing(
    columns: Sequence[str], found: Sequence[str], where: str, *, hint: str = ""
) -> None:
    missing = [name for name in columns if name not in found]
    if missing:
        listed = f"missing columns {', '.join(missing)}; found {', '.join(found) or 'none'}"
        raise InputError(f"{where}: {listed}{'; ' + hint if hint else ''}")


def _csv(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    return read_delimited(path, ",")


def _tsv(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    return read_delimited(path, "\t")


TEXT_FORMATS: dict[str, Callable[[Path], Iterator[tuple[int, dict[str, Any]]]]] = {
    "csv": _csv,
    "tsv": _tsv,
    "jsonl": read_records,
}
