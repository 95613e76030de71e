"""The files of an answer store (`answer_store`): logs, segments and indexes.

A log has a line per answer, whose checksum is over everything after it::

    {"sum":"<crc32, 8 hex>","key":"<hash of the request, 64 hex>","record":{...}}

A segment has a log's lines, compressed in blocks: frames of zstd, before each a frame that zstd
skips. `zstdcat` gives the log back; what is damaged of it costs the blocks that it is in.

An index has, of any number of logs and segments, what they are and what their answers used, and
where the answers are: entries sorted by key, in pages that are read and checked one by one. It
holds nothing that cannot be made anew from the files that it is of.
"""

import io
import json
import logging
import os
import re
import struct
import zlib
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from psibench.llm.answer import Answer
from psibench.tables.atomic import atomic_path

logger = logging.getLogger("psibench")

LOG, SEGMENT = ".jsonl", ".jsonl.zst"
INDEX = re.compile(r"index-(\d{10})-[0-9a-f]{16}\.bin")
"""Name of an index, with the number of its entries."""

LINE = re.compile(
    rb'\{"sum":"([0-9a-f]{8})(","key":"([0-9a-f]{64})","record":(\{.*\})\})\n', re.DOTALL
)
BLOCK = struct.Struct("<4sIIIIII")
"""Before a block: its sizes compressed and not, the lines of the segment, two checksums."""
SKIPPED = b"\x50\x2a\x4d\x18"
BLOCK_BYTES, BLOCK_LINES = 128 << 10, 256
"""A block is full with so many, uncompressed."""
ZSTD = pa.Codec("zstd", compression_level=6)

HEAD = struct.Struct("<8sQQII")
"""Before an index: lengths of the list of files and of the entries, two checksums."""
MAGIC = b"psi-idx1"
ENTRY = np.dtype([("head", "<u8"), ("place", "<u8")])
"""First 8 bytes of a key; number of the file (20 bits), byte (36), line from there (8)."""
MARK = np.dtype([("head", "<u8"), ("sum", "<u4")])
"""First head of a page, and its checksum."""
PAGE = 512
GAP = 16
"""So many pages that nobody asked for are read along rather than left out."""


class StoredFile(NamedTuple):
    """A log or segment as an index knows it; ``usage`` by task: answers, and `Usage`'s fields."""

    name: str
    size: int
    usage: dict[str, list[int]]


class Place(NamedTuple):
    """Where an answer is: a file, a byte, and the line of the block that begins there."""

    name: str
    at: int
    line: int


Part = tuple[Sequence[StoredFile], np.ndarray]
"""Files, and entries (n,) that number them."""


class DamagedIndexError(Exception):
    """An index that cannot be believed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path


def write_line(answer: Answer) -> bytes:
    """Return an answer's line, as UTF-8 where it can be."""
    record = answer.to_record()
    try:
        payload = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a surrogate pair
        payload = json.dumps(record, separators=(",", ":")).encode()
    tail = b'","key":"%s","record":%s}' % (answer.key.encode(), payload)
    return b'{"sum":"%08x%s\n' % (zlib.crc32(tail), tail)


def read_line(line: bytes) -> Answer | None:
    """Read an answer's line; None if it is damaged or not whole."""
    found = LINE.fullmatch(line)
    if found is None or int(found[1], 16) != zlib.crc32(found[2]):
        return None
    try:
        return Answer.from_record(json.loads(found[4]))
    except (ValueError, TypeError, KeyError):
        return None


def compress_log(log: bytes) -> Iterator[bytes]:
    """Yield the blocks of a log's segment."""
    lines = io.BytesIO(log).readlines()
    first = n_bytes = 0
    for end, line in enumerate(lines, start=1):
        n_bytes += len(line)
        if n_bytes >= BLOCK_BYTES or end - first == BLOCK_LINES or end == len(lines):
            raw = b"".join(lines[first:end])
            block = ZSTD.compress(raw, asbytes=True)
            sizes = len(block), len(raw), len(lines)
            yield _summed(BLOCK, SKIPPED, BLOCK.size - 8, *sizes, zlib.crc32(block)) + block
            first, n_bytes = end, 0


def read_block(file: BinaryIO) -> tuple[int, list[bytes]] | None:
    """Return how many lines a segment has, and those of the block here; None if it is damaged."""
    if (head := _checked(BLOCK, file.read(BLOCK.size), SKIPPED)) is None:
        return None
    _, _, n_block, n_raw, n_lines, total, _ = head
    block = file.read(n_block)
    if total != zlib.crc32(block):
        return None
    raw = ZSTD.decompress(block, decompressed_size=n_raw, asbytes=True)
    return n_lines, io.BytesIO(raw).readlines()


