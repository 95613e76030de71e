"""Parts of a content-addressed store: Parquet files that are written atomically and never changed.

A part is named after its keys, so that two jobs that compute the same at the same time write the
same file. Any number of jobs may read and add parts at the same time, without locks.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from psibench.errors import InputError
from psibench.store.index import KEY, KEY_BYTES
from psibench.tables.atomic import atomic_path

PART_SUFFIX = ".parquet"


def part_paths(folder: Path) -> Iterator[Path]:
    """Yield the parts of a store, in a fixed order."""
    yield from sorted(folder.glob(f"part-*{PART_SUFFIX}"))


def write_store_part(
    folder: Path,
    keys: Sequence[bytes],
    columns: Mapping[str, pa.Array],
    *,
    metadata: Mapping[str, str],
) -> None:
    """Write one part atomically: column `key`, then the given ones."""
    digest = hashlib.sha256(b"".join(keys)).hexdigest()[:32]
    table = pa.table({"key": pa.array(list(keys), pa.binary(KEY_BYTES)), **columns})
    table = table.replace_schema_metadata(dict(metadata))
    with atomic_path(folder / f"part-{digest}{PART_SUFFIX}") as temporary:
        pq.write_table(
            table,
            temporary,
            compression="none",
            use_dictionary=False,
            write_page_checksum=True,
        )


def read_part(
    path: Path,
    columns: Mapping[str, Callable[[pa.DataType], bool]],
    *,
    marker: str,
    holds: str,
    optional: Sequence[str] = (),
) -> pa.Table:
    """Read columns of a part.

    Parameters
    ----------
    columns
        Names of the columns, with a check of their types.
    marker
        Metadata key that every part of this kind of store has.
    holds
        Content of the store, for the message.
    optional
        Columns that a part may lack.

    Raises
    ------
    InputError
        If the file is damaged or no part of this kind of store.
    """
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        names = [n for n in columns if n in file.schema_arrow.names or n not in optional]
        table = file.read(names)
        table.validate()
    except (OSError, pa.ArrowException) as error:
        raise damaged_part(path, holds, error) from error
    is_part = marker.encode() in (table.schema.metadata or {})
    if not is_part or table.column_names != names:
        raise damaged_part(path, holds, f"found the columns {table.column_names}")
    for name, column in zip(names, table.columns, strict=True):
        if column.null_count or not columns[name](column.type):
            raise damaged_part(path, holds, f"column {name} has the type {column.type}")
    return table


def key_column(column: pa.ChunkedArray) -> np.ndarray:
    """Return a part's keys, (n,) KEY."""
    pieces = [
        np.frombuffer(chunk.buffers()[1], KEY)[chunk.offset : chunk.offset + len(chunk)]
        for chunk in column.chunks
    ]
    return np.concatenate(pieces) if pieces else np.empty(0, KEY)


def is_key(kind: pa.DataType) -> bool:
    """Return whether a column has the type of keys."""
    return bool(kind == pa.binary(KEY_BYTES))


def damaged_part(path: Path, holds: str, reason: object) -> InputError:
    """Return the error for a part that cannot be read."""
    return InputError(
        f"{path}: damaged part of the store of {holds} ({reason}). Delete this file; its content "
        "is computed again."
    )
