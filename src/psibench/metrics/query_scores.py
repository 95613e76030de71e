"""Per-query scores with the position of each query's evidence and its visible share."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from psibench.errors import InputError
from psibench.metrics.buckets import LENGTH_EDGES, MIXED, length_bucket, third_of_span
from psibench.metrics.inference import units_of
from psibench.metrics.ranking import DEFAULT_METRICS, ranking_metrics

SEVERAL_SPANS = "pos_char_spans"
"""Column of queries with several evidence spans, a list of [start, end) in order; else null. Such
queries have a null ``pos_char_span``."""
EVIDENCE_LISTS = ("positions", SEVERAL_SPANS)
"""Optional columns of queries on evidence positions: all its thirds, and its spans."""
CLUSTER = "cluster"
"""Optional column of queries: the cluster of their positive, e.g. an article or a site."""
PAGE_COLUMN = "pos_page"
"""Optional column of queries: the page of the file where their evidence starts, from 1, or null."""
MOST_NAMED_IDS = 5
"""Most ids in an error message."""


def query_scores(
    run: pl.DataFrame | pl.LazyFrame,
    queries: pl.DataFrame,
    qrels: pl.DataFrame,
    *,
    domain: str,
    metrics: Sequence[str] = DEFAULT_METRICS,
    visible_char_end: pl.DataFrame | None = None,
    length_edges: Sequence[int] = LENGTH_EDGES[1:],
) -> pl.DataFrame:
    """Score every query and describe its evidence.

    Parameters
    ----------
    run : ranked run, columns of the run table; queries it lacks score 0.
    queries, qrels : columns of these tables; every query needs a positive, and every positive a
        query.
    metrics : names; without names, returns only the evidence columns. visible_char_end : frame of
    ``query_id`` and ``visible_char_end`` (end of the visible part of the
        positive, characters); None if the model reads everything.
    length_edges : edges of length buckets (tokens of the positive), see `length_bucket`.

    Returns
    -------
    (n_queries, 13 + n_metrics) frame in the columns of the query-scores table, ordered by query id.
    ``target_position`` is the declared position, else the third of the span's middle; for several
    spans (``pos_char_spans``) their common third, else mixed. ``target_positions`` lists all thirds
    of the column ``positions``, or of several spans. For a query without a span, the visible share
    of the evidence is only known if the whole document is visible.

    Raises
    ------
    InputError
        If queries and qrels do not match, a span is empty or negative, a query has neither span nor
        class, or a positive has no visible end or has two clusters.
    """
    scores = ranking_metrics(run, qrels, metrics=metrics)
    _refuse_one_sided(queries, scores)
    evidence = _evidence(_with_visible_end(queries, visible_char_end), length_edges).join(
        evidence_documents(queries, qrels), on="query_id", how="left"
    )
    columns = ["query_id", "domain", "document_id", CLUSTER, *_EVIDENCE_COLUMNS, *metrics]
    cluster = pl.col(CLUSTER) if CLUSTER in queries.columns else pl.lit(None)
    part_of = queries.select(query_id="_id", cluster=cluster.cast(pl.String))
    joined = evidence.join(scores, on="query_id", how="inner").with_columns(domain=pl.lit(domain))
    joined = joined.join(part_of, on="query_id", how="left")
    _refuse_several_clusters(joined)
    return joined.select(columns).sort("query_id")


def has_sections(scores: pl.DataFrame) -> bool:
    """Return whether the clusters of QUERY_SCORES rows are sections of documents, not groups."""
    if CLUSTER not in scores.columns or not scores[CLUSTER].count():
        return False
    n_clusters = scores.group_by("domain", "document_id").agg(pl.col(CLUSTER).n_unique())
    return bool((n_clusters[CLUSTER] > 1).any())


def document_numbers(scores: pl.DataFrame) -> np.ndarray:
    """Return document numbers from 1 for QUERY_SCORES rows, int64 (n_queries,).

    Equal ids in different domains are different documents. Sections of few documents
    (`psibench.metrics.sections`) take the place of documents.
    """
    unit = ("document_id", CLUSTER) if has_sections(scores) else ("document_id",)
    numbers = scores.select(pl.struct("domain", *unit).rank("dense")).to_series()
    return numbers.to_numpy().astype(np.int64)


def cluster_numbers(scores: pl.DataFrame) -> np.ndarray | None:
    """Return cluster numbers from 1 for QUERY_SCORES rows, int64 (n_queries,), or None.

    A document without a cluster is a separate cluster. Sections of documents are no clusters.
    """
    if CLUSTER not in scores.columns or not scores[CLUSTER].count() or has_sections(scores):
        return None
    single = pl.when(pl.col(CLUSTER).is_null()).then("document_id")
    numbers = scores.select(pl.struct("domain", CLUSTER, single.alias("single")).rank("dense"))
    return numbers.to_series().to_numpy().astype(np.int64)


def unit_numbers(scores: pl.DataFrame) -> np.ndarray:
    """Return the numbers of independent units: clusters, or documents (see `units_of`)."""
    documents = document_numbers(scores)
    units = units_of(documents, cluster_numbers(scores))
    return documents if units is None else units


def evidence_documents(queries: pl.DataFrame, qrels: pl.DataFrame) -> pl.DataFrame:
    """Return the evidence document of each query: frame of ``query_id`` and ``document_id``.

    This is ``pos_corpus_id`` if known, else the positive with the highest grade, and among equal
    grades the first by id.
    """
    best = (
        qrels.filter(pl.col("score") > 0)
        .sort("score", "corpus-id", descending=[True, False])
        .unique("query-id", keep="first", maintain_order=True)
        .select(_id="query-id", judged="corpus-id")
    )
    joined = queries.join(best, on="_id", how="left", maintain_order="left")
    stated = pl.col("pos_corpus_id") if "pos_corpus_id" in queries.columns else pl.lit(None)
    return joined.select(query_id="_id", document_id=pl.coalesce(stated.cast(pl.String), "judged"))


def evidence_positions(queries: pl.DataFrame) -> pl.DataFrame:
    """Return ``query_id`` and the evidence columns of each query, in the order of the queries."""
    return _evidence(_with_visible_end(queries, None))


_EVIDENCE_COLUMNS = (
    "span_start_char",
    "span_mid_char",
    "pos_char_length",
    "relative_position",
    "target_position",
    "target_positions",
    "length_bucket",
    "visible",
    "pos_visible",
)


def name_some(ids: pl.Series) -> str:
    """List the first ids of a series for a message, and how many there are."""
    shown = ", ".join(repr(value) for value in ids.sort().head(MOST_NAMED_IDS).to_list())
    return f"{shown}{', ...' if len(ids) > MOST_NAMED_IDS else ''} ({len(ids)} in all)"


def _refuse_one_sided(queries: pl.DataFrame, scores: pl.DataFrame) -> None:
    asked, judged = queries.get_column("_id"), scores.get_column("query_id")
    without = asked.filter(~asked.is_in(judged.implode()))
    if len(without):
        raise InputError(f"queries without a positive in the qrels: {name_some(without)}")
    unknown = judged.filter(~judged.is_in(asked.implode()))
    if len(unknown):
        raise InputError(
            f"queries of the qrels that are not among the queries: {name_some(unknown)}"
        )


def _refuse_several_clusters(scores: pl.DataFrame) -> None:
    """Raise InputError if queries on a document have different clusters, or only some have one."""
    found = scores.group_by("document_id").agg(pl.col(CLUSTER).unique()).sort("document_id")
    for document, clusters in found.filter(pl.col(CLUSTER).list.len() > 1).head(1).iter_rows():
        named = ", ".join(sorted(repr(name) for name in clusters))
        raise InputError(
            f"queries on document {document!r} have the clusters {named}; all queries on a "
            "document must have the same cluster, or none"
        )


def _with_visible_end(queries: pl.DataFrame, ends: pl.DataFrame | None) -> pl.DataFrame:
    if ends is None:
        return queries.with_columns(visible_char_end=pl.lit(None, dtype=pl.Int64))
    known = ends.select("visible_char_end", _id="query_id")
    joined = queries.join(known, on="_id", how="left", maintain_order="left")
    lacking = joined.filter(pl.col("visible_char_end").is_null()).get_column("pos_corpus_id")
    if len(lacking):
        raise InputError(
            f"no visible_char_end for the positives {name_some(lacking.unique())}; "
            "give one for every positive, or None for a model that reads everything"
        )
    return joined


def _evidence(
    queries: pl.DataFrame, length_edges: Sequence[int] = LENGTH_EDGES[1:]
) -> pl.DataFrame:
    """Return the evidence columns from spans or class, lengths and ``visible_char_end``."""
    span = pl.col("pos_char_span").cast(pl.List(pl.Int64))
    start, end, length = pl.col("start"), pl.col("end"), pl.col("pos_char_length").cast(pl.Int64)
    seen_end = pl.col("visible_char_end")
    seen = (seen_end.fill_null(end) - start).clip(0, end - start)
    frame = queries.with_columns(start=span.list.get(0), end=span.list.get(1))
    frame = frame.with_columns(_several(frame).alias("several"))
    _refuse_odd_evidence(frame)
    frame = frame.with_columns(
        third_of_span(start, end, length).alias("third"),
        tags=pl.lit(None, dtype=pl.String),
        visible=seen / (end - start),
        pos_visible=pl.when(seen_end.is_null()).then(1.0).otherwise((seen_end / length).clip(0, 1)),
        mid=(start + end) / 2,
    )
    if frame.get_column("several").any():
        frame = frame.update(_of_several(frame), on="_id")
    declared = pl.col("target_position").cast(pl.String)
    target = pl.coalesce(declared, "third")
    tags: pl.Expr = pl.when(declared.is_null() | (declared == MIXED)).then("tags")
    if "positions" in queries.columns:
        tags = pl.coalesce(pl.col("positions").list.join(", ").replace("", None), tags)
    return frame.select(
        query_id="_id",
        span_start_char=start.cast(pl.Int32),
        span_mid_char="mid",
        pos_char_length=length.cast(pl.Int32),
        relative_position=pl.when(pl.col("mid").is_not_null()).then(
            pl.min_horizontal(pl.col("mid"), length.cast(pl.Float64)) / length
        ),
        target_position=target,
        target_positions=pl.coalesce(tags, target),
        length_bucket=length_bucket(pl.col("pos_token_length"), length_edges),
        # A completely visible document has visible evidence at any position.
        visible=pl.coalesce("visible", pl.when(pl.col("pos_visible") >= 1).then(1.0)),
        pos_visible="pos_visible",
    )


def _several(queries: pl.DataFrame) -> pl.Expr:
    if SEVERAL_SPANS not in queries.columns:
        return pl.lit(value=False)
    return pl.col(SEVERAL_SPANS).is_not_null()


def _of_several(frame: pl.DataFrame) -> pl.DataFrame:
    """Return ``_id``, ``third``, ``tags`` and ``visible`` of the queries with several spans.

    ``third`` is the common third of the spans' middles, else mixed; ``tags`` are all their thirds;
    ``visible`` is the share of their characters inside the model's input.
    """
    start, end = (pl.col(SEVERAL_SPANS).list.get(side) for side in (0, 1))
    length = pl.col("pos_char_length").cast(pl.Int64)
    seen = (pl.col("visible_char_end").fill_null(end) - start).clip(0, end - start)
    third = third_of_span(start, end, length)
    queries = frame.filter("several").with_columns(
        pl.col(SEVERAL_SPANS).cast(pl.List(pl.List(pl.Int64)))
    )
    return (
        queries.explode(SEVERAL_SPANS)
        .group_by("_id", maintain_order=True)
        .agg(
            third=pl.when(third.n_unique() == 1).then(third.first()).otherwise(pl.lit(MIXED)),
            tags=third.unique(maintain_order=True).str.join(", "),
            visible=seen.sum() / (end - start).sum(),
        )
    )


def _refuse_odd_evidence(frame: pl.DataFrame) -> None:
    """Raise InputError for empty or negative spans, and for queries without span and class."""
    has_span, several = pl.col("pos_char_span").is_not_null(), pl.col("several")
    sound = (pl.col("start") >= 0) & (pl.col("start") < pl.col("end"))
    sound &= pl.col("pos_char_length") >= 1
    by_class = ~has_span & ~several & pl.col("target_position").is_not_null()
    known = pl.when(has_span).then(sound & ~several).otherwise(several | by_class)
    odd = frame.filter(~known.fill_null(value=False))
    if not odd.is_empty():
        query_id, span, length = odd.select("_id", "pos_char_span", "pos_char_length").row(0)
        raise InputError(
            f"query {query_id!r} has the span {span} in a document of {length} characters; "
            "allowed: [start, end) with 0 <= start < end; or no span, but several spans in "
            f"{SEVERAL_SPANS} or a target_position"
        )
