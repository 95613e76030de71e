"""Metrics of a whole ranked run (nDCG@k, recall@k, MRR@k): one row per query of the qrels.

The definitions are trec_eval's (linear gain, discount log2(1 + rank), ideal ranking over all
positives); grades of 0 or less have no gain and are not positive. A run is first joined with the
positives, so that the metrics only need the few rows of hits. A metric is a function of these rows
with an entry in `METRICS`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from psibench.errors import InputError
from psibench.reading import shown, whole_number
from psibench.tables.ranking import (
    may_be_among,
    pair_key,
    place_in_query,
    repeated_pairs,
    with_ties,
)

# --- Metrics: functions of found positives and ideal ranking to (n_queries,) scores in [0, 1]


def _first(judged: pl.DataFrame, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return query, rank and grade of the rows up to rank k, ordered by query and rank."""
    query, rank, grade = (judged.get_column(name).to_numpy() for name in ("query", "rank", "grade"))
    is_first = rank <= k
    return query[is_first], rank[is_first], grade[is_first]


def _discounted_gain(judged: pl.DataFrame, n_queries: int, k: int) -> np.ndarray:
    query, rank, grade = _first(judged, k)
    discount = np.log2(np.arange(1.0, k + 2.0))  # by rank; rank 0 does not occur
    return np.bincount(query, weights=grade / discount[rank], minlength=n_queries)


def _ndcg(found: pl.DataFrame, ideal: pl.DataFrame, n_queries: int, k: int) -> np.ndarray:
    return _discounted_gain(found, n_queries, k) / _discounted_gain(ideal, n_queries, k)


def _tie_averaged_ndcg(
    found: pl.DataFrame, ideal: pl.DataFrame, n_queries: int, k: int
) -> np.ndarray:
    query, grade, first, last = (
        found.get_column(name).to_numpy() for name in ("query", "grade", "tied_from", "tied_to")
    )
    discounts = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2.0, k + 2.0)))])
    total = discounts[np.minimum(last, k)] - discounts[np.minimum(first - 1, k)]
    mean = total / (last - first + 1)
    gain = np.bincount(query, weights=grade * mean, minlength=n_queries)
    return gain / _discounted_gain(ideal, n_queries, k)


def _recall(found: pl.DataFrame, ideal: pl.DataFrame, n_queries: int, k: int) -> np.ndarray:
    n_positives = np.bincount(ideal.get_column("query").to_numpy(), minlength=n_queries)
    return np.bincount(_first(found, k)[0], minlength=n_queries) / n_positives


def _mrr(found: pl.DataFrame, ideal: pl.DataFrame, n_queries: int, k: int) -> np.ndarray:  # noqa: ARG001
    query, rank, _ = _first(found, k)
    scores = np.zeros(n_queries)
    # Hits are sorted by rank, so a reverse assignment keeps the best hit of a query.
    scores[query[::-1]] = 1.0 / rank[::-1]
    return scores


TIE_AVERAGED = "ndcg-tie-averaged"
"""nDCG averaged over all orders of documents with equal score (McSherry and Najork, ECIR 2008),
like scikit-learn's ``ndcg_score`` and the published values of SQuAD-PosQ and FineWeb-PosQ."""
METRICS: dict[str, Callable[[pl.DataFrame, pl.DataFrame, int, int], np.ndarray]] = {
    "ndcg": _ndcg,
    "recall": _recall,
    "mrr": _mrr,
    TIE_AVERAGED: _tie_averaged_ndcg,
}
"""Function by kind of metric; arguments: the rows of `_find_positives`, the rows of
`_ranked_positives`, the number of queries, and k."""

# --- Names of metrics

TOKENS = "tokens"
"""Unit of a cut-off in tokens."""
MOST_RESULTS = 999_999
"""The largest cut-off, which is the length of the array of discounts."""
METRIC_PATTERN = rf"({'|'.join(METRICS)})@[1-9][0-9]{{0,5}}"
"""A regular expression of the names of document metrics."""
DEFAULT_METRICS = (
    "ndcg@10",
    "recall@5",
    "recall@10",
    "recall@20",
    "recall@30",
    "recall@50",
    "recall@100",
    "mrr@10",
)
HEADLINE_METRICS = ("ndcg@10", "recall@10", "mrr@10")


@dataclass(frozen=True)
class RankingMetric:
    """A metric with its cut-off: ``kind`` is one of `METRICS`, ``k`` the number of documents.

    Metrics of chunks count chunks, or tokens with the unit ``tokens``.
    """

    kind: str
    k: int
    unit: str = ""

    @property
    def name(self) -> str:
        """The column name, e.g. ``ndcg@10`` or ``span-recall@1000tokens``."""
        return f"{self.kind}@{self.k}{self.unit}"


def parse_metric(name: str, *, also: Sequence[str] = ()) -> RankingMetric:
    """Parse a metric name such as ``ndcg@10``; raise InputError if it is unknown.

    ``also``: allowed kinds besides `METRICS`.
    """
    kind, _, cut_off = name.partition("@")
    unit = TOKENS if kind in also and cut_off.endswith(TOKENS) else ""
    k = whole_number(cut_off.removesuffix(unit), least=1, most=MOST_RESULTS)
    if k is None or cut_off.startswith("0") or kind not in (*METRICS, *also):
        allowed = ", ".join(f"{kind}@K" for kind in (*METRICS, *also))
        tokens = f", and {also[0]}@K{TOKENS} etc." if also else ""
        raise InputError(
            f"unknown metric {shown(name)}; allowed: {allowed}{tokens} with K from 1 to "
            f"{MOST_RESULTS:,}"
        )
    return RankingMetric(kind, k, unit)


