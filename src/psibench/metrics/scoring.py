"""Stage ``score``: per-query scores of all models of a language pair, bucket scores and PSI."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
import pyarrow as pa

from psibench.config.sections import Uncertainty
from psibench.errors import InputError
from psibench.metrics.aggregate import Evaluated, RowLabels, result_tables
from psibench.metrics.buckets import LENGTH_EDGES, edges_of
from psibench.metrics.query_scores import query_scores
from psibench.metrics.ranking import TIE_AVERAGED, parse_metrics
from psibench.tables import read_table
from psibench.tables.build_schemas import TRANSLATED_LENGTH
from psibench.tables.columns import read_columns
from psibench.tables.io import conform, open_parquet
from psibench.tables.job import Job
from psibench.tables.ranking import with_ties
from psibench.tables.schemas import (
    BUCKET_SCORES,
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
"""Rows of a run in memory at a time: PosIR at depth 1,000 has 42 million."""

Sides = Sequence[tuple[str, pl.DataFrame, pl.DataFrame]]
"""Domain, its queries and its qrels."""


@dataclass(frozen=True)
class ScoredModel:
    """A model to score: its run of all domains, and what `Evaluated` says of it.

    ``encodings`` (ENCODINGS) or ``seen`` (SEEN) tell how much of each document the model saw, by
    itself or beside a query. Without either it sees everything.
    """

    model: str
    kind: str
    run: str | Path
    encodings: Sequence[str] = ()
    seen: str | Path | None = None
    reading_known: bool = True
    on_filter_panel: bool = False
    is_truncating: bool = False


@stage("score", version=14)
def run_score(job: Job) -> None:
    """Score the runs of a language pair query by query, and make its result tables of that.

    Who wrote the queries is taken from the provenance of the runs. Of a model without
    ``reading_known`` (what it read of a document is not known) there are rows of all evidence
    alone.

    Inputs: ``asked``, the QUERIES of the queries' language: who asks; ``queries`` and ``qrels`` of
    the documents' language: positives, spans and lengths of the same query ids. In one language
    ``asked`` and ``queries`` are the same tables. Queries that one of the two lacks are left out,
    and counted in the log. ``models`` are `ScoredModel`, whose tables are the other inputs; a run
    may be of a wider view, with more queries. ``control``, ``windows`` and ``pairs`` are
    those of `result_tables`;
    ``length_buckets`` says whether there are rows of each length, or the edges between lengths, in
    tokens. ``metrics`` are those of the per-query scores, ``psi_metrics`` of the result tables.

    Raises
    ------
    InputError
        If a table is not what it should be, or a query id occurs in two domains.
    """
    models, sides = job.value("models", list[ScoredModel]), _read_sides(job)
    lengths = job.value("length_buckets", bool | list[int])
    edges, metrics = edges_of(lengths), job.value("metrics", list[str])
    scored = [scores_of(one, sides, metrics, length_edges=edges) for one in models]
    read = [
        str(path)
        for one in models
        for path in (one.run, *one.encodings, one.seen)
        if path is not None
    ]
    benchmark, asked, searched = (
        job.value(name) for name in ("benchmark", "query_lang", "corpus_lang")
    )
    author = job.record(inputs=read).queries_by or "not recorded"
    tables = result_tables(
        (
            Evaluated(
                one.model,
                one.kind,
                frame,
                reading_known=one.reading_known,
                on_filter_panel=one.on_filter_panel,
                is_truncating=one.is_truncating,
            )
            for one, frame in zip(models, scored, strict=True)
        ),
        labels=RowLabels(benchmark, asked, searched, author),
        metrics=job.value("psi_metrics"),
        schemes=job.value("schemes"),
        length_buckets=lengths is not False,
        domains=True,
        control=job.value("control"),
        windows=job.value("windows", list[tuple[str, str]]),
        pairs=job.value("pairs", list[tuple[str, str]], default=()),
        settings=job.value("uncertainty", Uncertainty),
    )
    job.write("scores", pl.concat(scored), QUERY_SCORES, inputs=read)
    job.write("buckets", tables.buckets, BUCKET_SCORES, inputs=read)
    job.write("psi", tables.psi, PSI_TABLE, inputs=read)
    job.write("comparisons", tables.comparisons, COMPARISONS, inputs=read)


def scores_of(
    model: ScoredModel,
    sides: Sides,
    metrics: Sequence[str],
    *,
    length_edges: Sequence[int] = LENGTH_EDGES[1:],
) -> pl.DataFrame:
    """Score one run query by query: QUERY_SCORES rows, domain by domain."""
    domains = [domain for domain, _, _ in sides]
    hits = judged_rows(model.run, [judged for _, _, judged in sides], metrics)
    known_queries = [known for _, known, _ in sides]
    ends = visible_ends(domains, known_queries, encodings=model.encodings, seen=model.seen)
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
            f"{model.run}: a query id occurs in two domains; ids must differ between them"
        )
    return scores.select(pl.lit(model.model).alias("model"), pl.all())


def _read_sides(job: Job) -> list[tuple[str, pl.DataFrame, pl.DataFrame]]:
    """Read queries and qrels of each domain, of a cross-lingual pair those of both languages."""
    is_cross_lingual, sides = job.value("query_lang") != job.value("corpus_lang"), []
    for domain in job.domains():
        known, judged = domain.read("queries", QUERIES), domain.read("qrels", QRELS)
        if is_cross_lingual:
            known, judged = _of_both(domain.read("asked", QUERIES), known, judged, domain.name)
        sides.append((domain.name, known.drop("text"), judged))
    return sides


def _of_both(
    asked: pl.DataFrame, known: pl.DataFrame, judged: pl.DataFrame, domain: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Keep the queries of a cross-lingual pair that both languages have."""
    both = known.join(asked.select("_id"), on="_id", how="semi", maintain_order="left")
    if both.is_empty() and asked.height and known.height:
        raise InputError(
            f"domain {domain}: the two languages share no query id (first of each: "
            f"{asked.item(0, '_id')!r}, {known.item(0, '_id')!r}); a cross-lingual pair needs the "
            "same queries in both languages"
        )
    logger.info(
        "%s: %d queries in both languages, %d in one alone",
        domain,
        both.height,
        asked.height + known.height - 2 * both.height,
    )
    ids = both.select(pl.col("_id").alias("query-id"))
    return both, judged.join(ids, on="query-id", how="semi", maintain_order="left")


