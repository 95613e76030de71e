"""What leaves a benchmark for its false negatives: questions, or documents and their queries."""

from dataclasses import dataclass

import polars as pl

from psibench.build.false_negatives import Section
from psibench.build.rules.cascade import remove_documents
from psibench.build.rules.drops import kept_items
from psibench.build.rules.negatives import drop_questions
from psibench.config.judging import PosirNegatives


@dataclass(frozen=True)
class Cleaned:
    """A benchmark's tables without what a protocol removes, and the decisions behind it.

    The decisions are DECISIONS rows; those on documents are None where a protocol leaves the
    corpus alone.
    """

    corpus: pl.DataFrame
    queries: pl.DataFrame
    qrels: pl.DataFrame
    query_decisions: pl.DataFrame
    document_decisions: pl.DataFrame | None = None


def remove_false_negatives(
    section: Section,
    found: pl.DataFrame,
    *,
    corpus: pl.DataFrame,
    queries: pl.DataFrame,
    qrels: pl.DataFrame,
) -> Cleaned:
    """Remove what the protocol removes for the false negatives ``found`` (of `decide_final`)."""
    if isinstance(section, PosirNegatives):
        left = remove_documents(corpus, queries, qrels, found)
        return Cleaned(
            left.corpus, left.queries, left.qrels, left.query_decisions, left.document_decisions
        )
    decisions = drop_questions(found, queries.select(query_id="_id"))
    return Cleaned(
        corpus,
        kept_items(queries, decisions),
        kept_items(qrels, decisions, key="query-id"),
        decisions,
    )
