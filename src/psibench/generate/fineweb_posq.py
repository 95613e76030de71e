"""FineWeb-PosQ's tasks: summaries of long passages, then questions about their chunks.

PosQ, section 3.2; with ``tagging: myopic``, the variant of Myopic. The evidence span of a question
is its whole chunk. Its position is recorded in two columns:

- ``positions`` lists every third that the rule gives the chunk: one under ``posq``, one or two
  under ``myopic``.
- ``target_position`` is that third if there is one, and null if there are two. Evaluation then
  uses the third that contains the chunk's middle, so that each query counts once. Myopic counts
  such a query under both thirds; use ``positions`` for that.

Items, and so dropped items, always have the single tag of ``posq`` as their position.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import Any, Literal

import polars as pl
from pydantic import Field, model_validator

from psibench.generate.base import (
    GeneratedBenchmark,
    Question,
    check_questions,
    fold_space,
    gathered,
    most_questions,
)
from psibench.generate.faults import query_fault
from psibench.generate.sampling import Sample
from psibench.llm.tasks import (
    Gathered,
    LlmTask,
    LlmTaskSection,
    Replied,
    Tables,
    TaskItem,
    refusal,
)
from psibench.tables.build_schemas import CANDIDATES, SUMMARIES
from psibench.tables.dropped import Dropped
from psibench.text.segments import split_chunks, tag_myopic, tag_posq

_CANDIDATES_SCHEMA: dict[str, Any] = {
    **CANDIDATES.empty().schema,
    "type": pl.String,
    "answer_in_chunk": pl.Boolean,
    "chunk": pl.Int32,
    "positions": pl.List(pl.String),
}
"""The columns of CANDIDATES and of this recipe; ``chunk`` counts from 0."""


class Summarise(LlmTaskSection):
    """One summary per document; it is the context for the questions about the chunks."""

    max_words: int = Field(default=400, ge=20)
    """Longest summary to request, words (PosQ, section 3.2: 400)."""


class GenerateQuestions(LlmTaskSection):
    """Questions about each chunk of a document, from the chunk and the document's summary."""

    n_questions: int = Field(default=5, ge=1, le=20)
    """Questions to request per chunk."""
    chunk_words: int = Field(default=256, ge=16)
    """Longest chunk, words (PosQ, section 3.2: 256)."""
    chunk_overlap: int = Field(default=0, ge=0)
    """Words that a chunk shares with the previous one. 0: chunks end where the text breaks,
    preferably between paragraphs. Above 0: windows of exactly `chunk_words` words. PosQ does not
    give the overlap; 128 fits its counts (docs/papers.md)."""
    tagging: Literal["posq", "myopic"] = "posq"
    """posq: every chunk has one position. myopic: a chunk that overlaps two thirds has both. Scheme
    `thirds` counts its questions once; `thirds-every-tag` counts them in both thirds, as Myopic's
    Table 1 does."""

    @model_validator(mode="after")
    def _chunks_move_on(self) -> "GenerateQuestions":
        if self.chunk_overlap >= self.chunk_words:
            raise ValueError(
                f"chunk_overlap {self.chunk_overlap} is not below chunk_words {self.chunk_words}: "
                "set it lower, so that each chunk begins after the previous one"
            )
        return self

    def chunks(self, text: str) -> list[tuple[int, int]]:
        """Return the chunks of a document as (start, end) in characters, in order."""
        return split_chunks(text, chunk_words=self.chunk_words, overlap=self.chunk_overlap)


class FinewebPosq(GeneratedBenchmark):
    """FineWeb-PosQ (PosQ, section 3.2; Myopic): questions about the chunks of long passages."""

    recipe: Literal["fineweb_posq"]
    sample: Sample = Sample(edges=[500, 1024])
    summarise: Summarise
    generate_questions: GenerateQuestions
    paper_rule = "agreement"

    @model_validator(mode="before")
    @classmethod
    def _both_ways_to_count(cls, given: Any) -> Any:
        """Add `thirds-every-tag` to the default buckets if chunks may have two positions."""
        if not isinstance(given, Mapping) or "buckets" in given:
            return given
        task = given.get("generate_questions")
        if isinstance(task, Mapping) and task.get("tagging") == "myopic":
            return {**given, "buckets": ["thirds", "thirds-every-tag"]}
        return given


def summary_items(tables: Tables, section: Summarise) -> Iterator[TaskItem]:
    """Yield one item per document."""
    for doc_id, text in _texts(tables).items():
        yield TaskItem(doc_id, doc_id, {"document": text, "max_words": section.max_words})


