"""Read columns or batches of a table whose texts would not fit into memory."""

from collections.abc import Iterator, Sequence

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from psibench.tables.domains import DOMAIN, OfDomain, TablePath, with_labels
from psibench.tables.io import conform, groups_of, open_parquet, refuse_twice
from psibench.tables.spec import TableSpec

BATCH_ROWS = 4096


def read_columns(
    path: TablePath,
    spec: TableSpec,
    columns: Sequence[str],
    *,
    optional: Sequence[str] = (),
    ids: Sequence[str] | None = None,
) -> pl.DataFrame:
    """Read columns of a Parquet table, checked against its declared schema.

    Checks names and types of all declared columns, and the values of the columns that it reads;
    also the key, if its columns are among them.

    Parameters
    ----------
    columns
        Declared columns to read, in the order of the result; of a table of domains also
        ``language`` and ``domain``.
    optional
        Further columns to read if the table has them, unchecked.
    ids
        Values of ``_id``, one of ``columns``: only rows with these are kept, and the table is read
        batch by batch. None keeps all.

    Raises
    ------
    InputError
        If the file is missing, not Parquet, truncated, or does not fit ``spec``.
    """
    with open_parquet(path) as file:
        refuse_twice(file.schema_arrow.names, path)
        found = [*columns, *(name for name in optional if name in file.schema_arrow.names)]
        present = [name for name in found if name in file.schema_arrow.names]
        rows = pa.Table.from_batches(
            _batches(file, path, present, ids),
            schema=pa.schema([file.schema_arrow.field(name) for name in present]),
        )
        whole = file.schema_arrow.remove_metadata().empty_table()
        spec = with_labels(spec, whole.column_names)
    conform(pl.DataFrame(pl.from_arrow(whole)), spec, where=str(path))
    read = tuple(column for column in spec.columns if column.name in columns)
    key = spec.key if set(spec.key) <= set(columns) else ()
    part = TableSpec(spec.name, read, key, open=True)
    frame = pl.DataFrame(pl.from_arrow(rows.replace_schema_metadata(None)))
    return pl.DataFrame(pl.from_arrow(conform(frame, part, where=str(path)))).select(found)


def read_batches(
    path: TablePath, columns: Sequence[str], *, rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Read columns of a table, or of one domain's rows in it, few rows at a time.

    Raises
    ------
    InputError
        If the file is missing, not Parquet or truncated.
    """
    with open_parquet(path) as file:
        yield from _batches(file, path, list(columns), None, rows=rows)


def _batches(
    file: pq.ParquetFile,
    path: TablePath,
    columns: list[str],
    ids: Sequence[str] | None,
    *,
    rows: int = BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a domain, where the path names one, and of ``ids``, where they are given."""
    groups, read = list(range(file.num_row_groups)), columns
    if isinstance(path, OfDomain):
        groups, read = groups_of(file, path), [*dict.fromkeys([*columns, DOMAIN.name])]
    wanted = None if ids is None else pa.array(list(ids), pa.string())
    for batch in file.iter_batches(rows, row_groups=groups, columns=read):
        kept = batch
        if isinstance(path, OfDomain):
            kept = kept.filter(pc.equal(kept.column(DOMAIN.name).cast(pa.string()), path.domain))
        if wanted is not None:
            kept = kept.filter(pc.is_in(kept.column("_id").cast(pa.string()), value_set=wanted))
        yield kept.select(columns)
