"""The answer store: a request is asked once, whoever asks and whatever becomes of the process.

A store is a folder, one per model. A job appends to *logs* of its own (``answers-*.jsonl``), one
line per answer, written out of the process the moment it arrives; the checksum is over everything
after it::

    {"sum":"<crc32, 8 hex>","key":"<hash of the request, 64 hex>","record":{...}}

*Indexes* (``index-*.sqlite``) say in which log an answer is, and what the answers used. They hold
nothing that cannot be made anew from the logs; those of a size are merged, so that there are some
tens of them.

Nothing is locked. A log has one writer and stays; an index appears whole, is never changed and goes
once another holds all of it. Two jobs that run at once may ask the same: the answer in the log that
was begun first counts. What is damaged or not whole is passed over, with a warning.
"""

import hashlib
import json
import logging
import os
import re
import secrets
import socket
import sqlite3
import time
import zlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import fields
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar
from urllib.parse import quote

from psibench.errors import InputError
from psibench.llm.answer import Answer
from psibench.llm.usage import Usage
from psibench.tables.atomic import atomic_path

logger = logging.getLogger("psibench")
T = TypeVar("T")

LOG, COMPRESSED = ".jsonl", ".jsonl.zst"
LINE = re.compile(
    rb'\{"sum":"([0-9a-f]{8})(","key":"([0-9a-f]{64})","record":(\{.*\})\})\n', re.DOTALL
)
START = b'{"sum":"'
INDEX = re.compile(r"index-(\d{10})-[0-9a-f]{16}\.sqlite")
"""Name of an index, with the number of its entries."""
TABLES = """
CREATE TABLE log (id INTEGER PRIMARY KEY, name TEXT UNIQUE, size INTEGER, usage TEXT);
CREATE TABLE answer (head INTEGER, log INTEGER, at INTEGER, PRIMARY KEY (head, log, at))
    WITHOUT ROWID;
"""
"""``usage``: by task, answers and `Usage`'s fields; ``head``: the first 60 bits of a key; ``at``:
byte of the log."""

LOG_BYTES = 8 << 20
"""A log of so many is indexed while its job goes on, which begins another."""
UNINDEXED_BYTES, UNINDEXED_LOGS = 256 << 20, 256
"""Logs without an index that whoever reads them puts into one; fewer are read by every job."""
FAN_BITS = 3
"""Eight indexes of a size are merged when a job closes its store; of a size are those of 8 to 63
entries, 64 to 511, ..."""
MOST_ENTRIES = 1 << 22
"""Answers in an index that is made by merging."""
N_SUMS = 1 + len(fields(Usage))
SYNC_S = 1.0
KEYS_PER_QUERY, LOGS_AT_ONCE = 1000, 64
PAUSES_S = (0.0, 0.1, 1.0, 5.0)
"""Pauses before the folder is listed anew: another machine may show an old listing for a while."""


class LogOffset(NamedTuple):
    """Where an answer is: a log, and the byte its line begins at."""

    log: str
    at: int


class ScannedLog(NamedTuple):
    """A log as an index knows it; ``places`` are (head of the key, byte)."""

    name: str
    size: int
    usage: dict[str, list[int]]
    places: list[tuple[int, int]]


