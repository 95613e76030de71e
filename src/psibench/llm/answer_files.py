"""Writing answers: one append-only file per writer, every answer out of the process at once."""

import os
import secrets
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from psibench.llm.records import encode_line

OPEN_SUFFIX = ".open.jsonl"
CLOSED_SUFFIX = ".jsonl"


class AnswerWriter:
    """Appends answers to a file of its own; not for use by several threads.

    A file under way ends in ``.open.jsonl``; `close` renames it to ``.jsonl``. After ``kill -9``
    it keeps the first name, and its answers are read like all others.

    Parameters
    ----------
    folder
        Made with the first answer, as is the file.
    fsync_every_s
        `sync_if_due` asks the file system to make answers durable at most this often; 0 does it
        after every answer. ``kill -9`` loses nothing either way; a power cut what is younger.
    """

    def __init__(self, folder: Path, *, fsync_every_s: float = 1.0) -> None:
        self._folder, self._fsync_every_s = folder, fsync_every_s
        self._handle: int | None = None
        self._path: Path | None = None
        self._size = 0
        self._synced_size = 0
        self._synced_at = 0.0

    @property
    def path(self) -> Path | None:
        """The file under way, or None."""
        return self._path

    def append(self, key: str, record: Mapping[str, Any]) -> tuple[Path, int]:
        """Write one answer; return its file and where in it the line starts.

        Raises
        ------
        OSError
            If it could not be written whole (a full disk, say). The file is cut back to its last
            whole line, or left for a fresh one if even that fails, and stays usable.
        """
        line = encode_line(key, record)
        handle, path = self._opened()
        start, written = self._size, 0
        try:
            while written < len(line):
                written += os.write(handle, line[written:])
        except OSError:
            self._cut_back()
            raise
        self._size += len(line)
        if self._fsync_every_s == 0:
            self.sync()
        return path, start

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
        """Make the file durable and give it its final name. The writer may be used again."""
        if self._handle is None or self._path is None:
            return
        try:
            os.fsync(self._handle)
        finally:
            os.close(self._handle)
            path, self._handle, self._path = self._path, None, None
        path.rename(path.with_name(path.name.removesuffix(OPEN_SUFFIX) + CLOSED_SUFFIX))

    def _opened(self) -> tuple[int, Path]:
        if self._handle is None or self._path is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._path = self._folder / (_unique_name() + OPEN_SUFFIX)
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
            self._handle = os.open(self._path, flags, 0o666)
            self._size = self._synced_size = 0
            self._synced_at = time.monotonic()
        return self._handle, self._path

    def _cut_back(self) -> None:
        if self._handle is None:
            return
        try:
            os.ftruncate(self._handle, self._size)
        except OSError:
            os.close(self._handle)
            self._handle = self._path = None


def _unique_name() -> str:
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    host = "".join(c if c.isalnum() else "-" for c in socket.gethostname())[:32]
    return f"answers-{moment}-{host}-{os.getpid()}-{secrets.token_hex(4)}"
