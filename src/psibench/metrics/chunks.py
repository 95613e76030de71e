"""Runs of chunks: rankings of documents by their best chunk, and metrics of evidence in chunks.

A chunk is the characters [start, end) of a document. The metrics use the evidence *span*, never a
chunk's id, so the labels are the same for any chunking. Let E be the characters of a query's
evidence, and C the characters of its first k chunks from the document with the evidence:

    span-recall@k    |E and C| / |E|
    span-whole@k     1 if C holds all of E
    span-in-chunk@k  1 if each evidence span is inside one of these chunks

The first is the recall of Smith and Troynikov, "Evaluating Chunking Strategies for Retrieval",
2024, for characters instead of tokens. Chunkers may strip white space, so a gap of up to `GAP`
characters between two parts of a span in C, or at the end of a span (not its start), counts as
included.

A document has the score of its best chunk (MaxP: Dai and Callan, SIGIR 2019, arXiv:1905.09217). In
a run of documents each document is one chunk.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import comb
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl

from psibench.errors import InputError
from psibench.metrics.query_scores import SEVERAL_SPANS, evidence_documents, query_scores
from psibench.metrics.ranking import parse_metrics
from psibench.tables.chunks import CHUNK_COLUMNS
from psibench.tables.ranking import rank_documents, with_ties

SPAN_KINDS = ("span-recall", "span-whole", "span-in-chunk")
SPAN_METRICS = (
    *(f"span-recall@{k}" for k in (1, 5, 10)),
    "span-whole@10",
    "span-in-chunk@10",
)
"""Default metrics of a run of chunks, in addition to `HEADLINE_METRICS`."""
GAP = 4
"""Characters, e.g. of an empty line, or of a line end with indentation."""
MOST_TIED, DRAWS = 10, 1000
"""Up to ``MOST_TIED`` tied chunks with evidence of a query, all sets of chunks are counted; with
more chunks, ``DRAWS`` sets are drawn, with the query's id as seed."""


def document_metrics(metrics: Sequence[str]) -> list[str]:
    """Return the metrics of documents, without span metrics."""
    return [name for name in metrics if name.partition("@")[0] not in SPAN_KINDS]