def parse_metrics(names: Sequence[str], *, also: Sequence[str] = ()) -> tuple[RankingMetric, ...]:
    """Parse metric names; raise InputError for an empty list, unknown names and repeated names.

    ``also``: see `parse_metric`.
    """
    if not names:
        raise InputError("no metrics; name at least one, e.g. ndcg@10")
    repeated = sorted({name for name in names if list(names).count(name) > 1})
    if repeated:
        raise InputError(f"repeated metrics: {', '.join(repeated)}; name each once")
    return tuple(parse_metric(name, also=also) for name in names)


# --- Scores of a run


def ranking_metrics(
    run: pl.DataFrame | pl.LazyFrame,
    qrels: pl.DataFrame,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
) -> pl.DataFrame:
    """Score every query of the qrels with a positive.

    A query that the run lacks scores 0; a query without a positive has no row; run rows of other
    queries are ignored. The ranks of the run come from `psibench.tables.ranking.rank_documents`.
    ``ndcg-tie-averaged`` needs the complete run, or the columns of
    `psibench.tables.ranking.with_ties`.

    Parameters
    ----------
    run : (n_ranked, 4) frame in the columns of the run table; a lazy frame is only read as far as
        needed.
    qrels : (n_judged, 3) frame in the columns of the qrels table.
    metrics : names such as ``ndcg@10``, ``recall@100``, ``mrr@10``; without names, returns only
        query ids.

    Returns
    -------
    (n_queries, 1 + n_metrics) frame: query_id, then one Float64 column in [0, 1] per metric,
    ordered by query_id; no rows without positives.

    Raises
    ------
    InputError
        On an unknown metric, or a repeated pair in the run or the qrels.
    """
    wanted = parse_metrics(metrics) if metrics else ()
    ideal = _ranked_positives(qrels)
    if any(metric.kind == TIE_AVERAGED for metric in wanted):
        run = run.lazy().collect()
        run = run if "tied_from" in run.columns else with_ties(run)
    found = _find_positives(run, ideal, depth=max((m.k for m in wanted), default=0))
    query_ids = ideal.get_column("query_id").filter(ideal.get_column("rank") == 1)
    n_queries = len(query_ids)
    columns = {m.name: METRICS[m.kind](found, ideal, n_queries, m.k) for m in wanted}
    return pl.DataFrame({"query_id": query_ids, **columns})


def _ranked_positives(qrels: pl.DataFrame) -> pl.DataFrame:
    """Rank each query's positives by grade: query_id, doc_id, grade, query (number) and rank."""
    positive = qrels.filter(pl.col("score") > 0).select(
        query_id="query-id", doc_id="corpus-id", grade="score"
    )
    for query_id, doc_id, count in repeated_pairs(positive, query="query_id", doc="doc_id").rows():
        raise InputError(
            f"the qrels have {count} grades for query {query_id!r} and document {doc_id!r}; keep "
            "one grade per pair"
        )
    ordered = positive.sort("query_id", "grade", "doc_id", descending=[False, True, False])
    ordered = ordered.with_columns(query=pl.col("query_id").rle_id().cast(pl.Int64))
    return ordered.with_columns(rank=place_in_query("query") + 1)


def _find_positives(
    run: pl.DataFrame | pl.LazyFrame, ideal: pl.DataFrame, *, depth: int
) -> pl.DataFrame:
    """Join the first ``depth`` ranks of the run with the positives, by pair key and then by ids."""
    key = pair_key("query_id", "doc_id")
    names = run.lazy().collect_schema().names()
    tied = [name for name in ("tied_from", "tied_to") if name in names]
    wanted = ideal.rename({"rank": "ideal_rank"}).with_columns(key=key)
    is_candidate = may_be_among(wanted.get_column("key"))
    candidates = (
        run.lazy()
        .select("query_id", "doc_id", "rank", *tied, key=key)
        .filter(
            pl.col("key").map_batches(is_candidate, return_dtype=pl.Boolean, is_elementwise=True)
        )
        .collect(engine="streaming")
        .filter(pl.col(tied[0] if tied else "rank") <= depth)  # last, when few rows are left
    )
    same_ids = (pl.col("query_id") == pl.col("query_id_right")) & (
        pl.col("doc_id") == pl.col("doc_id_right")
    )
    hits = (
        candidates.join(wanted, on="key", how="inner")
        .filter(same_ids)
        .select("query", "rank", "ideal_rank", "grade", *tied)
        .sort("query", "rank", "ideal_rank")
    )
    for column, what in (("ideal_rank", "the same document"), ("rank", "the same rank")):
        order = hits if column == "rank" else hits.sort("query", column)
        query, number = (order.get_column(name).to_numpy() for name in ("query", column))
        twice = np.flatnonzero((query[1:] == query[:-1]) & (number[1:] == number[:-1]))
        if len(twice):
            query_id = ideal.filter(pl.col("query") == query[twice[0]]).item(0, "query_id")
            raise InputError(
                f"the run has {what} twice for query {query_id!r}; rank it with rank_documents"
            )
    return hits
