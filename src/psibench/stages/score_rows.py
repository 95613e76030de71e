"""What a score needs of a run and of a model's encodings: both are too large to read whole."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from psibench.metrics.definitions import parse_metrics
from psibench.tables.columns import read_columns
from psibench.tables.io import conform, read_any_table, read_table
from psibench.tables.schemas import ENCODINGS, RUN, SEEN, TableSpec

TRANSLATED_LENGTH = "pos_translated_char_length"
"""Column of translated queries: characters in the translated positive."""

RUN_ROWS = 262_144
"""Rows of a run in memory at a time: PosIR at depth 1,000 has 42 million."""


def judged_rows(
    run: str | Path, judged: Sequence[pl.DataFrame], metrics: Sequence[str]
) -> pl.DataFrame:
    """Read the rows of a run that can count: judged pairs, up to the deepest rank of a metric.

    Columns, types and nulls are checked in all rows; that no pair stands twice, in those kept.
    """
    deepest = max(metric.k for metric in parse_metrics(metrics))
    pairs = pl.concat(
        [frame.select(query_id="query-id", doc_id="corpus-id") for frame in judged]
    ).unique()
    rows = TableSpec(RUN.name, RUN.columns, key=())
    try:
        file = pq.ParquetFile(run, page_checksum_verification=True)
        kept, start = [_checked(file.schema_arrow.empty_table(), rows, str(run))], 0
        for batch in file.iter_batches(RUN_ROWS):
            where = f"{run}, rows from {start} on"
            found = _checked(pa.Table.from_batches([batch]), rows, where)
            found = found.filter(pl.col("rank") <= deepest)
            kept.append(found.join(pairs, on=["query_id", "doc_id"], how="semi"))
            start += batch.num_rows
    except (OSError, pa.ArrowException):
        read_any_table(run)  # says what is wrong with the file
        raise
    return pl.DataFrame(pl.from_arrow(conform(pl.concat(kept), RUN, where=str(run))))


def visible_ends(
    domains: Sequence[str],
    queries: Sequence[pl.DataFrame],
    *,
    encodings: str | Path | None,
    seen: str | Path | None,
) -> pl.DataFrame | None:
    """Return how far the model saw into each query's positive, in characters of the query's span.

    Spans of a translation are those of its original: what was seen of the translated positive is
    taken over in proportion of the two lengths. A positive seen whole stays so.

    Parameters
    ----------
    domains, queries
        QUERIES tables, domain by domain.
    encodings, seen
        As of `psibench.stages.score.run_score`.

    Returns
    -------
    (n_queries, 2) frame of query_id and visible_char_end, int64; a query of which nothing is known
    is left out. None without either table.
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
                ).alias("own"),
            )
            for domain, frame in zip(domains, queries, strict=True)
        ]
    )
    if seen is not None:
        found = asked.join(read_table(seen, SEEN), on=["query_id", "doc_id"], how="inner")
    elif encodings is not None:
        documents = read_columns(
            encodings,
            ENCODINGS,
            ("role", "domain", "_id", "visible_char_end"),
            ids=asked.get_column("doc_id").unique().to_list(),
        ).filter(pl.col("role") == "document")
        found = asked.join(documents.rename({"_id": "doc_id"}), on=["domain", "doc_id"])
    else:
        return None
    end, own = pl.col("visible_char_end").cast(pl.Int64), pl.col("own")
    scaled = pl.when(own.is_null()).then(end).otherwise(end * pl.col("original") // own)
    return found.select("query_id", visible_char_end=scaled)


def _checked(table: pa.Table, spec: TableSpec, where: str) -> pl.DataFrame:
    frame = pl.DataFrame(pl.from_arrow(table.replace_schema_metadata(None)))
    return pl.DataFrame(pl.from_arrow(conform(frame, spec, where=where)))
