"""Rows of a source put into frames of bounded size, their ids held to be unique over all."""

from collections.abc import Callable, Iterator
from itertools import islice

import polars as pl

from psibench.errors import InputError
from psibench.sources.checks import refuse_repeated
from psibench.sources.seen_ids import SeenHashes

DOCUMENT_SCHEMA = {"_id": pl.String, "text": pl.String, "origin": pl.String}
BATCH_ROWS = 10_000
BATCH_CHARS = 8_000_000
Row = tuple[str, str, str]


def batch_documents(
    read: Callable[[], Iterator[Row]], *, place: str, empty: str
) -> Iterator[pl.DataFrame]:
    """Put rows (id, text, origin) into frames of DOCUMENTS rows, texts stripped, no blank ones.

    A batch has at most ``BATCH_ROWS`` rows and is closed by the one that reaches ``BATCH_CHARS``
    characters. Of earlier batches 8 bytes per document are kept, a hash of its id.

    Parameters
    ----------
    read
        Starts reading from the beginning; called again only to name the records of a repeated id.
    place
        Names the source in messages.
    empty
        Message for a source without text.

    Raises
    ------
    InputError
        With the message ``empty`` if there is no text at all; if an id occurs twice.
    """
    seen = SeenHashes()
    for rows in _cut(read()):
        frame = pl.DataFrame(rows, schema=DOCUMENT_SCHEMA, orient="row")
        rows.clear()
        refuse_repeated(frame, "_id", where=place)
        ids = frame.get_column("_id")
        for key in ids.filter(pl.Series(seen.add(ids.hash().to_numpy()))):
            _refuse_second(key, read(), place)
        yield frame
    if not len(seen):
        raise InputError(empty)


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
