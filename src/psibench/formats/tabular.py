"""Rows of files: the format of a file, and typed columns of tables and lines."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from psibench.errors import InputError
from psibench.lines import read_delimited, read_lines, read_records
from psibench.reading import identifier, parse_number, require_file, shown, utf8, whole_number


def choose_format(
    path: Path, known: Mapping[str, tuple[str, ...]], *, named: str | None = None, hint: str = ""
) -> str:
    """Return `named`, or the format of the file's longest matching suffix if it is None.

    `known` : format -> suffixes, lower case; empty if a format is recognised by its content. `hint`
    : advice at the end of a message about an unknown suffix.

    Raises InputError if the format or the suffix is not known, or the path is a folder.
    """
    if named is not None:
        if named not in known:
            raise InputError(f"{path}: unknown format {named!r}; supported: {', '.join(known)}")
        return named
    name = path.name.lower()
    matches = [(s, kind) for kind, suffixes in known.items() for s in suffixes if name.endswith(s)]
    if not matches and path.is_dir():
        raise InputError(f"{path}: a folder, expected a file")
    if not matches:
        listed = "; ".join(f"{kind} ({' '.join(found)})" for kind, found in known.items() if found)
        raise InputError(f"{path}: unknown suffix{hint}. Supported: {listed}")
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
    own_first: bool = False,
    hint: str = "",
) -> pl.DataFrame:
    """Read columns of a Parquet file, and the `optional` columns that it has.

    `also` : other names that a column may have in the file. With `own_first` they are used only if
    the file lacks the column's own name; otherwise several names are an error.

    Raises InputError if it is not a sound Parquet file, lacks a column, has it twice, or has text
    that is not UTF-8; `hint` ends the message about missing columns.
    """
    require_file(path, expected="a Parquet file")
    try:
        file = pq.ParquetFile(path)
        present = file.schema_arrow.names
        names = _names_in(present, columns, also or {}, str(path), own_first=own_first, hint=hint)
        wanted = [*names, *(name for name in optional if name in present)]
        if twice := [name for name in wanted if present.count(name) > 1]:
            raise InputError(
                f"{path}: columns that occur twice: {', '.join(twice)}; rename or remove them"
            )
        table = file.read(columns=wanted).select(wanted)
        table.validate(full=True)
        columns = [_as_polars_reads(column) for column in table.columns]
        bare = pa.table(columns, names=table.column_names)  # drops metadata, which may be invalid
        return pl.DataFrame(pl.from_arrow(bare)).rename(names)
    except pl.exceptions.PanicException as error:
        types = ", ".join(f"{field.name} {field.type}" for field in table.schema)
        raise InputError(f"{path}: columns of unsupported types: {types}") from error
    except (OSError, pa.ArrowException, pl.exceptions.PolarsError) as error:
        problem = " ".join(str(error).split())  # several lines if a page is damaged
        raise InputError(
            f"{path}: not a readable Parquet file, maybe truncated ({problem})"
        ) from error


def _as_polars_reads(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Convert the two Arrow types that polars lacks: list views and wide decimals."""
    if pa.types.is_decimal256(column.type):
        return column.cast(pa.float64())
    return pa.array(column.to_pylist()) if "list_view" in str(column.type) else column


TABLE_FORMATS = {"parquet": (".parquet",), "jsonl": (".jsonl", ".jsonl.gz")}
TEXT, NUMBER, SPAN = pl.String(), pl.Int64(), pl.List(pl.Int64)
TEXTS, SPANS = pl.List(pl.String), pl.List(SPAN)
_Whole = Annotated[int, Field(gt=-(2**63), lt=2**63)]
_Span = Annotated[list[_Whole], Field(min_length=2, max_length=2)]
COLUMN_KINDS: dict[Any, tuple[str, int, Any]] = {
    TEXT: ("text", 0, str),
    NUMBER: ("whole numbers", 0, _Whole),
    SPAN: ("[start, end] whole numbers", 1, _Span),
    TEXTS: ("lists of texts", 1, list[str]),
    SPANS: ("lists of [start, end] whole numbers", 2, list[_Span]),
}
"""Type of a column -> its name in messages, the depth of its lists, its type in JSON."""
_JSON_TYPES = {
    kind: TypeAdapter(of_json, config=ConfigDict(strict=True))
    for kind, (_, _, of_json) in COLUMN_KINDS.items()
}
ID_COLUMNS = ("_id", "query-id", "corpus-id", "pos_corpus_id", "query_id", "doc_id")
"""Columns with ids of documents or queries, in any table of a dataset."""


