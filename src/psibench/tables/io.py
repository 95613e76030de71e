"""Checked reading and atomic writing of psibench tables."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from textwrap import shorten
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from psibench.errors import InputError
from psibench.reading import parse_json, require_file
from psibench.tables.atomic import atomic_path
from psibench.tables.domains import (
    DOMAIN,
    LANGUAGE,
    OfDomain,
    TablePath,
    with_labels,
)
from psibench.tables.hashing import hash_file, hash_rows, hash_run, hash_runs
from psibench.tables.provenance import METADATA_KEY, Provenance, joined
from psibench.tables.spec import Column, TableSpec

CSV_DECIMALS = 6
FORMULA = r"^[=+\-@\t\r]."
"""Start of a cell that a spreadsheet reads as a formula; a single sign is not one."""
PLAIN_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?%?$"
RECORD_KINDS = (
    {"table": str, "rows_hash": str, "n_rows": int, "params": dict, "params_hash": str}
    | dict.fromkeys(("inputs", "revisions"), dict | None)
    | dict.fromkeys(("stage", "queries_by", "prompt_hash", "llm_backend", "created"), str | None)
    | {"stage_version": int | None, "psibench_version": str | None}
)
"""Keys and types of a provenance record."""


def conform(frame: pl.DataFrame, spec: TableSpec, *, where: str) -> pa.Table:
    """Cast a frame to a table's declared schema, declared columns first.

    Raises
    ------
    InputError
        If a column is missing, unknown (in a closed table), of another type or null where nulls
        are not allowed, or if the key is not unique. ``where`` names the table in the message.
    """
    _check_columns(frame.columns, spec, where)
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    extra = [name for name in frame.columns if name not in spec.column_names]
    arrays, fields = [], []
    for column in spec.columns:
        array = _cast(table.column(column.name), column, where)
        if array.null_count and not column.nullable:
            row = array.combine_chunks().is_null().to_pylist().index(True)
            raise InputError(
                f"{where}: column '{column.name}' is null in row {row}; every row needs a value"
            )
        arrays.append(array)
        fields.append(pa.field(column.name, column.type, nullable=column.nullable))
    for name in extra:
        arrays.append(table.column(name))
        fields.append(pa.field(name, table.column(name).type))
    _check_key(frame, spec, where)
    return pa.table(arrays, schema=pa.schema(fields))


def write_table(
    frame: pl.DataFrame, path: str | Path, spec: TableSpec, *, provenance: Provenance
) -> None:
    """Write a frame as Parquet with its provenance, whole or not at all."""
    table = conform(frame, spec, where=str(path))
    record = provenance.to_json(table=spec.name, rows_hash=hash_rows(table), n_rows=table.num_rows)
    labelled = table.replace_schema_metadata({METADATA_KEY: record.encode()})
    with atomic_path(path) as temporary:
        pq.write_table(labelled, temporary, compression="zstd", write_page_checksum=True)


class DomainWriter:
    """Writes a table with a row group for each domain, whole or not at all.

    Each domain but the last waits in a temporary file in the table's folder, so that only one is
    in memory. `write` joins the files, `discard` removes them.

    Parameters
    ----------
    path
        The table.
    language
        The label of all rows.
    """

    def __init__(self, path: str | Path, language: str) -> None:
        self.path, self.language = Path(path), language
        self._waiting: dict[str, Path | pa.Table] = {}
        self._sources: dict[str, Provenance] = {}
        self._spec: TableSpec | None = None
        self._is_labelled = False

    def add(
        self,
        domain: str,
        frame: pl.DataFrame,
        spec: TableSpec,
        provenance: Provenance,
        *,
        last: bool,
    ) -> None:
        """Add the rows of a domain; the ``last`` one stays in memory.

        Raises
        ------
        InputError
            If they do not fit ``spec``.
        """
        labels = {LANGUAGE.name: self.language, DOMAIN.name: domain}
        self._is_labelled = DOMAIN.name not in spec.column_names
        if self._is_labelled:  # an undeclared column of that name gives way
            others = frame.drop(*labels, strict=False)
            labelled = (pl.lit(label).alias(name) for name, label in labels.items())
            frame = others.select(*labelled, pl.all())
        self._spec = with_labels(spec, list(labels))
        self._sources[domain] = provenance
        table = conform(frame, self._spec, where=f"{self.path}, domain {domain}")
        self._waiting[domain] = table
        if not last:
            self._waiting[domain] = self.path.with_name(f".{self.path.name}.{token_hex(4)}.tmp")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(self._waiting[domain]) as temporary:
                pq.write_table(table, temporary, compression="zstd")

    def write(self) -> None:
        """Write the table; columns that only some domains have are null in the others."""
        assert self._spec is not None
        schema = pa.unify_schemas([_schema_of(one) for one in self._waiting.values()])
        provenance = joined(self._sources)
        runs, kept, n_rows = list[str](), list[pa.Table](), 0
        options = {"compression": "zstd", "write_page_checksum": True}
        with (
            atomic_path(self.path) as temporary,
            pq.ParquetWriter(temporary, schema, **options) as writer,
        ):
            for one in self._waiting.values():
                table = pq.read_table(one) if isinstance(one, Path) else one
                n_rows += table.num_rows
                whole = pa.concat_tables([schema.empty_table(), table], promote_options="default")
                if self._is_labelled:
                    runs.append(hash_run(table))
                else:  # its rows name languages and domains themselves
                    kept.append(whole)
                writer.write_table(whole.cast(schema))
            rows_hash = (
                hash_runs(filter(None, runs))
                if self._is_labelled
                else hash_rows(pa.concat_tables(kept))
            )
            record = provenance.to_json(table=self._spec.name, rows_hash=rows_hash, n_rows=n_rows)
            writer.add_key_value_metadata({METADATA_KEY: record.encode()})

    def discard(self) -> None:
        """Remove the rows that wait in files."""
        for one in self._waiting.values():
            if isinstance(one, Path):
                one.unlink(missing_ok=True)


def _schema_of(waiting: Path | pa.Table) -> pa.Schema:
    return pq.read_schema(waiting) if isinstance(waiting, Path) else waiting.schema


def write_csv(frame: pl.DataFrame, path: str | Path) -> None:
    """Write a result table as CSV; floats with six decimals (the Parquet table has them all).

    A text that a spreadsheet would run as a formula gets an apostrophe in front, which the
    spreadsheet hides.
    """
    safe = frame.with_columns(
        pl.when(text.str.contains(FORMULA) & ~text.str.contains(PLAIN_NUMBER))
        .then(pl.concat_str(pl.lit("'"), text))
        .otherwise(text)
        .alias(name)
        for name, kind in frame.schema.items()
        if kind == pl.String
        for text in [pl.col(name)]
    )
    with atomic_path(path) as temporary:
        safe.write_csv(temporary, float_precision=CSV_DECIMALS)


def read_table(path: TablePath, spec: TableSpec) -> pl.DataFrame:
    """Read a Parquet table, or its rows of one domain, and check it against its schema.

    A table of several domains has their labels in front (`with_labels`); the rows of one domain
    come without labels.

    Raises
    ------
    InputError
        If the file is missing, not Parquet, truncated, or does not fit ``spec``.
    """
    if isinstance(path, OfDomain):
        frame = _read_domain(path)
        labels = [DOMAIN.name, LANGUAGE.name]
        frame = frame.drop(
            name for name in labels if name in frame.columns and name not in spec.column_names
        )
        # An undeclared column without a value belongs to other domains.
        frame = frame.select(
            name
            for name in frame.columns
            if name in spec.column_names or frame.is_empty() or frame[name].count()
        )
    else:
        frame = read_any_table(path)
        spec = with_labels(spec, frame.columns)
    return pl.DataFrame(pl.from_arrow(conform(frame, spec, where=str(path))))


def read_any_table(path: str | Path) -> pl.DataFrame:
    """Read a Parquet table with any columns.

    Raises
    ------
    InputError
        If the file is missing, not Parquet or truncated.
    """
    return pl.DataFrame(pl.from_arrow(_read_parquet(path).replace_schema_metadata(None)))


def read_provenance(path: TablePath) -> dict[str, Any] | None:
    """Return the provenance record of a Parquet file, or None if it has none.

    Raises
    ------
    InputError
        If the file is missing or not Parquet, or its record is not one that psibench writes.
    """
    with open_parquet(path) as file:
        metadata = file.metadata.metadata or {}
    text = metadata.get(METADATA_KEY)
    if text is None:
        return None
    try:
        record = parse_json(text.decode(), where=str(path))
        json.dumps(record, ensure_ascii=False).encode()  # it is hashed later
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        record = {}
    odd = [key for key, kind in RECORD_KINDS.items() if not isinstance(record.get(key), kind)]
    if odd:
        raise InputError(
            f"{path}: its psibench provenance is damaged (no {', '.join(odd)}); the "
            "metadata was changed after the file was made. Make it again."
        )
    return record


def content_hash(path: TablePath) -> str:
    """Return a psibench table's row hash, or the byte hash of any other file."""
    if str(path).endswith(".parquet"):
        record = read_provenance(path)
        if record is not None:
            return str(record["rows_hash"])
    return hash_file(str(path))


