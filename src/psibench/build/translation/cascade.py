"""What leaves with what: a document takes its queries with it, a query its judgements.

Unlike `psibench.build.rules.cascade`, where pairs decide, documents and queries leave here for
reasons of their own, too.
"""

from dataclasses import dataclass

import polars as pl

from psibench.build.rules.reasons import POSITIVE_REMOVED

LEAVING_SCHEMA = {
    "item_id": pl.String,
    "reason": pl.String,
    "detail": pl.String,
    "score": pl.Float64,
}


@dataclass(frozen=True)
class Left:
    """A benchmark that is consistent again.

    Attributes
    ----------
    documents, queries
        Ids of what is left, in their order.
    qrels
        QRELS rows whose document and query are both left.
    documents_out, queries_out
        ``item_id, reason, detail, score`` of what left, each once, in their order; ``detail`` of
        a query that left with its positive names the positive.
    """

    documents: pl.Series
    queries: pl.Series
    qrels: pl.DataFrame
    documents_out: pl.DataFrame
    queries_out: pl.DataFrame


def cascade(
    documents: pl.Series,
    positives: pl.DataFrame,
    qrels: pl.DataFrame,
    *,
    documents_out: pl.DataFrame,
    queries_out: pl.DataFrame,
) -> Left:
    """Remove documents and queries, and whatever would point to nothing.

    A query leaves for its own reason, else with any of its positives that is not among the
    documents left: the document of its evidence, or one with a score above 0 in the qrels. An
    item with several reasons leaves for the first.

    Parameters
    ----------
    documents
        Ids of the documents there are.
    positives
        ``_id, pos_corpus_id`` of the queries there are.
    qrels
        QRELS rows; those of other queries and documents are left aside.
    documents_out, queries_out
        ``item_id, reason, detail, score`` of what leaves for reasons of its own.
    """
    gone_documents = _once(documents, documents_out)
    kept_documents = _rest(documents, gone_documents)
    own = _once(positives.get_column("_id"), queries_out)
    with_positive = _lost_positives(positives, qrels, kept_documents)
    stacked = pl.concat([own, with_positive.select(own.columns)])
    gone_queries = _once(positives.get_column("_id"), stacked)
    kept_queries = _rest(positives.get_column("_id"), gone_queries)
    left = qrels.filter(
        pl.col("query-id").is_in(kept_queries.implode())
        & pl.col("corpus-id").is_in(kept_documents.implode())
    )
    return Left(kept_documents, kept_queries, left, gone_documents, gone_queries)


def _lost_positives(
    positives: pl.DataFrame, qrels: pl.DataFrame, documents: pl.Series
) -> pl.DataFrame:
    """List the queries one of whose positives is not there; the evidence's counts first."""
    evidence = positives.select(item_id="_id", doc_id="pos_corpus_id")
    labelled = qrels.filter(pl.col("score") > 0).select(item_id="query-id", doc_id="corpus-id")
    lost = pl.concat([evidence, labelled]).filter(~pl.col("doc_id").is_in(documents.implode()))
    return lost.select(
        "item_id",
        reason=pl.lit(POSITIVE_REMOVED),
        detail=pl.lit("document ") + pl.col("doc_id"),
        score=pl.lit(None, pl.Float64),
    )


def _once(items: pl.Series, leaving: pl.DataFrame) -> pl.DataFrame:
    """Leave each item's first row, in order of the items; rows of others are left aside."""
    first = leaving.select(pl.col(name).cast(kind) for name, kind in LEAVING_SCHEMA.items()).unique(
        "item_id", keep="first", maintain_order=True
    )
    known = pl.DataFrame({"item_id": items.cast(pl.String)})
    return known.join(first, on="item_id", how="inner", maintain_order="left")


def _rest(items: pl.Series, gone: pl.DataFrame) -> pl.Series:
    return items.filter(~items.is_in(gone.get_column("item_id").implode()))
