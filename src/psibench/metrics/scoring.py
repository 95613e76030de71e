"""Stage ``score``: per-query scores, bucket scores and PSI of all models of a language pair."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from psibench.config.sections import Uncertainty
from psibench.errors import InputError
from psibench.metrics.aggregate import Evaluated, ResultTables, RowLabels, result_tables
from psibench.metrics.buckets import LENGTH_EDGES, edges_of
from psibench.metrics.chunks import CHUNK_METRICS, CUT_METRIC, chunk_scores
from psibench.metrics.query_scores import SEVERAL_SPANS, query_scores
from psibench.metrics.ranking import TIE_AVERAGED, parse_metrics
from psibench.metrics.sections import with_sections
from psibench.tables import read_table
from psibench.tables.build_schemas import TRANSLATED_LENGTH
from psibench.tables.columns import read_columns
from psibench.tables.io import conform, open_parquet
from psibench.tables.job import Job
from psibench.tables.ranking import with_ties
from psibench.tables.schemas import (
    BUCKET_SCORES,
    CHUNK_ENCODINGS,
    CHUNK_RUN,
    COMPARISONS,
    ENCODINGS,
    PSI_TABLE,
    QRELS,
    QUERIES,
    QUERY_SCORES,
    RUN,
    SEEN,
)
from psibench.tables.stage import stage

logger = logging.getLogger("psibench")

RUN_ROWS = 262_144
"""Rows of a run in memory at a time; a run of PosIR at depth 1,000 has 42 million."""

Sides = Sequence[tuple[str, pl.DataFrame, pl.DataFrame]]
"""Domain, with its queries and qrels."""


@dataclass(frozen=True)
class ScoredModel:
    """A model to score: its run over all domains, and fields of `Evaluated`.

    ``encodings`` (ENCODINGS) or ``seen`` (SEEN) have the visible part of each document, alone or
    with a query. Without both, the model reads everything. ``chunks`` is the run of chunks
    (CHUNK_RUN) of a model that cuts documents; its encodings are CHUNK_ENCODINGS.
    """

    model: str
    kind: str
    run: str | Path
    encodings: Sequence[str] = ()
    seen: str | Path | None = None
    reading_known: bool = True
    on_filter_panel: bool = False
    is_truncating: bool = False
    chunks: str | Path | None = None


@stage("score", version=16)
def run_score(job: Job) -> None:
    """Score the runs of a language pair per query, and compute its result tables.

    The author of the queries comes from the provenance of the runs. A model without
    ``reading_known`` only has rows of all evidence.

    Inputs: ``asked``, the QUERIES of the queries' language; ``queries`` and ``qrels`` of the
    documents' language, with positives, spans and lengths of the same query ids. For one language
    ``asked`` and ``queries`` are the same tables. Queries in only one of the two are left out and
    counted in the log. ``models`` are `ScoredModel` entries, whose tables are the other inputs; a
    run may have more queries. ``control``, ``windows`` and ``pairs`` are arguments of
    `result_tables`. Models with chunks also have `chunk_scores`, with rows in the tables.
    ``length_buckets``: whether to add rows per length, or the edges of the length
    buckets (tokens). ``metrics`` are the metrics of per-query scores, ``psi_metrics`` of the result
    tables.

    Raises
    ------
    InputError
        If a table is not valid, or a query id occurs in two domains.
    """
    models, sides = job.value("models", list[ScoredModel]), _read_sides(job)
    lengths = job.value("length_buckets", bool | list[int])
    edges, metrics = edges_of(lengths), job.value("metrics", list[str])
    queries = pl.concat([known for _, known, _ in sides], how="diagonal_relaxed")
    scored = [
        with_sections(scores_of(one, sides, metrics, length_edges=edges), queries) for one in models
    ]
    read = [
        str(path)
        for one in models
        for path in (one.run, *one.encodings, one.seen, one.chunks)
        if path is not None
    ]
    benchmark, query_lang, corpus_lang = (
        job.value(name) for name in ("benchmark", "query_lang", "corpus_lang")
    )
    author = job.record(inputs=read).queries_by or "not recorded"

    def tables_of(chosen: Sequence[ScoredModel], names: Sequence[str]) -> ResultTables:
        frames = {one.model: frame for one, frame in zip(models, scored, strict=True)}
        return result_tables(
            (
                Evaluated(
                    one.model,
                    one.kind,
                    frames[one.model],
                    reading_known=one.reading_known,
                    on_filter_panel=one.on_filter_panel,
                    is_truncating=one.is_truncating,
                )
                for one in chosen
            ),
            labels=RowLabels(benchmark, query_lang, corpus_lang, author),
            metrics=names,
            schemes=job.value("schemes"),
            length_buckets=lengths is not False,
            domains=True,
            control=job.value("control"),
            windows=job.value("windows", list[tuple[str, str]]),
            pairs=job.value("pairs", list[tuple[str, str]], default=()),
            settings=job.value("uncertainty", Uncertainty),
        )

    tables = [tables_of(models, job.value("psi_metrics"))]
    scores = pl.concat(scored, how="diagonal")
    of_chunks = [name for name in CHUNK_METRICS if name in scores.columns and scores[name].count()]
    if of_chunks:
        tables.append(tables_of([one for one in models if one.chunks is not None], of_chunks))
    is_found = pl.col("metric") != CUT_METRIC  # the only one that is not about what was found
    job.write("scores", scores, QUERY_SCORES, inputs=read)
    buckets, psi, comparisons = (
        pl.concat(getattr(one, name) for one in tables)
        for name in ("buckets", "psi", "comparisons")
    )
    job.write("buckets", buckets, BUCKET_SCORES, inputs=read)
    job.write("psi", psi.filter(is_found), PSI_TABLE, inputs=read)
    job.write("comparisons", comparisons.filter(is_found), COMPARISONS, inputs=read)


def scores_of(
    model: ScoredModel,
    sides: Sides,
    metrics: Sequence[str],
    *,
    length_edges: Sequence[int] = LENGTH_EDGES[1:],
) -> pl.DataFrame:
    """Return the QUERY_SCORES rows of a run, domain by domain."""
    domains = [domain for domain, _, _ in sides]
    hits = judged_rows(model.run, [judged for _, _, judged in sides], metrics)
    known_queries = [known for _, known, _ in sides]
    of_chunks = model.chunks is not None
    ends = visible_ends_of_queries(
        domains, known_queries, encodings=() if of_chunks else model.encodings, seen=model.seen
    )
    scores = pl.concat(
        query_scores(
            hits,
            known,
            judged,
            domain=domain,
            metrics=metrics,
            visible_char_end=ends,
            length_edges=length_edges,
        )
        for domain, known, judged in sides
    )
    if scores.get_column("query_id").is_duplicated().any():
        raise InputError(
            f"{model.run}: a query id occurs in two domains; ids must differ between domains"
        )
    if of_chunks:
        scores = _with_chunk_scores(scores, model, sides)
    return scores.select(pl.lit(model.model).alias("model"), pl.all())


def _with_chunk_scores(scores: pl.DataFrame, model: ScoredModel, sides: Sides) -> pl.DataFrame:
    """Add the metrics of chunks, and set the visible shares to what was read in pieces."""
    ranked = read_table(str(model.chunks), CHUNK_RUN)
    columns = ("role", "domain", "_id", "start", "end", "visible_char_end")
    found = []
    for domain, known, judged in sides:
        ids = known["pos_corpus_id"].unique().to_list()
        cut = pl.concat(
            read_columns(path, CHUNK_ENCODINGS, columns, ids=ids) for path in model.encodings
        ).filter(role="document", domain=domain)
        cut = cut.select(pl.col("start", "end", "visible_char_end").cast(pl.Int64), doc_id="_id")
        # A chunk that was read to its end is visible to the end of the white space behind it.
        cut = cut.with_columns(reach=pl.max_horizontal("end", "visible_char_end"))
        ids_here = known["_id"].implode()
        of_domain = ranked.filter(pl.col("query_id").is_in(ids_here))
        measured = chunk_scores(of_domain, cut, known, judged)
        reading = read_in_chunks(cut, known)
        found.append(reading.join(measured, on="query_id", how="left", maintain_order="left"))
    read = pl.concat(found)
    return scores.drop("visible", "pos_visible").join(
        read, on="query_id", how="left", maintain_order="left"
    )


def read_in_chunks(chunks: pl.DataFrame, queries: pl.DataFrame) -> pl.DataFrame:
    """Return how much of each query's evidence and positive was read in chunks.

    Parameters
    ----------
    chunks : doc_id, start, visible_char_end (Int64) of all chunks of the positives.
    queries : columns of QUERIES; the spans of a translated positive are scaled to its length.

    Returns
    -------
    (n_queries, 3) frame query_id, visible and pos_visible, as in QUERY_SCORES.
    """
    start, end = pl.col("start"), pl.col("visible_char_end")
    reached = end.cum_max().shift(1).over("doc_id")
    pieces = (
        chunks.filter(start < end)
        .sort("doc_id", "start", "visible_char_end")
        .with_columns(piece=(start > reached).fill_null(value=False).cum_sum().over("doc_id"))
        .group_by("doc_id", "piece")
        .agg(low=start.min(), high=end.max())
    )
    original = pl.col("pos_char_length").cast(pl.Int64)
    here = original
    if TRANSLATED_LENGTH in queries.columns:
        here = pl.coalesce(pl.col(TRANSLATED_LENGTH).cast(pl.Int64), original)
    columns: dict[str, Any] = {"query_id": "_id", "doc_id": "pos_corpus_id"}
    spans = queries.select(
        **columns,
        length=here,
        scale=here / original,
        span=pl.col("pos_char_span").cast(pl.List(pl.Int64)),
    )
    if SEVERAL_SPANS in queries.columns:
        lists = pl.col(SEVERAL_SPANS).cast(pl.List(pl.List(pl.Int64)))
        several = queries.select(**columns, length=here, scale=here / original, span=lists)
        spans = pl.concat([spans, several.explode("span")])
    first, last = (pl.col("span").list.get(side) * pl.col("scale") for side in (0, 1))
    last = pl.min_horizontal(last, "length")
    whole = spans.unique("query_id").with_columns(first=pl.lit(0.0), last=pl.col("length") * 1.0)
    parts = spans.drop_nulls("span").with_columns(first=first, last=last)

    def share(of: pl.DataFrame) -> pl.DataFrame:
        low = pl.max_horizontal("low", "first")
        held = (pl.min_horizontal("high", "last") - low).clip(0)
        joined = of.with_row_index("number").join(pieces, on="doc_id", how="left")
        each = joined.group_by("number", "query_id").agg(
            held=held.fill_null(0).sum(), size=(pl.col("last") - pl.col("first")).first()
        )
        return each.group_by("query_id").agg(
            share=(pl.col("held").sum() / pl.col("size").sum()).clip(0, 1)
        )

    shares = queries.select(query_id="_id").join(
        share(whole).rename({"share": "pos_visible"}), on="query_id", how="left"
    )
    shares = shares.join(share(parts).rename({"share": "visible"}), on="query_id", how="left")
    is_whole = pl.when(pl.col("pos_visible") >= 1).then(1.0)
    return shares.select("query_id", pl.coalesce("visible", is_whole), "pos_visible")


def _read_sides(job: Job) -> list[tuple[str, pl.DataFrame, pl.DataFrame]]:
    """Read queries and qrels of each domain; for a cross-lingual pair only common queries."""
    is_cross_lingual, sides = job.value("query_lang") != job.value("corpus_lang"), []
    for domain in job.domains():
        known, judged = domain.read("queries", QUERIES), domain.read("qrels", QRELS)
        if is_cross_lingual:
            asking = domain.read("asked", QUERIES)
            known, judged = _common_queries(asking, known, judged, domain.name)
        sides.append((domain.name, known.drop("text"), judged))
    return sides


def _common_queries(
    asking: pl.DataFrame, known: pl.DataFrame, judged: pl.DataFrame, domain: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the queries and qrels that both languages of a pair have."""
    both = known.join(asking.select("_id"), on="_id", how="semi", maintain_order="left")
    if both.is_empty() and asking.height and known.height:
        raise InputError(
            f"domain {domain}: the two languages share no query id (first of each: "
            f"{asking.item(0, '_id')!r}, {known.item(0, '_id')!r}); a cross-lingual pair needs the "
            "same queries in both languages"
        )
    logger.info(
        "%s: %d queries in both languages, %d in only one",
        domain,
        both.height,
        asking.height + known.height - 2 * both.height,
    )
    ids = both.select(pl.col("_id").alias("query-id"))
    return both, judged.join(ids, on="query-id", how="semi", maintain_order="left")


