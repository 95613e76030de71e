"""Content hashes of tables and files, independent of compression and creation time."""

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def hash_file(path: str | Path) -> str:
    """Return ``sha256:`` and the hex digest of a file's bytes."""
    with open(path, "rb") as handle:
        return "sha256:" + hashlib.file_digest(handle, "sha256").hexdigest()


def hash_rows(table: pa.Table) -> str:
    """Hash the column names and values of a table, in order.

    Returns ``rows:`` and a sha256 hex digest. The same rows give the same hash whatever the
    chunking, integer width, compression, library version or time of writing.
    """
    digest = hashlib.sha256(str(table.num_rows).encode())
    for name in table.column_names:
        digest.update(f"\0{name}\0".encode())
        _update(digest, table.column(name))
    return "rows:" + digest.hexdigest()


def _update(digest: "hashlib._Hash", array: pa.Array | pa.ChunkedArray) -> None:
    """Feed one array: its null mask, then its values with nulls made neutral."""
    if isinstance(array, pa.ChunkedArray):
        array = _one_array(array)
    if array.null_count:
        digest.update(np.packbits(array.is_null().to_numpy(zero_copy_only=False)).tobytes())
    kind = array.type
    if pa.types.is_nested(kind) and not pa.types.is_struct(kind):
        lengths = pc.fill_null(pc.list_value_length(array), -1)
        _update_numbers(digest, lengths, pa.int64())
        _update(digest, pc.list_flatten(array))
    elif pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            digest.update(f"\0{kind.field(index).name}\0".encode())
            _update(digest, pc.struct_field(array, index))
    elif pa.types.is_floating(kind):
        _update_numbers(digest, array, pa.float64())
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        _update_numbers(digest, array, pa.int64())
    elif pa.types.is_temporal(kind):
        digest.update(f"\0{kind}\0".encode())
        _update_numbers(digest, array.cast(_COUNT[kind.bit_width]), pa.int64())
    else:
        _update_binary(digest, array.cast(pa.large_binary()))


_COUNT = {32: pa.int32(), 64: pa.int64()}
"""What a date, time, timestamp or duration of so many bits is counted in."""


def _one_array(array: pa.ChunkedArray) -> pa.Array:
    """Join the chunks; text gets 64-bit offsets first, so that it may exceed 2 GiB in all."""
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        array = array.cast(pa.large_binary())
    return pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)


def _update_numbers(digest: "hashlib._Hash", array: pa.Array, kind: pa.DataType) -> None:
    digest.update(b"n" + pc.fill_null(array.cast(kind), 0).to_numpy(zero_copy_only=False).tobytes())


def _update_binary(digest: "hashlib._Hash", array: pa.Array) -> None:
    filled = pc.fill_null(array, b"")
    _update_numbers(digest, pc.binary_length(filled), pa.int64())
    for value in filled.to_pylist():
        digest.update(value)
