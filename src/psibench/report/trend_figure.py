"""The score of one model by position in every language pair: small multiples with their trend."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from psibench.report.figures import Axis, Line, draw_highlight, y_limit
from psibench.report.inputs import ModelInfo
from psibench.report.pair_tables import Pair
from psibench.report.panels import FigureView, Panel
from psibench.report.series import bucket_axis, number_rows
from psibench.report.styles import LineStyle
from psibench.report.svg import inline_svg
from psibench.report.views import POOLED
from psibench.report.wording import MISSING, change, pair_text

MAX_PAIRS = 18
NAN = float("nan")
CHARACTERS = 1_000


def trend_figure(
    bucket_scores: pl.DataFrame,
    trend: pl.DataFrame | None,
    pairs: Sequence[Pair],
    models: Sequence[ModelInfo],
    *,
    styles: Mapping[str, LineStyle],
    metric: str,
    anchor: str,
) -> FigureView | None:
    """Return a panel per pair, up to 18, of the first model that has most of them.

    Models that are no controls go first.

    Parameters
    ----------
    bucket_scores, trend
        BUCKET_SCORES and POSITION_TREND rows as `leading_rows` gives them.
    """
    rows = _pooled(bucket_scores)
    model = _model(rows, models)
    if model is None:
        return None
    mine = rows.filter(pl.col("model") == model)
    axis = bucket_axis(mine, scheme := mine["buckets"][0])
    lines = _lines(mine, axis, pairs[:MAX_PAIRS], styles[model])
    notes = _notes(trend, model, scheme)
    left_out = f" The first {MAX_PAIRS} of {len(pairs)} pairs." if len(pairs) > MAX_PAIRS else ""
    unit = f"per {CHARACTERS:,} characters" if scheme == "squad" else "from start to end"
    return FigureView(
        anchor=anchor,
        title="By position in every language pair",
        caption=f"Plain means of {metric} of {model}, which mix position with document; the other "
        f"pairs are faint. Slope: change of the mean {unit}, by least squares over the buckets; "
        f"Spearman: rank correlation of mean and position.{left_out} Other models: "
        "position_trend.csv.",
        panels=_panels(lines, notes, axis, anchor=anchor, metric=metric),
        legend=(),
        header=("languages", *axis.labels),
        rows=number_rows({pair_text(*pair): line for pair, line in lines.items()}),
    )


def _pooled(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("domain") == POOLED, pl.col("length_bucket") == POOLED)


def _model(rows: pl.DataFrame, models: Sequence[ModelInfo]) -> str | None:
    counted = rows.group_by("model").agg(pl.struct("query_lang", "corpus_lang").n_unique())
    n_pairs = dict(counted.iter_rows())
    known = [model for model in models if model.id in n_pairs]
    ranked = sorted(known, key=lambda m: (-n_pairs[m.id], m.control is not None))
    return ranked[0].id if ranked else None


def _lines(
    rows: pl.DataFrame, axis: Axis, pairs: Sequence[Pair], style: LineStyle
) -> dict[Pair, Line]:
    cells = {
        (row["query_lang"], row["corpus_lang"], row["bucket"]): row
        for row in rows.iter_rows(named=True)
    }
    lines = {}
    for pair in pairs:
        found = [cells.get((*pair, name)) for name in axis.labels]
        if not any(found):
            continue
        mean, low, high = (
            tuple(NAN if row is None or row[name] is None else row[name] for row in found)
            for name in ("mean", "low", "high")
        )
        lines[pair] = Line(mean, low, high, style)
    return lines


def _notes(trend: pl.DataFrame | None, model: str, scheme: str) -> dict[Pair, str]:
    if trend is None:
        return {}
    mine = _pooled(trend).filter(pl.col("model") == model)
    return {
        (row["query_lang"], row["corpus_lang"]): _note(row, CHARACTERS if scheme == "squad" else 1)
        for row in mine.iter_rows(named=True)
    }


def _note(row: Mapping[str, Any], unit: int) -> str:
    if row["slope"] is None:
        return f"{row['n_buckets']} buckets hold queries: no trend"
    rank = MISSING if row["spearman"] is None else change(row["spearman"], 2)
    return f"slope {change(unit * row['slope'])}, Spearman {rank}"


def _panels(
    lines: Mapping[Pair, Line], notes: Mapping[Pair, str], axis: Axis, *, anchor: str, metric: str
) -> tuple[Panel, ...]:
    limit = y_limit(list(lines.values()))
    panels = []
    for place, (pair, line) in enumerate(lines.items()):
        others = [other for other in lines.values() if other is not line]
        drawn = draw_highlight(line, others, axis, limit=limit, y_text=metric)
        name, note = pair_text(*pair), notes.get(pair, "")
        described = f"{metric} by {axis.text}, {name}. {note}".strip()
        key = f"{anchor}-{place}"
        svg = inline_svg(drawn, name=key, title=name, description=described)
        panels.append(Panel(svg, name, note))
    return tuple(panels)