def rank_run(
    scores: pl.DataFrame, *, top_k: int | None = None, source: str = "the run"
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Rank a run of documents or chunks; return the run of documents, and of chunks or None.

    Parameters
    ----------
    scores : (n_pairs, >=3) frame with query_id, doc_id and score; for chunks also chunk_id, start
        and end. Then top_k counts chunks, and chunks tied with the last one are kept.
    top_k, source : as in `rank_documents`.

    Returns
    -------
    Frames in the columns of the run table; the run of chunks also has chunk_id, start and end.
    """
    if "chunk_id" not in scores.columns:
        return rank_documents(scores, top_k, source=source), None
    renamed = scores.select("query_id", "score", doc_id="chunk_id")
    ranked = rank_documents(renamed, source=source).rename({"doc_id": "chunk_id"})
    if top_k is not None:
        ranked = with_ties(ranked).filter(pl.col("tied_from") <= top_k)
        ranked = ranked.drop("tied_from", "tied_to")
    places = scores.select("chunk_id", *CHUNK_COLUMNS).unique("chunk_id")
    chunks = ranked.join(places, on="chunk_id", how="left", maintain_order="left")
    best = chunks.group_by("query_id", "doc_id").agg(pl.col("score").max())
    return rank_documents(best, source=source), chunks


def score_queries(
    run: pl.DataFrame,
    chunks: pl.DataFrame | None,
    queries: pl.DataFrame,
    qrels: pl.DataFrame,
    *,
    metrics: Sequence[str],
    **further: Any,
) -> pl.DataFrame:
    """Score every query like `query_scores`, also with span metrics.

    ``run`` and ``chunks`` are the result of `rank_run`; ``further`` goes to `query_scores`. Span
    metrics are null for a query without a span.
    """
    parse_metrics(metrics, also=SPAN_KINDS)
    plain = document_metrics(metrics)
    scores = query_scores(run, queries, qrels, metrics=plain, **further)
    if len(plain) == len(metrics):
        return scores
    by_span = span_metrics(run if chunks is None else chunks, queries, qrels, metrics=metrics)
    joined = scores.join(by_span, on="query_id", how="left", maintain_order="left")
    return joined.select(pl.exclude(metrics), *metrics)


def span_metrics(
    chunks: pl.DataFrame, queries: pl.DataFrame, qrels: pl.DataFrame, *, metrics: Sequence[str]
) -> pl.DataFrame:
    """Compute the span metrics of each query; the kinds are in `SPAN_KINDS`.

    Parameters
    ----------
    chunks : a ranked run with query_id, rank, doc_id, start, end; without start and end, each
        document is one chunk.
    queries, qrels : columns of these tables; a span counts up to the end of its document.
    metrics : names; metrics of documents are ignored.

    Returns
    -------
    (n_queries with a span, 1 + n_metrics) frame: query_id, then Float64 in [0, 1].
    """
    length, span = pl.col("pos_char_length").cast(pl.Int64), pl.col("span")
    columns: dict[str, Any] = {"query_id": "_id", "length": length}
    spans = queries.select(**columns, span=pl.col("pos_char_span").cast(pl.List(pl.Int64)))
    if SEVERAL_SPANS in queries.columns:
        lists = pl.col(SEVERAL_SPANS).cast(pl.List(pl.List(pl.Int64)))
        spans = pl.concat([spans, queries.select(**columns, span=lists).explode("span")])
    spans = (
        spans.drop_nulls("span")
        .select(
            "query_id", first=span.list.get(0), last=pl.min_horizontal(span.list.get(1), "length")
        )
        .filter(pl.col("first") < pl.col("last"))
        .with_row_index("span_index")
    )
    if spans.is_empty():
        raise InputError(
            f"{', '.join(metrics)}: none of the {queries.height} queries has an evidence span; "
            "name metrics of documents, e.g. ndcg@10"
        )
    if "start" not in chunks.columns:
        chunks = chunks.with_columns(start=pl.lit(None, pl.Int64), end=pl.lit(None, pl.Int64))
    wanted = [one for one in parse_metrics(metrics, also=SPAN_KINDS) if one.kind in SPAN_KINDS]
    held = (
        spans.join(evidence_documents(queries, qrels), on="query_id")
        .join(
            with_ties(chunks).filter(pl.col("tied_from") <= max(one.k for one in wanted)),
            left_on=["query_id", "document_id"],
            right_on=["query_id", "doc_id"],
        )
        .with_columns(
            # `max_horizontal` ignores nulls: a document without start and end is one chunk.
            low=pl.max_horizontal("first", "start"),
            high=pl.min_horizontal("last", "end"),
        )
        .filter(pl.col("low") < pl.col("high"))
        .with_columns(
            high=pl.when(pl.col("last") - pl.col("high") > GAP).then("high").otherwise("last")
        )
    )
    low, high, order = pl.col("low"), pl.col("high"), ["span_index", "case"]
    reached = high.cum_max().shift(1).over(order)
    size, found = pl.col("last") - pl.col("first"), pl.col("found").fill_null(0)
    kinds = {
        "span-recall": found.sum() / size.sum(),
        "span-whole": (found == size).all().cast(pl.Float64),
        "span-in-chunk": pl.col("is_inside").fill_null(value=False).all().cast(pl.Float64),
    }
    scored = spans.select("query_id").unique(maintain_order=True)
    for k in {one.k for one in wanted}:
        cases, members = _cases(held, spans, k)
        first = held.filter(pl.col("tied_to") <= k).join(cases, on="query_id")
        tied = held.join(members, on=["query_id", "rank"])
        of_spans = (
            pl.concat([first.select(tied.columns), tied])
            .sort(*order, "low")
            .with_columns(before=pl.when(low - reached > GAP).then(low).otherwise(reached))
            .with_columns(new=(high - pl.coalesce("before", low)).clip(0))
            .group_by(order)
            .agg(found=pl.col("new").sum(), is_inside=(high - low == size).any())
        )
        at_k = {one.name: kinds[one.kind] for one in wanted if one.k == k}
        values = (
            spans.join(cases, on="query_id")
            .join(of_spans, on=order, how="left")
            .group_by("query_id", "case", "share")
            .agg(**at_k)
            .sort("query_id", "case")
            .group_by("query_id")
            .agg((pl.col(name) * pl.col("share")).sum() for name in at_k)
        )
        scored = scored.join(values, on="query_id", maintain_order="left")
    return scored


def _cases(held: pl.DataFrame, spans: pl.DataFrame, k: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the possible cases of ties at rank k, and the tied chunks in each case.

    The first frame has query_id, case, and the case's share of all orders (1 without ties); the
    second has query_id, case, and the rank of each chunk.
    """
    cases, members = [], []
    is_open = (pl.col("tied_from") <= k) & (pl.col("tied_to") > k)
    open_queries = held.filter(is_open).group_by("query_id", "tied_from", "tied_to")
    for query_id, start, end, ranks in open_queries.agg(pl.col("rank").unique().sort()).iter_rows():
        sets = _sets(ranks, n_tied=end - start + 1, n_taken=k - start + 1, seed=query_id)
        for case, (share, taken) in enumerate(sets):
            cases.append((query_id, case, share))
            members += [(query_id, case, rank) for rank in taken]
    schema = {"query_id": pl.String, "case": pl.Int32}
    made = pl.DataFrame(cases, schema=schema | {"share": pl.Float64}, orient="row")
    closed = spans.select("query_id").unique().join(made, on="query_id", how="anti")
    closed = closed.with_columns(case=pl.lit(0, pl.Int32), share=pl.lit(1.0))
    ranks = pl.DataFrame(members, schema=schema | {"rank": pl.Int32}, orient="row")
    return pl.concat([made, closed]), ranks


def _sets(
    ranks: Sequence[int], *, n_tied: int, n_taken: int, seed: str
) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Yield the possible sets of tied chunks in the first ranks, with their share of all orders."""
    n_others = n_tied - len(ranks)
    if len(ranks) > MOST_TIED:
        draw = np.random.default_rng(crc32(seed.encode()))
        for _ in range(DRAWS):
            drawn = draw.choice(n_tied, n_taken, replace=False)
            yield 1 / DRAWS, tuple(ranks[i] for i in sorted(drawn) if i < len(ranks))
        return
    for size in range(max(0, n_taken - n_others), min(len(ranks), n_taken) + 1):
        share = comb(n_others, n_taken - size) / comb(n_tied, n_taken)
        for taken in combinations(ranks, size):
            yield share, taken