def judged_rows(
    run: str | Path, judged: Sequence[pl.DataFrame], metrics: Sequence[str]
) -> pl.DataFrame:
    """Read the rows of a run that can count: judged pairs, up to the deepest rank of a metric.

    Columns, types and nulls are checked in all rows; that no pair stands twice, in those kept.
    Where ties are averaged, the run is in memory whole, and a row counts if any of its tied ranks
    does: they are in the columns of `with_ties`.
    """
    wanted = parse_metrics(metrics)
    deepest = max(metric.k for metric in wanted)
    pairs = pl.concat(
        [frame.select(query_id="query-id", doc_id="corpus-id") for frame in judged]
    ).unique()

    def judged_up_to(frame: pl.DataFrame, rank: str) -> pl.DataFrame:
        kept = frame.filter(pl.col(rank) <= deepest)
        return kept.join(pairs, on=["query_id", "doc_id"], how="semi", maintain_order="left")

    if any(metric.kind == TIE_AVERAGED for metric in wanted):
        return judged_up_to(with_ties(read_table(run, RUN)), "tied_from")

    def checked(rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
        return _frame(conform(_frame(rows), replace(RUN, key=()), where=str(run)))

    with open_parquet(run) as file:
        batches = map(checked, file.iter_batches(RUN_ROWS))
        kept = [judged_up_to(batch, "rank") for batch in batches]
        kept.append(checked(file.schema_arrow.empty_table()))
    return _frame(conform(pl.concat(kept), RUN, where=str(run)))


def visible_ends(
    domains: Sequence[str],
    queries: Sequence[pl.DataFrame],
    *,
    encodings: Sequence[str],
    seen: str | Path | None,
) -> pl.DataFrame | None:
    """Return how far the model saw into each query's positive, in characters of the query's span.

    Spans of a translation are those of its original: what was seen of the translated positive is
    taken over in proportion of the two lengths. A positive seen whole stays so.

    Returns (n_queries, 2) query_id and visible_char_end, int64; a query of which nothing is known
    is left out. None without ``encodings`` (ENCODINGS) and ``seen`` (SEEN).
    """
    asked = pl.concat(
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
        found = asked.join(read_table(seen, SEEN), on=["query_id", "doc_id"], how="inner")
    elif encodings:
        columns = ("role", "domain", "_id", "visible_char_end")
        ids = asked.get_column("doc_id").unique().to_list()
        documents = pl.concat(
            read_columns(path, ENCODINGS, columns, ids=ids) for path in encodings
        ).filter(pl.col("role") == "document")
        found = asked.join(documents.rename({"_id": "doc_id"}), on=["domain", "doc_id"])
    else:
        return None
    end, length = pl.col("visible_char_end").cast(pl.Int64), pl.col("translated")
    scaled = pl.when(length.is_null()).then(end).otherwise(end * pl.col("original") // length)
    return found.select("query_id", visible_char_end=scaled)


def _frame(rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(rows.replace_schema_metadata(None)))
