"""The answer store: each request is sent once, for all jobs, even if processes are killed.

A store is a folder, one per model, with logs (``answers-*.jsonl``) that have one line per answer,
and their indexes: see `psibench.store.keyed`, and `psibench.store.records` for a line. The key is
the hash of the request, 64 hex digits. If two jobs send the same request at the same time, the
answer in the log that was begun first counts. Damaged or incomplete lines are ignored with a
warning.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, astuple
from itertools import chain
from pathlib import Path

import numpy as np

from psibench.errors import InputError
from psibench.llm.answer import Answer
from psibench.llm.usage import Usage
from psibench.store.index import KEY, KEY_BYTES
from psibench.store.keyed import KeyedStore, LogKind, Scan
from psibench.store.records import read_log, read_record, write_record

LOG, COMPRESSED, EARLIER_INDEX = ".jsonl", ".jsonl.zst", ".index"


class AnswerStore:
    """Answers by request key, in one folder; other jobs' answers as of the first look-up.

    ``folder`` is created with the first answer. Answers are made to survive a power cut every
    second. A killed process loses nothing in any case.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._stored = KeyedStore(self.folder, ANSWERS)
        self._is_read = False
        self._added: dict[str, tuple[str, int, int]] = {}

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def __enter__(self) -> "AnswerStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, key: str) -> Answer | None:
        """Return the stored answer of a request, or None."""
        if not self._is_read:
            self._stored.refresh()
            self._is_read = True
        added = [self._added[key]] if key in self._added else []
        for location in chain(self._stored.records(_index_key(key)), added):
            answer = read_line(self._stored.read(*location))
            if answer is not None and answer.key == key:
                return answer
        return None

    def usage(self) -> Usage:
        """Return the tokens of all stored answers, from all jobs and runs.

        A request that two jobs sent was paid for twice and counts twice.
        """
        now = KeyedStore(self.folder, ANSWERS)
        now.refresh()
        return sum((Usage(*counts) for counts in now.summaries()), Usage())

    def add(self, answer: Answer) -> None:
        """Store an answer; when this returns, a killed process does not lose it.

        Raises
        ------
        OSError
            If it cannot be written completely, e.g. because the disk is full; nothing is stored
            then.
        """
        line = write_record(answer.key, asdict(answer))
        self._added.setdefault(answer.key, (*self._stored.add(line), len(line)))

    def sync(self) -> None:
        """Make the stored answers durable."""
        self._stored.sync()

    def close(self) -> None:
        """Make all answers durable and indexed; the store can be used again."""
        self._stored.seal()
        self._stored, self._is_read, self._added = KeyedStore(self.folder, ANSWERS), False, {}


def stored_answers(folder: str | Path) -> Iterator[Answer]:
    """Read a whole store and yield the answer of each key, by the time when logs were begun."""
    seen = set[str]()
    for log in sorted(Path(folder).glob(f"*{LOG}")):
        for _, _, answer in _answers_in(log):
            if answer is not None and answer.key not in seen:
                seen.add(answer.key)
                yield answer


def read_line(line: bytes) -> Answer | None:
    """Read an answer's line; None if it is damaged or incomplete."""
    record = read_record(line)
    try:
        return None if record is None else Answer.from_record(json.loads(record))
    except (ValueError, TypeError, KeyError):
        return None


def _index_key(key: str) -> bytes:
    return bytes.fromhex(key[: 2 * KEY_BYTES])


def _answers_in(log: Path) -> Iterator[tuple[int, int, Answer | None]]:
    return read_log(log, read_line, lost="their requests are sent again")


def _scan(log: Path) -> Scan:
    """Read a log; its summary is the usage of its answers."""
    keys, locations, used, is_sound = bytearray(), list[tuple[int, int]](), Usage(), True
    for start, size, answer in _answers_in(log):
        if answer is not None:
            keys += _index_key(answer.key)
            locations.append((start, size))
            used += answer.usage
        else:
            is_sound = False
    starts, sizes = np.array(locations, np.int64).reshape(-1, 2).T
    return Scan(np.frombuffer(bytes(keys), KEY), starts, sizes, astuple(used), is_sound)


def _clear_earlier(folder: Path) -> None:
    """Delete the indexes of earlier versions.

    Raises
    ------
    InputError
        If there are answers that an earlier version compressed.
    """
    for path in folder.glob(f"*{COMPRESSED}"):
        raise InputError(
            f"{path}: an earlier version compressed this file; decompress it with `unzstd --rm`"
        )
    for path in folder.glob(f"*{EARLIER_INDEX}"):
        path.unlink(missing_ok=True)


ANSWERS = LogKind("answers", LOG, _scan, migrate=_clear_earlier)
