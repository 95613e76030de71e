"""From table rows to the figures of the page: which numbers, which captions, which legend."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from psibench.report.figures import (
    Axis,
    Drop,
    Line,
    draw_curves,
    draw_drops,
    draw_highlight,
    draw_pair,
    y_limit,
)
from psibench.report.inputs import BenchmarkInfo, ModelInfo
from psibench.report.series import (
    NAN,
    bucket_axis,
    bucket_sizes,
    model_lines,
    number_rows,
    slice_text,
)
from psibench.report.styles import BAR_STYLES, LineStyle
from psibench.report.svg import inline_svg
from psibench.report.verdict import has_flag
from psibench.report.views import schemes_of
from psibench.report.wording import SCHEME_TEXTS, interval, number

MAX_OVERLAID = 6


@dataclass(frozen=True)
class Panel:
    """One drawing, with a name above and a line of text below it where there are several."""

    svg: str
    name: str = ""
    note: str = ""


@dataclass(frozen=True)
class FigureView:
    """One figure of the page: panels, legend, caption, and the numbers behind it.

    A folded one shows its title and caption alone until it is opened.
    """

    anchor: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    legend: tuple[tuple[str, LineStyle], ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    is_folded: bool = False


def curve_figures(
    rows: pl.DataFrame,
    benchmark: BenchmarkInfo,
    models: Sequence[ModelInfo],
    *,
    styles: Mapping[str, LineStyle],
    metric: str,
) -> list[FigureView]:
    """Return one figure of means by position per bucket scheme of a benchmark.

    ``rows`` are the leading rows of ``bucket_scores`` (one slice per benchmark, one metric);
    only ``evidence = all`` is drawn. A benchmark without such rows has no figure.
    """
    mine = rows.filter((pl.col("benchmark") == benchmark.id) & (pl.col("evidence") == "all"))
    figures = []
    for scheme in schemes_of(mine, benchmark.id):
        table = mine.filter(pl.col("buckets") == scheme)
        axis = bucket_axis(table, scheme)
        lines = model_lines(table, axis, models, styles, at_equal_documents=True)
        anchor = slug("curves", benchmark.id, scheme)
        figures.append(
            FigureView(
                anchor=anchor,
                title=f"{SCHEME_TEXTS.get(scheme, scheme)}",
                caption=_curve_caption(lines, slice_text(table)),
                panels=_curve_panels(lines, axis, anchor, metric),
                legend=_legend(lines, styles),
                header=("model", *axis.labels),
                rows=(("queries", *bucket_sizes(table, axis)), *number_rows(lines)),
            )
        )
    return figures


def _curve_caption(lines: Mapping[str, Line], slice_shown: str) -> str:
    plain = [name for name, line in lines.items() if not line.plain]
    said = (
        "Means at equal documents with their intervals; thin and dashed: plain means."
        if len(plain) < len(lines)
        else "Plain means with their intervals; at equal documents they cannot be told."
    )
    if plain and len(plain) < len(lines):
        said += f" Plain means alone: {', '.join(plain)}."
    return f"{said} Shown: {slice_shown}." if slice_shown else said


def drop_figure(
    rows: Sequence[Mapping[str, Any]],
    benchmark: BenchmarkInfo,
    *,
    styles: Mapping[str, LineStyle],
    controls: Collection[str],
) -> FigureView | None:
    """Return how much worse late evidence is found than early, a row per model.

    ``rows`` are PSI rows over all evidence, in the order shown; those at the floor go last.
    ``controls`` are the models marked as such. None where no row has a drop.
    """
    known = sorted(
        (row for row in rows if row["drop"] is not None), key=lambda row: has_flag(row, "at_floor")
    )
    if not known:
        return None
    drops = [
        Drop(
            row["model"],
            value=row["drop"],
            low=NAN if row["drop_low"] is None else row["drop_low"],
            high=NAN if row["drop_high"] is None else row["drop_high"],
            style=styles[row["model"]],
            is_plain=row["psi_same"] is None or has_flag(row, "between_documents"),
            is_faint=has_flag(row, "at_floor"),
            is_control=row["model"] in controls,
        )
        for row in known
    ]
    said = ["1 − last / first bucket at equal documents, with its interval."]
    if any(drop.is_plain for drop in drops):
        said.append("Open markers: of plain means, which mix position with document.")
    if any(drop.is_faint for drop in drops):
        said.append("Pale: finds next to nothing.")
    anchor = slug("drop", benchmark.id)
    title = "Late against early evidence"
    svg = inline_svg(draw_drops(drops), name=anchor, title=title, description=" ".join(said))
    return FigureView(
        anchor=anchor,
        title=title,
        caption=" ".join(said),
        panels=(Panel(svg),),
        legend=(),
        header=("model", "drop"),
        rows=tuple(
            (
                row["model"],
                f"{number(row['drop'])} {interval(row['drop_low'], row['drop_high'])}".strip(),
            )
            for row in known
        ),
    )


def comparison_figure(
    rows: pl.DataFrame,
    benchmarks: Sequence[BenchmarkInfo],
    models: Sequence[ModelInfo],
    *,
    styles: Mapping[str, LineStyle],
    metric: str,
) -> FigureView | None:
    """Return the figure of the full SQuAD-PosQ against its tiny subset; None unless both exist."""
    pair = _full_and_tiny(rows, benchmarks)
    if pair is None:
        return None
    mine = rows.filter((pl.col("evidence") == "all") & (pl.col("buckets") == "squad"))
    tables = [mine.filter(pl.col("benchmark") == info.id) for info in pair]
    axis = bucket_axis(pl.concat(tables), "squad")
    lines = [model_lines(table, axis, models, styles) for table in tables]
    common = [name for name in lines[0] if name in lines[1]]
    if not common:
        return None
    names = [info.subset or info.id for info in pair]
    anchor = slug("full-tiny")
    pairs = {name: (lines[0][name], lines[1][name]) for name in common}
    return FigureView(
        anchor=anchor,
        title=f"{names[0]} against {names[1]}",
        caption=f"{pair[0].id} beside {pair[1].id}; plain means by {axis.text}.",
        panels=_pair_panels(pairs, names, axis, anchor=anchor, metric=metric),
        legend=tuple(zip(names, BAR_STYLES, strict=True)),
        header=("model", *axis.labels),
        rows=tuple(
            (f"{row[0]} · {side}", *row[1:])
            for name in common
            for side, found in zip(names, lines, strict=True)
            for row in number_rows({name: found[name]})
        ),
    )


def _pair_panels(
    pairs: Mapping[str, tuple[Line, Line]],
    names: Sequence[str],
    axis: Axis,
    *,
    anchor: str,
    metric: str,
) -> tuple[Panel, ...]:
    limit = y_limit([line for pair in pairs.values() for line in pair])
    panels = []
    for place, (name, pair) in enumerate(pairs.items()):
        drawn = draw_pair(pair, axis, limit=limit, y_text=metric)
        text = f"{metric} by position for {name}: {names[0]} beside {names[1]}."
        key = f"{anchor}-{place}"
        panels.append(Panel(inline_svg(drawn, name=key, title=name, description=text), name))
    return tuple(panels)


def slug(*parts: str) -> str:
    """Return an id usable in HTML and CSS, made of ASCII letters, digits and hyphens.

    Other characters become their hexadecimal code point, so different ids stay different.
    """
    return "-".join(
        re.sub(r"[^a-z0-9-]", lambda m: f"_{ord(m[0]):x}_", part.lower()) for part in parts
    )


def _full_and_tiny(
    rows: pl.DataFrame, benchmarks: Sequence[BenchmarkInfo]
) -> tuple[BenchmarkInfo, BenchmarkInfo] | None:
    present = set(rows.filter(pl.col("buckets") == "squad")["benchmark"])
    found = [b for b in benchmarks if b.recipe.lower() == "squad_posq" and b.id in present]
    by_subset = {info.subset.lower(): info for info in reversed(found)}
    if {"full", "tiny"} <= by_subset.keys():
        return by_subset["full"], by_subset["tiny"]
    others = [info for info in found if info.subset != found[0].subset]
    return (found[0], others[0]) if others else None


def _curve_panels(
    lines: Mapping[str, Line], axis: Axis, anchor: str, metric: str
) -> tuple[Panel, ...]:
    text = f"{metric} by {axis.text}"
    if len(lines) <= MAX_OVERLAID:
        figure = draw_curves(list(lines.values()), axis, y_text=metric)
        described = f"{text}, one line per model: {', '.join(lines)}."
        return (Panel(inline_svg(figure, name=anchor, title=text, description=described)),)
    limit = y_limit(list(lines.values()))
    panels = []
    for place, (name, line) in enumerate(lines.items()):
        others = [other for other in lines.values() if other is not line]
        figure = draw_highlight(line, others, axis, limit=limit, y_text=metric)
        described = f"{text} for {name}; the other models are faint lines."
        key = f"{anchor}-{place}"
        panels.append(Panel(inline_svg(figure, name=key, title=name, description=described), name))
    return tuple(panels)


def _legend(
    lines: Mapping[str, Line], styles: Mapping[str, LineStyle]
) -> tuple[tuple[str, LineStyle], ...]:
    return tuple((name, styles[name]) for name in lines) if len(lines) <= MAX_OVERLAID else ()