def _cast(array: pa.ChunkedArray, column: Column, where: str) -> pa.ChunkedArray:
    """Cast to the declared type; only the width may change, not the kind."""
    message = f"{where}: column '{column.name}' is {array.type}, expected {column.type}"
    if not pa.types.is_null(array.type) and _kind(array.type) != _kind(column.type):
        raise InputError(f"{message}. Convert the column first.")
    try:
        return array.cast(column.type)
    except pa.ArrowException as error:
        raise InputError(f"{message}: {error}") from error


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "number"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "bytes"
    if pa.types.is_nested(kind) and not pa.types.is_struct(kind) and kind.num_fields == 1:
        return f"list of {_kind(kind.field(0).type)}"
    return str(kind)


def _read_parquet(path: str | Path) -> pa.Table:
    with open_parquet(path) as file:
        table = file.read()
        table.validate(full=True)  # valid UTF-8 and list offsets
    refuse_twice(table.column_names, path)
    return table


def refuse_twice(names: Sequence[str], path: TablePath) -> None:
    """Refuse a Parquet file with two columns of one name."""
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"{path}: columns that occur twice: {', '.join(dict.fromkeys(twice))}")


@contextmanager
def open_parquet(path: TablePath) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; errors while opening or reading it become InputError.

    Raises
    ------
    InputError
        If the file is missing, a pipe, not Parquet or truncated.
    """
    if Path(path).exists():
        require_file(Path(path), expected="a Parquet table")
    try:
        yield pq.ParquetFile(path, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error


def _read_domain(wanted: OfDomain) -> pl.DataFrame:
    """Read a domain's rows from the row groups that may hold them."""
    with open_parquet(wanted) as file:
        refuse_twice(file.schema_arrow.names, wanted.path)
        table = file.read_row_groups(groups_of(file, wanted))
        table.validate(full=True)
    frame = pl.DataFrame(pl.from_arrow(table.replace_schema_metadata(None)))
    rows = frame.filter(pl.col(DOMAIN.name) == wanted.domain)
    if wanted.language is None:
        return rows
    return rows.filter(pl.col(LANGUAGE.name) == wanted.language)