def answers_in(path: Path) -> Iterator[tuple[int, int, Answer]]:
    """Yield (byte, line from there, answer) of a log or segment, and say what is lost of it."""
    n_found, sizes = 0, list[int]()
    for at, lines in (_blocks if path.name.endswith(SEGMENT) else _lines)(path, sizes):
        for number, line in enumerate(lines):
            if (answer := read_line(line)) is not None:
                n_found += 1
                yield at, number, answer
    n_lost = max(sizes, default=0) - n_found
    if not sizes:
        logger.warning("%s: wholly damaged; its requests are asked again", path)
    elif n_lost:
        logger.warning("%s: %d damaged lines; their requests are asked again", path, n_lost)


def _lines(path: Path, sizes: list[int]) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the whole lines of a log; append their number to ``sizes``."""
    at = n_lines = 0
    with open(path, "rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                n_lines += 1
                yield at, [line]
            else:
                logger.info("%s: the last line is not whole and is passed over", path)
            at += len(line)
    sizes.append(n_lines)


def _blocks(path: Path, sizes: list[int]) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the blocks of a segment that are whole; append what each says of its lines."""
    data, at = path.read_bytes(), 0
    file = io.BytesIO(data)
    while (at := data.find(SKIPPED, at)) >= 0:
        file.seek(at)
        if (block := read_block(file)) is None:
            at += 1
        else:
            sizes.append(block[0])
            yield at, block[1]
            at = file.tell()


def answer_at(path: Path, place: Place, block: dict[Place, list[bytes]]) -> Answer | None:
    """Read one answer; None if it is damaged. ``block`` keeps the last block for the next call."""
    start = place._replace(line=0)
    if start not in block:
        with open(path, "rb") as file:
            file.seek(place.at)
            if place.name.endswith(SEGMENT):
                _, lines = read_block(file) or (0, [])
            else:
                lines = [file.readline()]
        block.clear()
        block[start] = lines
    lines = block[start]
    return read_line(lines[place.line]) if place.line < len(lines) else None


def scan(path: Path) -> Part:
    """Read what an index has to know of a log or segment."""
    size = path.stat().st_size
    heads, places, usage = array("Q"), array("Q"), dict[str, list[int]]()
    for at, line, answer in answers_in(path):
        heads.append(key_head(answer.key))
        places.append(at << 8 | line)
        used = [1, *vars(answer.usage).values()]
        before = usage.get(answer.task, [0] * len(used))
        usage[answer.task] = [a + b for a, b in zip(before, used, strict=True)]
    entries = np.empty(len(heads), ENTRY)
    entries["head"], entries["place"] = heads, places
    return [StoredFile(path.name, size, usage)], entries


def key_head(key: str) -> int:
    """Return what an index knows of a key: its first 8 bytes."""
    return int(key[:16], 16)


