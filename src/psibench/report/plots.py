"""Every plot: a table in, a matplotlib figure out, written as a file or as inline SVG.

Names of models stand in the page around a plot, so that any script, length and direction of
writing is laid out by the browser and never measured with a font that lacks it. Only where each
model has a row of its own do they stand beside it, cut to a length. Text stays text; in dark mode
the page's style sheet inverts the drawing.
"""

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from psibench.report.wording import cut
from psibench.tables import atomic_path
from psibench.tables.spec import POOLED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colour-blind-safe (after Okabe and Ito, yellow left out: too faint on white).
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
INK, FAINT, GRID, ACCENT, CONTROL = "#1b1f24", "#b8bec6", "#e3e6ea", "#0072b3", "#6b737d"
RC: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.size": 10,
    "font.family": "sans-serif",
    "path.simplify": True,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.grid.axis": "y",
    "grid.color": GRID,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}
MARKERS = ("o", "s", "^", "D", "v", "P")
CONTROLS = {
    "position-blind": (INK, "X", (4.0, 2.0)),
    "truncating": (CONTROL, "<", (1.0, 1.5)),
}
"""Colour, marker and dashes of each control."""

WIDE, SMALL = (5.6, 3.1), (3.6, 2.3)  # inches, as every size here
MAX_NAME = 28  # characters of a model's id in a plot
MAX_NAMED_TICKS = 8
LONG_LABELS = 42
TINT = 0.42  # ink on the bars stays readable in light and dark
LABELLED = 0.075  # smallest share of a bar with room for its label
MANY_COLUMNS = 10
LONGEST_NAME = 34
DARK, LIGHT = "#000000", "#ffffff"  # text on a heat map
DARKER = 172 / 256  # part of the colours from which light text stands out more, at least 4.5 to 1
PLACES, METRIC = ("head", "middle", "tail"), "ndcg@10"  # of `draw_reading`
MOST_LENGTHS = 4  # whose cosines `draw_reading` shows; those with most documents compared


@dataclass(frozen=True)
class LineStyle:
    """Colour (its light value), marker, and dash lengths in points."""

    colour: str
    marker: str = "s"
    dash: tuple[float, ...] = ()


@dataclass(frozen=True)
class Axis:
    """The x axis of a plot by position: bucket labels, bounds, and what they mean.

    With at most eight buckets each is a named tick; with more the axis is a number line.
    """

    labels: tuple[str, ...]
    bounds: tuple[tuple[float, float], ...]
    text: str

    @property
    def is_named(self) -> bool:
        """Whether buckets are named ticks."""
        return len(self.labels) <= MAX_NAMED_TICKS

    @property
    def places(self) -> list[float]:
        """Where the buckets are: 0, 1, 2, ... or the middles of their bounds."""
        if self.is_named:
            return [float(i) for i in range(len(self.labels))]
        return [(low + high) / 2 for low, high in self.bounds]


def model_styles(controls: dict[str, str | None]) -> dict[str, LineStyle]:
    """Return one style per model for the whole page; ``controls``: model -> its control or None.

    Controls are grey and dashed, the others in palette order. Colours repeat after six models,
    then with the next marker, so no two models look the same among the first 36.
    """
    styles: dict[str, LineStyle] = {}
    n_plain = 0
    for model, control in controls.items():
        if control is not None:
            styles[model] = LineStyle(*CONTROLS[control])
            continue
        turn, place = divmod(n_plain, len(SERIES))
        styles[model] = LineStyle(SERIES[place], MARKERS[(place + turn) % len(MARKERS)])
        n_plain += 1
    return styles


def y_limit(lines: pl.DataFrame) -> float:
    """Return a y limit above every mean and interval: 1 at most, 0.1 at least."""
    ends = [lines[name].max() for name in ("mean", "high", "plain") if name in lines.columns]
    return min(1.0, max([0.1, *(1.06 * float(str(end)) for end in ends if end is not None)]))


