"""The answer store: a request is asked once, whoever asks and whatever becomes of the process.

A store is a folder, one per model, of logs (``answers-*.jsonl``) with one line per answer and of
their indexes: see `psibench.store.keyed`, and `psibench.store.records` for a line. Its key is the
hash of the request, 64 hex. Two jobs that run at once may ask the same: the answer in the log that
was begun first counts. What is damaged or not whole is passed over, with a warning.
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
from psibench.store.keyed import KeyedStore, Kind, Scan
from psibench.store.records import read_record, read_records, write_record

LOG, COMPRESSED, EARLIER_INDEX = ".jsonl", ".jsonl.zst", ".index"


class AnswerStore:
    """Answers by request key, in one folder; those of other jobs as of the first look.

    ``folder`` is made with the first answer. Answers are made to survive a power cut every second.
    A killed process loses nothing either way.
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
        for place in chain(self._stored.records(_index_key(key)), added):
            answer = read_line(self._stored.read(*place))
            if answer is not None and answer.key == key:
                return answer
        return None

    def usage(self) -> Usage:
        """Return the tokens of all answers there are now, whoever asked and when.

        What two jobs asked at once was paid for twice and counts twice.
        """
        now = KeyedStore(self.folder, ANSWERS)
        now.refresh()
        return sum((Usage(*used) for used in now.summaries()), Usage())

    def add(self, answer: Answer) -> None:
        """Store an answer; it has left the process when this returns.

        Raises
        ------
        OSError
            If it could not be written whole (a full disk, say); nothing half-written stays.
        """
        line = write_record(answer.key, asdict(answer))
        self._added.setdefault(answer.key, (*self._stored.add(line), len(line)))

    def sync(self) -> None:
        """Make what is written durable."""
        self._stored.sync()

    def close(self) -> None:
        """Make all answers durable and indexed; the store may be used again."""
        self._stored.seal()
        self._stored, self._is_read, self._added = KeyedStore(self.folder, ANSWERS), False, {}


def stored_answers(folder: str | Path) -> Iterator[Answer]:
    """Read a whole store and yield the answer of each key, logs in the order they were begun."""
    seen = set[str]()
    for log in sorted(Path(folder).glob(f"*{LOG}")):
        for _, _, answer in _answers_in(log):
            if answer is not None and answer.key not in seen:
                seen.add(answer.key)
                yield answer


def read_line(line: bytes) -> Answer | None:
    """Read an answer's line; None if it is damaged or not whole."""
    record = read_record(line)
    try:
        return None if record is None else Answer.from_record(json.loads(record))
    except (ValueError, TypeError, KeyError):
        return None


def _index_key(key: str) -> bytes:
    return bytes.fromhex(key[: 2 * KEY_BYTES])


def _answers_in(log: Path) -> Iterator[tuple[int, int, Answer | None]]:
    return read_records(log, read_line, lost="their requests are asked again")


def _scan(log: Path) -> Scan:
    """Read a log; its summary is the usage of its answers."""
    keys, places, used, is_sound = bytearray(), list[tuple[int, int]](), Usage(), True
    for at, size, answer in _answers_in(log):
        if answer is not None:
            keys += _index_key(answer.key)
            places.append((at, size))
            used += answer.usage
        else:
            is_sound = False
    starts, sizes = np.array(places, np.int64).reshape(-1, 2).T
    return Scan(np.frombuffer(bytes(keys), KEY), starts, sizes, astuple(used), is_sound)


def _clear_earlier(folder: Path) -> None:
    """Delete the indexes of earlier versions.

    Raises
    ------
    InputError
        If there are answers that an earlier version compressed.
    """
    for path in folder.glob(f"*{COMPRESSED}"):
        raise InputError(f"{path}: compressed by an earlier version; unzstd --rm that file")
    for path in folder.glob(f"*{EARLIER_INDEX}"):
        path.unlink(missing_ok=True)


ANSWERS = Kind("answers", LOG, _scan, migrate=_clear_earlier)
