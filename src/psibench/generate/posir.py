"""PosIR's two tasks: write questions about a third of a document, then locate their evidence.

PosIR, section 2.2 and appendix C. The third is drawn per document. The prompt has the whole
document and only names the third. The position of the evidence comes from the located span, not
from the requested third.
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
    REPLY_DETAIL_CHARS,
    BucketSchemes,
    GeneratedBenchmark,
    LengthBuckets,
    check_questions,
    gathered,
    most_questions,
)
from psibench.generate.faults import query_fault
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

_CANDIDATES_SCHEMA: dict[str, Any] = {
    **CANDIDATES.empty().schema,
    "quote": pl.String,
    "asked_position": pl.String,
    "located_position": pl.String,
    "on_target": pl.Boolean,
}


class ProposeQuestions(LlmTaskSection):
    """Questions about one drawn third of a document; the prompt has the whole document."""

    n_questions: int = Field(default=3, ge=1, le=20)
    """Questions to request per document."""
    share: float = Field(default=1.0, gt=0, le=1)
    """Share of the documents that get questions; the others are only searched."""
    seed: int = Field(default=42, ge=0)
    """Seed for drawing the documents, and the third of each."""


class LocateSpan(LlmTaskSection):
    """The evidence of each question: a quote by the model, located in the document."""


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
    """Draw the third that a document's questions are about, each with probability 1/3.

    The draw depends only on seed and id, so adding or removing documents changes no other draw.
    """
    digest = hashlib.sha256(f"{seed}\0{doc_id}".encode()).digest()
    return POSITIONS[int.from_bytes(digest[:8]) % len(POSITIONS)]


def is_drawn(doc_id: str, *, share: float, seed: int) -> bool:
    """Draw whether a document gets questions, with probability ``share``.

    The draw depends only on seed and id, and is independent of `drawn_position`.
    """
    digest = hashlib.sha256(f"{seed}\0asked\0{doc_id}".encode()).digest()
    return int.from_bytes(digest[:8]) < share * 2**64


def position_of_span(start: int, end: int, n_chars: int) -> Position:
    """Return the third of a text that contains the middle of a span.

    The third is the bin of ``relative_bin``: by min(middle, length) / length, right-closed. A
    located span is one or several sentences, often a tenth of its document or more. `tag_posq`
    would put every span that touches a border into the middle, which would then get far more than a
    third of the queries. By their middles the thirds are balanced, and agree with the relative bins
    that PosIR evaluates by (section 4.2).
    """
    twice_mid, length = np.array([start + end]), np.array([n_chars])
    return POSITIONS[int(relative_bin(twice_mid, length, n_bins=len(POSITIONS))[0])]


def proposal_items(tables: Tables, section: ProposeQuestions) -> Iterator[TaskItem]:
    """Yield an item for each document drawn, with the third drawn for it."""
    for doc_id, text in tables[DOCUMENTS_TABLE].select("_id", "text").iter_rows():
        if not is_drawn(doc_id, share=section.share, seed=section.seed):
            continue
        position = drawn_position(doc_id, seed=section.seed)
        values = {"document": text, "position": position, "n_questions": section.n_questions}
        limits = most_questions(section.n_questions)
        yield TaskItem(doc_id, doc_id, values, target_position=position, limits=limits)


def gather_proposals(
    tables: Tables, section: ProposeQuestions, replies: Iterable[Replied]
) -> Gathered:
    """Return the questions of all replies as PROPOSED rows.

    A question's id is ``DOCUMENT-q0`` for the reply's first one, and so on. Dropped, by reason:
    ``no_question`` (a document whose reply has no question), ``blank_question``, ``blank_answer``,
    ``mentions_document`` (see `mentions_document`; the detail begins with the phrase), the reasons
    of `query_fault`,
    ``repeated_question`` (the text of an earlier question of the document, see `query_key`; the
    detail has its id), ``beyond_n_questions`` (more usable questions than requested).
    """
    rows: list[tuple[str, ...]] = []
    dropped: list[Dropped] = []
    n_used = 0
    texts = dict(tables[DOCUMENTS_TABLE].select("_id", "text").iter_rows())
    for reply in replies:
        drop = partial(refusal, PROPOSE, reply=reply)
        find_fault = partial(_fault, reply, texts[reply.doc_id])
        questions = list(check_questions(reply, section.n_questions, {}, find_fault=find_fault))
        n_used += bool(questions)
        if not questions:
            dropped.append(drop("documents", reason="no_question"))
        for one in questions:
            if one.reason:
                row = drop("questions", item_id=one.id, reason=one.reason, detail=one.detail)
                dropped.append(row)
            else:
                position = str(reply.target_position)
                rows.append((one.id, one.text, reply.doc_id, position, one.answer))
    return gathered(rows, PROPOSED.empty().schema, dropped, documents=n_used, questions=len(rows))


def _fault(reply: Replied, document: str, question: str) -> tuple[str, str] | None:
    phrase = mentions_document(question)
    if phrase:
        return "mentions_document", phrase
    return query_fault(reply, question, document)


def span_items(tables: Tables, _section: LocateSpan) -> Iterator[TaskItem]:
    """Yield an item for each proposed question, in order of the documents."""
    documents = tables[DOCUMENTS_TABLE].select(pos_corpus_id="_id", document="text")
    proposed = documents.join(tables[PROPOSE], on="pos_corpus_id", maintain_order="left_right")
    columns = ("_id", "pos_corpus_id", "target_position", "document", "text", "answer")
    rows = proposed.select(columns).iter_rows()
    for query_id, doc_id, position, document, question, answer in rows:
        values = {"document": document, "question": question, "answer": answer}
        yield TaskItem(query_id, doc_id, values, target_position=position)


def gather_spans(tables: Tables, _section: LocateSpan, replies: Iterable[Replied]) -> Gathered:
    """Return a candidate for each question whose quote occurs exactly once in its document.

    Further columns: ``quote`` as replied; ``asked_position``, the requested third;
    ``located_position``, the span's tag under `tag_posq`; ``on_target``, whether the span's third
    (``target_position``, see `position_of_span`) is the requested one. A question about another
    third is kept. Dropped, with the quote: ``empty_quote``, ``quote_not_found``,
    ``quote_ambiguous`` (see `locate_quote`).
    """
    documents = tables[DOCUMENTS_TABLE]
    row_numbers = {doc_id: number for number, doc_id in enumerate(documents["_id"])}
    texts = documents["text"]
    columns = ("_id", "text", "answer")
    questions = {row[0]: row[1:] for row in tables[PROPOSE].select(columns).iter_rows()}
    rows: list[tuple[object, ...]] = []
    dropped: list[Dropped] = []
    for reply in replies:
        text, quote = texts[row_numbers[reply.doc_id]], reply.value["quote"]
        requested = reply.target_position
        located = locate_quote(text, quote)
        if located.span is None:
            detail = quote[:REPLY_DETAIL_CHARS]
            dropped.append(refusal(LOCATE, "questions", reply, located.reason, detail=detail))
            continue
        question, answer = questions[reply.item_id]
        third, tag = position_of_span(*located.span, len(text)), tag_posq(*located.span, len(text))
        row = (reply.item_id, question, reply.doc_id, located.span, third, answer)
        rows.append((*row, quote, requested, tag, third == requested))
    return gathered(rows, _CANDIDATES_SCHEMA, dropped, questions=len(rows))


PROPOSE_QUESTIONS = LlmTask(
    PROPOSE, "documents", (DOCUMENTS_TABLE,), PROPOSED, proposal_items, gather_proposals
)
LOCATE_SPAN = LlmTask(
    LOCATE, "questions", (DOCUMENTS_TABLE, PROPOSE), CANDIDATES, span_items, gather_spans
)