def draw_curves(
    lines: pl.DataFrame,
    axis: Axis,
    styles: Mapping[str, LineStyle],
    *,
    y_text: str,
    size: tuple[float, float] = WIDE,
    limit: float | None = None,
    in_front: str = "",
) -> "Figure":
    """Draw means by position as lines with bands.

    ``lines`` has ``line``, ``bucket``, ``mean``, ``low``, ``high`` and, if plain means stand beside
    those at equal documents, ``plain``, which are thin. With a line ``in_front`` the others are
    faint.
    """
    figure, ax = _panel(size, axis, limit or y_limit(lines), y_text)
    for name, style in styles.items():
        line = _by_bucket(lines.filter(line=name), axis)
        if in_front and name != in_front:
            ax.plot(axis.places, line["mean"], color=FAINT, linewidth=0.8, zorder=1)
            continue
        band = {"color": style.colour, "alpha": 0.15, "linewidth": 0, "zorder": 2}
        ax.fill_between(axis.places, line["low"], line["high"], **band)
        if "plain" in line:
            dots = (0, (3.0, 2.0))
            ax.plot(axis.places, line["plain"], color=style.colour, linewidth=0.9, linestyle=dots)
        ax.plot(axis.places, line["mean"], **_look(style), linewidth=1.8, zorder=3, clip_on=False)
    return figure


def draw_changes(
    lines: pl.DataFrame, axis: Axis, styles: Mapping[str, LineStyle], *, y_text: str
) -> "Figure":
    """Draw lines with bands around 0, as far up as down, in one panel."""
    figure = draw_curves(lines, axis, styles, y_text=y_text, limit=1.0)
    known = [v for name in ("mean", "low", "high") for v in lines[name].abs().drop_nulls()]
    reach = 1.06 * max(known, default=0.0) or 0.01
    figure.axes[0].set_ylim(-reach, reach)
    figure.axes[0].axhline(0, color=CONTROL, linewidth=0.8, zorder=1.9)
    return figure


def _by_bucket(line: pl.DataFrame, axis: Axis) -> dict[str, np.ndarray]:
    """Return the values of one line in the order of the axis; NaN where it has none."""
    buckets = pl.DataFrame({"bucket": axis.labels}, schema={"bucket": pl.String})
    rows = buckets.join(line, on="bucket", how="left", maintain_order="left")
    names = [name for name in ("mean", "low", "high", "plain") if name in rows.columns]
    values = {name: rows[name].cast(pl.Float64).to_numpy() for name in names}
    return {
        name: found for name, found in values.items() if name != "plain" or line["plain"].count()
    }


def draw_drops(rows: Sequence[Mapping[str, Any]]) -> "Figure":
    """Draw how much worse late evidence is found than early, the first row on top.

    Each row has ``name``, ``style``, ``drop``, ``drop_low`` and ``drop_high`` (None: not known).
    Markers of those that are ``plain`` are open: of plain means. Those that are ``faint`` mean
    nothing by themselves and do not widen the axis. Intervals are cut at -100 %.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    size = (5.2, 1.0 + 0.3 * len(rows))
    figure, ax = _axes(size, {"axes.grid.axis": "x", "axes.spines.left": False})
    ax.axvline(0, color=INK, linewidth=1, zorder=1)
    ax.set_yticks(range(len(rows)), [row["name"] for row in rows], parse_math=False)
    values = [-0.05, 0.05]
    for place, (row, label) in enumerate(zip(rows, ax.get_yticklabels(), strict=True)):
        colour = FAINT if row["faint"] else row["style"].colour
        label.set_color(CONTROL if row["faint"] else INK)
        ends = row["drop_low"], row["drop_high"]
        if None not in ends:
            ax.hlines(place, *ends, color=colour, linewidth=2, zorder=2)
        fill = "none" if row["plain"] else colour
        look = {"markerfacecolor": fill, "markeredgecolor": colour, "markersize": 7}
        ax.plot(row["drop"], place, marker=row["style"].marker, zorder=3, **look)
        if not row["faint"]:
            values += [row["drop"], *(max(end, -1.0) for end in ends if end is not None)]
    ax.set_ylim(len(rows) - 0.5, -0.5)
    margin = 0.06 * (max(values) - min(values))
    ax.set_xlim(min(values) - margin, max(values) + margin)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=5))
    ax.xaxis.set_major_formatter(
        FuncFormatter(lambda share, _: f"{100 * share:.0f} %".replace("-", "\N{MINUS SIGN}"))
    )
    ax.set_xlabel("\u2190 late found better   \u00b7   late found worse \u2192")
    return figure


def draw_histogram(bins: pl.DataFrame, *, x_text: str) -> "Figure":
    """Draw how many queries have their evidence in each bin: bin_low, bin_high, n_queries."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    figure, ax = _axes((5.6, 2.4))
    low, high = bins["bin_low"].to_numpy(), bins["bin_high"].to_numpy()
    ax.bar(low, bins["n_queries"], width=high - low, align="edge", color=ACCENT, edgecolor="none")
    ax.set_xlabel(x_text, parse_math=False)
    ax.set_ylabel("queries")
    ax.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.set_xlim(low[0], high[-1])
    return figure