class AnswerStore:
    """Answers by request key, in one folder; those of other jobs as of the first look.

    Opening reads logs without an index; then keys cost some pages of each index, less if they are
    looked up together. ``folder`` is made with the first answer. Answers are made to survive a
    power cut every second. A killed process loses nothing either way.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._known: dict[str, tuple[LogOffset, ...]] = {}
        self._indexes: list[_Index] | None = None
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

    def look_up(self, keys: Iterable[str]) -> int:
        """Find out which keys have answers, all at once, and return how many do."""
        wanted = list(dict.fromkeys(keys))
        self._reading(lambda indexes: self._find(wanted, indexes))
        return sum(bool(self._known[key]) for key in wanted)

    def get(self, key: str) -> Answer | None:
        """Return the stored answer of a request, or None."""
        self._reading(lambda indexes: self._find([key], indexes))
        answers = map(self._answer_at, self._known[key])
        return next((found for found in answers if found and found.key == key), None)

    def usage(self) -> Usage:
        """Return the tokens of all answers there are now, whoever asked and when.

        What two jobs asked at once was paid for twice and counts twice.
        """
        self._close_indexes()
        logs = self._reading(_logs_of).values()
        used = (Usage(*tokens) for log in logs for _, *tokens in log.usage.values())
        return sum(used, Usage())

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
        place = LogOffset(self._log.name, self._size)
        self._known[answer.key] = (*self._known.get(answer.key, ()), place)
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
        if self._handle is not None:
            self._end()
            with suppress(OSError):  # the next job does it
                _merge(self.folder)
        self._close_indexes()
        if self._reader is not None:
            self._reader[1].close()
            self._reader = None

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
            with suppress(OSError, sqlite3.Error):
                write_index(self.folder, [scan(self._log)])

    # What is stored

    def _reading(self, work: "Callable[[list[_Index]], T]") -> T:
        """Do what reads indexes; again, and by a new listing, where one has gone or is damaged."""
        pauses = iter(PAUSES_S)
        while True:
            try:
                if self._indexes is None:
                    self._indexes = self._opened()
                return work(self._indexes)
            except _UnreadableIndexError as error:
                self._close_indexes()
                path = error.path
                if path.is_file():
                    logger.warning("%s: damaged index; its logs are read anew", path)
                    _remove_damaged(path)
                elif (pause_s := next(pauses, None)) is None:
                    raise InputError(f"{path}: is listed and cannot be opened") from error
                else:
                    time.sleep(pause_s)
            except OSError as error:
                words = f"{error.filename or self.folder}: cannot be read ({error.strerror})"
                raise InputError(words) from error

    def _opened(self) -> "list[_Index]":
        """List the folder, open its indexes, and read what no index knows."""
        names = _files(self.folder)
        if any(name.endswith(COMPRESSED) for name in names):
            _decompress_logs(self.folder)
            names = _files(self.folder)
        indexes = [_Index(self.folder / name) for name in names if INDEX.fullmatch(name)]
        known = _logs_of(indexes)
        sizes = {name: (self.folder / name).stat().st_size for name in names if name.endswith(LOG)}
        new = [
            name
            for name, size in sizes.items()
            if size > (known[name].size if name in known else 0)
        ]
        n_bytes = sum(sizes[name] for name in new)
        is_kept = n_bytes >= UNINDEXED_BYTES or len(new) >= UNINDEXED_LOGS
        for first in range(0, len(new), LOGS_AT_ONCE):
            some = new[first : first + LOGS_AT_ONCE]
            scanned = [scan(self.folder / name) for name in some]
            indexes.append(self._indexed(scanned, is_kept=is_kept))
        return indexes

    def _indexed(self, scanned: Sequence[ScannedLog], *, is_kept: bool) -> "_Index":
        """Write an index, or keep it in memory where it is small or nothing can be written."""
        if is_kept:
            with suppress(OSError, sqlite3.Error):
                return _Index(write_index(self.folder, scanned))
        database = sqlite3.connect(":memory:")
        _fill(database, scanned)
        return _Index(Path(), database)

    def _find(self, keys: Iterable[str], indexes: "list[_Index]") -> None:
        new = [key for key in keys if key not in self._known]
        heads, found = sorted(set(map(_head, new))), defaultdict[int, set[LogOffset]](set)
        for first in range(0, len(heads), KEYS_PER_QUERY):
            some = heads[first : first + KEYS_PER_QUERY]
            query = (
                "SELECT head, name, at FROM answer JOIN log ON log.id = answer.log "
                f"WHERE head IN ({','.join('?' * len(some))})"
            )
            for index in indexes:
                for head, name, at in index.rows(query, some):
                    if not isinstance(at, int) or at < 0:
                        raise _UnreadableIndexError(index.path)
                    found[head].add(LogOffset(name, at))
        self._known |= {key: tuple(sorted(found[_head(key)])) for key in new}

    def _answer_at(self, place: LogOffset) -> Answer | None:
        if self._reader is None or self._reader[0] != place.log:
            if self._reader is not None:
                self._reader[1].close()
            try:
                self._reader = place.log, open(self.folder / place.log, "rb")  # noqa: SIM115
            except OSError:
                self._reader = None
                self._tell_lost(place.log, 0)  # a log that somebody removed
                return None
        self._reader[1].seek(place.at)
        answer = read_line(self._reader[1].readline())
        if answer is None and place.log not in self._damaged:
            left = scan(self.folder / place.log, tells=False)
            self._tell_lost(place.log, len(left.places))
        return answer

    def _tell_lost(self, name: str, n_left: int) -> None:
        """Say how many answers of a log that an index knows are not there any more."""
        known = _logs_of(self._indexes or ()).get(name)
        n_lost = sum(used[0] for used in known.usage.values()) - n_left if known else 0
        if n_lost > 0 and name not in self._damaged:
            path = self.folder / name
            logger.warning("%s: %d answers are lost; their requests are asked again", path, n_lost)
        self._damaged.add(name)

    def _close_indexes(self) -> None:
        for index in self._indexes or ():
            index.database.close()
        self._indexes = None


def stored_usage(folder: str | Path) -> Usage:
    """Add up the tokens of all answers in a store's folder; one that does not exist has none."""
    with AnswerStore(folder) as store:
        return store.usage()


