"""Some columns or rows of a table, where its texts would not fit into memory."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from psibench.tables.io import conform, open_parquet, refuse_twice
from psibench.tables.spec import TableSpec

BATCH_ROWS = 4096


def read_columns(
    path: str | Path,
    spec: TableSpec,
    columns: Sequence[str],
    *,
    optional: Sequence[str] = (),
    ids: Sequence[str] | None = None,
) -> pl.DataFrame:
    """Read columns of a Parquet table, checked against its declared schema.

    Names and types of all declared columns are checked, values only of those read; so is the key,
    where its columns are among them.

    Parameters
    ----------
    columns
        Declared columns to read, in the order of the result.
    optional
        Further columns, read as they are where the table has them.
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
        rows = file.read(present) if ids is None else _matching(file, present, ids)
        whole = file.schema_arrow.remove_metadata().empty_table()
    conform(pl.DataFrame(pl.from_arrow(whole)), spec, where=str(path))
    read = tuple(column for column in spec.columns if column.name in columns)
    key = spec.key if set(spec.key) <= set(columns) else ()
    part = TableSpec(spec.name, read, key, open=True)
    frame = pl.DataFrame(pl.from_arrow(rows.replace_schema_metadata(None)))
    return pl.DataFrame(pl.from_arrow(conform(frame, part, where=str(path)))).select(found)


def _matching(file: pq.ParquetFile, columns: list[str], ids: Sequence[str]) -> pa.Table:
    """Read the rows whose ``_id`` is one of those given."""
    wanted = pa.array(list(ids), pa.string())
    schema = pa.schema([file.schema_arrow.field(name) for name in columns])
    kept = (
        batch.filter(pc.is_in(batch.column("_id").cast(pa.string()), value_set=wanted))
        for batch in file.iter_batches(BATCH_ROWS, columns=columns)
    )
    return pa.Table.from_batches(kept, schema=schema)


def rows_in(
    side: pl.DataFrame, domains: Sequence[str], tables: Sequence[str | Path], spec: TableSpec
) -> pl.DataFrame:
    """Keep the rows of texts (``domain``, ``_id``) that are in the tables of their domains.

    Without tables all are kept.
    """
    if not tables:
        return side
    ids = [
        read_columns(path, spec, ("_id",)).select(pl.lit(domain).alias("domain"), "_id")
        for domain, path in zip(domains, tables, strict=True)
    ]
    return side.join(pl.concat(ids), on=["domain", "_id"], how="semi", maintain_order="left")
