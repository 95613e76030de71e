"""The answer store: a request is asked once, whoever asks and whatever becomes of the process.

A store is a folder, one per model. Each job appends to one file of its own (``answers-*.jsonl``),
one line per answer, written out of the process the moment the answer arrives::

    {"sum":"<crc32, 8 hex>","key":"<hash of the request, 64 hex>","record":{...}}

The checksum is over everything after it. All files of the folder are read at the start, so a job
that was killed and runs again asks only what was in flight. Nothing is locked: two jobs that run
at once may ask the same, which counts once (the first one found). A last line that is not whole is
passed over (its writer was killed, or is writing it now), and so is a damaged one.
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
from pathlib import Path

from psibench.errors import InputError
from psibench.llm.answer import Answer
from psibench.llm.usage import Usage

logger = logging.getLogger("psibench")

_FILES = 1 << 24
"""A place is packed into one integer: the line's start times this, plus the file's number."""

_LINE = re.compile(
    rb'\{"sum":"([0-9a-f]{8})(","key":"([0-9a-f]{64})","record":(\{.*\})\})\n', re.DOTALL
)


class AnswerStore:
    """Answers by request key, in one folder; those of other jobs as of the last `refresh`.

    ``folder`` is made with the first answer. Answers are made to survive a power cut at most every
    ``fsync_every_s``, 0: after each. A killed process loses nothing either way.
    """

    def __init__(self, folder: str | Path, *, fsync_every_s: float = 1.0) -> None:
        self.folder = Path(folder)
        self._fsync_every_s = fsync_every_s
        self._places: dict[bytes, int] = {}
        self._files: list[Path] = []
        self._handle: int | None = None
        self._own = -1  # number of the file under way
        self._size = 0
        self._synced_size, self._synced_at = 0, 0.0

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: str) -> bool:
        return bytes.fromhex(key) in self._places

    def __enter__(self) -> "AnswerStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def keys(self) -> Iterator[str]:
        """Yield the keys known so far."""
        return (key.hex() for key in self._places)

    def refresh(self) -> None:
        """Read the keys of all files."""
        for path in sorted(self.folder.glob("*.jsonl")):
            number = self._number_of(path)
            for start, key, _ in _lines(path):
                self._places.setdefault(key, start * _FILES + number)

    def get(self, key: str) -> Answer | None:
        """Return the stored answer of a request, or None."""
        place = self._places.get(bytes.fromhex(key))
        if place is None:
            return None
        at, number = divmod(place, _FILES)
        with open(self._files[number], "rb") as file:
            file.seek(at)
            found = _LINE.fullmatch(file.readline())
        if found is None:
            raise InputError(f"{file.name}: the line at byte {at} is damaged; run again to ask it")
        return _answer(found[4])

    def add(self, answer: Answer) -> None:
        """Store an answer; it has left the process when this returns.

        Raises
        ------
        OSError
            If it could not be written whole (a full disk, say). The file is cut back to its last
            whole line, or left for a fresh one if even that fails.
        """
        payload = json.dumps(answer.to_record(), separators=(",", ":")).encode()
        tail = b'","key":"%s","record":%s}' % (answer.key.encode(), payload)
        line = b'{"sum":"%08x%s\n' % (zlib.crc32(tail), tail)
        handle = self._open() if self._handle is None else self._handle
        written = 0
        try:
            while written < len(line):
                written += os.write(handle, line[written:])
        except OSError:
            try:
                os.ftruncate(handle, self._size)
            except OSError:
                os.close(handle)
                self._handle = None
            raise
        place = self._size * _FILES + self._own
        self._size += len(line)
        self._places.setdefault(bytes.fromhex(answer.key), place)
        if self._fsync_every_s == 0:
            self.sync()

    def is_sync_due(self) -> bool:
        """Say whether there are answers that are not durable and older than the cadence."""
        due = time.monotonic() - self._synced_at >= self._fsync_every_s
        return due and self._handle is not None and self._size > self._synced_size

    def sync(self) -> None:
        """Make what is written durable. May run in another thread."""
        if self._handle is not None:
            size = self._size
            os.fsync(self._handle)
            self._synced_size, self._synced_at = size, time.monotonic()

    def close(self) -> None:
        """Make the file durable; the store may be used again."""
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
            if self._size == 0:  # no answer could be written
                self._files[self._own].unlink(missing_ok=True)

    def _open(self) -> int:
        """Make a file for this job's answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        host = re.sub(r"\W", "-", socket.gethostname())[:32]
        name = f"answers-{moment}-{host}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
        self._handle = os.open(self.folder / name, flags, 0o666)
        self._own = self._number_of(self.folder / name)
        self._size, self._synced_size, self._synced_at = 0, 0, time.monotonic()
        return self._handle

    def _number_of(self, path: Path) -> int:
        if path not in self._files:
            self._files.append(path)
        return self._files.index(path)


def stored_usage(folder: str | Path) -> Usage:
    """Add up the tokens of all answers in a store's folder, whoever asked and when.

    What two jobs asked at once was paid for twice and counts twice. A folder that does not exist
    has none.
    """
    files = sorted(Path(folder).glob("*.jsonl"))
    return sum((_answer(record).usage for at in files for _, _, record in _lines(at)), Usage())


def _lines(path: Path) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (offset, key, record as JSON) of a file's lines that are whole."""
    start = n_damaged = 0
    with open(path, "rb") as file:
        for line in file:
            found = _LINE.fullmatch(line)
            if found is not None and int(found[1], 16) == zlib.crc32(found[2]):
                yield start, bytes.fromhex(found[3].decode()), found[4]
            elif line.endswith(b"\n"):
                n_damaged += 1
            else:
                logger.info("%s: the last line is not whole and is passed over", path)
            start += len(line)
    if n_damaged:
        logger.warning("%s: %d damaged lines; their requests are asked again", path, n_damaged)


def _answer(record: bytes) -> Answer:
    return Answer.from_record(json.loads(record))
