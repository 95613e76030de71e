"""The keyed store: a folder with logs, to which jobs append records, and with indexes of the logs.

A record is bytes under a key of 16 bytes (`store.index.content_key`), e.g. a language model's
answer under the hash of its request. A log has one writer and is never rewritten. When `add`
returns, the operating system has the record, and each record shows whether it is complete, so that
a killed job loses none. Indexes (`store.index`) are derived from logs. The job that ends a log
indexes it and merges this index with others that are not much larger. A store therefore has few
indexes, however many jobs wrote to it, and opening it reads only their ends. Bare logs, i.e. logs
that no index covers, belong to running or killed jobs; a reader reads them whole.

Nothing is locked, and files appear complete: any number of jobs may read and write, also on a
shared file system. After two simultaneous merges, a log may be in two indexes; then one counts. An
unused index is deleted some time later, because other machines may not see its replacement yet. The
first record of a key counts, in the order of the logs' names, which begin with the time.
"""

import logging
import os
import re
import secrets
import socket
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from psibench.errors import InputError
from psibench.store.index import (
    INDEX_ROW,
    Index,
    IndexedLog,
    LostIndexError,
    key_heads,
    write_index,
)
from psibench.tables.atomic import write_whole

_T = TypeVar("_T")
_Logs = dict[str, tuple[int, float]]
"""Bytes and time of change by name; 0 for logs that do not grow."""

logger = logging.getLogger("psibench")

INDEX_SUFFIX = ".keys"
GROWTH = 4
"""An index is merged with the next larger one if that one has at most this many times its rows."""
LIVING_S = 600.0
"""A log changed within this time may have a writer; a new index may not be visible elsewhere
yet."""
MOST_BARE = 1 << 18
"""Records of bare logs that a reader keeps in memory; with more, it tries to write an index."""
LOGS_AT_ONCE = 256
"""Logs indexed together, which limits the memory for the keys of an earlier version's store."""
FILES_AT_ONCE = 8
"""Files read at the same time, because a shared file system opens files slowly."""
OPEN_LOGS = 64
"""Logs that a reader keeps open."""
SYNC_S = 1.0
"""Interval at which records are made to survive a power cut."""
ATTEMPTS = 5
"""Attempts to read indexes that other jobs may delete meanwhile."""


@dataclass(frozen=True)
class Scan:
    """The records of a log: ``keys``, (n,) KEY, ``starts`` and ``sizes``, (n,) int64.

    ``summary`` is plain data about the log. A damaged log (not ``is_sound``) is not indexed, so
    that each reader warns about it.
    """

    keys: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray
    summary: Any = None
    is_sound: bool = True


@dataclass(frozen=True)
class LogKind:
    """The kind of a store's logs.

    ``scan`` reads a log. A job begins another log when one has ``log_bytes``. Logs that do not
    ``grow`` appear complete. ``migrate`` converts an earlier version's files in a folder.
    """

    prefix: str
    suffix: str
    scan: Callable[[Path], Scan]
    grows: bool = True
    log_bytes: int = 8 << 20
    migrate: Callable[[Path], None] = lambda _: None


@dataclass(frozen=True)
class Records:
    """Locations of the records of some keys, by key and then in the order of the logs.

    A record belongs to the key ``which`` (an index into the keys looked up) and is in the log
    ``logs`` (an index into ``names``) at ``starts``, with ``sizes``. All (n,) int64.
    """

    names: Sequence[str]
    which: np.ndarray
    logs: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray

    def first(self) -> "Records":
        """Return each key's first record."""
        at = np.flatnonzero(np.diff(self.which, prepend=-1))
        columns = (self.which, self.logs, self.starts, self.sizes)
        return Records(self.names, *(column[at] for column in columns))


