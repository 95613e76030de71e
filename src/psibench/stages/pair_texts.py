"""Texts of (query, document) pairs, for rerankers."""

from collections.abc import Iterator

import polars as pl

from psibench.errors import InputError
from psibench.rerankers.protocols import Pair
from psibench.stages.scoring import PAIRS_PER_BLOCK


def pair_blocks(
    wanted: pl.DataFrame, queries: pl.DataFrame, corpus: pl.DataFrame, *, where: str
) -> Iterator[list[Pair]]:
    """Yield the (query, text) pairs that a reranker scores, a block at a time.

    A pair is two references to texts that are held once.

    Parameters
    ----------
    wanted
        (n_pairs, >=2) with query_id and doc_id, in the order of the pairs.
    queries, corpus
        QUERIES and CORPUS tables.
    where
        What an error message calls the corpus.

    Raises
    ------
    InputError
        If a document is not in the corpus.
    """
    questions, texts = (frame.get_column("text").to_list() for frame in (queries, corpus))
    placed = wanted.join(
        _places(queries, "query"), on="query_id", how="left", maintain_order="left"
    )
    placed = placed.join(_places(corpus, "doc"), on="doc_id", how="left", maintain_order="left")
    unknown = placed.filter(pl.col("doc").is_null())
    if unknown.height:
        query_id, doc_id = unknown.select("query_id", "doc_id").row(0)
        raise InputError(
            f"{where}: has no document {doc_id!r}, to be read with query {query_id!r} "
            f"({unknown.height} such pairs); run and queries must be of this corpus"
        )
    for block in placed.select("query", "doc").iter_slices(PAIRS_PER_BLOCK):
        yield [(questions[query], texts[doc]) for query, doc in block.iter_rows()]


def _places(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Number the rows of a table of texts by id."""
    return frame.select(pl.col("_id").alias(f"{name}_id")).with_row_index(name)
