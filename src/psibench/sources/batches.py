"""Rows of a source put into frames of bounded size."""

from collections.abc import Iterable, Iterator

import polars as pl

DOCUMENT_SCHEMA = {"_id": pl.String, "text": pl.String, "origin": pl.String}
BATCH_ROWS = 10_000
BATCH_CHARS = 8_000_000
Row = tuple[str, str, str]


def batch_documents(rows: Iterable[Row]) -> Iterator[pl.DataFrame]:
    """Put rows (id, text, origin) into frames of DOCUMENTS rows, texts stripped, no blank ones.

    A frame has at most ``BATCH_ROWS`` rows and is closed by the one that reaches ``BATCH_CHARS``
    characters.
    """
    batch: list[Row] = []
    n_chars = 0
    for key, text, origin in rows:
        if stripped := text.strip():
            batch.append((key, stripped, origin))
            n_chars += len(stripped)
        if len(batch) == BATCH_ROWS or n_chars >= BATCH_CHARS:
            yield pl.DataFrame(batch, schema=DOCUMENT_SCHEMA, orient="row")
            batch, n_chars = [], 0
    if batch:
        yield pl.DataFrame(batch, schema=DOCUMENT_SCHEMA, orient="row")