class KeyedStore:
    """Records by key in one folder; finds other jobs' records as of the last `refresh`.

    Not thread-safe.
    """

    def __init__(self, folder: str | Path, kind: LogKind) -> None:
        self.folder, self._kind = Path(folder), kind
        self.names: list[str] = []
        self._listed: tuple[_Logs, set[str]] | None = None
        self._bare: _Logs = {}
        self._scans: dict[str, tuple[int, Scan]] = {}
        self._indexes: dict[str, Index] = {}
        self._damaged: set[str] = set()
        self._in_use: list[Index] = []
        self._is_open = False
        self._readers: dict[str, int] = {}
        weakref.finalize(self, _close, self._readers)
        self._handle: int | None = None
        self._log = ""
        self._size, self._synced_at = 0, 0.0

    # Reading

    def refresh(self) -> None:
        """Find the records that other jobs stored since.

        Raises
        ------
        InputError
            If the folder or a log cannot be read.
        """
        try:
            if not self._is_open:
                self._kind.migrate(self.folder)
            if not self._list_changes():
                return
            n_bare = sum(len(scan.keys) for _, scan in self._scans.values())
            if not self._is_open or n_bare > MOST_BARE:
                self._index_ended()
            self._is_open = True
            self._scan(self._bare)
        except OSError as error:
            message = f"{error.filename or self.folder}: cannot be read ({error.strerror})"
            raise InputError(message) from error
        fresh = self._scanned([*self._bare])
        ranks = {name: number for number, name in enumerate(self.names)}
        fresh.numbers = [ranks[log.name] for log in fresh.logs]
        self._in_use = [*filter(_has_any, self._indexes.values()), fresh]

    def find(self, keys: np.ndarray) -> Records:
        """Look up keys, (n,) KEY; returns all records of a key that was stored twice."""
        ascending = np.argsort(key_heads(keys), kind="stable")
        found = self._query(lambda index: index.find(keys[ascending]))
        which, rows = (np.concatenate(each) for each in zip(*found, strict=True))
        which = ascending[which]
        order = np.argsort(which, kind="stable")
        if np.any(np.diff(which[order]) == 0):
            order = np.lexsort((rows["start"], rows["log"], which))
        rows = rows[order]
        columns = (rows[name].astype(np.int64) for name in ("log", "start", "size"))
        return Records(self.names, which[order], *columns)

    def records(self, key: bytes) -> list[tuple[str, int, int]]:
        """Return log, start and size of a key's records; the first one counts."""
        found = sorted(chain.from_iterable(self._query(lambda index: index.locations(key))))
        return [(self.names[log], start, size) for log, start, size in found]

    def summaries(self) -> list[Any]:
        """Return the summaries of all logs, in their order."""
        logs = [
            (number, log.summary)
            for index in self._in_use
            for number, log in zip(index.numbers, index.logs, strict=True)
            if number >= 0
        ]
        return [summary for _, summary in sorted(logs, key=lambda log: log[0])]

    def read(self, log: str, start: int, size: int) -> bytes:
        """Read bytes of a log: fewer if the log ends before, none if it was removed.

        Raises
        ------
        InputError
            If it cannot be read.
        """
        try:
            if log not in self._readers:
                if len(self._readers) >= OPEN_LOGS:
                    _close(self._readers)
                self._readers[log] = os.open(f"{self.folder}/{log}", os.O_RDONLY)
            return os.pread(self._readers[log], size, start)
        except (FileNotFoundError, IsADirectoryError):
            return b""
        except OSError as error:
            message = f"{self.folder / log}: cannot be read ({error.strerror})"
            raise InputError(message) from error

    # Writing

    def add(self, data: bytes) -> tuple[str, int]:
        """Append to this job's log; when this returns, the operating system has the data.

        Returns
        -------
        The log, and the byte at which the data begin.

        Raises
        ------
        OSError
            If the data cannot be written completely, e.g. because the disk is full. The log is
            truncated to its previous size; if that fails too, the next call begins a new log.
        """
        handle = self._begin() if self._handle is None else self._handle
        try:
            write_whole(handle, data, self.folder / self._log)
        except OSError:
            try:
                os.ftruncate(handle, self._size)
            except OSError:
                self.seal()
            raise
        added = self._log, self._size
        self._size += len(data)
        if time.monotonic() - self._synced_at >= SYNC_S:
            self.sync()
        if self._size >= self._kind.log_bytes:
            self.seal()
        return added

    def sync(self) -> None:
        """Make the written records durable."""
        if self._handle is not None:
            os.fsync(self._handle)
            self._synced_at = time.monotonic()

    def seal(self) -> None:
        """End this job's log and index it; if indexing fails, readers do it."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        with suppress(OSError):
            store = KeyedStore(self.folder, self._kind)  # this one's view must not change
            store._list_changes()
            store._scan(store._bare.keys() & {self._log})
            store._index([*store._scans])

    def _begin(self) -> int:
        self.folder.mkdir(parents=True, exist_ok=True)
        host = re.sub(r"\W", "-", socket.gethostname())[:32]
        tail = f"{host}-{os.getpid()}-{secrets.token_hex(4)}{self._kind.suffix}"
        self._log = f"{self._kind.prefix}-{_moment()}-{tail}"
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
        self._handle = os.open(self.folder / self._log, flags, 0o666)
        self._size, self._synced_at = 0, time.monotonic()
        return self._handle

    # Indexes

    def _list_changes(self) -> bool:
        """List the folder; return whether it has changed since the last time.

        An index covers a log if it recorded the log's current size; if two cover it, the larger one
        counts.
        """
        for attempt in range(ATTEMPTS):
            logs, indexes = listed = self._list()
            if listed == self._listed and indexes - self._damaged == self._indexes.keys():
                return False
            self._indexes = {name: self._indexes[name] for name in self._indexes if name in indexes}
            try:
                for name in sorted(indexes - self._indexes.keys() - self._damaged):
                    self._open(name)
                break
            except FileNotFoundError:  # deleted meanwhile; its replacement may be new
                if attempt == ATTEMPTS - 1:
                    raise
        self._listed, self.names, self._bare = listed, sorted(logs), dict(logs)
        ranks = {name: number for number, name in enumerate(self.names)}
        for _, index in sorted(self._indexes.items(), key=lambda item: (-item[1].weight, item[0])):
            index.numbers = [
                ranks[name] if name in self._bare and logs[name][0] == size else -1
                for name, size, _ in index.logs
            ]  # fmt: skip
            for log, number in zip(index.logs, index.numbers, strict=True):
                if number >= 0:
                    del self._bare[log.name]
        self._scans = {name: scan for name, scan in self._scans.items() if name in self._bare}
        return True

    def _list(self) -> "tuple[_Logs, set[str]]":
        logs, indexes = _Logs(), set[str]()
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if entry.name.endswith(self._kind.suffix) and entry.is_file():
                        with suppress(FileNotFoundError):
                            stat = entry.stat() if self._kind.grows else None
                            logs[entry.name] = (stat.st_size, stat.st_mtime) if stat else (0, 0.0)
                    elif entry.name.endswith(INDEX_SUFFIX) and entry.is_file():
                        indexes.add(entry.name)
        except FileNotFoundError:
            pass
        except NotADirectoryError as error:
            message = f"{self.folder}: found a file, expected the folder of a store"
            raise InputError(message) from error
        return logs, indexes

    def _open(self, name: str) -> None:
        try:
            self._indexes[name] = Index.open(self.folder / name)
        except LostIndexError:
            self._mark_damaged(name)

    def _mark_damaged(self, name: str) -> None:
        logger.warning("%s: damaged index; its logs are read again", self.folder / name)
        self._indexes.pop(name, None)
        self._damaged.add(name)
        self._listed = None
        with suppress(OSError):
            (self.folder / name).unlink()

    def _query(self, query: Callable[[Index], _T]) -> list[_T]:
        """Query all indexes; if one is damaged or gone, refresh and query again."""
        for _ in range(ATTEMPTS):
            try:
                return [query(index) for index in self._in_use]
            except LostIndexError as lost:
                reason: Exception = lost
                for name in [name for name, each in self._indexes.items() if each is lost.index]:
                    if isinstance(lost.__cause__, OSError):
                        del self._indexes[name]
                    else:
                        self._mark_damaged(name)
                self.refresh()
        raise InputError(f"{self.folder}: an index cannot be read ({reason})")

    def _scan(self, names: Iterable[str]) -> None:
        """Read bare logs whose size has changed since they were last read."""
        old = {name for name, (size, _) in self._scans.items() if size == self._bare[name][0]}
        changed = [name for name in names if name not in old]
        with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
            scans = pool.map(self._kind.scan, [self.folder / name for name in changed])
            for name, scan in zip(changed, scans, strict=True):
                self._scans[name] = self._bare[name][0], scan

    def _scanned(self, names: Sequence[str]) -> Index:
        """Return an index, in memory, of logs read by `_scan`."""
        logs, all_rows = list[IndexedLog](), [np.empty(0, INDEX_ROW)]
        for number, name in enumerate(names):
            size, scan = self._scans[name]
            rows = np.empty(len(scan.keys), INDEX_ROW)
            rows["key"], rows["start"], rows["size"] = scan.keys, scan.starts, scan.sizes
            rows["log"] = number
            logs.append(IndexedLog(name, size, scan.summary))
            all_rows.append(rows)
        return Index.of(logs, np.concatenate(all_rows))

    def _index_ended(self) -> None:
        """Index the bare logs that no longer have a writer, some at a time."""
        before = time.time() - LIVING_S
        ended = [name for name, (_, changed) in self._bare.items() if changed < before]
        for first in range(0, len(ended), LOGS_AT_ONCE):
            some = [name for name in ended[first : first + LOGS_AT_ONCE] if name in self._bare]
            self._scan(some)
            if self._index(some):
                self._list_changes()

    def _index(self, names: Sequence[str]) -> bool:
        """Merge sound logs and the small indexes into one index; return whether one was written."""
        sound = [name for name in names if self._scans[name][1].is_sound]
        if not sound:
            return False
        chosen = [self._scanned(sound)]
        weight = chosen[0].weight
        for index in sorted(filter(_has_any, self._indexes.values()), key=lambda each: each.weight):
            if index.weight > GROWTH * weight:
                break
            chosen.append(index)
            weight += index.weight
        try:
            write_index(self.folder / f"{_moment()}-{secrets.token_hex(4)}{INDEX_SUFFIX}", chosen)
        except (OSError, LostIndexError):
            return False
        for name in [name for name, index in self._indexes.items() if index in chosen]:
            with suppress(OSError):
                os.utime(self.folder / name)  # the time since when it is unused
        self._clear(time.time() - LIVING_S)
        return True

    def _clear(self, before: float) -> None:
        """Delete unused indexes and killed jobs' temporary files that are older than ``before``.

        A machine that lists the folder from a cache may not see an index's replacement yet.
        """
        unused = [name for name, index in self._indexes.items() if not _has_any(index)]
        temporary = self.folder.glob(f".*{INDEX_SUFFIX}.*.tmp")
        for path in (*(self.folder / name for name in unused), *temporary):
            with suppress(OSError):
                if path.stat().st_mtime < before:
                    path.unlink()


def _has_any(index: Index) -> bool:
    """Return whether an index covers any log in its current size."""
    return max(index.numbers, default=-1) >= 0


def _close(readers: dict[str, int]) -> None:
    while readers:
        os.close(readers.popitem()[1])


def _moment() -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
