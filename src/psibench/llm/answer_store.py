"""The answer store: a request is asked once, whoever asks and whatever becomes of the process.

A store is a folder, one per model. A job appends to *logs* of its own (``answers-*.jsonl``), one
line per answer, written out of the process the moment it arrives; the checksum is over everything
after it::

    {"sum":"<crc32, 8 hex>","key":"<hash of the request, 64 hex>","record":{...}}

Beside a log is its *index* (``answers-*.index``): where its answers are, and what they used. It
holds nothing that cannot be made anew from the log.

Nothing is locked. A log has one writer and stays; an index appears whole. Two jobs that run at once
may ask the same: the answer in the log that was begun first counts. What is damaged or not whole is
passed over, with a warning.
"""

import json
import logging
import os
import re
import secrets
import socket
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, fields
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np

from psibench.errors import InputError
from psibench.llm.answer import Answer
from psibench.llm.usage import Usage
from psibench.tables.atomic import atomic_path

logger = logging.getLogger("psibench")

LOG, COMPRESSED, INDEX = ".jsonl", ".jsonl.zst", ".index"
LINE = re.compile(
    rb'\{"sum":"([0-9a-f]{8})(","key":"([0-9a-f]{64})","record":(\{.*\})\})\n', re.DOTALL
)
START = b'{"sum":"'
COLUMNS = 2 + len(fields(Usage))
"""Of an answer in an index: first 60 bits of its key, byte at which its line begins, usage."""
LOG_BYTES = 8 << 20
"""A log of so many is indexed while its job goes on, which begins another."""
FILES_AT_ONCE = 8
"""Opened to learn what they hold: a shared file system is slow to open."""
SYNC_S = 1.0


class AnswerStore:
    """Answers by request key, in one folder; those of other jobs as of the first look.

    Opening reads the indexes, and logs without one. ``folder`` is made with the first answer.
    Answers are made to survive a power cut every second. A killed process loses nothing either way.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._stored: _Places | None = None
        self._added: dict[str, tuple[str, int]] = {}
        self._damaged: set[str] = set()
        self._reader: tuple[str, BinaryIO] | None = None
        self._handle: int | None = None
        self._log = self.folder
        self._size, self._synced_at = 0, 0.0

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def __enter__(self) -> "AnswerStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, key: str) -> Answer | None:
        """Return the stored answer of a request, or None."""
        if self._stored is None:
            self._stored = _Places.read(self.folder)
        own = [self._added[key]] if key in self._added else []
        answers = (self._answer_at(*place) for place in chain(self._stored.of(key), own))
        return next((found for found in answers if found and found.key == key), None)

    def usage(self) -> Usage:
        """Return the tokens of all answers there are now, whoever asked and when.

        What two jobs asked at once was paid for twice and counts twice.
        """
        return _Places.read(self.folder).usage

    def add(self, answer: Answer) -> None:
        """Store an answer; it has left the process when this returns.

        Raises
        ------
        OSError
            If it could not be written whole (a full disk, say). The log is cut back to its last
            whole line, or left for a fresh one if even that fails.
        """
        line = write_line(answer)
        handle = self._begin() if self._handle is None else self._handle
        written = 0
        try:
            while written < len(line):
                written += os.write(handle, line[written:])
        except OSError:
            try:
                os.ftruncate(handle, self._size)
            except OSError:
                self._end()
            raise
        self._added.setdefault(answer.key, (self._log.name, self._size))
        self._size += len(line)
        if time.monotonic() - self._synced_at >= SYNC_S:
            self.sync()
        if self._size >= LOG_BYTES:
            self._end()

    def sync(self) -> None:
        """Make what is written durable."""
        if self._handle is not None:
            os.fsync(self._handle)
            self._synced_at = time.monotonic()

    def close(self) -> None:
        """Make all answers durable and indexed; the store may be used again."""
        self._end()
        self._stored, self._added = None, {}
        self._close_reader()

    # This job's log

    def _begin(self) -> int:
        self.folder.mkdir(parents=True, exist_ok=True)
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        host = re.sub(r"\W", "-", socket.gethostname())[:32]
        name = f"answers-{moment}-{host}-{os.getpid()}-{secrets.token_hex(4)}{LOG}"
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
        self._log = self.folder / name
        self._handle = os.open(self._log, flags, 0o666)
        self._size, self._synced_at = 0, time.monotonic()
        return self._handle

    def _end(self) -> None:
        """Write no more to the log, and index it; if that fails, whoever reads it does."""
        handle, self._handle = self._handle, None
        if handle is not None:
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
            with suppress(OSError):
                index_log(self._log)

    # What is stored

    def _answer_at(self, log: str, at: int) -> Answer | None:
        path, line = self.folder / log, b""
        try:
            if self._reader is None or self._reader[0] != log:
                self._close_reader()
                self._reader = log, open(path, "rb")  # noqa: SIM115
            self._reader[1].seek(at)
            line = self._reader[1].readline()
        except (FileNotFoundError, IsADirectoryError):
            pass  # a log that somebody removed
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        answer = read_line(line)
        if answer is None and log not in self._damaged:
            self._damaged.add(log)
            n_left = len(scan(path, tells=False)) if path.is_file() else 0
            n_lost = (self._stored.n_in(log) if self._stored else 0) - n_left
            if n_lost > 0:
                words = "answers are lost; their requests are asked again"
                logger.warning("%s: %d %s", path, n_lost, words)
        return answer

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader[1].close()
        self._reader = None


def stored_usage(folder: str | Path) -> Usage:
    """Add up the tokens of all answers in a store's folder; one that does not exist has none."""
    return AnswerStore(folder).usage()


