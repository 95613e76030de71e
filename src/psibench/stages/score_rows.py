"""What a score needs of a run and of a model's encodings: both are too large to read whole."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from psibench.metrics.definitions import parse_metrics
from psibench.tables.columns import read_columns
from psibench.tables.io import conform, read_any_table
from psibench.tables.schemas import ENCODINGS, RUN, TableSpec

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


def read_seen(encodings: str | Path, queries: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Read what the model saw of the positives."""
    positives = pl.concat([frame.select("pos_corpus_id") for frame in queries]).to_series()
    columns = ("role", "domain", "_id", "visible_char_end")
    return read_columns(encodings, ENCODINGS, columns, ids=positives.unique().to_list())


def visible_ends(encodings: pl.DataFrame, domain: str, queries: pl.DataFrame) -> pl.DataFrame:
    """Return how far the model saw into each document, in characters of the queries' spans.

    Spans of a translation are those of its original: what was seen of the translated positive is
    taken over in proportion of the two lengths. A positive seen whole stays so.
    """
    documents = (pl.col("role") == "document") & (pl.col("domain") == domain)
    ends = encodings.filter(documents).select("_id", "visible_char_end")
    if TRANSLATED_LENGTH not in queries.columns:
        return ends
    lengths = queries.select(
        "pos_char_length", pl.col("pos_corpus_id").alias("_id"), TRANSLATED_LENGTH
    ).unique("_id")
    own, original = pl.col(TRANSLATED_LENGTH), pl.col("pos_char_length")
    scaled = pl.col("visible_char_end").cast(pl.Int64) * original // own
    found = ends.join(lengths, on="_id", how="inner")
    return found.select("_id", pl.when(own.is_null()).then("visible_char_end").otherwise(scaled))


def _checked(table: pa.Table, spec: TableSpec, where: str) -> pl.DataFrame:
    frame = pl.DataFrame(pl.from_arrow(table.replace_schema_metadata(None)))
    return pl.DataFrame(pl.from_arrow(conform(frame, spec, where=where)))
