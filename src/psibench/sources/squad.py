"""Questions with answer spans, from SQuAD's JSON format (v1.1, v2, XQuAD) or from the hub."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from psibench.config.sources import HubSource
from psibench.errors import InputError
from psibench.reading import parse_json, read_text_file, shown
from psibench.sources.bad_records import BadRecords
from psibench.sources.checks import refuse_repeated, require_columns, require_id, require_text
from psibench.sources.records import source_records

QuestionRow = tuple[str | None, str | None, str, str | None, int | None, str | None, str]
_EXPECTED_FILE = "a SQuAD-format JSON file"
_QUESTION_COLUMNS = ("_id", "question", "context", "answer", "answer_start", "article", "origin")
QUESTION_SCHEMA = dict.fromkeys(_QUESTION_COLUMNS, pl.String) | {"answer_start": pl.Int32}
"""A question, its passage, its first answer and the answer's start in characters; the passage's
article, if known, and the origin of the question."""


def read_squad_files(paths: Sequence[str | Path], bad: BadRecords | None = None) -> pl.DataFrame:
    """Read SQuAD files in the given order into rows of ``QUESTION_SCHEMA``.

    A context without questions gives one row with null ``_id``. Unanswerable questions have null
    ``answer`` and ``answer_start``. Offsets are characters, 0-based.

    A question is a bad record, and left out, if its answer is not at its offset.

    Raises InputError if a file is not SQuAD-format JSON, too many records are bad (any, if ``bad``
    is None), or an id occurs twice.
    """
    bad = BadRecords(0) if bad is None else bad
    rows = [row for path in paths for row in _read_file(path, bad)]
    return questions_frame(rows, where=", ".join(map(str, paths)), bad=bad)


def read_hub_questions(source: HubSource, bad: BadRecords | None = None) -> pl.DataFrame:
    """Read a SQuAD-like dataset (id, question, context, answers) into rows of ``QUESTION_SCHEMA``.

    ``bad`` is as in `read_squad_files`.

    Raises InputError if the dataset cannot be loaded or lacks a column, or too many records are
    bad.
    """
    bad = BadRecords(0) if bad is None else bad
    rows: list[QuestionRow] = []
    columns = ("id", "question", "context", "answers")
    for origin, record in source_records(source, (*columns, "title")):
        require_columns(record, columns, origin)
        try:
            context = check_context(record["context"], origin=origin)
            answer, start = _first_answer(record["answers"], origin)
            article = record.get("title")
            article = None if article is None else require_text(article, "title", origin=origin)
            rows.append(question_row(record, context, answer, start, article, origin))
        except InputError as error:
            bad.add(_bad_id(record, origin), error)
            continue
        bad.n_good += 1
    return questions_frame(rows, where=source.name, bad=bad)


def _bad_id(record: Mapping[str, Any], origin: str) -> str:
    """Return the id of a bad record, or its origin if it has no id."""
    return record["id"] if isinstance(record.get("id"), str) else origin


def questions_frame(
    rows: Sequence[QuestionRow], *, where: str, bad: BadRecords | None = None
) -> pl.DataFrame:
    """Return the frame of questions; raise InputError if ids repeat or too many records are bad."""
    frame = pl.DataFrame(rows, schema=QUESTION_SCHEMA, orient="row")
    if bad is not None:
        bad.refuse_many(where=where, unit="questions")
    if frame.is_empty():
        raise InputError(f"{where}: no passages found; expected at least one")
    refuse_repeated(frame, where=where)
    return frame


def check_context(context: object, *, origin: str) -> str:
    """Return a context; raise InputError unless it is a text and not blank."""
    text = require_text(context, "context", origin=origin)
    if not text.strip():
        raise InputError(f"{origin}: the context is empty; every paragraph needs a text")
    return text


def question_row(
    record: Mapping[str, Any],
    context: str,
    answer: str | None,
    start: int | None,
    article: str | None,
    origin: str,
) -> QuestionRow:
    """Return the row of a question (id, question) and its first answer, if it has one.

    Raises InputError if the question is blank, or the answer is not in ``context`` at ``start``.
    """
    if answer is not None and start is not None:
        found = context[start : start + len(answer)] if start >= 0 else ""
        if not answer.strip() or found != answer:
            raise InputError(
                f"{origin}: the answer {answer!r} is not at answer_start {start}; found {found!r} "
                "there. Expected a text, and its 0-based offset in characters (not bytes)."
            )
    identifier = require_id(record["id"], "id", origin=origin)
    question = require_text(record["question"], "question", origin=origin)
    if not question.strip():
        raise InputError(f"{origin}: question {identifier!r} has a blank text; expected a question")
    return identifier, question, context, answer, start, article, origin


def _read_file(path: str | Path, bad: BadRecords) -> Iterator[QuestionRow]:
    text = read_text_file(path, expected=_EXPECTED_FILE)
    if not text.strip():
        raise InputError(f"{path}: the file is empty; expected {_EXPECTED_FILE}")
    where = str(path)
    try:
        articles = parse_json(text, where=where, what="not valid JSON")["data"]
        if not isinstance(articles, list):
            raise TypeError(f"'data' is a {type(articles).__name__}")
        for number, article in enumerate(articles):
            where = f"{path}: data[{number}]"
            title = article.get("title") or f"{Path(path).name} {number}"
            title = require_text(title, "title", origin=where)
            for index, paragraph in enumerate(article["paragraphs"]):
                where = f"{path}: data[{number}].paragraphs[{index}]"
                yield from _read_paragraph(paragraph, title, where, bad)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise InputError(
            f"{where}: not in SQuAD format ({type(error).__name__}: {error}). Expected "
            "{data: [{paragraphs: [{context, qas: [{id, question, answers}]}]}]} with answers as "
            "[{text, answer_start}]."
        ) from error


def _read_paragraph(
    paragraph: dict[str, Any], article: str, origin: str, bad: BadRecords
) -> Iterator[QuestionRow]:
    context = check_context(paragraph["context"], origin=origin)
    is_empty = True
    for question in paragraph.get("qas", []):
        try:
            row = _read_question(question, context, article, origin)
        except InputError as error:
            bad.add(_bad_id(question, f"{origin} {len(bad.messages)}"), error)
            continue
        bad.n_good += 1
        is_empty = False
        yield row
    if is_empty:
        yield (None, None, context, None, None, article, origin)


def _read_question(
    question: dict[str, Any], context: str, article: str, origin: str
) -> QuestionRow:
    where = f"{origin} id {require_id(question['id'], 'id', origin=origin)}"
    answer, start = None, None
    if answers := question.get("answers", []):
        answer = require_text(answers[0]["text"], "text", origin=where)
        start = answers[0]["answer_start"]
        if not isinstance(start, int) or isinstance(start, bool):
            raise InputError(f"{where}: answer_start is {shown(start)}; expected a whole number")
    return question_row(question, context, answer, start, article, where)


def _first_answer(answers: Any, origin: str) -> tuple[str | None, int | None]:
    """Return text and start of the first answer, or (None, None) if the question has no answer.

    Raises InputError if ``answers`` is not ``{text: [...], answer_start: [...]}`` with lists of the
    same length.
    """
    try:
        pairs = list(zip(answers["text"], answers["answer_start"], strict=True))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{origin}: column 'answers' is {answers!r}; expected {{text: [...], answer_start: "
            "[...]}} with as many starts as texts, both empty for an unanswerable question"
        ) from error
    return pairs[0] if pairs else (None, None)
