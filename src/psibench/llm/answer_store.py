"""The answer store: a request is asked once, whoever asks and whatever becomes of the process.

A store is a folder, one per model (`answer_files` has its formats). While a job runs, it appends to
a *log* of its own (``answers-*.jsonl``), one line per answer, written out of the process the moment
it arrives. A log that is long enough, or whose job ends, becomes a *segment*
(``answers-*.jsonl.zst``): the same lines, compressed. The log of a killed job stays. *Indexes*
(``index-*.bin``) say where answers are. Those of a size are merged, so that there are some tens of
them; one that is damaged or lost is made anew.

Nothing is locked. A file has one writer, appears whole (but for a log) and goes once another holds
all of it: a segment its log, an index those it was merged from. Who finds a file gone lists the
folder anew. Two jobs that run at once may ask the same: the answer in the file that was begun first
counts. A last line that is not whole is passed over, and so is what is damaged, with a warning.
"""

import errno
import logging
import os
import re
import secrets
import socket
import threading
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

import numpy as np

from psibench.errors import InputError
from psibench.llm.answer import Answer
from psibench.llm.answer_files import (
    INDEX,
    LOG,
    SEGMENT,
    DamagedIndexError,
    Index,
    Part,
    Place,
    answer_at,
    answers_in,
    compress_log,
    key_head,
    longest,
    scan,
    write_index,
    write_line,
)
from psibench.llm.usage import Usage
from psibench.tables.atomic import atomic_path

logger = logging.getLogger("psibench")
T = TypeVar("T")

LOG_BYTES = 8 << 20
"""A log of so many becomes a segment while its job goes on: others read logs whole."""
UNINDEXED_BYTES, UNINDEXED_FILES = 256 << 20, 256
"""Logs without an index that whoever reads them puts into one."""
FAN_BITS = 3
"""Eight indexes of a size are merged; of a size are those of 8 to 63 entries, 64 to 511, ..."""
UNMERGED = 64
"""Indexes that whoever reads them merges; else it is done when a job closes its store."""
MOST_ENTRIES = 1 << 22
"""Answers in an index that is made by merging: 64 MiB, and three times as much while it is."""
PAUSES_S = (0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0)
"""Pauses before the folder is listed anew: another machine may show an old listing for a while."""