def groups_of(file: pq.ParquetFile, wanted: OfDomain) -> list[int]:
    """List the row groups that may hold a domain's rows; InputError if the table has no domains."""
    names = file.schema_arrow.names
    if DOMAIN.name not in names:
        raise InputError(
            f"{wanted.path}: no column '{DOMAIN.name}'; found {', '.join(names)}. A table of "
            "all domains of a language was expected; delete it and make it again."
        )
    return [
        number
        for number in range(file.num_row_groups)
        if _may_hold(file.metadata.row_group(number), wanted.domain)
    ]


def _may_hold(group: pq.RowGroupMetaData, domain: str) -> bool:
    columns = (group.column(number) for number in range(group.num_columns))
    found = next(column for column in columns if column.path_in_schema == DOMAIN.name).statistics
    if found is None or not found.has_min_max:
        return bool(group.num_rows)
    return bool(found.min <= domain <= found.max)


def _unreadable(path: TablePath, error: Exception) -> InputError:
    if not Path(path).exists():
        return InputError(f"{path}: no such file; expected a Parquet table")
    if Path(path).suffix != ".parquet":
        return InputError(f"{path}: not a Parquet file; give the .parquet table of the same name")
    message = " ".join(str(error).split())  # the message of a damaged page has several lines
    return InputError(
        f"{path}: not a readable Parquet file ({message}); it may be truncated or another format. "
        "Delete it and make it again, or point to the right file."
    )


def _check_columns(found: list[str], spec: TableSpec, where: str) -> None:
    missing = [name for name in spec.column_names if name not in found]
    unknown = [] if spec.open else [name for name in found if name not in spec.column_names]
    if missing or unknown:
        lists = {"missing columns": missing, "unknown columns": unknown}
        parts = [
            f"{what}: {shorten(', '.join(of), 200, placeholder=' ...')}"
            for what, of in lists.items()
            if of
        ]
        raise InputError(f"{where}: not a '{spec.name}' table: {'; '.join(parts)}")


def _check_key(frame: pl.DataFrame, spec: TableSpec, where: str) -> None:
    if not spec.key or frame.is_empty():
        return
    repeated = frame.filter(frame.select(spec.key).is_duplicated())
    if repeated.height:
        first = repeated.row(0, named=True)
        named = ", ".join(f"{name}={first[name]!r}" for name in spec.key)
        raise InputError(
            f"{where}: {repeated.height} rows of '{spec.name}' share a key; first: {named}. "
            f"Each ({', '.join(spec.key)}) may occur once."
        )