def draw_stacks(
    stacks: Sequence[tuple[str, Sequence[float], str]], styles: Sequence[LineStyle], *, x_text: str
) -> "Figure":
    """Draw shares that add up to 1 as stacked bars: name, shares, note; the first one on top.

    Labels in the bars are whole percentages; a part too narrow for one has none.
    """
    from matplotlib.ticker import PercentFormatter

    size = (6.6, 0.75 + 0.36 * len(stacks))
    figure, ax = _axes(size, {"axes.grid": False, "axes.spines.left": False})
    for place, (_, shares, note) in enumerate(stacks):
        left = 0.0
        for share, style in zip(shares, styles, strict=True):
            ax.barh(place, share, left=left, height=0.74, color=style.colour, alpha=TINT)
            if share >= LABELLED:
                text = f"{100 * share:.0f} %"
                ax.text(left + share / 2, place, text, ha="center", va="center")
            left += share
        ax.text(1.015, place, note, ha="left", va="center", parse_math=False)
    ax.set_yticks(range(len(stacks)), [name for name, _, _ in stacks], parse_math=False)
    ax.set_ylim(len(stacks) - 0.5, -0.5)
    ax.set_xlim(0, 1)
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    ax.set_xlabel(x_text, parse_math=False)
    return figure


def draw_heat_map(
    rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float | None]]
) -> "Figure":
    """Draw a number in every cell, the higher the darker, legible at 31 x 31; None: an empty cell.

    With more than ten columns these are numbered, and the names of rows that are also columns
    begin with their numbers. Cells have the same colours in light and dark mode.
    """
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    is_numbered = len(columns) > MANY_COLUMNS
    known = np.array(values, dtype=float).reshape(len(rows), len(columns))
    places = {name: f"{place} " for place, name in enumerate(columns, start=1)}
    names = [f"{places.get(n, '') if is_numbered else ''}{cut(n, LONGEST_NAME)}" for n in rows]
    heads = [n.strip() if is_numbered else cut(c, 16) for c, n in places.items()]
    cell = (
        0.29 if is_numbered else min(1.05, max(0.5, 0.1 + 0.085 * max(map(len, heads), default=0)))
    )
    width = cell * len(heads) + 0.09 * max(map(len, names), default=0) + 0.3
    none = dict.fromkeys(("axes.grid", "axes.spines.left", "axes.spines.bottom"), False)
    figure, ax = _axes((max(width, 2.6), 0.26 * len(names) + 0.9), {**none, "font.size": 8})
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.set_xticks(range(len(heads)), heads, parse_math=False)
    ax.xaxis.tick_top()
    ax.tick_params(length=0, pad=4)
    if np.isnan(known).all():
        return figure
    # from where it differs from an empty cell
    blues = ListedColormap(colormaps["Blues"](np.linspace(0.12, 1.0, 256)))
    image = ax.imshow(known, cmap=blues, interpolation="none", aspect="auto")
    for (row, column), value in np.ndenumerate(known):
        if value == value:
            text = f"{value:.2f}"
            ax.text(
                column,
                row,
                text.replace("0.", ".", 1) if is_numbered and abs(value) < 1 else text,
                ha="center",
                va="center",
                color=LIGHT if image.norm(value) >= DARKER else DARK,
                size=8,
            )
    ends = sorted({float(np.nanmin(known)), float(np.nanmax(known))})
    look: dict[str, Any] = {"location": "bottom", "shrink": 0.4, "aspect": 14}
    bar = figure.colorbar(image, ax=ax, ticks=ends, format="%.2f", pad=0.02, **look)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, pad=3, labelsize=8)
    return figure