class AnswerStore:
    """Answers by request key, in one folder; those of other jobs as of the first look.

    Opening reads logs and the heads of indexes; then a key costs a page of each index, and many
    keys cost less together (`look_up`). ``folder`` is made with the first answer. Answers are made
    to survive a power cut at most every ``fsync_every_s``, 0: after each. A killed process loses
    nothing either way.
    """

    def __init__(self, folder: str | Path, *, fsync_every_s: float = 1.0) -> None:
        self.folder = Path(folder)
        self._fsync_every_s = fsync_every_s
        self._known: dict[str, tuple[Place, ...]] = {}
        self._files: dict[str, int] = {}
        self._indexes: list[Index] | None = None
        self._ignored: set[str] = set()
        self._block: dict[Place, list[bytes]] = {}
        self._lock = threading.Lock()  # between `sync` in its thread and the end of a log
        self._handle: int | None = None
        self._log = self.folder
        self._size = 0
        self._synced_size, self._synced_at = 0, 0.0

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def __enter__(self) -> "AnswerStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def look_up(self, keys: Iterable[str]) -> int:
        """Find out which keys have answers, all at once, and return how many do."""
        wanted = list(dict.fromkeys(keys))
        self._reading(lambda: self._find([key for key in wanted if key not in self._known]))
        return sum(bool(self._known[key]) for key in wanted)

    def get(self, key: str) -> Answer | None:
        """Return the stored answer of a request, or None."""

        def read() -> Answer | None:
            if key not in self._known:
                self._find([key])
            answers = map(self._answer_at, self._known[key])
            return next((found for found in answers if found and found.key == key), None)

        return self._reading(read)

    def usage_by_task(self) -> dict[str, tuple[int, Usage]]:
        """Return how many answers there are now, and their tokens, by task, whoever asked and when.

        What two jobs asked at once was paid for twice and counts twice.
        """
        self._indexes = None
        return self._reading(self._usage)

    def add(self, answer: Answer) -> None:
        """Store an answer; it has left the process when this returns.

        Raises
        ------
        OSError
            If it could not be written whole (a full disk, say). The file is cut back to its last
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
        place = Place(self._log.name, self._size, 0)
        self._known[answer.key] = (*self._known.get(answer.key, ()), place)
        self._size += len(line)
        if self._fsync_every_s == 0:
            self.sync()
        if self._size >= LOG_BYTES:
            self._seal()

    def is_sync_due(self) -> bool:
        """Say whether there are answers that are not durable and older than the cadence."""
        due = time.monotonic() - self._synced_at >= self._fsync_every_s
        return due and self._handle is not None and self._size > self._synced_size

    def sync(self) -> None:
        """Make what is written durable. May run in another thread."""
        with self._lock:
            if self._handle is not None:
                size = self._size
                os.fsync(self._handle)
                self._synced_size, self._synced_at = size, time.monotonic()

    def close(self) -> None:
        """Make all answers durable, compressed and indexed; the store may be used again."""
        if self._handle is not None:
            try:
                self.sync()
            finally:
                self._seal()
            with suppress(OSError):  # the next job does it
                _tidy(self.folder)

    # This job's log

    def _begin(self) -> int:
        """Make a file for this job's answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        host = re.sub(r"\W", "-", socket.gethostname())[:32]
        name = f"answers-{moment}-{host}-{os.getpid()}-{secrets.token_hex(4)}{LOG}"
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
        self._log = self.folder / name
        self._handle = os.open(self._log, flags, 0o666)
        self._size, self._synced_size, self._synced_at = 0, 0, time.monotonic()
        return self._handle

    def _end(self) -> None:
        """Write no more to the log."""
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _seal(self) -> None:
        """Turn the log into a segment; where that fails (a full disk, say) it stays a log."""
        self._end()
        segment = self._log.with_name(f"{self._log.name}.zst")
        try:
            if self._size:
                with atomic_path(segment) as temporary:
                    temporary.write_bytes(b"".join(compress_log(self._log.read_bytes())))
                write_index(self.folder, [scan(segment)])
            self._log.unlink()
            self._indexes = None
        except OSError as error:
            logger.warning("%s: stays uncompressed (%s)", self._log, error.strerror or error)

    # What is stored

    def _reading(self, work: Callable[[], T]) -> T:
        """Do what reads the store; again, and by a new listing, where a file has gone meanwhile."""
        n_tries = 0
        while True:
            try:
                if self._indexes is None:
                    self._indexes = self._listed()
                return work()
            except DamagedIndexError as damage:
                logger.warning("%s: damaged index; what it was of is read anew", damage.path)
                try:
                    damage.path.unlink(missing_ok=True)
                except OSError:
                    self._ignored.add(damage.path.name)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ESTALE) or n_tries == len(PAUSES_S):
                    words = f"{error.filename or self.folder}: cannot be read ({error.strerror})"
                    raise InputError(words) from error
                time.sleep(PAUSES_S[n_tries])
                n_tries += 1
            self._indexes = None

    def _listed(self) -> list[Index]:
        """List the folder, open its indexes, and read what no index knows."""
        names = _list(self.folder)
        if sum(INDEX.fullmatch(name) is not None for name in names) >= UNMERGED:
            with suppress(OSError):
                _tidy(self.folder)
            names = _list(self.folder)
        self._files = files = _data_files(names)
        self._known = {
            key: places
            for key, places in self._known.items()
            if all(place.name in files for place in places)
        }
        found = [name for name in names if INDEX.fullmatch(name) and name not in self._ignored]
        indexes = [Index.open(self.folder / name) for name in found]
        known = longest((file for index in indexes for file in index.files), files)
        new = [name for name in files if name not in known or known[name].size < files[name]]
        n_bytes = sum(files[name] for name in new)
        is_large = n_bytes >= UNINDEXED_BYTES or len(new) >= UNINDEXED_FILES
        kept, passing = list[Part](), list[Part]()
        for name in new:
            is_kept = is_large or name.endswith(SEGMENT)
            (kept if is_kept else passing).append(scan(self.folder / name))
            if kept and (name == new[-1] or sum(len(one[1]) for one in kept) > MOST_ENTRIES // 8):
                indexes.append(self._indexed(kept))
                kept.clear()
        return [*indexes, Index.of(passing)]

    def _indexed(self, parts: Sequence[Part]) -> Index:
        """Write an index, or keep it in memory where nothing can be written."""
        try:
            return Index.open(write_index(self.folder, parts))
        except OSError:
            return Index.of(parts)

    def _find(self, keys: Sequence[str]) -> None:
        heads = np.array([key_head(key) for key in keys], dtype=np.uint64)
        order = np.argsort(heads)
        found: dict[str, list[Place]] = {key: [] for key in keys}
        for index in self._indexes or ():
            for number, place in index.find(heads[order]):
                if place.name in self._files:
                    found[keys[order[number]]].append(place)
        self._known |= {key: tuple(sorted(set(places))) for key, places in found.items()}

    def _answer_at(self, place: Place) -> Answer | None:
        path = self.folder / place.name
        answer = answer_at(path, place, self._block)
        if answer is None and place.name not in self._ignored:
            self._ignored.add(place.name)
            for _ in answers_in(path):  # says how many are lost
                pass
        return answer

    def _usage(self) -> dict[str, tuple[int, Usage]]:
        every = (file for index in self._indexes or () for file in index.files)
        files = longest(every, self._files)
        sums: dict[str, tuple[int, Usage]] = {}
        for task, (n, *tokens) in (each for one in files.values() for each in one.usage.items()):
            before, used = sums.get(task, (0, Usage()))
            sums[task] = before + n, used + Usage(*tokens)
        return sums


def stored_usage(folder: str | Path) -> Usage:
    """Add up the tokens of all answers in a store's folder; one that does not exist has none."""
    return sum((used for _, used in AnswerStore(folder).usage_by_task().values()), Usage())


def stored_answers(folder: str | Path) -> Iterator[Answer]:
    """Read a whole store and yield the answer of each key, files in the order they were begun."""
    seen = set[str]()
    for name in sorted(_data_files(_list(Path(folder)))):
        for _, _, answer in answers_in(Path(folder) / name):
            if answer.key not in seen:
                seen.add(answer.key)
                yield answer


# Files of a folder


def _list(folder: Path) -> dict[str, int]:
    """Return the files of a folder with the sizes of logs (0 of others), in their names' order.

    A listing may miss a file that goes under it and the one that takes its place; two do not.
    """
    found = dict[str, int]()
    for _ in range(2):
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if entry.is_file():
                        is_log = entry.name.endswith(LOG)
                        found[entry.name] = entry.stat().st_size if is_log else 0
    return dict(sorted(found.items()))


def _data_files(names: dict[str, int]) -> dict[str, int]:
    """Choose logs and segments; without a log whose segment is there."""
    chosen = {name: size for name, size in names.items() if name.endswith((LOG, SEGMENT))}
    return {name: size for name, size in chosen.items() if f"{name}.zst" not in chosen}


def _tidy(folder: Path) -> None:
    """Merge indexes of a size, and remove what is superseded."""
    names = _list(folder)
    files, sizes = _data_files(names), defaultdict[int, list[str]](list)
    for name in names:
        if found := INDEX.fullmatch(name):
            sizes[(int(found[1]).bit_length() - 1) // FAN_BITS].append(name)
    for group in sizes.values():
        n_entries = accumulate(int(name.split("-")[1]) for name in group)
        del group[bisect_right(list(n_entries), MOST_ENTRIES) :]
        if len(group) >= 1 << FAN_BITS:
            with suppress(OSError, DamagedIndexError):  # another job merges them, or a reader sees
                parts = [Index.open(folder / name).part for name in group]
                merged = write_index(folder, parts, alive=files)
                for name in set(group) - {merged.name}:
                    (folder / name).unlink(missing_ok=True)
    for name in names:
        if name.endswith(LOG) and f"{name}.zst" in names:
            with suppress(OSError):
                (folder / name).unlink()
