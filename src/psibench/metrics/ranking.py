"""nDCG@k, recall@k and MRR@k of a whole ranked run: one row per query of the qrels.

The per-query definitions are in `psibench.metrics.definitions`. Here a run is joined with the
positives first, so that everything after the join works on the few rows that are hits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from psibench.errors import InputError
from psibench.metrics.definitions import DEFAULT_METRICS, TIE_AVERAGED, parse_metrics
from psibench.tables.ranking import pair_key, repeated_pairs, with_ties

TIED = ("tied_from", "tied_to")


@dataclass(frozen=True)
class Positives:
    """The positives of the qrels with their queries numbered in order of query id.

    `query_ids` : (n_queries,) String; `table` : (n_positives, 5) query_id, doc_id, query (row of
    the query), ideal_rank (from 1, best grade first), grade; ordered by query and ideal_rank.
    """

    query_ids: pl.Series
    table: pl.DataFrame


@dataclass(frozen=True)
class Judged:
    """Graded ranks as arrays over rows, ordered by query and rank: found ones or ideal ones.

    `tied_from`, `tied_to` : the ranks that share a row's score; its own where ties do not matter.
    """

    query: np.ndarray
    rank: np.ndarray
    grade: np.ndarray
    tied_from: np.ndarray
    tied_to: np.ndarray

    def first(self, k: int) -> "Judged":
        """The rows up to rank k."""
        kept = self.rank <= k
        return Judged(
            self.query[kept],
            self.rank[kept],
            self.grade[kept],
            self.tied_from[kept],
            self.tied_to[kept],
        )


def ranking_metrics(
    run: pl.DataFrame | pl.LazyFrame,
    qrels: pl.DataFrame,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
) -> pl.DataFrame:
    """Score every query of the qrels that has a positive.

    A query absent from the run scores 0 and counts; a query without a positive has no row; run
    rows of other queries have no influence. Ranks are taken as they stand in the run: they come
    from `psibench.tables.ranking.rank_documents`. For ``ndcg-tie-averaged`` the run is whole, or
    has the columns of `psibench.tables.ranking.with_ties`.

    Parameters
    ----------
    run : (n_ranked, 4) frame in the columns of the run table; lazy to read no more than needed.
    qrels : (n_judged, 3) frame in the columns of the qrels table.
    metrics : names such as ``ndcg@10``, ``recall@100``, ``mrr@10``.

    Returns
    -------
    (n_queries, 1 + n_metrics) frame: query_id, then one Float64 column in [0, 1] per metric,
    ordered by query_id; no rows without positives.

    Raises
    ------
    InputError
        On an unknown metric, or a run or qrels that name a pair twice.
    """
    wanted = parse_metrics(metrics)
    positives = number_positives(qrels)
    if any(metric.kind == TIE_AVERAGED for metric in wanted):
        run = run.lazy().collect()
        run = run if "tied_from" in run.columns else with_ties(run)
    found = _find_positives(run, positives, depth=max(metric.k for metric in wanted))
    ideal = _arrays(positives.table, rank="ideal_rank")
    n_queries = len(positives.query_ids)
    columns = {m.name: _TABLE_FORMS[m.kind](found, ideal, n_queries, m.k) for m in wanted}
    return pl.DataFrame({"query_id": positives.query_ids, **columns})


def number_positives(qrels: pl.DataFrame) -> Positives:
    """Number the queries that have a positive, and rank each one's positives by grade."""
    positive = _in_order(
        qrels.filter(pl.col("score") > 0).select(
            query_id="query-id", doc_id="corpus-id", grade="score"
        )
    )
    _refuse_repeated_positives(positive)
    blocks = positive.get_column("query_id").rle().struct.unnest()
    lengths = blocks.get_column("len").to_numpy().astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    query = np.repeat(np.arange(lengths.size), lengths)
    table = positive.with_columns(
        query=pl.Series(query, dtype=pl.Int64),
        ideal_rank=pl.Series(np.arange(positive.height) - starts[query] + 1, dtype=pl.Int64),
    )
    return Positives(blocks.get_column("value").alias("query_id"), table)


def _in_order(positive: pl.DataFrame) -> pl.DataFrame:
    """Order by query id, then grade descending, then document id; a no-op where it is so."""
    query = pl.col("query_id")
    if positive.select((query > query.shift(1)).all(ignore_nulls=True)).item():
        return positive  # one positive per query, in order: the common case
    return positive.sort("query_id", "grade", "doc_id", descending=[False, True, False])