def judged_rows(
    run: str | Path, judged: Sequence[pl.DataFrame], metrics: Sequence[str]
) -> pl.DataFrame:
    """Read the rows of a run with judged pairs, up to the deepest rank of a metric.

    Checks columns, types and nulls in all rows, and repeated pairs in the returned rows. For
    tie-averaged metrics the whole run is in memory; a row is returned if any of its tied ranks
    (columns of `with_ties`) counts.
    """
    wanted = parse_metrics(metrics)
    deepest = max(metric.k for metric in wanted)
    pairs = pl.concat(
        [frame.select(query_id="query-id", doc_id="corpus-id") for frame in judged]
    ).unique()

    def judged_up_to(frame: pl.DataFrame, rank: str) -> pl.DataFrame:
        first = frame.filter(pl.col(rank) <= deepest)
        return first.join(pairs, on=["query_id", "doc_id"], how="semi", maintain_order="left")

    if any(metric.kind == TIE_AVERAGED for metric in wanted):
        return judged_up_to(with_ties(read_table(run, RUN)), "tied_from")

    def checked(rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
        return _frame(conform(_frame(rows), replace(RUN, key=()), where=str(run)))

    with open_parquet(run) as file:
        batches = map(checked, file.iter_batches(RUN_ROWS))
        found = [judged_up_to(batch, "rank") for batch in batches]
        found.append(checked(file.schema_arrow.empty_table()))
    return _frame(conform(pl.concat(found), RUN, where=str(run)))


def visible_ends_of_queries(
    domains: Sequence[str],
    queries: Sequence[pl.DataFrame],
    *,
    encodings: Sequence[str],
    seen: str | Path | None,
) -> pl.DataFrame | None:
    """Return the visible end of each query's positive, in characters of the query's span.

    The spans of a translation refer to its original, so the visible end of a translated positive is
    scaled by the ratio of the two lengths.

    Returns (n_queries, 2) with query_id and visible_char_end, int64, without unknown queries; None
    without ``encodings`` (ENCODINGS) and ``seen`` (SEEN).
    """
    positives = pl.concat(
        [
            frame.select(
                pl.lit(domain).alias("domain"),
                pl.col("_id").alias("query_id"),
                pl.col("pos_corpus_id").alias("doc_id"),
                pl.col("pos_char_length").cast(pl.Int64).alias("original"),
                (
                    pl.col(TRANSLATED_LENGTH).cast(pl.Int64)
                    if TRANSLATED_LENGTH in frame.columns
                    else pl.lit(None, pl.Int64)
                ).alias("translated"),
            )
            for domain, frame in zip(domains, queries, strict=True)
        ]
    )
    if seen is not None:
        found = positives.join(read_table(seen, SEEN), on=["query_id", "doc_id"], how="inner")
    elif encodings:
        columns = ("role", "domain", "_id", "visible_char_end")
        ids = positives.get_column("doc_id").unique().to_list()
        documents = pl.concat(
            read_columns(path, ENCODINGS, columns, ids=ids) for path in encodings
        ).filter(pl.col("role") == "document")
        found = positives.join(documents.rename({"_id": "doc_id"}), on=["domain", "doc_id"])
    else:
        return None
    end, length = pl.col("visible_char_end").cast(pl.Int64), pl.col("translated")
    scaled = pl.when(length.is_null()).then(end).otherwise(end * pl.col("original") // length)
    return found.select("query_id", visible_char_end=scaled)


def _frame(rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(rows.replace_schema_metadata(None)))
