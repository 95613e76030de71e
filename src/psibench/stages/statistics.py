"""Stage ``statistics``: what a language of a benchmark holds, and where its evidence sits."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from psibench.build.statistics import (
    benchmark_statistics,
    bucket_counts,
    domain_statistics,
    position_histogram,
    query_type_counts,
)
from psibench.metrics.buckets import bucket_scheme
from psibench.metrics.query_scores import evidence_positions
from psibench.stages.tables import derived
from psibench.tables import read_table, write_table
from psibench.tables.columns import read_columns
from psibench.tables.quality_schemas import RELOCATION
from psibench.tables.schemas import CORPUS, POSITION_HISTOGRAM, QRELS, QUERIES, STATISTICS
from psibench.translate.quality import POOLED
from psibench.translate.relocate import RELOCATED_COLUMNS, relocation_table

Tables = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]
"""Corpus (lengths only), queries and qrels of a domain."""


def run_statistics(
    *,
    benchmark: str,
    language: str,
    domains: Sequence[str],
    schemes: Sequence[str],
    corpora: Sequence[str | Path],
    queries: Sequence[str | Path],
    qrels: Sequence[str | Path],
    statistics: str | Path,
    histogram: str | Path,
    relocation: str | Path | None = None,
) -> None:
    """Write statistics and position histogram of every domain of a language.

    Several domains are also pooled, as domain ``all``. No document's text is read. ``relocation``
    is written for a translated language whose evidence was looked for again.
    """
    paths = zip(corpora, queries, qrels, strict=True)
    tables = [_read(*triple) for triple in paths]
    groups = dict(zip(domains, tables, strict=True))
    pooled = _pooled(tables)
    if len(groups) > 1:
        groups[POOLED] = pooled
    sizes = (pooled[0].height, pooled[1].height)
    parts = {
        domain: _statistics(found, language, schemes, *sizes) for domain, found in groups.items()
    }
    source = derived("statistics", [*corpora, *queries, *qrels], params={"schemes": list(schemes)})
    labels = {"benchmark": benchmark, "language": language}
    write_table(_labelled(parts, labels), statistics, STATISTICS, provenance=source)
    bins = {
        domain: position_histogram(evidence_positions(found[1])) for domain, found in groups.items()
    }
    write_table(_labelled(bins, labels), histogram, POSITION_HISTOGRAM, provenance=source)
    if relocation is not None:
        asked = {domain: found[1] for domain, found in groups.items()}
        table = relocation_table(asked, language=language)
        write_table(table, relocation, RELOCATION, provenance=source)


def _read(corpus: str | Path, queries: str | Path, qrels: str | Path) -> Tables:
    lengths = read_columns(corpus, CORPUS, ["_id", "word_count", "token_length"])
    asked = read_columns(queries, QUERIES, QUERIES.column_names, optional=RELOCATED_COLUMNS)
    return lengths.drop("_id"), asked, read_table(qrels, QRELS).select("query-id")


def _pooled(tables: Sequence[Tables]) -> Tables:
    corpora, queries, qrels = zip(*tables, strict=True)
    return pl.concat(corpora), pl.concat(queries, how="diagonal"), pl.concat(qrels)


def _statistics(
    tables: Tables, language: str, schemes: Sequence[str], n_documents: int, n_queries: int
) -> pl.DataFrame:
    corpus, queries, qrels = tables
    positions = evidence_positions(queries)
    return pl.concat(
        [
            benchmark_statistics(corpus, queries, qrels),
            bucket_counts(positions, [bucket_scheme(name) for name in schemes]),
            domain_statistics(corpus, queries, n_documents=n_documents, n_queries=n_queries),
            query_type_counts(queries, language=language),
        ]
    )


def _labelled(parts: dict[str, pl.DataFrame], labels: dict[str, str]) -> pl.DataFrame:
    """Stack the domains' rows, labels first."""
    named: Iterator[pl.DataFrame] = (
        frame.select(
            *(pl.lit(value).alias(name) for name, value in labels.items()),
            pl.lit(domain).alias("domain"),
            pl.all(),
        )
        for domain, frame in parts.items()
    )
    return pl.concat(named)