def read_typed_columns(
    path: Path,
    columns: Mapping[str, Any],
    *,
    further: Mapping[str, Any],
    also: Mapping[str, Sequence[str]] | None = None,
    hint: str = "",
) -> pl.DataFrame:
    """Read columns of a table in their types, and the ``further`` columns that it has.

    The table is a Parquet or JSON Lines file; a record may have fields in its ``metadata``.
    ``also``: other names that a missing column may have.

    Raises InputError if a column is missing or has another type, with ``hint`` at the end.
    """
    kinds, also = {**columns, **further}, also or {}
    if choose_format(path, TABLE_FORMATS) == "parquet":
        frame = read_parquet(
            path, list(columns), optional=list(further), also=also, own_first=True, hint=hint
        )
        _refuse_misspelt(pq.read_schema(path).names, kinds, path)
        return frame.select(typed_column(frame, name, kinds[name], path) for name in frame.columns)
    rows, present = [], dict[str, None]()
    for line, record in read_records(path):
        where, metadata = f"{path}, line {line}", record.get("metadata")
        known = {**metadata, **record} if isinstance(metadata, dict) else record
        if not columns.keys() <= known.keys():
            fields = list(known)
            names = _names_in(fields, list(columns), also, where, own_first=True, hint=hint)
            known = {names.get(name, name): value for name, value in known.items()}
        present |= dict.fromkeys(known)
        rows.append({name: _field(known.get(name), name, kinds[name], where) for name in kinds})
    _refuse_misspelt(present, kinds, path)
    schema = pl.DataFrame(schema=kinds).to_arrow().schema
    frame = pl.DataFrame(pa.Table.from_pylist(rows, schema=schema))  # twice as fast for lists
    return frame.drop(name for name in further if rows and not frame.get_column(name).count())


def _refuse_misspelt(present: Collection[str], known: Collection[str], path: Path) -> None:
    """Raise InputError if a column's name is nearly a known one, since it would be ignored."""
    lacking = [name for name in known if "_" in name[1:] and name not in present]
    for name in present:
        if name not in known and (near := get_close_matches(name, lacking, n=1, cutoff=0.85)):
            raise InputError(
                f"{path}: unknown column {name!r}; did you mean {near[0]}? Rename or remove it"
            )


def typed_column(frame: pl.DataFrame, name: str, kind: Any, path: Path) -> pl.Series:
    """Cast a column to its type without loss: never a text to a number, a float only if whole.

    ``kind`` is a key of `COLUMN_KINDS`; whole numbers may be ids. Raises InputError if the column
    has another kind, or a value does not fit.
    """
    column = inner = frame.get_column(name)
    expected, depth, _ = COLUMN_KINDS[kind]
    for _ in range(depth):
        is_list = isinstance(inner.dtype, pl.List | pl.Array)
        inner = inner.explode() if is_list else pl.Series([[]])  # fits no kind
    dtype = inner.dtype
    if kind in (TEXT, TEXTS):
        fits = dtype in (pl.String, pl.Categorical) or isinstance(dtype, pl.Enum)
        fits |= dtype.is_integer() and name in ID_COLUMNS
        fits |= dtype == pl.Null and depth > 0
    else:  # some writers store whole numbers as floats
        fits = dtype.is_integer() or (
            dtype.is_float() and bool((inner.is_finite() & (inner == inner.round())).all())
        )
    if not fits and column.dtype != pl.Null:  # a column of only nulls has no type
        raise InputError(f"{path}: column {name} is {column.dtype}; expected {expected}")
    try:
        return column.cast(kind)
    except pl.exceptions.PolarsError as error:  # beyond 2^63
        raise InputError(f"{path}: column {name}: {str(error).splitlines()[0]}") from error


