"""PosIR's two tasks: questions about a drawn third of a document, then their evidence located.

PosIR, section 2.2 and appendix C. The model always sees the whole document; the third is only
named. Where the evidence lies is decided by the located span and not by the third asked for.
"""

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from psibench.filters.decide import LOCATE, PROPOSE
from psibench.generate.base import (
    DETAIL_CHARS,
    BucketSchemes,
    GeneratedBenchmark,
    LengthBuckets,
    check_questions,
    gathered,
)
from psibench.generate.sampling import Sample
from psibench.llm.tasks import (
    DOCUMENTS_TABLE,
    Gathered,
    LlmTask,
    LlmTaskSection,
    Replied,
    Tables,
    TaskItem,
    refusal,
)
from psibench.metrics.buckets import relative_bin
from psibench.tables.build_schemas import CANDIDATES, PROPOSED
from psibench.tables.dropped import Dropped
from psibench.text.locate import locate_quote
from psibench.text.mentions import mentions_document
from psibench.text.segments import POSITIONS, Position, tag_posq

CANDIDATES_SCHEMA: dict[str, Any] = {
    **CANDIDATES.empty().schema,
    "quote": pl.String,
    "asked_position": pl.String,
    "located_position": pl.String,
    "on_target": pl.Boolean,
}


class ProposeQuestions(LlmTaskSection):
    """Questions about one third of a document, the third drawn per document, the whole shown."""

    n_questions: int = Field(default=3, ge=1, le=20)
    """Questions asked for per document."""
    share: float = Field(default=1.0, gt=0, le=1)
    """Share of the documents that are asked about; the others are there to be searched."""
    seed: int = Field(default=42, ge=0)
    """Seed of the documents drawn and of the third drawn for each."""


class LocateSpan(LlmTaskSection):
    """The evidence of each question, quoted by the model and found again in the document."""


class Posir(GeneratedBenchmark):
    """PosIR: questions about a drawn third of each document, with the evidence located."""

    recipe: Literal["posir"]
    sample: Sample = Sample(unit="tokens", edges=[0, 256, 512, 768, 1024, 1280, 1536, 1792, 2048])
    propose_questions: ProposeQuestions
    locate_span: LocateSpan
    paper_rule = "necessity"
    length_buckets: LengthBuckets = True
    buckets: BucketSchemes = Field(default=["relative-20", "thirds"], min_length=1)


def drawn_position(doc_id: str, *, seed: int) -> Position:
    """Draw the third a document is asked about, each with probability 1/3.

    The draw depends on seed and id alone: more or fewer documents change no other's.
    """
    digest = hashlib.sha256(f"{seed}\0{doc_id}".encode()).digest()
    return POSITIONS[int.from_bytes(digest[:8]) % len(POSITIONS)]


def is_drawn(doc_id: str, *, share: float, seed: int) -> bool:
    """Draw whether a document is asked about, with probability ``share``.

    Like the third, the draw depends on seed and id alone, and not on the third.
    """
    digest = hashlib.sha256(f"{seed}\0asked\0{doc_id}".encode()).digest()
    return int.from_bytes(digest[:8]) < share * 2**64


def position_of_span(start: int, end: int, n_chars: int) -> Position:
    """Say in which third of a text the middle of a span lies.

    The third is the one of ``relative_bin``: by min(middle, length) / length, right-closed. A
    located span is a sentence or several, often a tenth of its document or more; under `tag_posq`
    every one that touches a border would be in the middle, which would then hold far more than a
    third of the queries. By their middles the thirds are alike, and agree with the relative bins
    that PosIR evaluates by (section 4.2).
    """
    twice_mid, length = np.array([start + end]), np.array([n_chars])
    return POSITIONS[int(relative_bin(twice_mid, length, n_bins=len(POSITIONS))[0])]


def question_items(tables: Tables, section: ProposeQuestions) -> Iterator[TaskItem]:
    """Ask for questions once per document, with the third drawn for it."""
    for doc_id, text in tables[DOCUMENTS_TABLE].select("_id", "text").iter_rows():
        if not is_drawn(doc_id, share=section.share, seed=section.seed):
            continue
        position = drawn_position(doc_id, seed=section.seed)
        values = {"document": text, "position": position, "n_questions": section.n_questions}
        yield TaskItem(doc_id, doc_id, values, target_position=position)


