"""The texts of an estimate in the parts that are translated."""

from dataclasses import dataclass

import polars as pl

from psibench.recipes.llm_tasks import DOCUMENTS_TABLE, Tables
from psibench.stages.llm_estimate_texts import Texts
from psibench.stages.text_parts import text_parts
from psibench.text.lengths import TokenCounter


@dataclass(frozen=True)
class Parts:
    """Texts in parts, TEXT_PARTS rows.

    Attributes
    ----------
    documents
        Parts of the documents that stand for all.
    queries
        The queries that stand for all.
    positives
        Parts of the documents of these queries.
    every_document
        All these documents, each once: ``_id, text, token_length``.
    """

    texts: Texts
    documents: pl.DataFrame
    queries: pl.DataFrame
    positives: pl.DataFrame
    every_document: pl.DataFrame

    def tables(self, parts: pl.DataFrame) -> Tables:
        """Return what the task reads that translates some of the parts."""
        return {DOCUMENTS_TABLE: self.every_document, "text_parts": parts}


def cut_texts(texts: Texts, max_tokens: int, count_tokens: TokenCounter) -> Parts:
    """Cut documents of more than ``max_tokens`` tokens, as the run will."""

    def cut(documents: pl.DataFrame, queries: pl.DataFrame) -> pl.DataFrame:
        return text_parts(documents, queries, max_tokens=max_tokens, count_tokens=count_tokens)

    nothing = texts.queries.clear()
    whole = texts.positives.with_columns(token_length=pl.lit(0, pl.Int32))
    queries = cut(whole, texts.queries).filter(pl.col("kind") == "query")
    every = pl.concat([texts.corpus, texts.positives]).unique("_id", maintain_order=True)
    return Parts(texts, cut(texts.corpus, nothing), queries, cut(texts.positives, nothing), every)