def _field(value: Any, name: str, kind: Any, where: str) -> Any:
    """Return a value or null of a JSON record; raise InputError if it is not of ``kind``."""
    if value is None:
        return None
    if name in ID_COLUMNS:
        return identifier(value, where=where, column=name)
    try:
        _JSON_TYPES[kind].validate_python(value)
    except ValidationError as error:
        expected = COLUMN_KINDS[kind][0]
        raise InputError(f"{where}: {name} is {shown(value)}; expected {expected}") from error
    for text in {TEXT: [value], TEXTS: value}.get(kind, ()):
        utf8(text, where=where, column=name)
    return value


# --- Pairs of a query and a document with a number: runs and qrels -------------------------------


def read_scored_pairs(
    path: Path,
    table_format: str,
    columns: Mapping[str, Sequence[str]],
    *,
    optional: Sequence[str] = (),
    headerless: Mapping[str, Sequence[str]] | None = None,
    hint: str = "",
) -> pl.DataFrame:
    """Read (query id, document id, number) of a table, in file order.

    Ids are returned as String, numbers with their type in the file (Parquet) or as Float64.
    `optional` columns are returned unchanged if the file has them.

    Parameters
    ----------
    table_format : parquet, a key of `TEXT_FORMATS` or of `headerless`.
    columns : the three columns to return, each with the other names it may have in a file.
    headerless : formats without a header, plain or gzipped -> the fields of a line.
    hint : as in `read_parquet`.
    """
    query, doc, score = columns
    if table_format == "parquet":
        frame = read_parquet(path, list(columns), optional=optional, also=columns, hint=hint)
        if not frame.schema[score].is_numeric():
            raise InputError(f"{path}: {score} is {frame.schema[score]}; expected numbers")
        return frame.with_columns(typed_column(frame, name, TEXT, path) for name in (query, doc))
    if headerless and table_format in headerless:
        return _read_fields(path, headerless[table_format], columns, optional)
    values: dict[str, list[Any]] = {name: [] for name in (*columns, *optional)}
    names: dict[str, str] = {}
    for line, record in TEXT_FORMATS[table_format](path):
        where = f"{path}, line {line}"
        if not names.keys() <= record.keys() or not names:
            names = _names_in(list(record), list(columns), columns, where, hint=hint)
        for field, name in names.items():
            read = parse_number if name == score else identifier
            values[name].append(read(record[field], where=where, column=field))
        for name in optional:
            value = record.get(name)
            values[name].append(None if value is None else str(value))
    frame = pl.DataFrame(values, dict.fromkeys(values, pl.String) | {score: pl.Float64})
    return frame.drop(name for name in optional if not frame.get_column(name).count())


def _names_in(
    present: Sequence[str],
    columns: Sequence[str],
    also: Mapping[str, Sequence[str]],
    where: str,
    *,
    own_first: bool = False,
    hint: str = "",
) -> dict[str, str]:
    """Return the name of each column in a file -> its name in ``columns``, in that order."""
    names, missing = {}, []
    for column in columns:
        used = [name for name in dict.fromkeys((column, *also.get(column, ()))) if name in present]
        if len(used) > 1 and not (own_first and used[0] == column):
            raise InputError(
                f"{where}: {' and '.join(used)} both mean the column {column}; remove one of them"
            )
        if used:
            names[used[0]] = column
        else:
            missing.append(column)
    if missing:
        listed = f"missing columns {', '.join(missing)}; found {', '.join(present) or 'none'}"
        other = [f"{c} may be called {', '.join(also[c])}" for c in missing if also.get(c)]
        raise InputError("; ".join([f"{where}: {listed}", *other, *([hint] if hint else [])]))
    return names


TEXT_FORMATS: dict[str, Callable[[Path], Iterator[tuple[int, dict[str, Any]]]]] = {
    "csv": partial(read_delimited, delimiter=","),
    "tsv": partial(read_delimited, delimiter="\t"),
    "jsonl": read_records,
}


COMMENT = r"^[ \t]*#"
BLOCK_LINES = 1 << 17
"""Lines without a header that are split at once."""