def stored_answers(folder: str | Path) -> Iterator[Answer]:
    """Read a whole store and yield the answer of each key, logs in the order they were begun."""
    _decompress_logs(Path(folder))
    seen = set[str]()
    for name in _files(Path(folder)):
        for _, answer in _answers_in(Path(folder) / name) if name.endswith(LOG) else ():
            if answer.key not in seen:
                seen.add(answer.key)
                yield answer


# Logs


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


def scan(log: Path, *, tells: bool = True) -> ScannedLog:
    """Read what an index has to know of a log."""
    size, places, usage = log.stat().st_size, list[tuple[int, int]](), dict[str, list[int]]()
    for at, answer in _answers_in(log, tells=tells):
        places.append((_head(answer.key), at))
        used = [1, *vars(answer.usage).values()]
        before = usage.get(answer.task, [0] * len(used))
        usage[answer.task] = [a + b for a, b in zip(before, used, strict=True)]
    return ScannedLog(log.name, size, usage, places)


def _files(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.is_file())


def _decompress_logs(folder: Path) -> None:
    """Turn what earlier versions compressed (``*.jsonl.zst``) into logs again."""
    import pyarrow as pa

    for name in _files(folder):
        if not name.endswith(COMPRESSED):
            continue
        path, log = folder / name, folder / name.removesuffix(".zst")
        if log.exists():  # it is whole: its job, or another reader, was killed before the end
            path.unlink(missing_ok=True)
            continue
        content, is_damaged = bytearray(), False
        try:
            with pa.input_stream(str(path), compression="zstd") as old:
                while block := old.read(1 << 10):
                    content += block
        except FileNotFoundError:
            continue  # another job has done it
        except OSError as error:
            logger.warning("%s: damaged (%s); what follows is asked again", path, error)
            is_damaged = True
        with atomic_path(log) as temporary:
            temporary.write_bytes(content)
        with suppress(FileNotFoundError):
            if is_damaged:
                path.rename(f"{path}.damaged")
            path.unlink(missing_ok=True)
    for path in folder.glob("index-*.bin"):
        path.unlink(missing_ok=True)


# Indexes


