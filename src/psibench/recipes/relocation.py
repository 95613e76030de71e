"""The evidence of a query, quoted from the translation of its document and found there.

PosIR lets its translations share the spans of the originals. Spans found again in the translation
show how far positions survive it; they stand beside the original's and replace nothing.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import polars as pl

from psibench.llm.tasks import (
    DOCUMENTS_TABLE,
    Gathered,
    LlmTask,
    Replied,
    Tables,
    TaskItem,
    reply_field,
)
from psibench.recipes.translation import TranslateSection, language_names
from psibench.tables.translation_schemas import RELOCATED
from psibench.text.locate import locate_quote

NO_REPLY = "no_usable_reply"
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "_id": pl.String,
    "span": pl.Array(pl.Int32, 2),
    "reason": pl.String,
}


class _Query(NamedTuple):
    """A query that is translated, as is its positive."""

    id: str
    doc_id: str
    evidence: str
    question: str
    document: str
    target_position: str | None


def quote_items(tables: Tables, section: TranslateSection) -> Iterator[TaskItem]:
    """Ask for the evidence of the queries of the documents given, where both are translated."""
    names = language_names(section)
    for query in _queries(tables):
        values = {
            "evidence": query.evidence,
            "question": query.question,
            "document": query.document,
        }
        yield TaskItem(query.id, query.doc_id, values | names, query.target_position)


def gather_quotes(
    tables: Tables, _section: TranslateSection, replies: Iterable[Replied]
) -> Gathered:
    """Find the quotes in the translated documents: one RELOCATED row of every query asked about.

    Without a span the reason is that of `locate_quote`, or ``no_usable_reply``. No query is
    dropped for that: the place of the original's evidence stays known.
    """
    quotes = {reply.item_id: reply_field(reply, "quote", str) for reply in replies}
    rows: list[tuple[object, ...]] = []
    for query in _queries(tables):
        if query.id not in quotes:
            rows.append((query.id, None, NO_REPLY))
            continue
        found = locate_quote(query.document, quotes[query.id])
        rows.append((query.id, found.span, found.reason))
    return Gathered(pl.DataFrame(rows, schema=SCHEMA, orient="row"))


def _queries(tables: Tables) -> Iterator[_Query]:
    """Yield the queries of the documents given, in their order, where both are translated."""
    documents = tables[DOCUMENTS_TABLE].select(pos_corpus_id="_id", source="text")
    queries = tables["queries"].select("_id", "pos_corpus_id", "pos_char_span", "target_position")
    questions = _translated(tables, "query", _id="_id", question="text")
    passages = _translated(tables, "document", pos_corpus_id="_id", document="text")
    asked = (
        documents.join(queries, on="pos_corpus_id", maintain_order="left_right")
        .join(questions, on="_id", maintain_order="left")
        .join(passages, on="pos_corpus_id", maintain_order="left")
    )
    for row in asked.iter_rows(named=True):
        yield _Query(
            row["_id"],
            row["pos_corpus_id"],
            row["source"][slice(*row["pos_char_span"])],
            row["question"],
            row["document"],
            row["target_position"],
        )


def _translated(tables: Tables, kind: str, **columns: str) -> pl.DataFrame:
    return tables["translated"].filter(pl.col("kind") == kind).select(**columns)


RELOCATE_SPANS = LlmTask(
    "relocate_spans",
    "quotes",
    (DOCUMENTS_TABLE, "queries", "translated"),
    RELOCATED,
    quote_items,
    gather_quotes,
    prompt="relocate_span",
)
