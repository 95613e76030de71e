"""A benchmark with planted documents: its tables, and what BM25 recalls for its queries."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from asked import PAIRS_SCHEMA, draw_documents, write_queries
from near_duplicates import one_query_per_document, plant

from psibench.config.models import Bm25Model
from psibench.config.registry import load_registry
from psibench.filters.negatives import recalled_pairs
from psibench.search.bm25 import search_bm25

EVERY = 5  # one drawn document in so many lends its text as a frame, and is not in the corpus


@dataclass(frozen=True)
class Planted:
    """A benchmark with planted documents, and the recalled pairs.

    Attributes
    ----------
    corpus, queries, qrels
        Tables of the benchmark; ``queries`` are candidates of the controlled recipe.
    plants
        ``_id, text, query_id, kind``.
    pairs
        ``query_id, doc_id`` recalled, positives left out.
    texts
        PAIRS rows of the recalled pairs and of the positives.
    """

    corpus: pl.DataFrame
    queries: pl.DataFrame
    qrels: pl.DataFrame
    plants: pl.DataFrame
    pairs: pl.DataFrame
    texts: pl.DataFrame

    @property
    def positives(self) -> pl.DataFrame:
        """``query_id`` and ``doc_id`` of each query's positive."""
        return self.qrels.select(query_id="query-id", doc_id="corpus-id")


def planted_benchmark(n_documents: int, *, top_k: int, seed: int) -> Planted:
    """Draw documents, have queries written, plant documents, recall."""
    drawn = draw_documents(n_documents * EVERY // (EVERY - 1), seed=seed).with_row_index("place")
    is_frame = pl.col("place") % EVERY == EVERY - 1
    documents = drawn.filter(~is_frame).drop("place")
    frames = drawn.filter(is_frame).get_column("text").to_list()
    written = write_queries(documents, wrong_position=0.0, seed=seed)
    queries = one_query_per_document(written.candidates)
    plants = plant(queries, documents, frames, seed=seed)
    corpus = pl.concat([frame.select("_id", "text") for frame in (documents, plants)]).sort("_id")
    qrels = queries.select(
        pl.col("_id").alias("query-id"),
        pl.col("pos_corpus_id").alias("corpus-id"),
        pl.lit(1, dtype=pl.Int32).alias("score"),
    )
    found = recalled_pairs(recalled(corpus, queries, top_k), queries, qrels)
    pairs = found.filter(~pl.col("is_labelled")).drop("is_labelled")
    known = qrels.select(query_id="query-id", doc_id="corpus-id")
    texts = with_texts(pl.concat([pairs, known]), corpus, queries)
    return Planted(corpus, queries, qrels, plants, pairs, texts)


def recalled(corpus: pl.DataFrame, queries: pl.DataFrame, top_k: int) -> pl.DataFrame:
    """Recall by the registry's BM25: ``query_id``, ``doc_id``, best first."""
    entry = load_registry()["bm25"]
    assert isinstance(entry, Bm25Model)
    best = search_bm25(
        entry, corpus.get_column("text").to_list(), queries.get_column("text").to_list(), k=top_k
    )
    rows, places = np.nonzero(best.documents >= 0)
    return pl.DataFrame(
        {
            "query_id": queries.get_column("_id").gather(rows),
            "doc_id": corpus.get_column("_id").gather(best.documents[rows, places]),
        }
    )


def with_texts(pairs: pl.DataFrame, corpus: pl.DataFrame, queries: pl.DataFrame) -> pl.DataFrame:
    """Make PAIRS rows of whole documents."""
    asked = queries.select(query_id="_id", query="text")
    texts = corpus.select(doc_id="_id", text="text")
    joined = pairs.join(asked, on="query_id", maintain_order="left").join(
        texts, on="doc_id", maintain_order="left"
    )
    named = joined.with_columns(
        _id=pl.col("query_id") + "--" + pl.col("doc_id"), part=pl.lit("document")
    )
    return named.select(*PAIRS_SCHEMA)
