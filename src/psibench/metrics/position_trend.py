"""How a model's score changes along the document: slope and correlations over buckets."""

from dataclasses import fields

import numpy as np
import polars as pl

from psibench.metrics.correlation import RowCorrelations, correlate_rows
from psibench.metrics.psi import FloatArray
from psibench.tables.schemas import BUCKET_SCORES
from psibench.tables.summary_schemas import POSITION_TREND

PAIRS_AT_ONCE = 4_000_000
"""Upper limit of pairs of buckets compared at once (32 MB)."""

_ROW = tuple(name for name in BUCKET_SCORES.key if name != "bucket")


def position_trend(bucket_scores: pl.DataFrame) -> pl.DataFrame:
    """Slope and correlations of the bucket mean on the bucket's centre.

    Parameters
    ----------
    bucket_scores : frame in the columns of the bucket-scores table.

    Returns
    -------
    frame in the columns of POSITION_TREND
        One row per row of the PSI table, in the order of their first buckets. Every bucket counts
        alike. The slope is per unit of the centre: per document length (thirds, relative-N) or
        per character (squad). With fewer than three buckets all is null; with equal means the
        slope is 0 and the correlations are null.

    Notes
    -----
    PosIR's code reports the same four figures over its twenty bins. Kendall's p-value takes every
    order of the means as equally likely without a trend; it knows nothing of the means' own
    sampling noise.
    """
    rows = bucket_scores.select(*_ROW, "queries_by").unique(maintain_order=True)
    lists = (
        bucket_scores.filter(pl.col("mean").is_not_null())
        .with_columns(centre=(pl.col("bucket_low") + pl.col("bucket_high")) / 2)
        .group_by(_ROW, maintain_order=True)
        .agg("centre", "mean", n_buckets=pl.len())
    )
    parts = lists.partition_by("n_buckets", maintain_order=True)
    figures = pl.concat([_correlated(lists.clear()), *map(_correlated, parts)])
    joined = rows.join(figures, on=_ROW, how="left", maintain_order="left")
    counted = joined.with_columns(pl.col("n_buckets").fill_null(0).cast(pl.Int64))
    return counted.select(POSITION_TREND.column_names)


def _correlated(lists: pl.DataFrame) -> pl.DataFrame:
    """Correlate rows of one number of buckets, block by block; lists `centre` and `mean`."""
    size = int(lists.get_column("n_buckets").first() or 1)  # type: ignore[arg-type]
    block = max(1, PAIRS_AT_ONCE // size**2)
    parts = [lists.slice(start, block) for start in range(0, max(1, lists.height), block)]
    found = [
        correlate_rows(*(_matrix(part, name, size) for name in ("centre", "mean")))
        for part in parts
    ]
    figures = {
        field.name: pl.Series(np.concatenate([getattr(part, field.name) for part in found]))
        for field in fields(RowCorrelations)
    }
    return (
        lists.drop("centre", "mean")
        .with_columns(**figures)
        .with_columns(pl.selectors.float().fill_nan(None))
    )


def _matrix(frame: pl.DataFrame, name: str, size: int) -> FloatArray:
    values: FloatArray = frame.get_column(name).explode(empty_as_null=False).to_numpy()
    return values.reshape(-1, size)
