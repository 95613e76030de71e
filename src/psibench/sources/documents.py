"""Documents of every kind of source, in batches, so that a source need not fit into memory."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from psibench.config.sources import (
    DocumentSource,
    FilesSource,
    PythonDocsSource,
    RecordSource,
    SquadSource,
)
from psibench.errors import InputError
from psibench.sources.bad_records import BadRecords
from psibench.sources.batches import DocumentRow, SourceDocuments, batch_documents
from psibench.sources.checks import refuse_repeated, require_id, require_text
from psibench.sources.files import UNREADABLE_FIELD
from psibench.sources.python_docs import read_python_docs
from psibench.sources.records import NumberedRecord, numbered_records, source_name
from psibench.sources.squad import read_squad_files
from psibench.tables.dropped import dropped_frame

_DEFAULT_ID_COLUMNS = ("_id", "id")


def read_documents(source: DocumentSource) -> SourceDocuments:
    """Read the documents of a source; for SQuAD files, the distinct contexts.

    Raises InputError if the source cannot be read, has the wrong format, or has no text. A source
    that is read batch by batch raises it with the faulty batch.
    """
    if isinstance(source, PythonDocsSource):
        return read_python_docs(**source.model_dump(exclude={"kind"}))
    if isinstance(source, SquadSource):
        bad = BadRecords(source.max_bad_share)
        contexts = _contexts(read_squad_files(source.paths, bad))
        left_out = dropped_frame(bad.dropped("squad", "questions"))
        return SourceDocuments(iter([contexts]), left_out, bad.flow("squad", "questions"))
    bad = BadRecords(source.max_bad_share)
    return SourceDocuments(_read_records(source, bad), bad=bad)


def read_document_files(paths: Sequence[str | Path], **options: Any) -> pl.DataFrame:
    """Read documents into one frame of DOCUMENTS rows, with the options of a `FilesSource`.

    Raises InputError as `read_documents` does, or if an id occurs twice.
    """
    source = FilesSource(kind="files", paths=[str(path) for path in paths], **options)
    documents = read_documents(source).documents
    refuse_repeated(documents, where=source_name(source))
    return documents


def _read_records(source: RecordSource, bad: BadRecords) -> Iterator[pl.DataFrame]:
    """Yield DOCUMENTS rows in batches, in reading order; blank texts are left out."""
    is_empty = True
    records = numbered_records(source, document_columns(source))
    for batch in batch_documents(document_rows(source, records, bad)):
        is_empty = False
        yield batch
    bad.refuse_many(where=source_name(source), unit="documents")
    if is_empty:
        raise InputError(no_text(source))


def no_text(source: RecordSource) -> str:
    """Return the message that a source has no text."""
    if isinstance(source, FilesSource):
        return f"{source_name(source)}: every document is empty; expected text"
    files = source.data_files or source.splits
    return f"{source.name}: no text in column {source.text_column!r} of {', '.join(files)}"


def document_columns(source: RecordSource) -> list[str]:
    """Return the columns for text, id and cluster of a document."""
    cluster = [source.cluster_column] if source.cluster_column else []
    return [source.text_column, *_id_columns(source), *cluster]


def document_rows(
    source: RecordSource, records: Iterable[NumberedRecord], bad: BadRecords
) -> Iterator[DocumentRow]:
    """Yield id, text and origin of each record; a null counts as a blank text.

    If the record has a value in ``cluster_column``, that becomes the origin.

    The id is the value of ``id_column``. Without that option, local files may have the id in
    ``_id`` or ``id``; otherwise it consists of the file and the record number (from 0), so it does
    not depend on other files. The id of a text file is its path without suffix.

    A file that cannot be read is added to ``bad``.

    Raises InputError if a record lacks the column of text or id.
    """
    column, ids, cluster = source.text_column, _id_columns(source), source.cluster_column
    for origin, record, numbered_id in records:
        if UNREADABLE_FIELD in record:
            bad.add(str(record.get(ids[0], numbered_id)), InputError(record[UNREADABLE_FIELD]))
            continue
        bad.n_good += 1
        text = record.get(column)
        if not isinstance(text, str) and (text is not None or column not in record):
            kind = f" (it is {type(text).__name__})" if column in record else ""
            raise InputError(
                f"{origin}: no text in field {column!r}{kind}; found the fields "
                f"{', '.join(record) or 'none'}. Set text_column to the field with the text."
            )
        id_field = next((name for name in ids if record.get(name) is not None), None)
        if id_field is not None:
            key = require_id(record[id_field], id_field, origin=origin)
        elif source.id_column is None:
            key = numbered_id
        else:
            raise InputError(
                f"{origin}: no id in field {ids[0]!r} (id_column); found the fields "
                f"{', '.join(record)}"
            )
        text = require_text(text or "", column, origin=origin)
        if cluster is not None:
            if cluster not in record:
                raise InputError(
                    f"{origin}: no field {cluster!r} (cluster_column); found the fields "
                    f"{', '.join(record)}"
                )
            if record[cluster] is not None:
                origin = f"{cluster} {require_id(record[cluster], cluster, origin=origin)}"
        yield key, text, origin


def _id_columns(source: RecordSource) -> Sequence[str]:
    if source.id_column is not None:
        return (source.id_column,)
    return _DEFAULT_ID_COLUMNS if isinstance(source, FilesSource) else ()


def _contexts(questions: pl.DataFrame) -> pl.DataFrame:
    """Return the distinct contexts of questions as documents, in sorted order."""
    distinct = questions.unique("context", keep="first").sort("context")
    return distinct.with_row_index("number").select(
        pl.format("p{}", pl.col("number").cast(pl.String).str.zfill(5)).alias("_id"),
        pl.col("context").str.strip_chars().alias("text"),
        pl.coalesce("article", "origin").alias("origin"),
    )
