"""Every plot of the page: plain numbers in, matplotlib figures out, written as inline SVG.

Names of models stand in the page around a plot, so that any script, length and direction of
writing is laid out by the browser and never measured with a font that lacks it. Only where each
model has a row of its own do they stand beside it, cut to a length. Text stays text; the colours
of this module become CSS variables, so that a plot follows the page into dark mode.
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

from psibench.report.wording import cut
from psibench.tables import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colour-blind-safe (after Okabe and Ito, yellow left out: too faint on white). The page's style
# sheet gives every colour a second value for dark mode.
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
INK, FAINT, GRID, ACCENT, CONTROL = "#1b1f24", "#b8bec6", "#e3e6ea", "#0072b3", "#6b737d"
VARIABLES = {colour: f"--series-{i}" for i, colour in enumerate(SERIES)} | {
    INK: "--ink",
    FAINT: "--faint",
    GRID: "--grid",
    ACCENT: "--accent",
    CONTROL: "--control",
}
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
DARK, LIGHT = "#040404", "#ffffff"  # on a heat map; matplotlib would leave "#000000" to the page
DARKER = 172 / 256  # part of the colours from which light text stands out more, at least 4.5 to 1
NAN = float("nan")


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


@dataclass(frozen=True)
class Line:
    """Means by bucket with their intervals; NaN where a bucket has no value.

    `plain` are plain means beside those at equal documents; empty where `mean` is plain itself.
    """

    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    style: LineStyle
    plain: tuple[float, ...] = ()


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


def y_limit(lines: Sequence[Line]) -> float:
    """Return a y limit above every mean and interval: 1 at most, 0.1 at least."""
    values = [v for line in lines for v in (*line.mean, *line.high, *line.plain) if v == v]
    return min(1.0, max(0.1, 1.06 * max(values, default=0.1)))


def draw_curves(
    lines: Sequence[Line],
    axis: Axis,
    *,
    y_text: str,
    size: tuple[float, float] = WIDE,
    limit: float | None = None,
    behind: Sequence[Line] = (),
) -> "Figure":
    """Draw means by position as lines with bands, plain ones thin, in front of faint others."""
    figure, ax = _panel(size, axis, limit or y_limit(lines), y_text)
    for other in behind:
        ax.plot(axis.places, other.mean, color=FAINT, linewidth=0.8, zorder=1)
    for line in lines:
        _curve(ax, axis, line)
    return figure


def draw_changes(lines: Sequence[Line], axis: Axis, *, y_text: str) -> "Figure":
    """Draw lines with bands around 0, as far up as down, in one panel."""
    figure = draw_curves(lines, axis, y_text=y_text, limit=1.0)
    values = [abs(v) for line in lines for v in (*line.mean, *line.low, *line.high) if v == v]
    reach = 1.06 * max(values, default=0.0) or 0.01
    figure.axes[0].set_ylim(-reach, reach)
    figure.axes[0].axhline(0, color=CONTROL, linewidth=0.8, zorder=1.9)
    return figure


def draw_pair(pair: tuple[Line, Line], axis: Axis, *, limit: float, y_text: str) -> "Figure":
    """Draw two sets of bucket means side by side as bars with their intervals."""
    figure, ax = _panel(SMALL, axis, limit, y_text)
    step = min((b - a for a, b in zip(axis.places, axis.places[1:], strict=False)), default=1.0)
    for line, side in zip(pair, (-0.21, 0.21), strict=True):
        places = [x + side * step for x in axis.places]
        ax.bar(places, line.mean, width=0.4 * step, color=line.style.colour, linewidth=0)
        ax.vlines(places, line.low, line.high, color=INK, linewidth=1)
    return figure


def draw_drops(
    rows: Sequence[Mapping[str, Any]],
    styles: Sequence[LineStyle],
    *,
    plain: Sequence[bool],
    faint: Sequence[bool],
) -> "Figure":
    """Draw how much worse late evidence is found than early, the first row on top.

    Each row has ``name``, ``drop``, ``drop_low`` and ``drop_high`` (None: not known). Open markers
    are of plain means; faint rows mean nothing by themselves and do not widen the axis. Intervals
    are cut at -100 %.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    size = (5.2, 1.0 + 0.3 * len(rows))
    figure, ax = _axes(size, {"axes.grid.axis": "x", "axes.spines.left": False})
    ax.axvline(0, color=INK, linewidth=1, zorder=1)
    ax.set_yticks(range(len(rows)), [row["name"] for row in rows], parse_math=False)
    values = [-0.05, 0.05]
    for place, (row, style, label) in enumerate(
        zip(rows, styles, ax.get_yticklabels(), strict=True)
    ):
        colour = FAINT if faint[place] else style.colour
        label.set_color(CONTROL if faint[place] else INK)
        ends = row["drop_low"], row["drop_high"]
        if None not in ends:
            ax.hlines(place, *ends, color=colour, linewidth=2, zorder=2)
        look = {"markerfacecolor": "none" if plain[place] else colour, "markeredgecolor": colour}
        ax.plot(row["drop"], place, marker=style.marker, markersize=7, zorder=3, **look)
        if not faint[place]:
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


