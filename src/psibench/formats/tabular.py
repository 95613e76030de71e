"""Rows out of files: which format a file is in, named columns of tables, lines of TREC files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from psibench.errors import InputError
from psibench.formats.text import read_delimited, read_lines, read_records
from psibench.reading import identifier, number, require_file


def choose_format(
    path: Path, named: str | None, known: Mapping[str, tuple[str, ...]], *, option: str
) -> str:
    """Return the format's name.

    Parameters
    ----------
    path : the file; its longest matching suffix decides when no format is named.
    named : a key of `known`, or None.
    known : format -> suffixes, lower case; none where a format is recognised by its content.
    option : what a message tells the user to set.

    Raises
    ------
    InputError
        If the named format or the suffix is not known.
    """
    if named is not None:
        if named not in known:
            raise InputError(f"{option} {named!r}; supported: {', '.join(known)}")
        return named
    name = path.name.lower()
    matches = [(s, kind) for kind, suffixes in known.items() for s in suffixes if name.endswith(s)]
    if not matches:
        listed = "; ".join(f"{kind} ({' '.join(found)})" for kind, found in known.items() if found)
        raise InputError(f"{path}: no format has this suffix; set {option}. Supported: {listed}")
    return max(matches, key=lambda match: len(match[0]))[1]


def stem(path: Path) -> str:
    """Return the file's name without .gz and without its last suffix."""
    return Path(path.name.removesuffix(".gz")).stem


def read_parquet(
    path: Path,
    columns: Sequence[str],
    *,
    optional: Sequence[str] = (),
    also: Mapping[str, Sequence[str]] | None = None,
    hint: str = "",
) -> pl.DataFrame:
    """Read columns of a Parquet file, and those of `optional` that it has.

    `also` : other names that a column may have in the file.

    Raises InputError if it is no sound Parquet file, lacks a column, has it twice, or holds text
    that is not UTF-8; `hint` ends the message about missing columns.
    """
    require_file(path, expected="a Parquet file")
    try:
        file = pq.ParquetFile(path)
        found = file.schema_arrow.names
        names = _names_in(found, columns, also or {}, str(path), hint=hint)
        wanted = [*names, *(name for name in optional if name in found)]
        if twice := [name for name in wanted if found.count(name) > 1]:
            raise InputError(f"{path}: columns that occur twice: {', '.join(twice)}")
        table = file.read(columns=wanted).select(wanted)
        table.validate(full=True)
        return pl.DataFrame(pl.from_arrow(table)).rename(names)
    except (OSError, pa.ArrowException, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"{path}: not a readable Parquet file, maybe truncated ({error})"
        ) from error


TEXT, NUMBER, SPAN = pl.String(), pl.Int64(), pl.List(pl.Int64)
TEXTS, SPANS = pl.List(pl.String), pl.List(SPAN)


def typed_column(
    frame: pl.DataFrame, name: str, kind: Any, path: Path, *, is_id: bool = False
) -> pl.Series:
    """Cast a column to its type, without loss: never a text to a number, a float only if whole.

    ``kind`` is `TEXT`, `NUMBER`, `SPAN` or a list of texts or spans; whole numbers serve as ids.

    Raises
    ------
    InputError
        If the column is of another kind, or a value does not fit.
    """
    column = frame.get_column(name)
    found = column.dtype
    is_text = found in (pl.String, pl.Categorical) or isinstance(found, pl.Enum)
    fits = {
        TEXT: is_text or (found.is_integer() and is_id),
        NUMBER: _is_whole(column),
        SPAN: _is_list(column) and _is_whole(column.explode()),
        TEXTS: _is_list(column) and column.explode().dtype in (pl.String, pl.Null),
        SPANS: _is_list(column)
        and _is_list(column.explode())
        and _is_whole(column.explode().explode()),
    }
    if not fits[kind] and found != pl.Null:  # a column of nulls alone has no type
        expected = {
            TEXT: "text",
            NUMBER: "whole numbers",
            SPAN: "[start, end] whole numbers",
            TEXTS: "lists of texts",
            SPANS: "lists of [start, end] whole numbers",
        }
        raise InputError(f"{path}: column {name} is {found}; expected {expected[kind]}")
    try:
        return column.cast(kind)
    except pl.exceptions.PolarsError as error:  # beyond 2^63
        raise InputError(f"{path}: column {name}: {str(error).splitlines()[0]}") from error


def _is_whole(column: pl.Series) -> bool:
    """Say whether numbers are whole: some writers store them as floats."""
    if column.dtype.is_integer():
        return True
    return column.dtype.is_float() and bool((column.is_finite() & (column == column.round())).all())


def _is_list(column: pl.Series) -> bool:
    return isinstance(column.dtype, pl.List | pl.Array)


