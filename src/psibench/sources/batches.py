"""Documents of a source, in frames of bounded size."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from psibench.sources.bad_records import BadRecords
from psibench.sources.convert import PagedText
from psibench.tables.dropped import Flow, dropped_frame
from psibench.text.passages import PAGE_STARTS

DOCUMENT_SCHEMA = {"_id": pl.String, "text": pl.String, "origin": pl.String}
DOCUMENTS_PER_BATCH = 10_000
CHARS_PER_BATCH = 8_000_000
DocumentRow = tuple[str, str, str]
"""Id, text and origin."""


@dataclass(frozen=True)
class SourceDocuments:
    """The documents of a source, and what it leaves out."""

    batches: Iterator[pl.DataFrame]
    """DOCUMENTS rows, read lazily and only once; ids may repeat."""
    left_out: pl.DataFrame = field(default_factory=dropped_frame)
    """Dropped rows of what the source leaves out (`DROPPED_SCHEMA`)."""
    counted: tuple[tuple[str, Flow], ...] = ()
    """(stage, counts) of what the source leaves out."""
    bad: BadRecords = field(default_factory=lambda: BadRecords(0))
    """Files that could not be read so far."""

    @property
    def dropped(self) -> pl.DataFrame:
        """Dropped rows of the source and of the batches read so far (`DROPPED_SCHEMA`)."""
        return pl.concat([self.left_out, dropped_frame(self.bad.dropped("files", "documents"))])

    @property
    def flow(self) -> tuple[tuple[str, Flow], ...]:
        """(stage, counts) of what the source and the batches read so far leave out."""
        return (*self.counted, *self.bad.flow("files", "documents"))

    @cached_property
    def documents(self) -> pl.DataFrame:
        """All documents in one frame."""
        return pl.concat(self.batches, how="diagonal")


def batch_documents(rows: Iterable[DocumentRow]) -> Iterator[pl.DataFrame]:
    """Yield frames of DOCUMENTS rows, with texts stripped and without blank texts.

    A frame has at most ``DOCUMENTS_PER_BATCH`` rows, and ends with the row that reaches
    ``CHARS_PER_BATCH`` characters. If a text has pages, its frame has the column `PAGE_STARTS`.
    """
    batch: list[DocumentRow] = []
    pages: list[list[int] | None] = []
    n_chars = 0
    for key, text, origin in rows:
        if stripped := text.strip():
            batch.append((key, stripped, origin))
            pages.append(text.page_starts if isinstance(text, PagedText) else None)
            n_chars += len(stripped)
        if len(batch) == DOCUMENTS_PER_BATCH or n_chars >= CHARS_PER_BATCH:
            yield _frame(batch, pages)
            batch, pages, n_chars = [], [], 0
    if batch:
        yield _frame(batch, pages)


def _frame(batch: list[DocumentRow], pages: list[list[int] | None]) -> pl.DataFrame:
    frame = pl.DataFrame(batch, schema=DOCUMENT_SCHEMA, orient="row")
    if any(pages):
        frame = frame.with_columns(pl.Series(PAGE_STARTS, pages, dtype=pl.List(pl.Int32)))
    return frame