def _read_fields(
    path: Path,
    expected: Sequence[str],
    columns: Mapping[str, Sequence[str]],
    optional: Sequence[str],
) -> pl.DataFrame:
    """Read columns of lines without a header, separated by spaces or tabs.

    Lines that start with # are comments, as in trec_eval (since 10.0).
    """
    *_, score = columns
    names = {c: next(n for n in (c, *columns[c]) if n in expected) for c in columns}
    places = {c: expected.index(n) for c, n in (names | {o: o for o in optional}).items()}
    frames = [pl.DataFrame(schema=dict.fromkeys(places, pl.String) | {score: pl.Float64})]
    lines = read_lines(path)
    while block := list(islice(lines, BLOCK_LINES)):
        frame = pl.DataFrame(block, {"line": pl.Int64, "fields": pl.String}, orient="row")
        frame = frame.filter(~pl.col("fields").str.contains(COMMENT))
        frame = frame.with_columns(pl.col("fields").str.extract_all(r"[^ \t]+"))
        frame = frame.filter(pl.col("fields").list.len() > 0)
        of_others = frame.filter(pl.col("fields").list.len() != len(expected))
        for line, fields in of_others.head(1).iter_rows():
            raise InputError(
                f"{path}, line {line}: {len(fields)} columns, expected {len(expected)} "
                f"({', '.join(expected)}), separated by spaces or tabs"
            )
        frame = frame.select(
            "line", *(pl.col("fields").list.get(i).alias(name) for name, i in places.items())
        )
        texts = frame.get_column(score)
        values = texts.cast(pl.Float64, strict=False)
        odd = (~values.is_finite()).fill_null(value=True).arg_true()
        read = [
            parse_number(text, where=f"{path}, line {line}", column=names[score])
            for line, text in frame.select("line", score)[odd].iter_rows()
        ]
        frames.append(frame.drop("line").with_columns(values.scatter(odd, read)))
    return pl.concat(frames)


def is_headerless(path: Path, expected: Sequence[str]) -> bool:
    """Return whether the first line has the expected number of fields, the last a whole number.

    Blank lines and comments do not count.
    """
    lines = (text for _, text in read_lines(path) if not re.match(COMMENT, text))
    fields = next((text.split() for text in lines if text.strip()), [])
    is_whole = len(fields) > 0 and whole_number(fields[-1], least=-(10**15)) is not None
    return len(fields) == len(expected) and is_whole


def nested_pairs(
    content: Mapping[Any, Any], columns: Sequence[str], where: str, *, chunks: bool = False
) -> pl.DataFrame:
    """Return ``{query id: {document id: number}}`` as rows of the three columns in ``columns``.

    `chunks` : a document id may also be (document id, start, end); adds these two columns, Float64,
    null for a plain id.

    Raises InputError if an id or number is invalid, or a query has no numbers by id.
    """
    rows: dict[str, list[Any]] = {name: [] for name in (*columns, *(("start", "end") * chunks))}
    for query_id, ranking in content.items():
        name = identifier(query_id, where=where, column="a query id")
        of_query = f"{where}, query {name!r}"
        if not hasattr(ranking, "items"):
            raise InputError(f"{of_query}: {shown(ranking)}; expected {{document id: score}}")
        for key, value in ranking.items():
            doc_id, *ends = key if chunks and isinstance(key, tuple) else (key,)
            if len(ends) not in (0, 2):
                raise InputError(f"{of_query}: {shown(key)}; expected (document id, start, end)")
            row = [
                name,
                identifier(doc_id, where=of_query, column="a document id"),
                parse_number(value, where=of_query, column=shown(key)),
            ]
            if chunks:
                row += [
                    parse_number(end, where=of_query, column=f"an end of {shown(key)}")
                    for end in ends
                ]
                row += [None] * (2 - len(ends))
            for values, one in zip(rows.values(), row, strict=True):
                values.append(one)
    query, doc, *_ = columns
    return pl.DataFrame(rows, schema=dict.fromkeys(rows, pl.Float64()) | {query: TEXT, doc: TEXT})