class Index:
    """Where answers are. ``read`` gives so many bytes from a byte on.

    Raises
    ------
    DamagedIndexError
        As soon as something is read that is not as it was written.
    """

    def __init__(self, read: Callable[[int, int], bytes], path: Path = Path()) -> None:
        self._read, self._path = read, path
        if (head := _checked(HEAD, read(HEAD.size, 0), MAGIC)) is None:
            raise DamagedIndexError(path)
        _, n_json, n_entries, total, _ = head
        rest = read(n_json + -(-n_entries // PAGE) * MARK.itemsize, HEAD.size)
        if zlib.crc32(rest) != total:
            raise DamagedIndexError(path)
        self.files = [StoredFile(*one) for one in json.loads(rest[:n_json])]
        marks = np.frombuffer(rest, MARK, offset=n_json)
        self._heads, self._sums = marks["head"].copy(), marks["sum"].tolist()
        self._start = HEAD.size + len(rest)

    @classmethod
    def open(cls, path: Path) -> "Index":
        """Open a file. It is not mapped: one that another machine removes would end the process."""
        file = open(path, "rb", buffering=0)  # noqa: SIM115
        return cls(lambda n_bytes, at: os.pread(file.fileno(), n_bytes, at), path)

    @classmethod
    def of(cls, parts: Sequence[Part]) -> "Index":
        """Make one in memory."""
        data = _joined(parts, None)
        return cls(lambda n_bytes, at: data[at : at + n_bytes])

    @property
    def part(self) -> Part:
        """All of it."""
        return self.files, self._pages(0, len(self._sums))

    def find(self, heads: np.ndarray) -> Iterator[tuple[int, Place]]:
        """Yield (which, where) of the entries with one of ``heads``, (n,) uint64 in order."""
        end = np.searchsorted(self._heads, heads, "right")
        first = np.maximum(np.searchsorted(self._heads, heads, "left") - 1, 0)
        some = np.flatnonzero(end)  # not before the first entry
        apart = first[some[1:]] - end[some[:-1]] >= GAP
        apart[255::256] = True  # so that runs are bounded
        for run in np.split(some, np.flatnonzero(apart) + 1) if len(some) else ():
            entries = self._pages(int(first[run[0]]), int(end[run[-1]]))
            ordered = entries["head"].copy()
            low = np.searchsorted(ordered, heads[run], "left")
            high = np.searchsorted(ordered, heads[run], "right")
            for hit in np.flatnonzero(high > low):
                for place in entries["place"][low[hit] : high[hit]].tolist():
                    name = self.files[place >> 44].name
                    yield int(run[hit]), Place(name, place >> 8 & (1 << 36) - 1, place & 255)

    def _pages(self, first: int, end: int) -> np.ndarray:
        size = PAGE * ENTRY.itemsize
        data = self._read((end - first) * size, self._start + first * size)
        if _page_sums(data) != self._sums[first:end]:
            raise DamagedIndexError(self._path)
        return np.frombuffer(data, ENTRY)


def write_index(
    folder: Path, parts: Sequence[Part], *, alive: Collection[str] | None = None
) -> Path:
    """Write one index of several files or indexes, of files in ``alive`` only; return its path.

    It is named after what is in it, so that two who write the same write one.
    """
    data = _joined(parts, alive)
    n_entries = HEAD.unpack(data[: HEAD.size])[2]
    digest = zlib.crc32(data) << 32 | zlib.adler32(data)
    path = folder / f"index-{n_entries:010d}-{digest:016x}.bin"
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)
    return path


def longest(files: Iterator[StoredFile], alive: Collection[str] | None) -> dict[str, StoredFile]:
    """Return files by name; of a log that was read several times, as it was read last."""
    known: dict[str, StoredFile] = {}
    for one in files:
        is_longer = one.name not in known or one.size > known[one.name].size
        if is_longer and (alive is None or one.name in alive):
            known[one.name] = one
    return known


def _joined(parts: Sequence[Part], alive: Collection[str] | None) -> bytes:
    """Return the bytes of an index."""
    files = longest((file for some, _ in parts for file in some), alive)
    numbers = {name: number for number, name in enumerate(sorted(files))}
    joined = [np.empty(0, ENTRY)]
    for some, entries in parts:
        renumbered = np.array([numbers.get(one.name, len(files)) for one in some], dtype=np.uint64)
        number = renumbered[(entries["place"] >> np.uint64(44)).astype(np.int64)]
        moved = entries.copy()
        moved["place"] = number << np.uint64(44) | entries["place"] & np.uint64((1 << 44) - 1)
        joined.append(moved[number < len(files)])
    entries = np.concatenate(joined)
    entries = entries[np.lexsort((entries["place"], entries["head"]))]
    is_first = np.ones(len(entries), dtype=bool)
    is_first[1:] = entries[1:] != entries[:-1]
    entries = entries[is_first]
    body = entries.tobytes()
    marks = np.empty(-(-len(entries) // PAGE), MARK)
    marks["head"], marks["sum"] = entries["head"][::PAGE], _page_sums(body)
    listed = json.dumps([files[name] for name in numbers], separators=(",", ":")).encode()
    rest = listed + marks.tobytes()
    return _summed(HEAD, MAGIC, len(listed), len(entries), zlib.crc32(rest)) + rest + body


def _page_sums(data: bytes) -> list[int]:
    size, view = PAGE * ENTRY.itemsize, memoryview(data)
    return [zlib.crc32(view[at : at + size]) for at in range(0, len(data), size)]


def _summed(form: struct.Struct, *fields: bytes | int) -> bytes:
    """Pack a head, its last field a checksum of those before it."""
    head = form.pack(*fields, 0)[:-4]
    return head + struct.pack("<I", zlib.crc32(head))


def _checked(form: struct.Struct, head: bytes, first: bytes) -> tuple[Any, ...] | None:
    """Unpack a head that begins with ``first``; None if it is damaged."""
    if len(head) < form.size or not head.startswith(first):
        return None
    fields = form.unpack(head)
    return fields if fields[-1] == zlib.crc32(head[:-4]) else None
