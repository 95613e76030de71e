"""From table rows to what a figure shows: axis, lines, the numbers behind them."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from psibench.report.figures import Axis, Line
from psibench.report.inputs import ModelInfo
from psibench.report.styles import LineStyle
from psibench.report.views import bucket_order
from psibench.report.wording import MISSING, SCHEME_TEXTS, count, interval, number, pair_text

NAN = float("nan")


def bucket_axis(table: pl.DataFrame, scheme: str) -> Axis:
    """Return the buckets of a scheme in order, with bounds and a name for the axis."""
    labels = bucket_order(table)
    unique = table.select("bucket", "bucket_low", "bucket_high").unique("bucket")
    bounds = {name: (low, high) for name, low, high in unique.iter_rows()}
    texts = {"squad": "start of the evidence, characters", "relative-20": "relative position"}
    known = texts.get(scheme, SCHEME_TEXTS.get(scheme, scheme))
    return Axis(tuple(labels), tuple(bounds[name] for name in labels), known)


def model_lines(
    table: pl.DataFrame,
    axis: Axis,
    models: Sequence[ModelInfo],
    styles: Mapping[str, LineStyle],
    *,
    at_equal_documents: bool = False,
) -> dict[str, Line]:
    """Return each model's means and bounds by bucket; NaN where a bucket is empty.

    At equal documents where asked for and told of a model, with the plain means beside them.
    """
    cells = {(row["model"], row["bucket"]): row for row in table.iter_rows(named=True)}
    present = set(table["model"])
    lines = {}
    for model in (m.id for m in models if m.id in present):
        found = [cells.get((model, name)) for name in axis.labels]

        def values(name: str, found: Sequence[Any] = found) -> tuple[float, ...]:
            return tuple(NAN if row is None or row[name] is None else row[name] for row in found)

        plain, same = values("mean"), values("same_mean")
        if at_equal_documents and any(v == v for v in same):
            ends = values("same_low"), values("same_high")
            lines[model] = Line(same, *ends, styles[model], plain)
        else:
            lines[model] = Line(plain, values("low"), values("high"), styles[model])
    return lines


def bucket_sizes(table: pl.DataFrame, axis: Axis) -> list[str]:
    """Return the number of queries per bucket as text."""
    sizes = dict(table.group_by("bucket").agg(pl.col("n_queries").max()).iter_rows())
    return [count(sizes[name]) if name in sizes else MISSING for name in axis.labels]


def number_rows(lines: Mapping[str, Line]) -> tuple[tuple[str, ...], ...]:
    """Return the numbers behind the lines as text, one row per model and kind of mean."""
    rows = []
    for name, line in lines.items():
        cells = (
            f"{number(m)} {interval(lo, hi)}".strip() if m == m else MISSING
            for m, lo, hi in zip(line.mean, line.low, line.high, strict=True)
        )
        rows.append((name, *cells))
        if line.plain:
            rows.append((f"{name}, plain", *map(number, line.plain)))
    return tuple(rows)


def slice_text(table: pl.DataFrame) -> str:
    """Say which slice of the benchmark a figure shows."""
    row = table.row(0, named=True)
    pair = pair_text(row["query_lang"], row["corpus_lang"])
    parts = [("languages", pair), ("domain", row["domain"]), ("length", row["length_bucket"])]
    return "; ".join(f"{name} {value}" for name, value in parts if value != "all")
