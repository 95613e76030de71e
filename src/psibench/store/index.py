"""Indexes of a store: which log has the record of a key, and where. Rows are sorted by key.

An index file is written atomically, never changed, and derived from the logs only: it may be
deleted at any time. Opening it reads its end, 20 bytes for each `BLOCK` rows; looking up a key
reads one block.

    (n_rows,) INDEX_ROW     rows, sorted by the first 8 bytes of their keys
    (n_blocks,) uint64      first 8 bytes of each block's first key
    (n_blocks,) uint32      crc32 of each block
    JSON                    [name, bytes, summary] of each log
    TRAILER                 n_rows, bytes and crc32 of the three parts before it, magic
"""

import hashlib
import json
import os
import struct
import weakref
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from psibench.store.vectors import ragged_ranges
from psibench.tables.atomic import atomic_path

KEY_BYTES = 16
KEY = np.dtype(f"S{KEY_BYTES}")
INDEX_ROW = np.dtype([("key", KEY), ("start", "<u8"), ("size", "<u4"), ("log", "<u4")])
"""A record's key, `start` and `size` in its log (in units of the kind of store), and log number."""
_LOCATION = struct.Struct("<QII")
BLOCK = 64
"""Rows that a look-up reads."""
INDEX_BLOCK_BYTES = BLOCK * INDEX_ROW.itemsize
RUN_BLOCKS = 1024
"""Blocks in memory when an index is read from beginning to end: 2 MiB."""
ROWS_PER_LOOKUP = 200
"""Rows read sequentially in the time of one look-up; with fewer rows per key, all rows are read."""
TRAILER = struct.Struct("<QQQ8s")
_MAGIC = b"psikeys1"
LAST_HEAD = 2**64 - 1


def content_key(first: str, second: str) -> bytes:
    """Return the address of two strings: 16 bytes of a sha256, which covers where one ends."""
    payload = f"{len(first)}\0{first}\0{second}".encode("utf-8", errors="surrogatepass")
    return hashlib.sha256(payload).digest()[:KEY_BYTES]


def key_heads(keys: np.ndarray) -> np.ndarray:
    """Return the first 8 bytes of keys as numbers in the keys' order."""
    return np.ascontiguousarray(keys).view(">u8")[::2].astype(np.uint64)


class LostIndexError(Exception):
    """An index is damaged or was deleted by another process."""

    def __init__(self, index: "Index | None", reason: object) -> None:
        super().__init__(str(reason))
        self.index = index


class IndexedLog(NamedTuple):
    """A log in an index: its size when indexed, and a summary of its records (plain data)."""

    name: str
    size: int
    summary: Any