def gather_questions(
    _tables: Tables, section: ProposeQuestions, replies: Iterable[Replied]
) -> Gathered:
    """Collect the questions of all replies as PROPOSED rows.

    A question's id is ``DOCUMENT-q0`` for the reply's first one, and so on. Dropped, by reason:
    ``no_question`` (a document whose reply has none), ``blank_question``, ``blank_answer``,
    ``mentions_document`` (see `mentions_document`; the detail begins with the phrase),
    ``repeated_question`` (the text of an earlier one of the document, but for white space and
    case; the detail names it), ``beyond_n_questions`` (after as many good ones as were asked for).
    """
    rows: list[tuple[str, ...]] = []
    dropped: list[Dropped] = []
    n_used = 0
    for reply in replies:
        drop = partial(refusal, PROPOSE, reply=reply)
        found = list(check_questions(reply, section.n_questions, {}, find_fault=_mention))
        n_used += bool(found)
        if not found:
            dropped.append(drop("documents", reason="no_question"))
        for one in found:
            if one.reason:
                lost_one = drop("questions", item_id=one.id, reason=one.reason, detail=one.detail)
                dropped.append(lost_one)
            else:
                position = str(reply.target_position)
                rows.append((one.id, one.text, reply.doc_id, position, one.answer))
    return gathered(rows, PROPOSED.empty().schema, dropped, documents=n_used, questions=len(rows))


def _mention(question: str) -> tuple[str, str] | None:
    phrase = mentions_document(question)
    return ("mentions_document", phrase) if phrase else None


def span_items(tables: Tables, _section: LocateSpan) -> Iterator[TaskItem]:
    """Ask for the evidence of each proposed question, in order of the documents."""
    documents = tables[DOCUMENTS_TABLE].select(pos_corpus_id="_id", document="text")
    asked = documents.join(tables[PROPOSE], on="pos_corpus_id", maintain_order="left_right")
    columns = ("_id", "pos_corpus_id", "target_position", "document", "text", "answer")
    for query_id, doc_id, position, document, question, answer in asked.select(columns).iter_rows():
        values = {"document": document, "question": question, "answer": answer}
        yield TaskItem(query_id, doc_id, values, target_position=position)


def gather_spans(tables: Tables, _section: LocateSpan, replies: Iterable[Replied]) -> Gathered:
    """Find the quotes in their documents; a question whose quote has one place is a candidate.

    Further columns: ``quote`` as replied; ``asked_position``, the third asked for;
    ``located_position``, the span's tag under `tag_posq`; ``on_target``, whether the span's own
    third (``target_position``, see `position_of_span`) is the one asked for. A question that
    missed its third is kept. Dropped, with the quote: ``empty_quote``, ``quote_not_found``,
    ``quote_ambiguous`` (see `locate_quote`).
    """
    documents = tables[DOCUMENTS_TABLE]
    places = {doc_id: place for place, doc_id in enumerate(documents["_id"])}
    texts = documents["text"]
    columns = ("_id", "text", "answer")
    questions = {row[0]: row[1:] for row in tables[PROPOSE].select(columns).iter_rows()}
    rows: list[tuple[object, ...]] = []
    dropped: list[Dropped] = []
    for reply in replies:
        text, quote = texts[places[reply.doc_id]], reply.value["quote"]
        asked = reply.target_position
        found = locate_quote(text, quote)
        if found.span is None:
            detail = quote[:DETAIL_CHARS]
            dropped.append(refusal(LOCATE, "questions", reply, found.reason, detail=detail))
            continue
        question, answer = questions[reply.item_id]
        third, tag = position_of_span(*found.span, len(text)), tag_posq(*found.span, len(text))
        row = (reply.item_id, question, reply.doc_id, found.span, third, answer)
        rows.append((*row, quote, asked, tag, third == asked))
    return gathered(rows, CANDIDATES_SCHEMA, dropped, questions=len(rows))


PROPOSE_QUESTIONS = LlmTask(
    PROPOSE, "documents", (DOCUMENTS_TABLE,), PROPOSED, question_items, gather_questions
)
LOCATE_SPAN = LlmTask(
    LOCATE, "questions", (DOCUMENTS_TABLE, PROPOSE), CANDIDATES, span_items, gather_spans
)
