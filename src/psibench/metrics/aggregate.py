"""From per-query scores to the two result tables: bucket scores and the PSI table."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import polars as pl

from psibench.metrics.buckets import DEFAULT_SCHEMES
from psibench.metrics.cells import Cell, RowLabels, UncertaintySettings, cells
from psibench.metrics.slices import slices
from psibench.metrics.uncertainty import bucket_statistics, estimate_psi
from psibench.tables.schemas import BUCKET_SCORES, PSI_TABLE, TableSpec

__all__ = ["RowLabels", "UncertaintySettings", "bucket_scores", "psi_table"]


def bucket_scores(
    query_scores: pl.DataFrame,
    *,
    labels: RowLabels,
    metrics: Sequence[str],
    schemes: Sequence[str] = DEFAULT_SCHEMES,
    length_buckets: bool = True,
    domains: bool = False,
    settings: UncertaintySettings | None = None,
) -> pl.DataFrame:
    """Mean score and its interval in every bucket.

    Parameters
    ----------
    query_scores : (n_queries, ...) frame in the columns of the query-scores table.
    labels : written into every row.
    metrics, schemes : metric columns and bucket schemes, by name.
    length_buckets : also rows per length bucket that holds queries, if two or more do.
    domains : also rows per domain, if there are two or more.
    settings : the defaults when None.

    Returns
    -------
    frame in the columns of the bucket-scores table
        One row per slice, scheme, metric, evidence view and bucket; null means in empty buckets.
        The `visible` and `whole` views have rows also where these equal those of `all`.
    """
    chosen = settings or UncertaintySettings()
    found = cells(
        query_scores,
        slices(query_scores, length_buckets=length_buckets, domains=domains),
        labels=labels,
        metrics=metrics,
        schemes=schemes,
        seed=chosen.seed,
    )
    return _frame(_rows(found, _bucket_rows, chosen), BUCKET_SCORES)


def psi_table(
    query_scores: pl.DataFrame,
    *,
    labels: RowLabels,
    metrics: Sequence[str],
    schemes: Sequence[str] = DEFAULT_SCHEMES,
    length_buckets: bool = True,
    domains: bool = False,
    settings: UncertaintySettings | None = None,
) -> pl.DataFrame:
    """PSI with its uncertainty beside the mean score.

    Parameters as in `bucket_scores`. Returns a frame in the columns of the PSI table, one row per
    slice, scheme, metric and evidence view. `n_queries` and `mean` are over all queries of the
    slice, `mean_of_buckets` is the mean over bucket means (what PosIR publishes per length
    bucket). A value that is undefined is null, never 0.
    """
    chosen = settings or UncertaintySettings()
    found = cells(
        query_scores,
        slices(query_scores, length_buckets=length_buckets, domains=domains),
        labels=labels,
        metrics=metrics,
        schemes=schemes,
        seed=chosen.seed,
    )
    return _frame(_rows(found, _psi_rows, chosen), PSI_TABLE)


RowMaker = Callable[[Cell, UncertaintySettings], list[dict[str, Any]]]


def _rows(
    groups: Iterator[list[Cell]], make: RowMaker, settings: UncertaintySettings
) -> Iterator[dict[str, Any]]:
    """Make the rows of every cell; a later view with the same queries repeats the first's."""
    for first, *others in groups:
        made = make(first, settings)
        yield from made
        for cell in others:
            same = cell.scores.size == first.scores.size  # views are subsets of the first
            for row in made if same else make(cell, settings):
                yield row | cell.labels


def _bucket_rows(cell: Cell, settings: UncertaintySettings) -> list[dict[str, Any]]:
    found = bucket_statistics(
        cell.scores,
        cell.members.query_index,
        cell.members.bucket_index,
        n_buckets=len(cell.scheme.buckets),
        n_bootstrap=settings.n_bootstrap,
        level=settings.level,
        seed=cell.seed,
    )
    return [
        cell.labels
        | {
            "bucket": bucket.label,
            "bucket_low": bucket.low,
            "bucket_high": bucket.high,
            "n_queries": int(found.n_queries[index]),
            "mean": float(found.mean[index]),
            "low": float(found.low[index]),
            "high": float(found.high[index]),
        }
        for index, bucket in enumerate(cell.scheme.buckets)
    ]


def _psi_rows(cell: Cell, settings: UncertaintySettings) -> list[dict[str, Any]]:
    found = estimate_psi(
        cell.scores,
        cell.members.query_index,
        cell.members.bucket_index,
        n_buckets=len(cell.scheme.buckets),
        min_bucket_size=settings.min_bucket_size,
        n_bootstrap=settings.n_bootstrap,
        n_permutations=settings.n_permutations,
        level=settings.level,
        seed=cell.seed,
    )
    named = {
        key: None if index is None else cell.scheme.labels[index]
        for key, index in (("best_bucket", found.best_bucket), ("worst_bucket", found.worst_bucket))
    }
    every = {
        "n_queries": cell.scores.size,
        "mean": float(np.sort(cell.scores).mean()) if cell.scores.size else None,
    }
    return [cell.labels | asdict(found) | every | named]


def _frame(rows: Iterator[dict[str, Any]], spec: TableSpec) -> pl.DataFrame:
    """Collect rows into the columns of a table; NaN becomes null."""
    empty = pl.DataFrame(pl.from_arrow(spec.schema.empty_table()))
    wanted = [{name: row[name] for name in spec.column_names} for row in rows]
    return pl.DataFrame(wanted, schema=empty.schema).with_columns(
        pl.selectors.float().fill_nan(None)
    )
