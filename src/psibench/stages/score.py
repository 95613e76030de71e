"""Stages ``score`` and ``aggregate``: per-query scores, then bucket scores and PSI."""

import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import polars as pl

from psibench.config.settings import Uncertainty
from psibench.errors import InputError
from psibench.metrics.aggregate import RowLabels, UncertaintySettings, result_tables
from psibench.metrics.query_scores import query_scores
from psibench.stages.score_rows import judged_rows, read_seen, visible_ends
from psibench.stages.tables import derived, queries_by
from psibench.tables import read_table, write_table
from psibench.tables.schemas import (
    BUCKET_SCORES,
    PSI_TABLE,
    QRELS,
    QUERIES,
    QUERY_SCORES,
)

logger = logging.getLogger("psibench")


def run_score(
    *,
    domains: Sequence[str],
    run: str | Path,
    asked: Sequence[str | Path],
    queries: Sequence[str | Path],
    qrels: Sequence[str | Path],
    encodings: str | Path | None,
    metrics: Sequence[str],
    output: str | Path,
) -> None:
    """Score a run of all domains query by query.

    Parameters
    ----------
    asked
        QUERIES tables of the queries' language, domain by domain: who asks.
    queries, qrels
        QUERIES and QRELS tables of the documents' language: positives, spans and lengths of the
        same query ids. In one language ``asked`` and ``queries`` are the same tables. Queries that
        one of the two lacks are left out, and counted in the log.
    encodings
        Tells how much of each document the model saw; None if it sees everything.
    """
    sides = _read_sides(domains, asked, queries, qrels)
    hits = judged_rows(run, [judged for _, judged in sides], metrics)
    seen = None if encodings is None else read_seen(encodings, [known for known, _ in sides])
    frames = [
        query_scores(
            hits,
            known,
            judged,
            domain=domain,
            metrics=metrics,
            visible_char_end=None if seen is None else visible_ends(seen, domain, known),
        )
        for domain, (known, judged) in zip(domains, sides, strict=True)
    ]
    scores = pl.concat(frames)
    if scores.get_column("query_id").is_duplicated().any():
        raise InputError(f"{run}: a query id occurs in two domains; ids must differ between them")
    asking = [path for path in asked if path not in queries]
    read = [run, *asking, *queries, *qrels, *([] if encodings is None else [encodings])]
    source = derived("score", read, params={"metrics": list(metrics)})
    write_table(scores, output, QUERY_SCORES, provenance=source)


def _read_sides(
    domains: Sequence[str],
    asked: Sequence[str | Path],
    queries: Sequence[str | Path],
    qrels: Sequence[str | Path],
) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
    """Read queries and qrels of each domain, of a cross-lingual pair those of both languages."""
    sides = []
    paths = zip(domains, asked, queries, qrels, strict=True)
    for domain, asked_path, queries_path, qrels_path in paths:
        known, judged = read_table(queries_path, QUERIES), read_table(qrels_path, QRELS)
        if asked_path != queries_path:
            known, judged = _of_both(read_table(asked_path, QUERIES), known, judged, domain)
        sides.append((known.drop("text"), judged))
    return sides


def _of_both(
    asked: pl.DataFrame, known: pl.DataFrame, judged: pl.DataFrame, domain: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Keep the queries of a cross-lingual pair that both languages have."""
    both = known.join(asked.select("_id"), on="_id", how="semi", maintain_order="left")
    if both.is_empty():
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


def run_aggregate(
    *,
    labels: RowLabels,
    scores: str | Path,
    metrics: Sequence[str],
    schemes: Sequence[str],
    length_buckets: bool,
    uncertainty: Uncertainty,
    buckets: str | Path,
    psi: str | Path,
    reading_known: bool = True,
    threads: int = 1,
) -> None:
    """Aggregate per-query scores into one model's rows of the two result tables.

    Who wrote the queries is taken from the provenance of the scores. Without ``reading_known``
    (what a model read of a document is not known) there are rows of all evidence alone.
    ``threads`` decides no figure.
    """
    frame = read_table(scores, QUERY_SCORES)
    labels = replace(labels, queries_by=queries_by(scores))
    settings = UncertaintySettings(**uncertainty.model_dump())

    params = {
        "labels": asdict(labels),
        "metrics": list(metrics),
        "schemes": list(schemes),
        "settings": asdict(settings),
        "reading_known": reading_known,
    }
    source = derived("aggregate", [scores], params=params)
    tables = result_tables(
        frame,
        labels=labels,
        metrics=metrics,
        schemes=schemes,
        length_buckets=length_buckets,
        domains=True,
        settings=settings,
        threads=threads,
    )
    for frame, path, spec in (
        (tables.buckets, buckets, BUCKET_SCORES),
        (tables.psi, psi, PSI_TABLE),
    ):
        shown = frame if reading_known else frame.filter(evidence="all")
        write_table(shown, path, spec, provenance=source)
