"""Ids with their domain in front: sources count alike, and ids have to differ between domains."""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from psibench.recipes.base import Build

DOCUMENT_IDS = ("_id",)
DROPPED_IDS = ("item_id", "doc_id")


def prefixed(frame: pl.DataFrame, prefix: str, columns: tuple[str, ...]) -> pl.DataFrame:
    """Put a prefix before the ids in some columns; nulls stay."""
    return frame.with_columns((pl.lit(prefix) + pl.col(name)).alias(name) for name in columns)


def prefixed_batches(batches: Iterator[pl.DataFrame], prefix: str) -> Iterator[pl.DataFrame]:
    """Put a prefix before the ids of DOCUMENTS rows, batch by batch."""
    return (prefixed(batch, prefix, DOCUMENT_IDS) for batch in batches)


def prefixed_build(built: Build, prefix: str) -> Build:
    """Put a prefix before all ids of a benchmark's tables."""
    return replace(
        built,
        corpus=prefixed(built.corpus, prefix, DOCUMENT_IDS),
        queries=prefixed(built.queries, prefix, ("_id", "pos_corpus_id")),
        qrels=prefixed(built.qrels, prefix, ("query-id", "corpus-id")),
        dropped=prefixed(built.dropped, prefix, DROPPED_IDS),
    )
