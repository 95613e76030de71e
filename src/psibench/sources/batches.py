"""What a source holds: its rows, put into frames of bounded size."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from psibench.sources.bad_records import BadRecords
from psibench.sources.convert import PagedText
from psibench.tables.dropped import Flow, dropped_frame
from psibench.text.passages import PAGE_STARTS

DOCUMENT_SCHEMA = {"_id": pl.String, "text": pl.String, "origin": pl.String}
BATCH_ROWS = 10_000
BATCH_CHARS = 8_000_000
Row = tuple[str, str, str]


@dataclass(frozen=True)
class SourceDocuments:
    """What a source holds."""

    batches: Iterator[pl.DataFrame]
    """DOCUMENTS rows, read as they are asked for, once; whether ids are unique is not checked."""
    left_out: pl.DataFrame = field(default_factory=dropped_frame)
    """What the source itself leaves out, with reasons (`DROPPED_SCHEMA`)."""
    counted: tuple[tuple[str, Flow], ...] = ()
    """The counts of what it leaves out: (stage, counts)."""
    bad: BadRecords = field(default_factory=lambda: BadRecords(0))
    """Files that could not be read so far."""

    @property
    def dropped(self) -> pl.DataFrame:
        """What was left out of the batches read, with reasons (`DROPPED_SCHEMA`)."""
        return pl.concat([self.left_out, dropped_frame(self.bad.dropped("files", "documents"))])

    @property
    def flow(self) -> tuple[tuple[str, Flow], ...]:
        """The counts of what was left out of the batches read: (stage, counts)."""
        return (*self.counted, *self.bad.flow("files", "documents"))

    @cached_property
    def documents(self) -> pl.DataFrame:
        """All rows in one frame."""
        return pl.concat(self.batches, how="diagonal")


def batch_documents(rows: Iterable[Row]) -> Iterator[pl.DataFrame]:
    """Put rows (id, text, origin) into frames of DOCUMENTS rows, texts stripped, no blank ones.

    A frame has at most ``BATCH_ROWS`` rows and is closed by the one that reaches ``BATCH_CHARS``
    characters. A frame in which a text has pages has the column `PAGE_STARTS`.
    """
    batch: list[Row] = []
    pages: list[list[int] | None] = []
    n_chars = 0
    for key, text, origin in rows:
        if stripped := text.strip():
            batch.append((key, stripped, origin))
            pages.append(text.page_starts if isinstance(text, PagedText) else None)
            n_chars += len(stripped)
        if len(batch) == BATCH_ROWS or n_chars >= BATCH_CHARS:
            yield _frame(batch, pages)
            batch, pages, n_chars = [], [], 0
    if batch:
        yield _frame(batch, pages)


def _frame(batch: list[Row], pages: list[list[int] | None]) -> pl.DataFrame:
    frame = pl.DataFrame(batch, schema=DOCUMENT_SCHEMA, orient="row")
    if any(pages):
        frame = frame.with_columns(pl.Series(PAGE_STARTS, pages, dtype=pl.List(pl.Int32)))
    return frame
