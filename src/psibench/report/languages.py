"""The parts of the page about language pairs and about leaderboards made elsewhere."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from psibench.metrics.buckets import LENGTH_BUCKETS
from psibench.report.fragments import Block
from psibench.report.inputs import BenchmarkInfo, ModelInfo, ReportInput
from psibench.report.pair_tables import average_tables, leading_rows, pair_tables, pairs_of
from psibench.report.panels import slug
from psibench.report.plain import Table
from psibench.report.styles import LineStyle
from psibench.report.trend_figure import trend_figure
from psibench.report.views import POOLED
from psibench.report.wording import MISSING, change, p_text

LEADERBOARD_NOTE = (
    "Spearman's rank correlation of the models' averages over languages (All: means over queries; "
    "Q1 to Q4: means over bucket means) with their scores on the leaderboard. With few models it "
    "says little: look at p and at the number of models. Models that lack a language are not "
    "ranked. Both averages for every length, and who is left out: leaderboards.csv."
)


def language_section(
    inputs: ReportInput,
    benchmarks: Sequence[BenchmarkInfo],
    models: Sequence[ModelInfo],
    *,
    styles: Mapping[str, LineStyle],
    metric: str,
) -> list[tuple[BenchmarkInfo, list[Block]]]:
    """Return tables and figure of every benchmark with two or more language pairs."""
    names = [model.id for model in models]
    found = []
    for info in benchmarks:
        known = inputs.statistics.filter(pl.col("benchmark") == info.id)["language"]
        pairs = pairs_of(inputs.psi_table, info.id, list(dict.fromkeys(known)))
        if len(pairs) < 2:
            continue
        rows = leading_rows(inputs.psi_table, info, metric)
        blocks: list[Block] = [*pair_tables(rows, pairs, names, metric=metric)]
        averages = inputs.summaries.language_averages
        if averages is not None:
            mine = leading_rows(averages, info, metric)
            blocks += average_tables(mine, names, metric=metric)
        trend = inputs.summaries.position_trend
        figure = trend_figure(
            leading_rows(inputs.bucket_scores, info, metric),
            None if trend is None else leading_rows(trend, info, metric),
            pairs,
            models,
            styles=styles,
            metric=metric,
            anchor=slug("pairs", info.id),
        )
        found.append((info, blocks + ([] if figure is None else [figure])))
    return found


def leaderboard_table(
    inputs: ReportInput, benchmarks: Sequence[BenchmarkInfo], *, metric: str
) -> Table | None:
    """Return how the models' averages go with leaderboards, as PosIR's Table 2 ends; or None."""
    table = inputs.summaries.leaderboards
    if table is None or table.is_empty():
        return None
    rows = pl.concat([leading_rows(table, info, metric) for info in benchmarks])
    if rows.is_empty():
        return None
    keys = ("leaderboard", "benchmark", "setting")
    lengths = [name for name in LENGTH_BUCKETS if name in set(rows["length_bucket"])]
    cells: dict[tuple[str, ...], dict[str, Mapping[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        usual = "mean" if row["length_bucket"] == POOLED else "mean_of_buckets"
        if row["average"] == usual:
            cells.setdefault(tuple(row[key] for key in keys), {})[row["length_bucket"]] = row
    lines = tuple(
        (*key, *(_correlation(found.get(name)) for name in (POOLED, *lengths)))
        for key, found in cells.items()
    )
    return Table(
        "Correlation with leaderboards",
        (*keys, "All", *lengths),
        lines,
        n_names=len(keys),
        note=LEADERBOARD_NOTE,
    )


def _correlation(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return MISSING
    n = f"{row['n_models']} {'model' if row['n_models'] == 1 else 'models'}"
    if row["spearman"] is None:
        return f"{MISSING}\n{n}"
    p = "" if row["p"] is None else f"{p_text(row['p'])}, "
    return f"{change(row['spearman'], 2)}\n{p}{n}"
