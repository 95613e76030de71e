"""Controlled's two tasks: choose a configuration per document, then write a query per third.

Controlled, section 3.1.2 and appendix A. The configuration (persona, difficulty, query length) is
chosen from the personas nearest to the document (`psibench.generate.personas`). The queries of all
three thirds share it, so that they differ only in position.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Literal

import polars as pl
from pydantic import Field

from psibench.generate.base import (
    LONGEST_QUERY,
    REPLY_DETAIL_CHARS,
    GeneratedBenchmark,
    gathered,
    query_key,
)
from psibench.generate.faults import query_fault
from psibench.generate.personas import Personas
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
from psibench.tables.build_schemas import CANDIDATES, CONFIGURATIONS
from psibench.tables.dropped import Dropped
from psibench.text.locate import QUOTE_AMBIGUOUS, locate_quote
from psibench.text.segments import POSITIONS, equal_segments, split_equal
from psibench.text.sentences import sentence_spans

CHOOSE = "choose_configuration"
GENERATE = "generate_positional_query"
BLANK = "blank_segment"
PERSONAS_TABLE = "persona_candidates"

_CANDIDATES_SCHEMA: dict[str, Any] = {
    **CANDIDATES.empty().schema,
    "persona": pl.String,
    "difficulty": pl.String,
    "query_length": pl.String,
    "length_bin": pl.String,
    "answer_in_segment": pl.Boolean,
}
_OF_QUERY = {"properties": {"query": LONGEST_QUERY}}
_LIST_MARK = re.compile(r"\A(?:\(?\d+[.):]|[-*•])\s+")


class ChooseConfiguration(LlmTaskSection):
    """Choice of persona, difficulty and query length, once per document."""


class GeneratePositionalQuery(LlmTaskSection):
    """One query for each third of a document; the prompt has the whole document and the third."""

    queries_per_position: int = Field(default=1, ge=1, le=20)
    """Queries to request per third."""


class Controlled(GeneratedBenchmark):
    """Controlled: one query per third of each document, written for a fitting persona."""

    recipe: Literal["controlled"]
    sample: Sample = Sample(unit="chars", edges=[256, 512, 1024, 2048, 4096, 8192])
    personas: Personas = Personas()
    choose_configuration: ChooseConfiguration
    generate_positional_query: GeneratePositionalQuery
    paper_rule = "margin"


# Task ``choose_configuration``


def configuration_items(tables: Tables, _section: ChooseConfiguration) -> Iterator[TaskItem]:
    """Yield one item per document, with its persona candidates."""
    documents = tables[DOCUMENTS_TABLE].select("_id", "text")
    joined = documents.join(tables[PERSONAS_TABLE], on="_id", how="left", maintain_order="left")
    for doc_id, text, personas in joined.select("_id", "text", "personas").iter_rows():
        values = {"document": text, "personas": personas}
        limits = {"properties": {"persona": {"enum": list(dict.fromkeys(personas))}}}
        yield TaskItem(doc_id, doc_id, values, limits=limits if personas else {})


def gather_configurations(
    tables: Tables, _section: ChooseConfiguration, replies: Iterable[Replied]
) -> Gathered:
    """Return the configurations; a persona outside the candidates is kept and marked.

    A persona counts as a candidate if the two texts match without case, white space, a number or
    bullet at the start, and a full stop at the end. It is then written as the candidate is.
    Dropped: a document whose persona is blank (``blank_persona``).
    """
    candidates = dict(tables[PERSONAS_TABLE].select("_id", "personas").iter_rows())
    rows: list[tuple[str | bool, ...]] = []
    blank: list[Dropped] = []
    for reply in replies:
        doc_id, persona = reply.doc_id, reply.value["persona"].strip()
        key = _persona_key(persona)
        if not key:
            blank.append(refusal(CHOOSE, "documents", reply, "blank_persona"))
            continue
        listed = {_persona_key(text): text for text in candidates[doc_id]}
        how = (reply.value[name] for name in ("difficulty", "query_length"))
        rows.append((doc_id, listed.get(key, persona), key in listed, *how))
    return gathered(rows, CONFIGURATIONS.empty().schema, blank, documents=len(rows))


def _persona_key(text: str) -> str:
    bare = _LIST_MARK.sub("", text.strip())
    return " ".join(bare.casefold().split()).rstrip(".").rstrip()


CHOOSE_CONFIGURATION = LlmTask(
    CHOOSE,
    "documents",
    (DOCUMENTS_TABLE, PERSONAS_TABLE),
    CONFIGURATIONS,
    configuration_items,
    gather_configurations,
    varied=("difficulty", "query_length"),
    wanted={"persona_listed": "the persona is none of the candidates"},
)


# Task ``generate_positional_query``


def query_items(tables: Tables, section: GeneratePositionalQuery) -> Iterator[TaskItem]:
    """Yield an item for each third with text of each document that has a configuration."""
    for item in _thirds(tables, section):
        if item.values["segment"].strip():
            yield item


def _thirds(tables: Tables, section: GeneratePositionalQuery) -> Iterator[TaskItem]:
    n = section.queries_per_position
    for row in _configured(tables).iter_rows(named=True):
        names = ("document", "persona", "difficulty", "query_length")
        values = {name: row[name] for name in names}
        for position, segment in zip(POSITIONS, split_equal(row["document"]), strict=True):
            for k in range(n):
                item_id = f"{row['_id']}-{position}" + (f"-{k}" if n > 1 else "")
                values = {**values, "segment": segment}
                yield TaskItem(item_id, row["_id"], values, position, k, limits=_OF_QUERY)


def gather_queries(
    tables: Tables, section: GeneratePositionalQuery, replies: Iterable[Replied]
) -> Gathered:
    """Return the queries; the evidence span of each is the whole segment of its third.

    Filters judge that segment; `evidence_sentences` narrows the span afterwards.

    Further columns: the configuration, ``length_bin``, and ``answer_in_segment``: whether the
    segment contains the answer, once or several times (see `locate_quote`).

    Dropped, by reason:

    - ``blank_query``, ``blank_answer``, and the reasons of `query_fault`.
    - ``repeated_query``: the text of an earlier query of the same third, see `query_key`; the
      detail has the earlier id.
    - ``same_for_thirds``: one text for several thirds of a document. All such queries are dropped:
      each contradicts the target of the others, and keeping the first would favour the beginning.
    - ``blank_segment``: the third has no text, so there was no request for it.
    """
    configured = _configured(tables)
    row_numbers = {doc_id: number for number, doc_id in enumerate(configured["_id"])}
    rows: list[tuple[object, ...]] = []
    dropped = [
        Dropped(GENERATE, "queries", one.id, one.doc_id, BLANK, target_position=one.target_position)
        for one in _thirds(tables, section)
        if not one.values["segment"].strip()
    ]
    for doc_id, group in groupby(replies, key=lambda reply: reply.doc_id):
        facts = configured.row(row_numbers[doc_id], named=True)
        for reply, reason, detail in _with_reasons(list(group), facts):
            if reason:
                dropped.append(refusal(GENERATE, "queries", reply, reason, detail=detail))
            else:
                rows.append(_candidate(reply, facts))
    return gathered(rows, _CANDIDATES_SCHEMA, dropped, queries=len(rows))


def _configured(tables: Tables) -> pl.DataFrame:
    documents = tables[DOCUMENTS_TABLE].select("_id", "length_bin", document="text")
    return documents.join(tables[CHOOSE], on="_id", maintain_order="left")


def _with_reasons(
    replies: Sequence[Replied], facts: dict[str, str]
) -> Iterator[tuple[Replied, str, str]]:
    """Yield each reply about one document, the reason to drop it ("" to keep it), and a detail."""
    thirds: defaultdict[str, list[str]] = defaultdict(list)
    for reply in replies:
        thirds[_key(reply)].append(str(reply.target_position))
    kept: dict[str, str] = {}
    for reply in replies:
        query, key = _query(reply)[:REPLY_DETAIL_CHARS], _key(reply)
        same_text_thirds = dict.fromkeys(thirds[key])
        fault = query_fault(reply, _query(reply), facts["document"], persona=facts["persona"])
        if not query:
            yield reply, "blank_query", _answer(reply)[:REPLY_DETAIL_CHARS]
        elif not _answer(reply):
            yield reply, "blank_answer", query
        elif fault:
            yield reply, fault[0], f"{fault[1][:REPLY_DETAIL_CHARS]}: {query}"
        elif len(same_text_thirds) > 1:
            yield reply, "same_for_thirds", f"{', '.join(same_text_thirds)}: {query}"
        elif key in kept:
            yield reply, "repeated_query", f"{kept[key]}: {query}"
        else:
            kept[key] = reply.item_id
            yield reply, "", ""


def _candidate(reply: Replied, facts: dict[str, str]) -> tuple[object, ...]:
    position, text, answer = str(reply.target_position), facts["document"], _answer(reply)
    start, end = equal_segments(len(text))[POSITIONS.index(position)]
    found = locate_quote(text[start:end], answer)
    return (
        reply.item_id,
        _query(reply),
        reply.doc_id,
        [start, end],
        position,
        answer,
        *(facts[name] for name in ("persona", "difficulty", "query_length", "length_bin")),
        found.span is not None or found.reason == QUOTE_AMBIGUOUS,
    )


def evidence_sentences(candidates: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Narrow evidence spans from whole segments to the sentences that contain the answers.

    If the segment contains the answer exactly once, the span becomes the sentences that overlap the
    answer, cut at the segment's ends. Otherwise the span stays the whole segment. Candidates
    without a column ``answer_in_segment`` are returned unchanged.
    """
    if "answer_in_segment" not in candidates.columns:
        return candidates
    texts = dict(documents.select("_id", "text").iter_rows())
    sentences = {key: sentence_spans(texts[key]) for key in set(candidates["pos_corpus_id"])}
    spans = []
    columns = ("pos_corpus_id", "pos_char_span", "answer")
    for key, (low, high), answer in candidates.select(columns).iter_rows():
        span = locate_quote(texts[key][low:high], answer).span or (0, high - low)
        start, end = low + span[0], low + span[1]
        touched = [one for one in sentences[key] if one[0] < end and start < one[1]]
        start = min([start, *(first for first, _ in touched)])
        end = max([end, *(last for _, last in touched)])
        spans.append([max(low, start), min(high, end)])
    kind = candidates.schema["pos_char_span"]
    return candidates.with_columns(pos_char_span=pl.Series(spans, dtype=kind))


def _query(reply: Replied) -> str:
    return reply.value["query"].strip()


def _answer(reply: Replied) -> str:
    return reply.value["answer"].strip()


def _key(reply: Replied) -> str:
    return query_key(_query(reply))


GENERATE_POSITIONAL_QUERY = LlmTask(
    GENERATE,
    "queries",
    (DOCUMENTS_TABLE, CHOOSE),
    CANDIDATES,
    query_items,
    gather_queries,
    wanted={"answer_in_segment": "the answer is not in the segment, so that its span is the third"},
)
