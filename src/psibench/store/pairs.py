"""The content-addressed store of pair scores: each reranker scores a pair once, for all jobs.

A store is a folder ``{root}/{fingerprint}`` with logs of `SCORE_ROW` and their indexes: see
`psibench.store.keyed`. A batch is written as soon as it is scored. If two jobs scored a pair at the
same time, it is stored twice, and the first record counts.
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
from psibench.store.keyed import KeyedStore, LogKind, Scan
from psibench.store.parts import is_key, key_column, part_paths, read_part
from psibench.tables.atomic import atomic_path

logger = logging.getLogger("psibench")

SUFFIX = ".scores"
SCORE_ROW = np.dtype([("key", f"S{KEY_BYTES}"), ("raw", "<f8"), ("score", "<f8"), ("check", "<u4")])
"""One scored pair. `check` is the crc32 of the other fields, which reveals a damaged row."""
_CHECKED_BYTES = SCORE_ROW.itemsize - 4
EARLIER_JOURNAL, EARLIER_MARKER = ".open", "pair-scores"
EARLIER_COLUMNS = {"key": is_key, "raw": pa.types.is_float64, "score": pa.types.is_float64}


def pair_keys(pairs: Sequence[tuple[str, str]]) -> np.ndarray:
    """Return the addresses of (query, text) pairs, (n_pairs,) of 16 bytes each."""
    return np.frombuffer(b"".join(content_key(query, text) for query, text in pairs), KEY)


@dataclass(frozen=True)
class StoredScores:
    """Stored scores of several pairs: ``known`` bool, ``raw`` and ``score`` float64.

    All (n_pairs,); NaN for pairs that are not known.
    """

    known: np.ndarray
    raw: np.ndarray
    score: np.ndarray


def unknown_scores(keys: np.ndarray) -> StoredScores:
    """Return the scores in an empty store."""
    unknown = np.full(len(keys), np.nan)
    return StoredScores(np.zeros(len(keys), dtype=bool), unknown, unknown.copy())


class PairStore:
    """Scores by pair key for one reranker's fingerprint. Use as a context manager to write.

    Not thread-safe.

    Parameters
    ----------
    root
        Folder of the stores of one reranker.
    fingerprint
        Fingerprint of the reranker.
    """

    def __init__(self, root: str | Path, fingerprint: str) -> None:
        self.folder = Path(root) / fingerprint[:24]
        self._stored = KeyedStore(self.folder, SCORES)

    def __enter__(self) -> "PairStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.seal()

    def find(self, keys: np.ndarray) -> StoredScores:
        """Look up pairs, in the order of ``keys``.

        Memory depends on the number of keys, not on the size of the store.

        Raises
        ------
        InputError
            If the store cannot be read, or an earlier version's part is damaged.
        """
        scores = unknown_scores(keys)
        self._stored.refresh()
        records = self._stored.find(keys)
        # From last to first, so that the first record of a pair overwrites later ones.
        order = np.lexsort((records.starts, records.logs))[::-1]
        turns = np.flatnonzero(np.diff(records.logs[order])) + 1
        for run in np.split(order, turns) if len(order) else ():
            last, first = records.starts[run[0]], records.starts[run[-1]]
            log = records.names[records.logs[run[0]]]
            rows = _rows(self._stored.read(log, first, last - first + SCORE_ROW.itemsize))
            at = (records.starts[run] - first) // SCORE_ROW.itemsize
            which, rows = records.which[run][at < len(rows)], rows[at[at < len(rows)]]
            is_sound = (_checks(rows) == rows["check"]) & (rows["key"] == keys[which])
            which, rows = which[is_sound], rows[is_sound]
            scores.known[which] = True
            scores.raw[which], scores.score[which] = rows["raw"], rows["score"]
        return scores

    def add(self, keys: np.ndarray, raw: np.ndarray, score: np.ndarray) -> None:
        """Store one batch; when this returns, the scores survive the death of the process.

        Raises
        ------
        OSError
            If it cannot be written completely, e.g. because the disk is full; nothing is stored
            then.
        """
        self._stored.add(_checked_rows(keys, raw, score).tobytes())

    def seal(self) -> None:
        """Make the added scores durable and index them."""
        self._stored.seal()


def _checked_rows(keys: np.ndarray, raw: np.ndarray, score: np.ndarray) -> np.ndarray:
    rows = np.empty(len(keys), SCORE_ROW)
    rows["key"], rows["raw"], rows["score"] = keys, raw, score
    rows["check"] = _checks(rows)
    return rows


def _checks(rows: np.ndarray) -> np.ndarray:
    data = rows.tobytes()
    starts = range(0, len(data), SCORE_ROW.itemsize)
    return np.array([zlib.crc32(data[s : s + _CHECKED_BYTES]) for s in starts], dtype=np.uint32)


def _rows(data: bytes) -> np.ndarray:
    return np.frombuffer(data, SCORE_ROW, count=len(data) // SCORE_ROW.itemsize)


def _scan(log: Path) -> Scan:
    rows = _rows(log.read_bytes())
    is_whole = _checks(rows) == rows["check"]
    if not is_whole.all():
        n_damaged = np.count_nonzero(~is_whole)
        logger.warning("%s: %d damaged rows; their pairs are scored again", log, n_damaged)
    starts = np.flatnonzero(is_whole) * SCORE_ROW.itemsize
    keys, sizes = rows["key"][is_whole], np.full(len(starts), SCORE_ROW.itemsize)
    return Scan(keys, starts, sizes, is_sound=bool(is_whole.all()))


def _migrate(folder: Path) -> None:
    """Convert the parts and journals of earlier versions into logs."""
    for path in part_paths(folder):
        try:
            table = read_part(path, EARLIER_COLUMNS, marker=EARLIER_MARKER, holds="pair scores")
        except InputError:
            if path.exists():
                raise
            continue  # another job converted it meanwhile
        raw, score = (table.column(name).to_numpy() for name in ("raw", "score"))
        with atomic_path(path.with_suffix(SUFFIX)) as temporary:
            rows = _checked_rows(key_column(table.column("key")), raw, score)
            temporary.write_bytes(rows.tobytes())
            shutil.copystat(path, temporary)  # its old date shows that it has no writer
        path.unlink(missing_ok=True)
    for path in folder.glob(f"*{EARLIER_JOURNAL}"):
        with suppress(FileNotFoundError):
            path.rename(path.with_suffix(SUFFIX))


SCORES = LogKind("scores", SUFFIX, _scan, log_bytes=65_536 * SCORE_ROW.itemsize, migrate=_migrate)