def draw_reading(table: pl.DataFrame, buckets: pl.DataFrame | None, *, title: str) -> "Figure":
    """Draw READING_TABLE rows, and BUCKET_SCORES of known-item queries where there are any.

    Panels: by length the share of tokens embedded and not; cosines with head, middle and tail, of
    all documents and by length; the score by third beside the control's.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    has_cosines = bool(table["n_compared"][0])
    widths = [4.6, *([3.2] if has_cosines else []), *([3.2] if buckets is not None else [])]
    with mpl.rc_context(RC):
        figure = Figure(figsize=(sum(widths), 3.4), layout="constrained")
        axes = list(figure.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0])
        figure.suptitle(title, fontsize=11, parse_math=False)
        _draw_lengths(axes.pop(0), table)
        if has_cosines:
            _draw_cosines(axes.pop(0), table)
        if buckets is not None:
            _draw_queries(axes.pop(0), buckets)
        for ax in figure.axes:
            ax.tick_params(length=0, pad=6)
    return figure


def _draw_lengths(ax: Any, table: pl.DataFrame) -> None:
    """Draw by length the share of tokens that are embedded, and say how many documents are cut."""
    rows = table.to_dicts()
    ax.grid(visible=False)
    ax.spines["left"].set_visible(False)
    for place, row in enumerate(rows):
        read = 1 - row["never_embedded"]
        ax.barh(place, read, color=SERIES[0], height=0.7)
        ax.barh(place, row["never_embedded"], left=read, color=SERIES[1], height=0.7)
        text = f"{row['n_documents']:,} docs, {100 * row['cut']:.0f} % cut"
        ax.text(1.02, place, text, va="center", fontsize=8, color=INK)
    names = ["all" if row["tokens"] == POOLED else row["tokens"] for row in rows]
    ax.set_yticks(range(len(rows)), names)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlim(0, 1)
    ax.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    ax.set_ylabel("tokens of the document")
    ax.set_xlabel("tokens embedded (blue) and never embedded (orange)", fontsize=9)


def _draw_cosines(ax: Any, table: pl.DataFrame) -> None:
    """Draw the cosines of all documents, and of the lengths of which most were compared."""
    by_length = table[1:].filter(pl.col("n_compared") > 0)
    most = by_length.top_k(MOST_LENGTHS, by="n_compared")["tokens"].to_list()
    for number, row in enumerate(table[:1].to_dicts() + by_length.to_dicts()):
        if number and (row["tokens"] not in most or by_length.height == 1):
            continue
        ax.plot(
            range(len(PLACES)),
            [row[f"cosine_{place}"] for place in PLACES],
            color=SERIES[(number - 1) % len(SERIES)] if number else INK,
            marker=MARKERS[number % len(MARKERS)],
            markersize=4,
            linewidth=1.0 if number else 2.0,
            label=row["tokens"],
        )
    ax.set_xticks(range(len(PLACES)), PLACES)
    ax.set_xlim(-0.3, len(PLACES) - 0.7)
    ax.set_ylabel("cosine with the whole")
    ax.legend(frameon=False, fontsize=7, title="tokens", title_fontsize=7)


def _draw_queries(ax: Any, buckets: pl.DataFrame) -> None:
    """Draw the score by third with its interval, the control's dashed."""
    rows = buckets.filter(evidence="all", metric=METRIC, domain=POOLED, length_bucket=POOLED)
    for number, ((model,), own) in enumerate(rows.group_by("model", maintain_order=True)):
        own = own.sort("bucket_low")
        colour = CONTROL if number else SERIES[0]
        look = {"color": colour, "linestyle": "--" if number else "-", "marker": MARKERS[number]}
        ax.plot(own["bucket"], own["mean"], markersize=4, label=short_name(str(model)), **look)
        ax.fill_between(own["bucket"], own["low"], own["high"], color=colour, alpha=0.15, lw=0)
    ax.set_ylim(0, 1)
    ax.set_ylabel(f"{METRIC}, known-item queries")
    ax.legend(frameon=False, fontsize=7)
    ax.axhline(0, color=FAINT, linewidth=0.8)


def short_name(name: str) -> str:
    """Cut the middle out of a model's id that is too long for a plot."""
    return name if len(name) <= MAX_NAME else f"{name[:16]}\u2026{name[16 - MAX_NAME + 1 :]}"


