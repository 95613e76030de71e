"""The curves of a benchmark by the distribution of positions that models were trained on."""

from collections.abc import Sequence
from itertools import cycle

import polars as pl

from psibench.report.plots import MARKERS, SERIES, LineStyle, as_image, draw_curves
from psibench.report.scores import bucket_axis, plain_lines
from psibench.report.tables import FigureView, Panel
from psibench.report.views import BenchmarkInfo, leading_rows
from psibench.tables.spec import ALL


def training_figures(
    table: pl.DataFrame, benchmarks: Sequence[BenchmarkInfo], *, metric: str
) -> list[tuple[BenchmarkInfo, list[FigureView]]]:
    """Return each benchmark's figures, one a training and language pair.

    ``table`` is TRAINING_TABLE. Benchmarks without trained models are left out.
    """
    buckets, found = table.filter(pl.col("bucket") != ALL), []
    for info in benchmarks:
        rows = leading_rows(buckets, info, metric)
        slices = rows.group_by("training", "query_lang", "corpus_lang", maintain_order=True)
        figures = [_curves(group, metric) for _, group in slices]
        found += [(info, figures)] if figures else []
    return found


def _curves(buckets: pl.DataFrame, metric: str) -> FigureView:
    """Return one panel a base, a line a distribution (Controlled, figures 1 and 2).

    Of plain means, as PSI and the papers' curves are.
    """
    first = buckets.row(0, named=True)
    axis = bucket_axis(buckets, first["buckets"])
    names = buckets["distribution"].unique(maintain_order=True)
    looks = zip(names, cycle(zip(SERIES, MARKERS, strict=True)), strict=False)
    styles = {name: LineStyle(*look) for name, look in looks}
    title = f"{metric} by {axis.text}, {first['training']}"
    panels = []
    for (base,), rows in buckets.group_by("base", maintain_order=True):
        lines = plain_lines(rows, "distribution")
        used = {name: styles[name] for name in lines["line"].unique(maintain_order=True)}
        drawn = draw_curves(lines, axis, used, y_text=metric)
        panels.append(Panel(as_image(drawn), str(base)))
    return FigureView(title, "", tuple(panels))
