"""Rows of a source put into frames of bounded size, their ids held to be unique over all."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import polars as pl

from psibench.errors import InputError
from psibench.sources.checks import refuse_repeated

logger = logging.getLogger("psibench")

DOCUMENT_SCHEMA = {"_id": pl.String, "text": pl.String, "origin": pl.String}
BATCH_ROWS = 10_000
BATCH_CHARS = 8_000_000
INDENTED = 1.25
"""So many times more pieces between blanks than words have texts that are laid out by blanks."""
Row = tuple[str, str, str]


def batch_documents(
    read: Callable[[], Iterator[Row]], *, place: str, empty: str
) -> Iterator[pl.DataFrame]:
    """Put the rows of a whole source into frames, as `batch_rows` does, and log what is odd.

    Raises InputError with the message ``empty`` if there is no text at all; if an id occurs twice.
    """
    texts = TextCounts()
    yield from batch_rows(read, place=place, texts=texts)
    if not texts.n:
        raise InputError(empty)
    texts.tell(place)


def batch_rows(
    read: Callable[[], Iterator[Row]], *, place: str, texts: "TextCounts"
) -> Iterator[pl.DataFrame]:
    """Put rows (id, text, origin) into frames of DOCUMENTS rows, texts stripped, no blank ones.

    A batch has at most ``BATCH_ROWS`` rows and is closed by the one that reaches ``BATCH_CHARS``
    characters. Of earlier batches 16 bytes per document are kept, a hash of its id and one of its
    text.

    Raises InputError if an id occurs twice.

    Parameters
    ----------
    read
        Starts reading from the beginning; called again only to name the records of a repeated id.
    place
        Names the source in messages.
    texts
        Counts the texts.
    """
    seen, hashes = SeenHashes(), SeenHashes()
    for rows in _cut(read()):
        frame = pl.DataFrame(rows, schema=DOCUMENT_SCHEMA, orient="row")
        rows.clear()
        refuse_repeated(frame, where=place)
        ids = frame.get_column("_id")
        for key in ids.filter(pl.Series(seen.add(ids.hash().to_numpy()))):
            _refuse_second(key, read(), place)
        texts.count(frame, seen=hashes)
        yield frame


@dataclass
class TextCounts:
    """What is counted of the texts of a source: how often one is repeated, and their words.

    Of files that are read apart, each has its own, and `add` puts them together.
    """

    n: int = 0
    n_repeated: int = 0
    n_pieces: int = 0
    n_words: int = 0
    first: str = ""
    """Id of the first text that repeats another."""

    def count(self, frame: pl.DataFrame, *, seen: "SeenHashes") -> None:
        """Count the texts of a batch; ``seen`` has the hashes of earlier ones."""
        texts = frame.get_column("text")
        earlier = pl.Series(seen.add(texts.hash().to_numpy())) | ~texts.is_first_distinct()
        repeated = frame.get_column("_id").filter(earlier)
        self.first = self.first or next(iter(repeated), "")
        self.n += frame.height
        self.n_repeated += len(repeated)
        self.n_pieces += int(texts.str.count_matches(" ", literal=True).sum()) + frame.height
        self.n_words += int(texts.str.count_matches(r"\S+").sum())

    def add(self, other: "TextCounts") -> None:
        """Count what was counted of another file."""
        self.n += other.n
        self.n_repeated += other.n_repeated
        self.n_pieces += other.n_pieces
        self.n_words += other.n_words
        self.first = self.first or other.first

    def tell(self, place: str) -> None:
        """Log what is odd about the texts."""
        for line in self.doubts():
            logger.warning("%s: %s", place, line)

    def doubts(self) -> Iterator[str]:
        """Say what is odd, a line each."""
        if self.n_repeated:
            yield (
                f"{self.n_repeated:,} of {self.n:,} documents have the text of an earlier one, "
                f"word for word; the first is {self.first!r}"
            )
        if self.n_pieces > INDENTED * self.n_words:
            yield (
                f"the texts are indented or aligned by blanks: {self.n_words:,} words, and "
                f"{self.n_pieces:,} where each blank ends one, as the papers count and as bounds "
                "in words are meant"
            )


def _refuse_second(key: str, rows: Iterator[Row], place: str) -> None:
    """Raise InputError, naming both records, if an id and not only its hash is there twice."""
    origins = (origin for other, text, origin in rows if other == key and text.strip())
    both = list(islice(origins, 2))
    if len(both) == 2:
        raise InputError(
            f"{place}: id {key!r} occurs 2 times ({'; '.join(both)}) or more. Ids must be unique."
        )


def _cut(rows: Iterator[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    n_chars = 0
    for key, text, origin in rows:
        if stripped := text.strip():
            batch.append((key, stripped, origin))
            n_chars += len(stripped)
        if len(batch) == BATCH_ROWS or n_chars >= BATCH_CHARS:
            yield batch
            batch, n_chars = [], 0
    if batch:
        yield batch


# --- A memory of ids, small enough for tens of millions of them --------------------------------


class SeenHashes:
    """Hashes seen so far: 8 bytes each, in sorted runs that are merged as they grow.

    Each run is more than twice as long as the one after it. 25 million documents (50 GB of 2 kB
    each) take 200 MB, and twice that while runs are merged.
    """

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def add(self, hashes: np.ndarray) -> np.ndarray:
        """Say which of (n,) uint64 hashes an earlier call was given, (n,) bool; remember all.

        Hashes repeated within the call are remembered once, and not told.
        """
        seen = np.zeros(len(hashes), dtype=bool)
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            seen |= run[places] == hashes
        if not seen.all():
            self._runs.append(np.unique(hashes[~seen]))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            merged = np.concatenate([self._runs.pop(), self._runs.pop()])
            merged.sort()
            self._runs.append(merged)
        return seen
