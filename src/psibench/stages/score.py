"""Stages ``score`` and ``aggregate``: per-query scores, then bucket scores and PSI."""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import polars as pl

from psibench.config.settings import Uncertainty
from psibench.errors import InputError
from psibench.metrics.aggregate import Evaluated, RowLabels, UncertaintySettings, result_tables
from psibench.metrics.query_scores import query_scores
from psibench.stages.score_rows import judged_rows, visible_ends
from psibench.stages.tables import derived, queries_by
from psibench.tables import read_table, write_table
from psibench.tables.schemas import (
    BUCKET_SCORES,
    COMPARISONS,
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
    encodings: str | Path | None = None,
    seen: str | Path | None = None,
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
    encodings, seen
        ENCODINGS or SEEN: how much of each document the model saw, by itself or beside a query.
        Without either it sees everything.
    """
    sides = _read_sides(domains, asked, queries, qrels)
    hits = judged_rows(run, [judged for _, judged in sides], metrics)
    known_queries = [known for known, _ in sides]
    ends = visible_ends(domains, known_queries, encodings=encodings, seen=seen)
    frames = [
        query_scores(
            hits,
            known,
            judged,
            domain=domain,
            metrics=metrics,
            visible_char_end=ends,
        )
        for domain, (known, judged) in zip(domains, sides, strict=True)
    ]
    scores = pl.concat(frames)
    if scores.get_column("query_id").is_duplicated().any():
        raise InputError(f"{run}: a query id occurs in two domains; ids must differ between them")
    asking = [path for path in asked if path not in queries]
    readings = [path for path in (encodings, seen) if path is not None]
    read = [run, *asking, *queries, *qrels, *readings]
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


@dataclass(frozen=True)
class ScoredModel:
    """A model to aggregate: its QUERY_SCORES table, and what `Evaluated` says of it."""

    model: str
    kind: str
    scores: str | Path
    reading_known: bool = True
    on_filter_panel: bool = False


def run_aggregate(
    models: Sequence[ScoredModel],
    *,
    labels: RowLabels,
    metrics: Sequence[str],
    schemes: Sequence[str],
    length_buckets: bool,
    uncertainty: Uncertainty,
    control: str | None,
    windows: Sequence[tuple[str, str]],
    buckets: str | Path,
    psi: str | Path,
    comparisons: str | Path,
    threads: int = 1,
) -> None:
    """Aggregate the per-query scores of all models of a language pair into its result tables.

    Who wrote the queries is taken from the provenance of the scores. Of a model without
    ``reading_known`` (what it read of a document is not known) there are rows of all evidence
    alone. ``control``, ``windows`` and ``threads`` are those of `result_tables`.
    """
    paths = [one.scores for one in models]
    labels = replace(labels, queries_by=queries_by(paths[0]))
    settings = UncertaintySettings(**uncertainty.model_dump())
    params = {
        "labels": asdict(labels),
        "models": [asdict(one) | {"scores": str(one.scores)} for one in models],
        "metrics": list(metrics),
        "schemes": list(schemes),
        "settings": asdict(settings),
        "control": control,
        "windows": [list(pair) for pair in windows],
    }
    source = derived("aggregate", paths, params=params)
    tables = result_tables(
        (
            Evaluated(
                model=one.model,
                kind=one.kind,
                scores=read_table(one.scores, QUERY_SCORES),
                reading_known=one.reading_known,
                on_filter_panel=one.on_filter_panel,
            )
            for one in models
        ),
        labels=labels,
        metrics=metrics,
        schemes=schemes,
        length_buckets=length_buckets,
        domains=True,
        control=control,
        windows=windows,
        settings=settings,
        threads=threads,
    )
    for frame, path, spec in (
        (tables.buckets, buckets, BUCKET_SCORES),
        (tables.psi, psi, PSI_TABLE),
        (tables.comparisons, comparisons, COMPARISONS),
    ):
        write_table(frame, path, spec, provenance=source)