def read_scored_pairs(
    path: Path,
    table_format: str,
    columns: Mapping[str, Sequence[str]],
    *,
    optional: Sequence[str] = (),
) -> pl.DataFrame:
    """Read (query id, document id, number) of a table, in file order.

    Ids come back as String, the number as it is stored (Parquet) or as Float64; of the `optional`
    columns those that the file has, as they are.

    Parameters
    ----------
    table_format : parquet or a key of `TEXT_FORMATS`.
    columns : the three columns as they come back, each with the other names it may have in a file.
    """
    query, doc, score = columns
    if table_format == "parquet":
        frame = read_parquet(path, list(columns), optional=optional, also=columns)
        if not frame.schema[score].is_numeric():
            raise InputError(f"{path}: {score} is {frame.schema[score]}; expected numbers")
        return frame.with_columns(
            typed_column(frame, name, TEXT, path, is_id=True) for name in (query, doc)
        )
    values: dict[str, list[Any]] = {name: [] for name in columns}
    more: dict[str, list[str | None]] = {name: [] for name in optional}
    names: dict[str, str] = {}
    for line, record in TEXT_FORMATS[table_format](path):
        where = f"{path}, line {line}"
        if not names.keys() <= record.keys() or not names:
            names = _names_in(list(record), list(columns), columns, where)
        for own, name in names.items():
            read = number if name == score else identifier
            values[name].append(read(record[own], where=where, column=own))
        for name, found in more.items():
            value = record.get(name)
            found.append(None if value is None else str(value))
    schema = {query: pl.String, doc: pl.String, score: pl.Float64}
    frame = pl.DataFrame(values, schema=schema)
    present = {name: found for name, found in more.items() if any(v is not None for v in found)}
    return frame.with_columns(pl.Series(name, v, dtype=pl.String) for name, v in present.items())


def _names_in(
    found: Sequence[str],
    columns: Sequence[str],
    also: Mapping[str, Sequence[str]],
    where: str,
    *,
    hint: str = "",
) -> dict[str, str]:
    """Return what each of the columns is called in a file: its name there -> ours, in our order."""
    names, missing = {}, []
    for column in columns:
        own = [name for name in dict.fromkeys((column, *also.get(column, ()))) if name in found]
        if len(own) > 1:
            raise InputError(
                f"{where}: {' and '.join(own)} are names of one column, {column}; leave one"
            )
        if not own:
            missing.append(column)
        else:
            names[own[0]] = column
    if missing:
        listed = f"missing columns {', '.join(missing)}; found {', '.join(found) or 'none'}"
        other = [f"{c} may be called {', '.join(also[c])}" for c in missing if also.get(c)]
        raise InputError("; ".join([f"{where}: {listed}", *other, *([hint] if hint else [])]))
    return names


TEXT_FORMATS: dict[str, Callable[[Path], Iterator[tuple[int, dict[str, Any]]]]] = {
    "csv": partial(read_delimited, delimiter=","),
    "tsv": partial(read_delimited, delimiter="\t"),
    "jsonl": read_records,
}


def nested_pairs(content: Mapping[str, Any], columns: Sequence[str], where: str) -> pl.DataFrame:
    """Return ``{query id: {document id: number}}`` as rows of the three columns named."""
    queries, docs, values = [], [], []
    for query_id, ranking in content.items():
        name = identifier(query_id, where=where, column="a query id")
        if not isinstance(ranking, Mapping):
            raise InputError(
                f"{where}, query {query_id!r}: {type(ranking).__name__}, expected "
                "{document id: score}"
            )
        for doc_id, value in ranking.items():
            queries.append(name)
            docs.append(identifier(doc_id, where=where, column="a document id"))
            values.append(number(value, where=f"{where}, query {query_id!r}", column=repr(doc_id)))
    schema = dict(zip(columns, (pl.String, pl.String, pl.Float64), strict=True))
    return pl.DataFrame([queries, docs, values], schema=schema)


# --- files without a header: TREC's and MS MARCO's, plain or gzipped

RUN_FIELDS = ("query id", "Q0", "document id", "rank", "score", "run name")
QRELS_FIELDS = ("query id", "0", "document id", "grade")
MSMARCO_FIELDS = ("query id", "document id", "rank")


def read_trec_run(path: Path) -> pl.DataFrame:
    """Read a TREC run: columns query_id, doc_id, rank (String), score (Float64), in file order.

    As in trec_eval, the order is that of the scores; the rank is text and may be anything.
    """
    return _read_fields(path, RUN_FIELDS, {"query_id": 0, "doc_id": 2, "rank": 3, "score": 4})


def read_trec_qrels(path: Path) -> pl.DataFrame:
    """Read TREC qrels: columns query-id, corpus-id (String) and score (Float64), in file order."""
    return _read_fields(path, QRELS_FIELDS, {"query-id": 0, "corpus-id": 2, "score": 3})


def read_msmarco_run(path: Path) -> pl.DataFrame:
    """Read a run as MS MARCO's evaluation takes it: columns query_id, doc_id and score (Float64).

    It has ranks and no scores: a document's score is its rank, negative.
    """
    found = _read_fields(path, MSMARCO_FIELDS, {"query_id": 0, "doc_id": 1, "score": 2})
    return found.with_columns(-pl.col("score"))


def is_headerless(path: Path, expected: Sequence[str]) -> bool:
    """Whether the first line of a file has these many fields, and a whole number as the last."""
    fields = next((text.split() for _, text in read_lines(path) if text.strip()), [])
    return len(fields) == len(expected) and fields[-1].removeprefix("-").isdecimal()


def _read_fields(path: Path, expected: Sequence[str], places: dict[str, int]) -> pl.DataFrame:
    """Read columns at their places between spaces and tabs; ``score`` is a number."""
    found: dict[str, list[Any]] = {name: [] for name in places}
    for line, text in read_lines(path):
        fields = [field for field in text.replace("\t", " ").split(" ") if field]
        if fields and len(fields) != len(expected):
            raise InputError(
                f"{path}, line {line}: {len(fields)} columns, expected {len(expected)} "
                f"({', '.join(expected)}) between spaces or tabs"
            )
        for name, place in places.items() if fields else ():
            value: Any = fields[place]
            if name == "score":
                value = number(value, where=f"{path}, line {line}", column=expected[place])
            found[name].append(value)
    schema = {name: pl.Float64 if name == "score" else pl.String for name in places}
    return pl.DataFrame(found, schema=schema)
