"""From per-query scores to the two result tables: bucket scores and the PSI table."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from psibench.metrics.bucket_statistics import BucketStatistics, bucket_statistics_of
from psibench.metrics.buckets import DEFAULT_SCHEMES
from psibench.metrics.cells import Cell, RowLabels, UncertaintySettings, cells
from psibench.metrics.psi import PsiEstimate
from psibench.metrics.resampled import ResampledScores
from psibench.metrics.slices import slices
from psibench.metrics.uncertainty import psi_estimate_of
from psibench.tables.schemas import BUCKET_SCORES, PSI_TABLE, TableSpec

__all__ = [
    "ResultTables",
    "RowLabels",
    "UncertaintySettings",
    "bucket_scores",
    "psi_table",
    "result_tables",
]

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class ResultTables:
    """Both tables of one evaluation, in the columns of BUCKET_SCORES and PSI_TABLE."""

    buckets: pl.DataFrame
    psi: pl.DataFrame


def result_tables(
    query_scores: pl.DataFrame,
    *,
    labels: RowLabels,
    metrics: Sequence[str],
    schemes: Sequence[str] = DEFAULT_SCHEMES,
    length_buckets: bool = True,
    domains: bool = False,
    settings: UncertaintySettings | None = None,
    threads: int = 1,
) -> ResultTables:
    """Mean score of every bucket, and PSI with its uncertainty beside the mean score.

    Parameters
    ----------
    query_scores : (n_queries, ...) frame in the columns of the query-scores table.
    labels : written into every row.
    metrics, schemes : metric columns and bucket schemes, by name.
    length_buckets : also rows per length bucket that holds queries, if two or more do.
    domains : also rows per domain, if there are two or more.
    settings : the defaults when None.
    threads : how many slices are computed at a time; decides no figure.

    Returns
    -------
    ResultTables
        PSI: one row per slice, scheme, metric and evidence view; `n_queries` and `mean` are over
        all queries of the slice, `mean_of_buckets` is the mean over bucket means (what PosIR
        publishes per length bucket); a value that is undefined is null, never 0. Buckets: one row
        per bucket of those; null means in empty buckets. The `visible` and `whole` views have
        rows also where these equal those of `all`.
    """
    chosen = settings or UncertaintySettings()
    groups = cells(
        query_scores,
        slices(query_scores, length_buckets=length_buckets, domains=domains),
        labels=labels,
        metrics=metrics,
        schemes=schemes,
        seed=chosen.seed,
    )
    made = list(_in_order(groups, chosen, threads))
    return ResultTables(
        buckets=_frame([row for rows, _ in made for row in rows], BUCKET_SCORES),
        psi=_frame([row for _, rows in made for row in rows], PSI_TABLE),
    )


def bucket_scores(query_scores: pl.DataFrame, **options: Any) -> pl.DataFrame:
    """Mean score and its interval in every bucket: `result_tables(...).buckets`."""
    return result_tables(query_scores, **options).buckets


def psi_table(query_scores: pl.DataFrame, **options: Any) -> pl.DataFrame:
    """PSI with its uncertainty beside the mean score: `result_tables(...).psi`."""
    return result_tables(query_scores, **options).psi


def _in_order(
    groups: Iterable[list[Cell]], settings: UncertaintySettings, threads: int
) -> Iterator[tuple[Rows, Rows]]:
    if threads == 1:
        yield from (_rows(group, settings) for group in groups)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(lambda group: _rows(group, settings), groups)


def _rows(group: list[Cell], settings: UncertaintySettings) -> tuple[Rows, Rows]:
    """Make the bucket rows and PSI rows of some views; equal queries get equal figures."""
    known: list[tuple[Cell, BucketStatistics, PsiEstimate]] = []
    buckets, psi = [], []
    for cell in group:
        same = (found for found in known if cell.has_figures_of(found[0]))
        _, means, estimate = found = next(same, None) or (cell, *_estimate(cell, settings))
        known.append(found)
        buckets.extend(_bucket_rows(cell, means))
        psi.append(_psi_row(cell, estimate))
    return buckets, psi


def _estimate(cell: Cell, settings: UncertaintySettings) -> tuple[BucketStatistics, PsiEstimate]:
    row = ResampledScores(
        cell.scores,
        cell.members.query_index,
        cell.members.bucket_index,
        n_buckets=len(cell.scheme.buckets),
        n_bootstrap=settings.n_bootstrap,
        seed=cell.seed,
    )
    return bucket_statistics_of(row, level=settings.level), psi_estimate_of(
        row,
        min_bucket_size=settings.min_bucket_size,
        n_permutations=settings.n_permutations,
        level=settings.level,
    )


def _bucket_rows(cell: Cell, found: BucketStatistics) -> Rows:
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


def _psi_row(cell: Cell, found: PsiEstimate) -> dict[str, Any]:
    named = {
        key: None if index is None else cell.scheme.labels[index]
        for key, index in (("best_bucket", found.best_bucket), ("worst_bucket", found.worst_bucket))
    }
    every = {
        "n_queries": cell.scores.size,
        "mean": float(np.sort(cell.scores).mean()) if cell.scores.size else None,
    }
    return cell.labels | asdict(found) | every | named


def _frame(rows: Rows, spec: TableSpec) -> pl.DataFrame:
    """Collect rows into the columns of a table; NaN becomes null."""
    schema = pl.DataFrame(pl.from_arrow(spec.schema.empty_table())).schema
    columns = {name: [row[name] for row in rows] for name in spec.column_names}
    return pl.DataFrame(columns, schema=schema).with_columns(pl.selectors.float().fill_nan(None))
