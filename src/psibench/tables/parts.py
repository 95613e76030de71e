"""Writing a table part by part: one whose text need not fit into memory all at once."""

import hashlib
from collections.abc import Iterator

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from psibench.tables.atomic import atomic_path
from psibench.tables.domains import DomainPart, OutputPath, ReadParts
from psibench.tables.hashing import _update, _update_numbers
from psibench.tables.io import _check_key, conform
from psibench.tables.provenance import METADATA_KEY, Provenance
from psibench.tables.spec import TableSpec

TEXT = "text"


def write_table_parts(
    read: ReadParts,
    path: OutputPath,
    spec: TableSpec,
    *,
    provenance: Provenance,
) -> None:
    """Write the frames of a table as one Parquet file: the rows and provenance of `write_table`.

    Each frame becomes a row group. One frame is in memory at a time, and all columns but ``text``.

    Parameters
    ----------
    read
        Starts reading from the first frame, the same ones at every call: they are gone through
        three times. One frame at least.

    Raises
    ------
    InputError
        As `write_table`.
    """
    if isinstance(path, DomainPart):
        part = path
        path.add(lambda: (part.labelled(one, spec) for one in read()), spec, provenance)
        return

    def tables() -> Iterator[pa.Table]:
        return (conform(frame, spec, where=str(path)) for frame in read())

    small, lengths = _without_text(tables())
    keys = small.select([name for name in spec.key if name != TEXT])
    _check_key(pl.DataFrame(pl.from_arrow(keys)), spec, str(path))
    schema, digest = next(tables()).schema, hashlib.sha256(str(small.num_rows).encode())
    for name in schema.names:
        digest.update(f"\0{name}\0".encode())
        if name == TEXT:
            _update_numbers(digest, lengths, pa.int64())
            for table in tables():
                for value in table.column(TEXT).to_pylist():
                    digest.update(value.encode())
        else:
            _update(digest, small.column(name))
    record = provenance.to_json(
        table=spec.name, rows_hash=f"rows:{digest.hexdigest()}", n_rows=small.num_rows
    )
    schema = schema.with_metadata({METADATA_KEY: record.encode()})
    options = {"compression": "zstd", "write_page_checksum": True}
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, schema, **options) as writer:
        for table in tables():
            writer.write_table(table.cast(schema))


def _without_text(tables: Iterator[pa.Table]) -> tuple[pa.Table, pa.ChunkedArray]:
    """Return all columns but the text, and the bytes of each text."""
    small, lengths = [], []
    for table in tables:
        small.append(table.drop_columns([TEXT]))
        lengths.extend(pc.binary_length(table.column(TEXT)).chunks)
    return pa.concat_tables(small), pa.chunked_array(lengths, pa.int32())
