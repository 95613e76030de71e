"""Stage ``statistics``: what a benchmark holds, and where its evidence sits."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from psibench.build.statistics import benchmark_statistics, bucket_counts, position_histogram
from psibench.metrics.buckets import bucket_scheme
from psibench.metrics.query_scores import evidence_positions
from psibench.stages.tables import derived
from psibench.tables import read_table, write_table
from psibench.tables.schemas import CORPUS, POSITION_HISTOGRAM, QRELS, QUERIES, STATISTICS


def run_statistics(
    *,
    benchmark: str,
    language: str,
    domain: str,
    schemes: Sequence[str],
    corpus: str | Path,
    queries: str | Path,
    qrels: str | Path,
    statistics: str | Path,
    histogram: str | Path,
) -> None:
    """Write the statistics and the position histogram of one domain of a benchmark."""
    inputs = (corpus, queries, qrels)
    query_frame = read_table(queries, QUERIES)
    positions = evidence_positions(query_frame)
    source = derived("statistics", inputs, params={"schemes": list(schemes)})
    labels = (
        pl.lit(benchmark).alias("benchmark"),
        pl.lit(language).alias("language"),
        pl.lit(domain).alias("domain"),
    )
    values = pl.concat(
        [
            benchmark_statistics(read_table(corpus, CORPUS), query_frame, read_table(qrels, QRELS)),
            bucket_counts(positions, [bucket_scheme(name) for name in schemes]),
        ]
    )
    write_table(values.select(*labels, pl.all()), statistics, STATISTICS, provenance=source)
    bins = position_histogram(positions).select(*labels, pl.all())
    write_table(bins, histogram, POSITION_HISTOGRAM, provenance=source)
