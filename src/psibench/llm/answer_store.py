"""The answer store: a request is asked once, whoever asks and whatever becomes of the process.

A store is a folder, one per model. A job appends to *logs* of its own (``answers-*.jsonl``), one
line per answer, written out of the process the moment it arrives; the checksum is over everything
after it::

    {"sum":"<crc32, 8 hex>","key":"<hash of the request, 64 hex>","record":{...}}

Beside a log is its *index* (``answers-*.index``): where its answers are, and what they used. It is
believed as long as the log is as long as it was then; else the log is read anew.

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
from psibench.tables.atomic import atomic_path, write_whole

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
        added = [self._added[key]] if key in self._added else []
        answers = (self._answer_at(*place) for place in chain(self._stored.of(key), added))
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
        try:
            write_whole(handle, line, self._log)
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
        return read_line(line)

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader[1].close()
        self._reader = None


def stored_answers(folder: str | Path) -> Iterator[Answer]:
    """Read a whole store and yield the answer of each key, logs in the order they were begun."""
    seen = set[str]()
    for log in _logs(Path(folder)):
        for _, answer in _answers_in(log):
            if answer is not None and answer.key not in seen:
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


def _answers_in(log: Path) -> Iterator[tuple[int, Answer | None]]:
    """Yield (byte, answer) of a log's lines, None for one that is damaged, and say what is lost."""
    at = n_damaged = 0
    with open(log, "rb") as lines:
        for line in lines:
            answer = read_line(line)
            yield at, answer
            if answer is None and line.endswith(b"\n"):
                n_damaged += max(1, line.count(START))  # as many as the damage has joined
            elif answer is None:
                logger.info("%s: the last line is not whole and is passed over", log)
            at += len(line)
    if n_damaged:
        logger.warning("%s: %d damaged lines; their requests are asked again", log, n_damaged)


def _logs(folder: Path) -> list[Path]:
    """Return the logs in the order they were begun."""
    if not folder.exists():
        return []
    if not folder.is_dir():
        raise InputError(f"{folder}: found a file, expected the folder of an answer store")
    with os.scandir(folder) as entries:
        paths = [Path(entry.path) for entry in entries if entry.is_file()]
    for path in paths:
        if path.name.endswith(COMPRESSED):
            raise InputError(f"{path}: compressed by an earlier version; unzstd --rm that file")
    return sorted(path for path in paths if path.suffix == LOG)


# Indexes


def index_log(log: Path) -> np.ndarray:
    """Read a log and return its rows; write its index if all its lines are whole.

    An index is numbers of 64 bits: checksum of what follows, number of columns, bytes of the log,
    and the rows.
    """
    size, found = log.stat().st_size, list(_answers_in(log))
    listed = [(_head(one.key), at, *astuple(one.usage)) for at, one in found if one is not None]
    rows = np.array(listed, np.int64).reshape(-1, COLUMNS)
    if len(rows) == len(found):
        content = np.concatenate([[COLUMNS, size], rows.reshape(-1)]).astype("<i8").tobytes()
        with suppress(OSError), atomic_path(log.with_suffix(INDEX)) as temporary:
            temporary.write_bytes(zlib.crc32(content).to_bytes(8, "little") + content)
    return rows


def _rows_of(log: Path) -> np.ndarray:
    """Return the rows of a log by its index, if it is that of the log as it is; else by itself."""
    index = log.with_suffix(INDEX)
    try:
        whole = index.read_bytes()
    except FileNotFoundError:
        return index_log(log)
    checksum, content = int.from_bytes(whole[:8], "little"), whole[8:]
    is_whole = len(content) >= 16 and zlib.crc32(content) == checksum
    numbers = np.frombuffer(content if is_whole else b"", "<i8")
    if not is_whole or numbers[0] != COLUMNS:
        logger.warning("%s: damaged index; its log is read anew", index)
    elif numbers[1] == log.stat().st_size:
        return numbers[2:].reshape(-1, COLUMNS)
    return index_log(log)


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
        heads, starts, sizes = list[np.ndarray](), list[np.ndarray](), list[int]()
        used = np.zeros(COLUMNS - 2, np.int64)
        try:
            logs = _logs(folder)
            with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
                for rows in pool.map(_rows_of, logs):
                    heads.append(rows[:, 0].copy())
                    starts.append(rows[:, 1].copy())
                    sizes.append(len(rows))
                    used += rows[:, 2:].sum(axis=0)
        except OSError as error:
            words = f"{error.filename or folder}: cannot be read ({error.strerror})"
            raise InputError(words) from error
        nothing = np.empty(0, np.int64)
        all_heads, all_starts = (np.concatenate([nothing, *parts]) for parts in (heads, starts))
        del heads, starts
        order = np.argsort(all_heads, kind="stable")
        number = np.repeat(np.arange(len(logs), dtype=np.int32), sizes)
        names = [log.name for log in logs]
        return cls(names, all_heads[order], number[order], all_starts[order], Usage(*used.tolist()))

    def of(self, key: str) -> Iterator[tuple[str, int]]:
        """Yield log and byte of the answers whose keys begin as this one does."""
        first, last = np.searchsorted(self.heads, [_head(key), _head(key) + 1])
        for place in range(first, last):
            yield self.names[self.logs[place]], int(self.starts[place])
