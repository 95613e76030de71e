"""Questions and documents from the hub, or from a folder laid out as a dataset."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import polars as pl

from psibench.config.sources import HubSource
from psibench.errors import InputError
from psibench.sources.batches import Row, batch_documents
from psibench.sources.checks import require_id, require_text
from psibench.sources.squad import Row as QuestionRow
from psibench.sources.squad import check_context, question_row, questions_frame
from psibench.sources.where import keep_records

PARQUET_ROWS = 256
STREAM_BUFFER = 8 << 20


def read_hub_questions(source: HubSource) -> pl.DataFrame:
    """Read a SQuAD-like dataset (id, question, context, answers) into QUESTIONS rows.

    Raises InputError if the dataset cannot be loaded, lacks a column, an answer is not at its
    offset, or ``where`` leaves nothing.
    """
    rows: list[QuestionRow] = []
    for origin, record in keep_records(hub_records(source), source.where, place=source.name):
        require_columns(record, ("id", "question", "context", "answers"), origin)
        context = check_context(record["context"], origin=origin)
        answer, start = _first_answer(record["answers"], origin)
        rows.append(question_row(record, context, answer, start, origin))
    return questions_frame(rows, where=source.name)


def hub_document_batches(source: HubSource) -> Iterator[pl.DataFrame]:
    """Yield a text dataset as DOCUMENTS rows in batches; blank texts are left out.

    Without ``id_column``, ids count the records over all splits, those that are blank or that
    ``where`` leaves out included: domains chosen from one dataset share no id.

    Raises InputError if the dataset cannot be loaded, lacks a column, holds no text (or none that
    ``where`` keeps), or repeats an id.
    """
    name, text_column, id_column = source.name, source.text_column, source.id_column
    columns = (text_column,) if id_column is None else (text_column, id_column)

    def read() -> Iterator[Row]:
        numbered = ((*found, f"d{n:07d}") for n, found in enumerate(hub_records(source)))
        for origin, record, counted in keep_records(numbered, source.where, place=name):
            require_columns(record, columns, origin)
            text = require_text(record[text_column] or "", text_column, origin=origin)
            if id_column is None:
                yield counted, text, origin
            else:
                yield require_id(record[id_column], id_column, origin=origin), text, origin

    empty = f"{name}: no text in column {text_column!r} of {', '.join(source.splits)}"
    yield from batch_documents(read, place=name, empty=empty)


def hub_records(source: HubSource) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ``(origin, record)`` over the splits in order, at most ``max_documents``.

    Raises InputError if the dataset cannot be loaded.
    """
    from datasets import load_dataset

    name, config, revision = source.name, source.config, source.revision
    left = source.max_documents
    for split in source.splits:
        if left == 0:
            return
        try:
            dataset = (
                _stream(name, config, split, revision)
                if source.streaming
                else load_dataset(name, config, split=split, revision=revision)
            )
            for index, record in enumerate(islice(dataset, left)):
                yield f"{name}, {split}[{index}]", record
                left = None if left is None else left - 1
        except Exception as error:  # datasets raises many kinds; all mean "not loadable"
            raise InputError(
                f"dataset {name!r}, config {config!r}, split {split!r}, revision {revision!r}: "
                f"cannot be loaded ({type(error).__name__}: {error}). Check name, split and "
                "revision; on a machine without network, give a local folder."
            ) from error


def _stream(name: str, config: str | None, split: str, revision: str | None) -> Any:
    """Open a split to be read record by record; of Parquet files a row group at a time at most.

    Left to itself, Arrow reads ahead: a file of 400 MB took 1.2 GB.
    """
    from datasets import load_dataset_builder

    builder = load_dataset_builder(name, config, revision=revision)
    if hasattr(builder.config, "fragment_scan_options"):
        from pyarrow.dataset import ParquetFragmentScanOptions  # imports pandas

        builder.config.fragment_scan_options = ParquetFragmentScanOptions(
            pre_buffer=False, use_buffered_stream=True, buffer_size=STREAM_BUFFER
        )
        builder.config.batch_size = PARQUET_ROWS
    return builder.as_streaming_dataset(split=split)


def _first_answer(answers: Any, origin: str) -> tuple[str | None, int | None]:
    """Return text and start of the first answer; two nulls where there is none.

    Raises InputError if ``answers`` is not ``{text: [...], answer_start: [...]}`` with lists of one
    length.
    """
    try:
        pairs = list(zip(answers["text"], answers["answer_start"], strict=True))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{origin}: column 'answers' is {answers!r}; expected {{text: [...], answer_start: "
            "[...]}} with as many starts as texts, both empty for an unanswerable question"
        ) from error
    return pairs[0] if pairs else (None, None)


def require_columns(record: dict[str, Any], columns: Sequence[str], origin: str) -> None:
    """Raise InputError unless a record has these columns, naming those it has."""
    missing = [column for column in columns if column not in record]
    if missing:
        raise InputError(
            f"{origin}: missing column {', '.join(missing)}; found {', '.join(record)}"
        )
