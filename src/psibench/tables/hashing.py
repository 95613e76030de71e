"""Content hashes of tables and files, independent of compression and creation time."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc


def hash_file(path: str | Path) -> str:
    """Return ``sha256:`` and the hex digest of a file's bytes."""
    with open(path, "rb") as handle:
        return "sha256:" + hashlib.file_digest(handle, "sha256").hexdigest()


def hash_rows(table: pa.Table) -> str:
    """Hash the column names and values of a table, in order.

    Returns ``rows:`` and a sha256 hex digest. The same rows give the same hash whatever the
    chunking, integer width, compression, library version or time of writing. A table with columns
    ``language`` and ``domain`` is hashed by runs of rows that are alike in both (`hash_runs`), so
    that it can be written domain by domain.
    """
    if {"language", "domain"} <= set(table.column_names):
        return hash_runs(map(hash_run, _runs(table)))
    return "rows:" + _digest(table)


def hash_runs(runs: Iterable[str]) -> str:
    """Hash a table of domains, of the hashes of its runs (`hash_run`) in order."""
    digest = hashlib.sha256()
    for run in runs:
        digest.update(run.encode())
    return "rows:" + digest.hexdigest()


def hash_run(run: pa.Table) -> str:
    """Hash the rows of one language and domain, but for columns that have no value in them."""
    filled = [name for name in run.column_names if run[name].null_count < run.num_rows]
    return _digest(run.select(filled)) if run.num_rows else ""


def _runs(table: pa.Table) -> Iterator[pa.Table]:
    """Yield the runs of rows that are alike in language and domain."""
    labels = pl.DataFrame(pl.from_arrow(table.select(["language", "domain"])))
    lengths = labels.select(pl.struct(pl.all()).rle().struct.field("len")).to_series()
    first = 0
    for length in lengths:
        yield table.slice(first, length)
        first += length


def _digest(table: pa.Table) -> str:
    digest = hashlib.sha256(str(table.num_rows).encode())
    for name in table.column_names:
        digest.update(f"\0{name}\0".encode())
        update(digest, table.column(name))
    return digest.hexdigest()


def update(digest: "hashlib._Hash", array: pa.Array | pa.ChunkedArray) -> None:
    """Feed one array: its null mask, then its values with nulls made neutral."""
    if isinstance(array, pa.ChunkedArray):
        array = _one_array(array)
    if array.null_count:
        nulls = np.frombuffer(_bytes(array.is_null().cast(pa.uint8())), np.uint8)
        digest.update(np.packbits(nulls).tobytes())
    kind = array.type
    if pa.types.is_nested(kind) and not pa.types.is_struct(kind):
        lengths = _filled(pc.list_value_length(array).cast(pa.int64()), b"\xff")  # null: -1
        update_numbers(digest, lengths, pa.int64())
        update(digest, pc.list_flatten(array))
    elif pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            digest.update(f"\0{kind.field(index).name}\0".encode())
            update(digest, pc.struct_field(array, index))
    elif pa.types.is_floating(kind):
        update_numbers(digest, array, pa.float64())
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        update_numbers(digest, array, pa.int64())
    elif pa.types.is_temporal(kind):
        digest.update(f"\0{kind}\0".encode())
        update_numbers(digest, array.cast(_COUNT[kind.bit_width]), pa.int64())
    else:
        _update_binary(digest, array.cast(pa.large_binary()))


_COUNT = {32: pa.int32(), 64: pa.int64()}
"""What a date, time, timestamp or duration of so many bits is counted in."""


def _one_array(array: pa.ChunkedArray) -> pa.Array:
    """Join the chunks; text gets 64-bit offsets first, so that it may exceed 2 GiB in all."""
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        array = array.cast(pa.large_binary())
    return pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)


def update_numbers(
    digest: "hashlib._Hash", array: pa.Array | pa.ChunkedArray, kind: pa.DataType
) -> None:
    """Feed numbers, cast to ``kind``."""
    if isinstance(array, pa.ChunkedArray):
        array = _one_array(array)
    digest.update(b"n")
    digest.update(_bytes(_filled(array.cast(kind), b"\0")))


def _update_binary(digest: "hashlib._Hash", array: pa.Array) -> None:
    filled = _filled(array, b"\0")
    update_numbers(digest, pc.binary_length(filled), pa.int64())
    for value in filled.to_pylist():
        digest.update(value)


# `to_numpy` and filling nulls with Python values would import pandas, which takes longer than
# writing most tables.


def _bytes(array: pa.Array) -> memoryview:
    """Return the memory of an array of numbers without nulls."""
    width = array.type.bit_width // 8
    buffer = array.buffers()[1]
    if buffer is None:
        return memoryview(b"")
    return memoryview(buffer)[width * array.offset : width * (array.offset + len(array))]


def _filled(array: pa.Array, byte: bytes) -> pa.Array:
    """Fill nulls: of 64-bit numbers with eight times ``byte``, of binary with an empty value."""
    if not array.null_count:
        return array
    is_binary = pa.types.is_large_binary(array.type)
    parts = (bytes(16), b"") if is_binary else (byte * 8,)
    buffers = [None, *map(pa.py_buffer, parts)]
    return pc.fill_null(array, pa.Array.from_buffers(array.type, 1, buffers)[0])
