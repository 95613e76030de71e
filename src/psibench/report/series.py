"""From table rows to what a figure shows: axis, lines, the numbers behind them."""

from collections.abc import Mapping, Sequence

import polars as pl

from psibench.report.figures import Axis, Line
from psibench.report.inputs import ModelInfo
from psibench.report.styles import LineStyle
from psibench.report.views import SCHEME_ORDER, bucket_order
from psibench.report.wording import MISSING, count, interval, number, pair_text

NAN = float("nan")


def bucket_axis(table: pl.DataFrame, scheme: str) -> Axis:
    """Return the buckets of a scheme in order, with bounds and a name for the axis."""
    labels = bucket_order(table)
    unique = table.select("bucket", "bucket_low", "bucket_high").unique("bucket")
    bounds = {name: (low, high) for name, low, high in unique.iter_rows()}
    texts = {"squad": "start of the evidence, characters", "thirds": "third of the passage"}
    known = texts.get(scheme, "relative position" if scheme in SCHEME_ORDER else scheme)
    return Axis(tuple(labels), tuple(bounds[name] for name in labels), known)


def model_lines(
    table: pl.DataFrame,
    axis: Axis,
    models: Sequence[ModelInfo],
    styles: Mapping[str, LineStyle],
) -> dict[str, Line]:
    """Return each model's means and bounds by bucket; NaN where a bucket is empty."""
    values = {
        (row["model"], row["bucket"]): (row["mean"], row["low"], row["high"])
        for row in table.iter_rows(named=True)
    }
    present = set(table["model"])
    lines = {}
    for model in (m.id for m in models if m.id in present):
        cells = [values.get((model, name), (None, None, None)) for name in axis.labels]
        filled = [tuple(NAN if v is None else v for v in cell) for cell in cells]
        mean, low, high = (tuple(cell[i] for cell in filled) for i in range(3))
        lines[model] = Line(mean, low, high, styles[model])
    return lines


def bucket_sizes(table: pl.DataFrame, axis: Axis) -> list[str]:
    """Return the number of queries per bucket as text."""
    sizes = dict(table.group_by("bucket").agg(pl.col("n_queries").max()).iter_rows())
    return [count(sizes[name]) if name in sizes else MISSING for name in axis.labels]


def number_rows(lines: Mapping[str, Line]) -> tuple[tuple[str, ...], ...]:
    """Return the numbers behind the lines as text, one row per model."""
    return tuple(
        (
            name,
            *(
                f"{number(m)} {interval(lo, hi)}" if m == m else MISSING
                for m, lo, hi in zip(line.mean, line.low, line.high, strict=True)
            ),
        )
        for name, line in lines.items()
    )


def slice_text(table: pl.DataFrame) -> str:
    """Say which slice of the benchmark a figure shows."""
    row = table.row(0, named=True)
    pair = pair_text(row["query_lang"], row["corpus_lang"])
    parts = [("languages", pair), ("domain", row["domain"]), ("length", row["length_bucket"])]
    return "; ".join(f"{name} {value}" for name, value in parts if value != "all")
