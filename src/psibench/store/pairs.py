"""The content-addressed store of pair scores: a pair is scored once per reranker, whoever asks.

A store is a folder ``{root}/{fingerprint}`` of Parquet parts and of journals. A batch goes into
its writer's journal as soon as it is scored; a journal becomes a part when it is long enough or
its writer is done. Of a killed job the journal stays, and is read like a part. Any number of jobs
may use a store at the same time, without locks; a pair that two of them scored at once stands in
it twice, and the first one found counts.
"""

import os
import secrets
import socket
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from psibench.store.parts import (
    KEY,
    KEY_BYTES,
    content_key,
    is_key,
    key_heads,
    part_paths,
    read_part,
    write_part,
)
from psibench.tables.atomic import write_whole

MARKER = "pair-scores"
COLUMNS = {"key": is_key, "raw": pa.types.is_float64, "score": pa.types.is_float64}
SUFFIX = ".open"
"""Of journals: scores on their way into a part, which survive `kill -9`."""
ROW = np.dtype([("key", f"S{KEY_BYTES}"), ("raw", "<f8"), ("score", "<f8"), ("check", "<u4")])
"""One scored pair of a journal. `check` is the crc32 of what comes before it: a torn row shows."""
_CHECKED_BYTES = ROW.itemsize - 4


def pair_keys(pairs: Sequence[tuple[str, str]]) -> np.ndarray:
    """Return the addresses of (query, text) pairs, (n_pairs,) of 16 bytes each."""
    return np.frombuffer(b"".join(content_key(query, text) for query, text in pairs), KEY)


@dataclass(frozen=True)
class Found:
    """What a store knows of several pairs: ``known`` bool, ``raw`` and ``score`` float64.

    All (n_pairs,); NaN where not known.
    """

    known: np.ndarray
    raw: np.ndarray
    score: np.ndarray


def nothing_found(keys: np.ndarray) -> Found:
    """Return what an empty store knows."""
    unknown = np.full(len(keys), np.nan)
    return Found(np.zeros(len(keys), dtype=bool), unknown, unknown.copy())


class PairStore:
    """Scores by pair key for one reranker's fingerprint. Use as a context manager to write.

    Not for use by several threads.

    Parameters
    ----------
    root
        Folder of the stores of one reranker.
    fingerprint
        The reranker's.
    pairs_per_part
        Scores in one part. All keys of a store are read when it is asked, part by part.
    """

    def __init__(self, root: str | Path, fingerprint: str, *, pairs_per_part: int = 65_536) -> None:
        self.folder = Path(root) / fingerprint[:24]
        self._pairs_per_part = pairs_per_part
        self._journal: tuple[int, Path] | None = None
        self._rows: list[np.ndarray] = []

    def __enter__(self) -> "PairStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.seal()

    def find(self, keys: np.ndarray) -> Found:
        """Look pairs up, in the order of ``keys``.

        Needs memory for the pairs asked for and one part, however large the store is.

        Raises
        ------
        InputError
            If a part is damaged.
        """
        wanted, places = np.unique(keys, return_inverse=True)
        heads = key_heads(wanted)
        found = nothing_found(wanted)
        known, raw, score = found.known, found.raw, found.score
        for stored, stored_raw, stored_score in self._stored() if len(wanted) else ():
            # Looked up by their first 8 bytes, as numbers; then compared whole.
            at = np.minimum(np.searchsorted(heads, key_heads(stored)), len(wanted) - 1)
            # From the last to the first, so that of a key stored twice the first one stays.
            hits = np.flatnonzero((wanted[at] == stored) & ~known[at])[::-1]
            known[at[hits]] = True
            raw[at[hits]], score[at[hits]] = stored_raw[hits], stored_score[hits]
        return Found(known[places], raw[places], score[places])

    def add(self, keys: np.ndarray, raw: np.ndarray, score: np.ndarray) -> None:
        """Store one batch in the journal; it has left the process when this returns.

        A killed process loses none of it, a power cut may.

        Raises
        ------
        OSError
            If it cannot be written whole (a full disk, say); nothing half-written stays.
        """
        rows = np.empty(len(keys), ROW)
        rows["key"], rows["raw"], rows["score"] = keys, raw, score
        rows["check"] = _checks(rows)
        handle, path = self._journal = self._journal or _new_journal(self.folder)
        size = os.fstat(handle).st_size
        try:
            write_whole(handle, rows.tobytes(), path)
        except OSError:
            os.ftruncate(handle, size)
            raise
        self._rows.append(rows)
        if sum(map(len, self._rows)) >= self._pairs_per_part:
            self.seal()

    def seal(self) -> None:
        """Turn what was added since the last time into a part."""
        if not any(map(len, self._rows)):
            return
        rows = np.concatenate(self._rows)
        rows = rows[np.unique(rows["key"], return_index=True)[1]]
        whole = np.ascontiguousarray(rows["key"]).tobytes()
        keys = [whole[i : i + KEY_BYTES] for i in range(0, len(whole), KEY_BYTES)]
        columns = {name: pa.array(rows[name]) for name in ("raw", "score")}
        write_part(self.folder, keys, columns, metadata={MARKER: "1"})
        self._discard_journal()

    def _discard_journal(self) -> None:
        if self._journal is not None:
            handle, path = self._journal
            os.close(handle)
            path.unlink(missing_ok=True)
        self._journal, self._rows = None, []

    def _stored(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield keys, raw and score of every journal, then of every part.

        In this order: a journal that vanishes has become a part by then.
        """
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            if path.is_dir():
                continue
            try:
                rows = read_journal(path)
            except FileNotFoundError:
                continue
            yield np.ascontiguousarray(rows["key"]), rows["raw"], rows["score"]
        for path in part_paths(self.folder):
            table = read_part(path, COLUMNS, marker=MARKER, holds="pair scores")
            raw, score = (table.column(name).to_numpy() for name in ("raw", "score"))
            yield _key_column(table.column("key")), raw, score


def _key_column(column: pa.ChunkedArray) -> np.ndarray:
    pieces = [
        np.frombuffer(chunk.buffers()[1], KEY)[chunk.offset : chunk.offset + len(chunk)]
        for chunk in column.chunks
    ]
    return np.concatenate(pieces) if pieces else np.empty(0, KEY)


def _new_journal(folder: Path) -> tuple[int, Path]:
    """Make a file that this process alone appends to."""
    folder.mkdir(parents=True, exist_ok=True)
    host = "".join(c if c.isalnum() else "-" for c in socket.gethostname())[:32]
    path = folder / f"{host}-{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o666), path


def read_journal(path: Path) -> np.ndarray:
    """Read the whole rows of a journal, of a living writer or a dead one, as `ROW`.

    Raises
    ------
    FileNotFoundError
        If its writer has discarded it meanwhile.
    """
    data = path.read_bytes()
    rows = np.frombuffer(data, ROW, count=len(data) // ROW.itemsize)
    return rows[_checks(rows) == rows["check"]]


def _checks(rows: np.ndarray) -> np.ndarray:
    data = rows.tobytes()
    starts = range(0, len(data), ROW.itemsize)
    return np.array([zlib.crc32(data[s : s + _CHECKED_BYTES]) for s in starts], dtype=np.uint32)
