"""The content-addressed store of pair scores: a pair is scored once per reranker, whoever asks.

A store is a folder ``{root}/{fingerprint}`` of logs of `ROW` and of their indexes: see
`psibench.store.keyed`. A batch is written as soon as it is scored. A pair that two jobs scored at
once stands in it twice, and the first one found counts.
"""

import logging
import shutil
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from psibench.errors import InputError
from psibench.store.index import KEY, KEY_BYTES, content_key
from psibench.store.keyed import KeyedStore, Kind, Scan
from psibench.store.parts import is_key, key_column, part_paths, read_part
from psibench.tables.atomic import atomic_path

logger = logging.getLogger("psibench")

SUFFIX = ".scores"
ROW = np.dtype([("key", f"S{KEY_BYTES}"), ("raw", "<f8"), ("score", "<f8"), ("check", "<u4")])
"""One scored pair. `check` is the crc32 of what comes before it: a torn or damaged row shows."""
_CHECKED_BYTES = ROW.itemsize - 4
EARLIER_JOURNAL, EARLIER_MARKER = ".open", "pair-scores"
EARLIER_COLUMNS = {"key": is_key, "raw": pa.types.is_float64, "score": pa.types.is_float64}


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
    """

    def __init__(self, root: str | Path, fingerprint: str) -> None:
        self.folder = Path(root) / fingerprint[:24]
        self._stored = KeyedStore(self.folder, SCORES)

    def __enter__(self) -> "PairStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.seal()

    def find(self, keys: np.ndarray) -> Found:
        """Look pairs up, in the order of ``keys``.

        Needs memory for the pairs asked for, however large the store is.

        Raises
        ------
        InputError
            If the store cannot be read, or an earlier version's part of it is damaged.
        """
        found = nothing_found(keys)
        self._stored.refresh()
        records = self._stored.find(keys)
        # From the last to the first, so that of a pair stored twice the first one stays.
        order = np.lexsort((records.places, records.logs))[::-1]
        turns = np.flatnonzero(np.diff(records.logs[order])) + 1
        for run in np.split(order, turns) if len(order) else ():
            last, first = records.places[run[0]], records.places[run[-1]]
            log = records.names[records.logs[run[0]]]
            rows = _rows(self._stored.read(log, first, last - first + ROW.itemsize))
            at = (records.places[run] - first) // ROW.itemsize
            which, rows = records.which[run][at < len(rows)], rows[at[at < len(rows)]]
            is_right = (_checks(rows) == rows["check"]) & (rows["key"] == keys[which])
            which, rows = which[is_right], rows[is_right]
            found.known[which] = True
            found.raw[which], found.score[which] = rows["raw"], rows["score"]
        return found

    def add(self, keys: np.ndarray, raw: np.ndarray, score: np.ndarray) -> None:
        """Store one batch; it has left the process when this returns.

        A killed process loses none of it.

        Raises
        ------
        OSError
            If it cannot be written whole (a full disk, say); nothing half-written stays.
        """
        self._stored.add(_checked_rows(keys, raw, score).tobytes())

    def seal(self) -> None:
        """Make what was added durable and indexed."""
        self._stored.seal()


def _checked_rows(keys: np.ndarray, raw: np.ndarray, score: np.ndarray) -> np.ndarray:
    rows = np.empty(len(keys), ROW)
    rows["key"], rows["raw"], rows["score"] = keys, raw, score
    rows["check"] = _checks(rows)
    return rows


def _checks(rows: np.ndarray) -> np.ndarray:
    data = rows.tobytes()
    starts = range(0, len(data), ROW.itemsize)
    return np.array([zlib.crc32(data[s : s + _CHECKED_BYTES]) for s in starts], dtype=np.uint32)


def _rows(data: bytes) -> np.ndarray:
    return np.frombuffer(data, ROW, count=len(data) // ROW.itemsize)


def _scan(log: Path) -> Scan:
    rows = _rows(log.read_bytes())
    is_whole = _checks(rows) == rows["check"]
    if not is_whole.all():
        words = "%s: %d damaged rows; their pairs are scored again"
        logger.warning(words, log, np.count_nonzero(~is_whole))
    places = np.flatnonzero(is_whole) * ROW.itemsize
    keys, sizes = rows["key"][is_whole], np.full(len(places), ROW.itemsize)
    return Scan(keys, places, sizes, is_sound=bool(is_whole.all()))


def _migrate(folder: Path) -> None:
    """Make the parts and journals of earlier versions into logs."""
    for path in part_paths(folder):
        try:
            table = read_part(path, EARLIER_COLUMNS, marker=EARLIER_MARKER, holds="pair scores")
        except InputError:
            if path.exists():
                raise
            continue  # another job made it into a log meanwhile
        raw, score = (table.column(name).to_numpy() for name in ("raw", "score"))
        with atomic_path(path.with_suffix(SUFFIX)) as temporary:
            rows = _checked_rows(key_column(table.column("key")), raw, score)
            temporary.write_bytes(rows.tobytes())
            shutil.copystat(path, temporary)  # its date says that nobody writes to it
        path.unlink(missing_ok=True)
    for path in folder.glob(f"*{EARLIER_JOURNAL}"):
        with suppress(FileNotFoundError):
            path.rename(path.with_suffix(SUFFIX))


SCORES = Kind("scores", SUFFIX, _scan, log_bytes=65_536 * ROW.itemsize, migrate=_migrate)