def _axes(size: tuple[float, float], changes: dict[str, Any] | None = None) -> tuple["Figure", Any]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({**RC, **(changes or {})}):
        figure = Figure(figsize=size, layout="constrained")
        ax = figure.subplots()
        ax.tick_params(length=0, pad=6)
    return figure, ax


def _panel(
    size: tuple[float, float], axis: Axis, limit: float, y_text: str
) -> tuple["Figure", Any]:
    from matplotlib.ticker import MaxNLocator

    figure, ax = _axes(size)
    ax.set_ylim(0, limit)
    ax.yaxis.set_major_locator(MaxNLocator(nbins=5))
    ax.set_ylabel(y_text, parse_math=False)
    ax.set_xlabel(axis.text, parse_math=False)
    if axis.is_named:
        most = LONG_LABELS * (0.6 if size == SMALL else 1)
        is_long = sum(map(len, axis.labels)) > most
        turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if is_long else {}
        ax.set_xticks(axis.places, axis.labels, parse_math=False, **turned)
        ax.set_xlim(-0.5, len(axis.labels) - 0.5)
    elif axis.bounds:
        ax.set_xlim(axis.bounds[0][0], axis.bounds[-1][1])
    return figure, ax


def _look(style: LineStyle) -> dict[str, Any]:
    marked = {"marker": style.marker, "markersize": 5, "markeredgewidth": 0}
    return {"color": style.colour, "linestyle": (0, style.dash) if style.dash else "-"} | marked


def swatch(style: LineStyle, name: str) -> str:
    """Return a piece of a model's line with its marker, for a legend; ``name`` as `inline_svg`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(28 / 72, 12 / 72), facecolor="none")
    ax = figure.add_axes((0, 0, 1, 1), xlim=(0, 2), ylim=(0, 2))
    ax.set_axis_off()
    ax.plot(
        [0.05, 1, 1.95],
        [1, 1, 1],
        **{**_look(style), "markersize": 7, "markevery": [1]},
        linewidth=1.8,
    )
    return inline_svg(figure, name=name, css="swatch")


def write_figure(figure: "Figure", path: Path) -> None:
    """Write a figure on white as ``path`` with .png and with .svg, each whole or not at all."""
    import matplotlib as mpl

    quiet: dict[str, Any] = {**RC, "svg.hashsalt": path.stem}
    with mpl.rc_context(quiet):
        for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
            with atomic_path(path.with_suffix(suffix)) as temporary:
                form: Any = {"format": suffix[1:], "dpi": 150, "metadata": metadata}
                figure.savefig(temporary, facecolor="white", **form)


_VIEW = re.compile(r'<svg[^>]* viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>(.*)</svg>', re.DOTALL)
_UNUSED = re.compile(r"<(defs>\s*<style|metadata).*?</(style>\s*</defs|metadata)>", re.DOTALL)
_ID = re.compile(r' id="[\w.]+_\d+"')
_DIGITS = re.compile(r"-?\d+\.\d{3,}")


def inline_svg(
    figure: "Figure", *, name: str, title: str = "", description: str = "", css: str = ""
) -> str:
    """Return a figure as an ``<svg>`` element to stand inside an HTML page: same in, same out.

    The ids left are hashes salted with ``name``, so several figures share a page; numbers in
    attributes have two decimals. ``title`` and ``description`` are for screen readers; without a
    title they pass over the drawing.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with mpl.rc_context({**RC, "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", metadata=nothing)
    found = _VIEW.search(_UNUSED.sub("", buffer.getvalue()))
    assert found is not None, "matplotlib wrote no <svg> with a viewBox"
    width, height, inside = found.groups()
    inside = re.sub("<[^>]*>", lambda tag: _rounded(_ID.sub("", tag[0])), inside)
    inside = re.sub(r">\s+<", "><", inside).strip()
    read = 'aria-hidden="true"'
    if title:
        read = f'role="img" aria-label="{escape(f"{title}. {description}")}"'
    most = f' style="max-width: {float(width) * 4 / 3:.0f}px"' if css == "exact" else ""
    drawn = f' class="{css}"' if css else ""
    return f'<svg viewBox="0 0 {width} {height}" {read}{drawn}{most}>{inside}</svg>'


def _rounded(tag: str) -> str:
    return _DIGITS.sub(lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), tag)
