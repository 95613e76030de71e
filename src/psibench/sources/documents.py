"""Documents of every kind of source, in batches: a source need not fit into memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from psibench.config.sources import FilesSource, HubSource, PythonDocsSource, SquadSource
from psibench.sources.files import document_file_batches, file_records
from psibench.sources.hub import hub_document_batches, hub_records
from psibench.sources.python_docs import read_python_docs
from psibench.sources.squad import read_squad_files
from psibench.sources.where import keep_records
from psibench.tables.dropped import dropped_frame


@dataclass(frozen=True)
class SourceDocuments:
    """What a source holds."""

    batches: Iterator[pl.DataFrame]
    """DOCUMENTS rows, read as they are asked for, once; ids are unique over all batches."""
    dropped: pl.DataFrame = field(default_factory=dropped_frame)
    """What the source itself left out, with reasons (`DROPPED_SCHEMA`)."""


def read_documents(
    source: SquadSource | HubSource | FilesSource | PythonDocsSource,
) -> SourceDocuments:
    """Read the documents of a source; of SQuAD files, the distinct contexts.

    Raises InputError if the source cannot be read, is not what it says, holds no text or repeats an
    id; of a source read batch by batch, when the batch that shows it is asked for.
    """
    if isinstance(source, PythonDocsSource):
        docs = read_python_docs(
            min_words=source.min_words,
            max_words=source.max_words,
            seed=source.seed,
            part=source.part,
        )
        return SourceDocuments(iter([docs.documents]), docs.dropped)
    if isinstance(source, FilesSource):
        return SourceDocuments(document_file_batches(source))
    if isinstance(source, HubSource):
        return SourceDocuments(hub_document_batches(source))
    return SourceDocuments(iter([_contexts(read_squad_files(source.paths))]))


def source_records(
    source: HubSource | FilesSource, columns: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ``(origin, record)`` of a source that ``where`` keeps, in order.

    Raises InputError if the source cannot be read, or ``where`` leaves nothing.

    Parameters
    ----------
    columns
        What is read of Parquet files.
    """
    if isinstance(source, FilesSource):
        place = ", ".join(source.paths)
        named = [*columns, *(one.column for one in source.where)]
        records = file_records(source.paths, named)
    else:
        place = source.name
        records = hub_records(source)
    return keep_records(records, source.where, place=place)


def _contexts(questions: pl.DataFrame) -> pl.DataFrame:
    """Take the distinct contexts of QUESTIONS rows as documents, in sorted order."""
    distinct = questions.unique("context", keep="first").sort("context")
    return distinct.with_row_index("number").select(
        pl.format("p{}", pl.col("number").cast(pl.String).str.zfill(5)).alias("_id"),
        pl.col("context").str.strip_chars().alias("text"),
        "origin",
    )