def stored_answers(folder: str | Path) -> Iterator[Answer]:
    """Read a whole store and yield the answer of each key, logs in the order they were begun."""
    seen = set[str]()
    for log in _logs(Path(folder)):
        for _, answer in _answers_in(log) if log.is_file() else ():
            if answer.key not in seen:
                seen.add(answer.key)
                yield answer


# Logs


def write_line(answer: Answer) -> bytes:
    """Return an answer's line, as UTF-8 where it can be."""
    record = asdict(answer)
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


def _head(key: str) -> int:
    return int(key[:15], 16)


def _answers_in(log: Path, *, tells: bool = True) -> Iterator[tuple[int, Answer]]:
    """Yield (byte, answer) of a log, and perhaps say what is lost of it."""
    at = n_damaged = 0
    with open(log, "rb") as lines:
        for line in lines:
            if (answer := read_line(line)) is not None:
                yield at, answer
            elif line.endswith(b"\n"):
                n_damaged += max(1, line.count(START))  # as many as the damage has joined
            else:
                logger.info("%s: the last line is not whole and is passed over", log)
            at += len(line)
    if n_damaged and tells:
        logger.warning("%s: %d damaged lines; their requests are asked again", log, n_damaged)


def scan(log: Path, *, tells: bool = True) -> np.ndarray:
    """Read what the index of a log has to have: (n_answers, `COLUMNS`) int64."""
    rows = [
        (_head(answer.key), at, *astuple(answer.usage))
        for at, answer in _answers_in(log, tells=tells)
    ]
    return np.array(rows, np.int64).reshape(-1, COLUMNS)


def _logs(folder: Path) -> list[Path]:
    """Return the logs in the order they were begun, also those of which an index alone is left."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        paths = [Path(entry.path) for entry in entries if entry.is_file()]
    for path in paths:
        if path.name.endswith(COMPRESSED):
            _decompress(path)
    names = (path.name.removesuffix(".zst") for path in paths)
    logs = {Path(name).with_suffix(LOG) for name in names if name.endswith((LOG, INDEX))}
    return [folder / log for log in sorted(logs)]


def _decompress(path: Path) -> None:
    """Turn what earlier versions compressed (``*.jsonl.zst``) into a log again."""
    import pyarrow as pa

    content, is_damaged = bytearray(), False
    try:
        with pa.input_stream(str(path), compression="zstd") as old:
            while block := old.read(1 << 10):
                content += block
    except FileNotFoundError:
        return  # another job has done it
    except OSError as error:
        logger.warning("%s: damaged (%s); what follows is asked again", path, error)
        is_damaged = True
    with atomic_path(path.with_suffix("")) as temporary:
        temporary.write_bytes(content)
    with suppress(FileNotFoundError):
        if is_damaged:
            path.rename(f"{path}.damaged")
        path.unlink(missing_ok=True)


# Indexes


def index_log(log: Path) -> np.ndarray:
    """Read a log and write its index, if it can be written; return its rows.

    An index is numbers of 64 bits: checksum of what follows, bytes of the log, and the rows.
    """
    size, rows = log.stat().st_size, scan(log)
    content = np.concatenate([[size], rows.reshape(-1)]).astype("<i8").tobytes()
    with suppress(OSError), atomic_path(log.with_suffix(INDEX)) as temporary:
        temporary.write_bytes(zlib.crc32(content).to_bytes(8, "little") + content)
    return rows


def _rows_of(log: Path) -> np.ndarray:
    """Return the rows of a log by its index; of one that is longer or has none, by itself."""
    index = log.with_suffix(INDEX)
    if index.is_file():
        whole = index.read_bytes()
        checksum, content = int.from_bytes(whole[:8], "little"), whole[8:]
        if len(content) % (8 * COLUMNS) != 8 or zlib.crc32(content) != checksum:
            logger.warning("%s: damaged index; its log is read anew", index)
        else:
            numbers = np.frombuffer(content, "<i8")
            if not log.is_file() or log.stat().st_size <= numbers[0]:
                return numbers[1:].reshape(-1, COLUMNS)
    return index_log(log) if log.is_file() else np.empty((0, COLUMNS), np.int64)


@dataclass(frozen=True)
class _Places:
    """Where all answers of a folder were when it was read, by key and by age; and their usage."""

    names: list[str]
    heads: np.ndarray
    logs: np.ndarray
    starts: np.ndarray
    usage: Usage

    @classmethod
    def read(cls, folder: Path) -> "_Places":
        """Read all indexes; InputError if the folder or a log cannot be read."""
        places, used = [np.empty((0, 2), np.int64)], np.zeros(COLUMNS - 2, np.int64)
        try:
            logs = _logs(folder)
            with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
                for rows in pool.map(_rows_of, logs):
                    places.append(rows[:, :2].copy())
                    used += rows[:, 2:].sum(axis=0)
        except OSError as error:
            words = f"{error.filename or folder}: cannot be read ({error.strerror})"
            raise InputError(words) from error
        heads, starts = np.concatenate(places).T
        order = np.argsort(heads, kind="stable")
        number = np.repeat(np.arange(len(logs)), [len(one) for one in places[1:]])
        names = [log.name for log in logs]
        return cls(names, heads[order], number[order], starts[order], Usage(*used.tolist()))

    def of(self, key: str) -> Iterator[tuple[str, int]]:
        """Yield log and byte of the answers whose keys begin as this one does."""
        first, last = np.searchsorted(self.heads, [_head(key), _head(key) + 1])
        for place in range(first, last):
            yield self.names[self.logs[place]], int(self.starts[place])

    def n_in(self, log: str) -> int:
        """Count the answers of a log."""
        known = self.names.index(log) if log in self.names else -1
        return int(np.count_nonzero(self.logs == known))