def draw_histogram(
    edges: Sequence[tuple[float, float]], counts: Sequence[int], *, x_text: str
) -> "Figure":
    """Draw how many queries have their evidence in each bin; ``edges`` are bin bounds."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    figure, ax = _axes((5.6, 2.4))
    left = [low for low, _ in edges]
    widths = [high - low for low, high in edges]
    ax.bar(left, counts, width=widths, align="edge", color=ACCENT, edgecolor="none")
    ax.set_xlabel(x_text, parse_math=False)
    ax.set_ylabel("queries")
    ax.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    if edges:
        ax.set_xlim(edges[0][0], edges[-1][1])
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


def _curve(ax: Any, axis: Axis, line: Line) -> None:
    style = line.style
    band = {"color": style.colour, "alpha": 0.15, "linewidth": 0, "zorder": 2}
    ax.fill_between(axis.places, line.low, line.high, **band)
    if line.plain:
        dots = (0, (3.0, 2.0))
        ax.plot(axis.places, line.plain, color=style.colour, linewidth=0.9, linestyle=dots)
    ax.plot(axis.places, line.mean, **_look(style), linewidth=1.8, zorder=3, clip_on=False)


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


_TAG = re.compile(r"<[^>]*>")
_UNUSED = re.compile(r"<(defs>\s*<style|metadata).*?</(style>\s*</defs|metadata)>", re.DOTALL)
_NAME = re.compile(r' id="[\w.]+_\d+"')
_FONT = re.compile(r"\s*font-family: [^;\"]*;?")
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_COLOUR = re.compile(r"(?<=: )#[0-9a-f]{6}")
_NO_TURN = re.compile(r' transform="rotate\(-?0 [^"]*"')
_VIEW = re.compile(r'<svg[^>]* viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>(.*)</svg>', re.DOTALL)


def inline_svg(
    figure: "Figure", *, name: str, title: str = "", description: str = "", css: str = ""
) -> str:
    """Return a figure as an ``<svg>`` element to stand inside an HTML page: same in, same out.

    The ids left are hashes salted with ``name``, so several figures share a page; metadata and
    names of matplotlib's own are taken out, numbers in attributes have two decimals. ``title`` and
    ``description`` are for screen readers; without a title they pass over the drawing.
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
    inside = _TAG.sub(lambda tag: _tidied(tag[0]), inside)
    inside = re.sub(r">\s+<", "><", inside).strip()
    read = 'aria-hidden="true"'
    if title:
        ids = f"{name}-title", f"{name}-desc"
        read = f'role="img" aria-labelledby="{" ".join(ids)}"'
        texts = zip(("title", "desc"), ids, (title, description), strict=True)
        inside = "".join(f'<{t} id="{i}">{escape(s)}</{t}>' for t, i, s in texts) + inside
    most = f' style="max-width: {float(width) * 4 / 3:.0f}px"' if css == "exact" else ""
    drawn = f' class="{css}"' if css else ""
    return f'<svg viewBox="0 0 {width} {height}" {read}{drawn}{most}>{inside}</svg>'


def _tidied(tag: str) -> str:
    """Shorten a tag and have its colours follow the page."""
    if tag.startswith("<image"):
        return tag
    text = _NO_TURN.sub("", _FONT.sub("", _NAME.sub("", tag)))
    text = _NUMBER.sub(lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), text)
    text = _COLOUR.sub(
        lambda m: f"var({VARIABLES[m[0]]}, {m[0]})" if m[0] in VARIABLES else m[0], text
    )
    if text.startswith("<text") and "fill:" not in text:
        text = text.replace('style="', 'style="fill: var(--ink); ', 1)
    return " ".join(text.split())