class _UnreadableIndexError(Exception):
    """An index that has gone or is damaged."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path


def _remove_damaged(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        message = f"{path}: damaged, and cannot be removed ({error.strerror}); remove it"
        raise InputError(message) from error


class _Index:
    """One index, opened without a lock: it is never changed."""

    def __init__(self, path: Path, database: sqlite3.Connection | None = None) -> None:
        self.path, self.address = path, f"file:{quote(str(path.absolute()))}?immutable=1"
        try:
            self.database = database or sqlite3.connect(self.address, uri=True)
        except sqlite3.Error:
            raise _UnreadableIndexError(path) from None
        rows = self.rows("SELECT name, size, usage FROM log")
        try:
            self.logs = [
                ScannedLog(name, size, json.loads(usage), []) for name, size, usage in rows
            ]
        except (ValueError, TypeError, RecursionError):
            raise _UnreadableIndexError(path) from None
        if not all(map(_is_log, self.logs)):
            raise _UnreadableIndexError(path)

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            return self.database.execute(query, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError):
            raise _UnreadableIndexError(self.path) from None


def _is_log(log: ScannedLog) -> bool:
    """Say whether what an index says of a log may be so, whoever wrote it."""
    sums = log.usage.values() if isinstance(log.usage, dict) else [None]
    return (
        isinstance(log.name, str)
        and Path(log.name).name == log.name
        and isinstance(log.size, int)
        and all(isinstance(one, list) and len(one) == N_SUMS for one in sums)
        and all(isinstance(n, int) for one in sums if one for n in one)
    )


def _logs_of(indexes: Iterable[_Index]) -> dict[str, ScannedLog]:
    """Return logs by name; one that was read several times as it was read last."""
    known: dict[str, ScannedLog] = {}
    for log in (log for index in indexes for log in index.logs):
        if log.name not in known or log.size > known[log.name].size:
            known[log.name] = log
    return known


def _fill(database: sqlite3.Connection, logs: Iterable[ScannedLog]) -> None:
    """Put logs and the places of their answers into a new index."""
    database.executescript(TABLES)
    for number, log in enumerate(logs):
        row = number, log.name, log.size, json.dumps(log.usage)
        database.execute("INSERT INTO log VALUES (?, ?, ?, ?)", row)
        database.executemany(
            f"INSERT INTO answer VALUES (?, {number}, ?)",
            sorted(log.places),
        )
    database.commit()


def write_index(folder: Path, logs: Sequence[ScannedLog], merged: Sequence[_Index] = ()) -> Path:
    """Write an index of logs, with the places that ``merged`` ones have; return its path.

    It is named after what is in it, so that two who write the same write one.
    """
    n_answers = sum(used[0] for log in logs for used in log.usage.values())
    listed = repr(sorted((log.name, log.size) for log in logs))
    digest = hashlib.sha256(listed.encode()).hexdigest()[:16]
    path = folder / f"index-{n_answers:010d}-{digest}.sqlite"
    with (
        atomic_path(path) as temporary,
        closing(sqlite3.connect(f"file:{quote(str(temporary.absolute()))}", uri=True)) as database,
    ):
        database.execute("PRAGMA journal_mode = OFF")  # it is written whole or not at all
        _fill(database, logs)
        for index in merged:
            database.execute("ATTACH ? AS old", [index.address])
            database.execute(
                "INSERT OR IGNORE INTO answer SELECT a.head, log.id, a.at FROM old.answer a "
                "JOIN old.log o ON o.id = a.log JOIN log ON log.name = o.name"
            )
            database.commit()
            database.execute("DETACH old")
    return path


def _merge(folder: Path) -> None:
    """Merge indexes of a size; logs that are not there any more are left out."""
    names, sizes = _files(folder), defaultdict[int, list[str]](list)
    for name in names:
        if found := INDEX.fullmatch(name):
            sizes[(int(found[1]).bit_length() - 1) // FAN_BITS].append(name)
    for group in sizes.values():
        n_entries = accumulate(int(name.split("-")[1]) for name in group)
        del group[bisect_right(list(n_entries), MOST_ENTRIES) :]
        if len(group) >= 1 << FAN_BITS:
            # Another job merges them, or a reader sees what is wrong with one.
            with suppress(OSError, sqlite3.Error, _UnreadableIndexError):
                indexes = [_Index(folder / name) for name in group]
                logs = [log for log in _logs_of(indexes).values() if log.name in names]
                merged = write_index(folder, logs, indexes)
                for index in indexes:
                    index.database.close()
                for name in set(group) - {merged.name}:
                    (folder / name).unlink(missing_ok=True)
