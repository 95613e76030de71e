"""Questions with answer spans from SQuAD's JSON format (v1.1, v2, XQuAD), or from the hub."""

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

Row = tuple[str | None, str | None, str, str | None, int | None, str | None, str]
EXPECTED = "a SQuAD-format JSON file"
COLUMNS = ("_id", "question", "context", "answer", "answer_start", "article", "origin")
SCHEMA = dict.fromkeys(COLUMNS, pl.String) | {"answer_start": pl.Int32}
"""A question, the passage it was asked about and its first answer, by its start in characters; what
the passage is a part of, where known, and where the question was read."""


def read_squad_files(paths: Sequence[str | Path], bad: BadRecords | None = None) -> pl.DataFrame:
    """Read SQuAD files in the given order into rows of ``SCHEMA``.

    A context without questions gives one row with null ``_id``. Unanswerable questions have null
    ``answer`` and ``answer_start``. Offsets are characters, 0-based.

    A question whose answer does not stand where its offset says is a bad record, and is left out.

    Raises InputError if a file is not SQuAD-format JSON, too many records are bad (``bad``; None:
    any), or an id occurs twice.
    """
    bad = BadRecords(0) if bad is None else bad
    rows = [row for path in paths for row in _read_file(path, bad)]
    return questions_frame(rows, where=", ".join(map(str, paths)), bad=bad)


def read_hub_questions(source: HubSource, bad: BadRecords | None = None) -> pl.DataFrame:
    """Read a SQuAD-like dataset (id, question, context, answers) into ``SCHEMA`` rows.

    ``bad`` is as of `read_squad_files`.

    Raises InputError if the dataset cannot be loaded or lacks a column, or too many records are
    bad.
    """
    bad = BadRecords(0) if bad is None else bad
    rows: list[Row] = []
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
    """Return the id of a bad record, as far as it has one."""
    return record["id"] if isinstance(record.get("id"), str) else origin


def questions_frame(
    rows: Sequence[Row], *, where: str, bad: BadRecords | None = None
) -> pl.DataFrame:
    """Build the frame of questions; refuse repeated ids, no rows at all, and many bad records."""
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    if bad is not None:
        bad.refuse_many(where=where, unit="questions")
    if frame.is_empty():
        raise InputError(f"{where}: no passages found; expected at least one")
    refuse_repeated(frame, where=where)
    return frame


def check_context(context: object, *, origin: str) -> str:
    """Return a context if it is text and not blank; raise InputError otherwise."""
    text = require_text(context, "context", origin=origin)
    if not text.strip():
        raise InputError(f"{origin}: the context is empty; every paragraph needs text")
    return text


def question_row(
    record: Mapping[str, Any],
    context: str,
    answer: str | None,
    start: int | None,
    article: str | None,
    origin: str,
) -> Row:
    """Make a row of a question (id, question) and its first answer, if it has one.

    Raises InputError if the question is blank, or the answer is not in ``context`` at ``start``.
    """
    if answer is not None and start is not None:
        found = context[start : start + len(answer)] if start >= 0 else ""
        if not answer.strip() or found != answer:
            raise InputError(
                f"{origin}: the answer {answer!r} does not stand at answer_start {start}; found "
                f"{found!r} there. Offsets are 0-based characters (not bytes) into the context."
            )
    identifier = require_id(record["id"], "id", origin=origin)
    question = require_text(record["question"], "question", origin=origin)
    if not question.strip():
        raise InputError(f"{origin}: question {identifier!r} has a blank text")
    return identifier, question, context, answer, start, article, origin


def _read_file(path: str | Path, bad: BadRecords) -> Iterator[Row]:
    text = read_text_file(path, expected=EXPECTED)
    if not text.strip():
        raise InputError(f"{path}: the file is empty; expected {EXPECTED}")
    place = str(path)
    try:
        articles = parse_json(text, where=place, what="not valid JSON")["data"]
        if not isinstance(articles, list):
            raise TypeError(f"'data' is a {type(articles).__name__}")
        for number, article in enumerate(articles):
            place = f"{path}: data[{number}]"
            title = article.get("title") or f"{Path(path).name} {number}"
            title = require_text(title, "title", origin=place)
            for index, paragraph in enumerate(article["paragraphs"]):
                place = f"{path}: data[{number}].paragraphs[{index}]"
                yield from _read_paragraph(paragraph, title, place, bad)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise InputError(
            f"{place}: not SQuAD format ({type(error).__name__}: {error}). Expected "
            "{data: [{paragraphs: [{context, qas: [{id, question, answers}]}]}]} with answers as "
            "[{text, answer_start}]."
        ) from error


def _read_paragraph(
    paragraph: dict[str, Any], article: str, origin: str, bad: BadRecords
) -> Iterator[Row]:
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


def _read_question(question: dict[str, Any], context: str, article: str, origin: str) -> Row:
    where = f"{origin} id {require_id(question['id'], 'id', origin=origin)}"
    answer, start = None, None
    if answers := question.get("answers", []):
        answer = require_text(answers[0]["text"], "text", origin=where)
        start = answers[0]["answer_start"]
        if not isinstance(start, int) or isinstance(start, bool):
            raise InputError(f"{where}: answer_start is {shown(start)}; expected a whole number")
    return question_row(question, context, answer, start, article, where)


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