def gather_summaries(_tables: Tables, _: Summarise, replies: Iterable[Replied]) -> Gathered:
    """Return SUMMARIES rows; a blank summary is dropped (``blank_summary``)."""
    rows, blank = [], []
    for reply in replies:
        summary = reply.value["summary"].strip()
        if summary:
            rows.append((reply.doc_id, summary))
        else:
            blank.append(refusal("summarise", "documents", reply, "blank_summary"))
    return gathered(rows, SUMMARIES.empty().schema, blank, documents=len(rows))


def question_items(tables: Tables, section: GenerateQuestions) -> Iterator[TaskItem]:
    """Yield one item per chunk, ids ``DOCUMENT-c0``, ...; skip documents without a summary."""
    summaries = dict(tables["summarise"].select("_id", "summary").iter_rows())
    for doc_id, text in _texts(tables).items():
        if doc_id not in summaries:
            continue
        given = {"summary": summaries[doc_id], "n_questions": section.n_questions}
        spans = section.chunks(text)
        for number, (start, end) in enumerate(spans):
            tag = tag_posq(start, end, len(text))
            values, limits = (
                {"chunk": text[start:end], **given},
                most_questions(section.n_questions),
            )
            yield TaskItem(f"{doc_id}-c{number}", doc_id, values, tag, limits=limits)


def gather_questions(
    tables: Tables, section: GenerateQuestions, replies: Iterable[Replied]
) -> Gathered:
    """Return CANDIDATES rows with the columns ``type, answer_in_chunk, chunk, positions``.

    A query's id is ``ITEM-q0`` for the reply's first question, and so on. ``answer_in_chunk`` is
    true if the chunk contains the answer, ignoring white space and case.

    Dropped, by reason: ``no_question`` (a chunk whose reply has no question), ``blank_question``,
    ``blank_answer``, the reasons of `query_fault`, ``repeated_question`` (the text of an earlier
    candidate of the document, see `query_key`; the detail has its id), ``beyond_n_questions`` (more
    candidates of the chunk than requested).
    """
    texts = _texts(tables)
    rows: list[tuple[Any, ...]] = []
    dropped: list[Dropped] = []
    n_used = 0
    for doc_id, of_document in groupby(replies, key=lambda reply: reply.doc_id):
        text = texts[doc_id]
        spans = section.chunks(text)
        earlier: dict[str, str] = {}
        for reply in of_document:
            number = int(reply.item_id.removeprefix(f"{doc_id}-c"))
            find_fault = partial(_fault, reply, text)
            questions = list(
                check_questions(reply, section.n_questions, earlier, find_fault=find_fault)
            )
            drop = partial(refusal, "generate_questions", reply=reply)
            n_used += bool(questions)
            if not questions:
                dropped.append(drop("chunks", reason="no_question"))
            dropped += [
                drop("questions", item_id=one.id, reason=one.reason, detail=one.detail)
                for one in questions
                if one.reason
            ]
            rows += _candidates(reply, questions, text, number, spans[number], section.tagging)
    return gathered(rows, _CANDIDATES_SCHEMA, dropped, chunks=n_used, questions=len(rows))


def _fault(reply: Replied, document: str, question: str) -> tuple[str, str] | None:
    return query_fault(reply, question, document)


def _candidates(
    reply: Replied,
    questions: Iterable[Question],
    text: str,
    number: int,
    span: tuple[int, int],
    tagging: str,
) -> Iterator[tuple[Any, ...]]:
    """Yield rows of ``_CANDIDATES_SCHEMA`` for the questions kept about one chunk."""
    is_myopic = tagging == "myopic"
    positions = list(tag_myopic(*span, len(text))) if is_myopic else [tag_posq(*span, len(text))]
    target = positions[0] if len(positions) == 1 else None
    chunk = fold_space(text[slice(*span)])
    for one in questions:
        kind = one.entry["type"].strip()
        if not one.reason:
            evidence = reply.doc_id, list(span), target
            is_in_chunk = fold_space(one.answer) in chunk
            yield one.id, one.text, *evidence, one.answer, kind, is_in_chunk, number, positions


def _texts(tables: Tables) -> dict[str, str]:
    return dict(tables["documents"].select("_id", "text").iter_rows())


SUMMARISE = LlmTask(
    name="summarise",
    unit="documents",
    reads=("documents",),
    spec=SUMMARIES,
    items=summary_items,
    gather=gather_summaries,
)
GENERATE_QUESTIONS = LlmTask(
    name="generate_questions",
    unit="chunks",
    reads=("documents", "summarise"),
    spec=CANDIDATES,
    items=question_items,
    gather=gather_questions,
    wanted={"answer_in_chunk": "the answer is not in the chunk"},
)