def _refuse_repeated_positives(positive: pl.DataFrame) -> None:
    repeated = repeated_pairs(positive, query="query_id", doc="doc_id")
    if not repeated.is_empty():
        query_id, doc_id, count = repeated.row(0)
        raise InputError(
            f"the qrels judge document {doc_id!r} {count} times for query {query_id!r}; "
            "allowed: once; keep one grade per pair"
        )


def _find_positives(
    run: pl.DataFrame | pl.LazyFrame, positives: Positives, *, depth: int
) -> Judged:
    """Join the run's first `depth` ranks with the positives, by pair key and then by the ids."""
    key = pair_key("query_id", "doc_id")
    tied = [name for name in TIED if name in run.lazy().collect_schema().names()]
    wanted = positives.table.with_columns(key=key)
    candidates = (
        run.lazy()
        .select("query_id", "doc_id", "rank", *tied, key=key)
        .filter(pl.col("key").is_in(wanted.get_column("key").implode()))
        .collect(engine="streaming")
        .filter(pl.col(tied[0] if tied else "rank") <= depth)  # last: few rows are left by now
    )
    same_ids = (pl.col("query_id") == pl.col("query_id_right")) & (
        pl.col("doc_id") == pl.col("doc_id_right")
    )
    hits = (
        candidates.join(wanted, on="key", how="inner")
        .filter(same_ids)
        .select("query", "rank", "grade", "ideal_rank", *tied)
        .sort("query", "rank", "ideal_rank")
    )
    _refuse_repeated_hits(hits, positives)
    return _arrays(hits, rank="rank")


def _refuse_repeated_hits(hits: pl.DataFrame, positives: Positives) -> None:
    for column, what in (("ideal_rank", "the same document"), ("rank", "the same rank")):
        place = hits.select(pl.col("query") * 2**32 + pl.col(column)).to_series()
        if place.n_unique() < hits.height:
            query_id = positives.query_ids[hits.filter(place.is_duplicated()).item(0, "query")]
            raise InputError(
                f"the run gives {what} twice to query {query_id!r}; rank it with rank_documents"
            )


def _arrays(rows: pl.DataFrame, *, rank: str) -> Judged:
    tied = TIED if TIED[0] in rows.columns else (rank, rank)
    columns = ("query", rank, "grade", *tied)
    return Judged(*(rows.get_column(name).to_numpy() for name in columns))


def _discounted_gain(judged: Judged, n_queries: int) -> np.ndarray:
    deepest = int(judged.rank.max(initial=0))
    discount = np.log2(np.arange(1.0, deepest + 2.0))  # by rank; rank 0 does not occur
    weights = judged.grade / discount[judged.rank]
    return np.bincount(judged.query, weights=weights, minlength=n_queries)


def _ndcg(found: Judged, ideal: Judged, n_queries: int, k: int) -> np.ndarray:
    gain = _discounted_gain(found.first(k), n_queries)
    return gain / _discounted_gain(ideal.first(k), n_queries)


def _tie_averaged_ndcg(found: Judged, ideal: Judged, n_queries: int, k: int) -> np.ndarray:
    discounts = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2.0, k + 2.0)))])
    before, last = (np.minimum(ranks, k) for ranks in (found.tied_from - 1, found.tied_to))
    mean = (discounts[last] - discounts[before]) / (found.tied_to - found.tied_from + 1)
    gain = np.bincount(found.query, weights=found.grade * mean, minlength=n_queries)
    return gain / _discounted_gain(ideal.first(k), n_queries)


def _recall(found: Judged, ideal: Judged, n_queries: int, k: int) -> np.ndarray:
    n_positives = np.bincount(ideal.query, minlength=n_queries)
    return np.bincount(found.first(k).query, minlength=n_queries) / n_positives


def _mrr(found: Judged, ideal: Judged, n_queries: int, k: int) -> np.ndarray:  # noqa: ARG001
    scores = np.zeros(n_queries)
    first = found.first(k)
    # Best rank first inside a query: assigned in reverse, a query keeps its best hit.
    scores[first.query[::-1]] = 1.0 / first.rank[::-1]
    return scores


_TABLE_FORMS: dict[str, Callable[[Judged, Judged, int, int], np.ndarray]] = {
    "ndcg": _ndcg,
    TIE_AVERAGED: _tie_averaged_ndcg,
    "recall": _recall,
    "mrr": _mrr,
}