class Index:
    """Rows of some logs, in a file (`open`) or in memory (`of`).

    ``numbers`` has the caller's number of each log; records of logs at -1 are not found.
    """

    def __init__(self, foot: bytes, n_rows: int, read: Callable[[int, int], bytes]) -> None:
        n_blocks = -(-n_rows // BLOCK)
        self.n_rows = n_rows
        self._heads, self._sums = array("Q"), array("I")
        self._heads.frombytes(foot[: 8 * n_blocks])
        self._sums.frombytes(foot[8 * n_blocks : 12 * n_blocks])
        self.logs = [IndexedLog(*log) for log in json.loads(foot[12 * n_blocks :])]
        self.numbers = [*range(len(self.logs))]
        self._read = read

    @classmethod
    def open(cls, path: Path) -> "Index":
        """Open a file.

        Raises
        ------
        LostIndexError
            If it is damaged or of another version.
        OSError
            If it cannot be read.
        """
        handle = os.open(path, os.O_RDONLY)
        try:
            end = os.fstat(handle).st_size - TRAILER.size
            trailer = os.pread(handle, TRAILER.size, max(0, end))
            padded = trailer.ljust(TRAILER.size, b"\0")
            n_rows, n_bytes, check, magic = TRAILER.unpack(padded)
            is_whole = magic == _MAGIC and n_rows * INDEX_ROW.itemsize + n_bytes == end
            foot = os.pread(handle, n_bytes, end - n_bytes) if is_whole else b""
            if not is_whole or zlib.crc32(foot) != check:
                raise LostIndexError(None, "damaged index")
            index = cls(foot, n_rows, partial(_read_file, handle))
        except BaseException:
            os.close(handle)
            raise
        weakref.finalize(index, os.close, handle)
        return index

    @classmethod
    def of(cls, logs: Sequence[IndexedLog], rows: np.ndarray) -> "Index":
        """Return an index of rows (`INDEX_ROW`, in any order) in memory."""
        data = rows[np.argsort(key_heads(rows["key"]), kind="stable")].tobytes()
        return cls(_foot(*_blocks_of(data), logs), len(rows), lambda n, at: data[at : at + n])

    @property
    def weight(self) -> int:
        """Cost of merging the index."""
        return self.n_rows + len(self.logs)

    def locations(self, key: bytes) -> list[tuple[int, int, int]]:
        """Return log, start and size of a key's records."""
        head, found = int.from_bytes(key[:8], "big"), []
        first, last = bisect_left(self._heads, head) - 1, bisect_right(self._heads, head)
        for block in range(max(0, first), last):
            data = self._data(block, block + 1)
            at = data.find(key)
            while at >= 0:
                if at % INDEX_ROW.itemsize == 0:
                    start, size, log = _LOCATION.unpack_from(data, at + KEY_BYTES)
                    found.append((self.numbers[log], start, size))
                at = data.find(key, at + 1)
        return [location for location in found if location[0] >= 0]

    def find(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Look up many keys, given in ascending order of their first 8 bytes.

        Returns
        -------
        For each record, the position of its key in ``keys``, (n,) int64, and its row, (n,)
        `INDEX_ROW` with the caller's number of the log.
        """
        found = [(np.empty(0, np.int64), np.empty(0, INDEX_ROW))]
        if len(keys) * ROWS_PER_LOOKUP < self.n_rows:
            whole = keys.tobytes()
            for number in range(len(keys)):
                key = whole[number * KEY_BYTES : (number + 1) * KEY_BYTES]
                rows = [(key, start, size, log) for log, start, size in self.locations(key)]
                if rows:
                    found.append((np.full(len(rows), number), np.array(rows, INDEX_ROW)))
        else:
            heads = key_heads(keys)
            for first in range(0, len(self._heads), RUN_BLOCKS):
                low, high = self._heads[first], self._first_head(first + RUN_BLOCKS)
                wanted = np.arange(
                    np.searchsorted(heads, np.uint64(low)),
                    np.searchsorted(heads, np.uint64(high), side="right"),
                )
                if len(wanted):
                    run = self._rows(first, first + RUN_BLOCKS, self.numbers)
                    found.append(_matches(run, wanted, keys, heads))
        which, matches = (np.concatenate(each) for each in zip(*found, strict=True))
        return which, matches

    def between(self, low: int, high: int, numbers: Sequence[int]) -> np.ndarray:
        """Return the rows (`INDEX_ROW`) whose keys' heads are from ``low`` to ``high``."""
        first, last = bisect_left(self._heads, low) - 1, bisect_right(self._heads, high)
        rows = self._rows(max(0, first), last, numbers)
        heads = key_heads(rows["key"])
        return rows[(heads >= np.uint64(low)) & (heads <= np.uint64(high))]

    def edges(self) -> list[int]:
        """Return heads that divide all keys; `RUN_BLOCKS` of this index are between two."""
        return [0, *self._heads[RUN_BLOCKS::RUN_BLOCKS], LAST_HEAD + 1]

    def _first_head(self, block: int) -> int:
        return self._heads[block] if block < len(self._heads) else LAST_HEAD

    def _rows(self, first: int, last: int, numbers: Sequence[int]) -> np.ndarray:
        """Return the rows of blocks, with the caller's numbers of logs, without logs at -1."""
        rows = np.frombuffer(self._data(first, last), INDEX_ROW)
        logs = np.array(numbers, np.int64)[rows["log"]]
        rows = rows[logs >= 0]
        rows["log"] = logs[logs >= 0]
        return rows

    def _data(self, first: int, last: int) -> bytes:
        """Read blocks and check them."""
        last = min(last, len(self._heads))
        n_rows = min(last * BLOCK, self.n_rows) - first * BLOCK
        try:
            data = self._read(max(0, n_rows) * INDEX_ROW.itemsize, first * INDEX_BLOCK_BYTES)
        except OSError as error:
            raise LostIndexError(self, error) from error
        for number, block in enumerate(range(first, last)):
            start = number * INDEX_BLOCK_BYTES
            if zlib.crc32(data[start : start + INDEX_BLOCK_BYTES]) != self._sums[block]:
                raise LostIndexError(self, "damaged index")
        return data


def write_index(path: Path, indexes: Sequence[Index]) -> None:
    """Merge indexes into one file, holding `RUN_BLOCKS` of the largest and its share of the others.

    If several have a log of the same name, the rows of the first are taken.

    Raises
    ------
    LostIndexError
        If an index is damaged or gone.
    OSError
        If the file cannot be written; nothing is left then.
    """
    logs, taken = list[IndexedLog](), list[list[int]]()
    for index in indexes:
        known = {log.name for log in logs}
        is_new = [
            number >= 0 and log.name not in known
            for number, log in zip(index.numbers, index.logs, strict=True)
        ]
        numbers = np.where(is_new, len(logs) + np.cumsum(is_new) - 1, -1)
        taken.append(numbers.tolist())
        logs += [log for log, is_one in zip(index.logs, is_new, strict=True) if is_one]
    heads, sums, n_rows = array("Q"), array("I"), 0
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        for data in _merged(indexes, taken):
            file.write(data)
            for column, values in zip((heads, sums), _blocks_of(data), strict=True):
                column.extend(values)
            n_rows += len(data) // INDEX_ROW.itemsize
        foot = _foot(heads, sums, logs)
        file.write(foot + TRAILER.pack(n_rows, len(foot), zlib.crc32(foot), _MAGIC))


def _merged(indexes: Sequence[Index], taken: Sequence[list[int]]) -> Iterator[bytes]:
    """Yield the rows of all indexes in the order of their keys, in whole blocks except the last."""
    edges, left = max(indexes, key=lambda index: index.n_rows).edges(), b""
    for low, after in zip(edges, edges[1:], strict=False):
        if low == after:
            continue
        rows = np.concatenate(
            [
                index.between(low, after - 1, numbers)
                for index, numbers in zip(indexes, taken, strict=True)
            ]
        )
        data = left + rows[np.argsort(key_heads(rows["key"]), kind="stable")].tobytes()
        cut = len(data) - len(data) % INDEX_BLOCK_BYTES
        left = data[cut:]
        yield data[:cut]
    yield left


def _matches(
    rows: np.ndarray, wanted: np.ndarray, keys: np.ndarray, heads: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of a wanted key's number and a row with this key."""
    stored = key_heads(rows["key"])
    first, last = (np.searchsorted(stored, heads[wanted], side=side) for side in ("left", "right"))
    at, which = ragged_ranges(first, last - first), np.repeat(wanted, last - first)
    same = rows["key"][at] == keys[which]
    return which[same], rows[at[same]]


def _blocks_of(data: bytes) -> "tuple[array[int], array[int]]":
    """Return the first head and the crc32 of each block of rows."""
    starts = range(0, len(data), INDEX_BLOCK_BYTES)
    heads = array("Q", [int.from_bytes(data[at : at + 8], "big") for at in starts])
    return heads, array("I", [zlib.crc32(data[at : at + INDEX_BLOCK_BYTES]) for at in starts])


def _foot(heads: "array[int]", sums: "array[int]", logs: Iterable[IndexedLog]) -> bytes:
    return heads.tobytes() + sums.tobytes() + json.dumps([*logs]).encode()


def _read_file(handle: int, n_bytes: int, at: int) -> bytes:
    return os.pread(handle, n_bytes, at)
