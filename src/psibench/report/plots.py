"""Plots: functions from a table to a matplotlib figure, and from a figure to an SVG image.

The browser lays out text; in dark mode the page's style sheet inverts the images.
"""

import base64
import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from psibench.report.wording import cut

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colour-blind-safe (after Okabe and Ito, without yellow, which is too faint on white).
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
WIDE, SMALL = (5.6, 3.1), (3.6, 2.3)  # inches, like all sizes here
MAX_NAME = 28  # characters of a model's id in a plot
LEGEND_LINES, LEGEND_LINE = 2, 0.2  # lines that fit, and height of each further line
MAX_NAMED_TICKS = 8
LONG_LABELS = 42
MANY_COLUMNS = 10
LONGEST_NAME = 34
DARK, LIGHT = "#000000", "#ffffff"  # text on a heat map
DARKER = 172 / 256  # share of the colours with light text, for a contrast of at least 4.5 to 1


@dataclass(frozen=True)
class LineStyle:
    """Colour (its light value) and marker."""

    colour: str
    marker: str = "s"


@dataclass(frozen=True)
class Axis:
    """The x axis of a plot by position: labels and bounds of buckets, and the axis name.

    Up to eight buckets are named ticks; with more buckets the axis is a number line.
    """

    labels: tuple[str, ...]
    bounds: tuple[tuple[float, float], ...]
    text: str

    @property
    def is_named(self) -> bool:
        """Whether buckets are named ticks."""
        return len(self.labels) <= MAX_NAMED_TICKS

    @property
    def positions(self) -> list[float]:
        """Positions of the buckets on the axis: 0, 1, 2, ... or the middles of their bounds."""
        if self.is_named:
            return [float(i) for i in range(len(self.labels))]
        return [(low + high) / 2 for low, high in self.bounds]


def y_limit(lines: pl.DataFrame) -> float:
    """Return a y limit above all means and intervals, between 0.1 and 1."""
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
    around_zero: bool = False,
) -> "Figure":
    """Draw means by position as lines with bands.

    ``lines`` has ``line``, ``bucket``, ``mean``, ``low``, ``high``, and optionally ``plain`` for
    thin lines of plain means. With a line ``in_front`` the others are faint; otherwise several
    lines have a legend. ``around_zero`` makes the y axis symmetric.
    """
    from matplotlib.ticker import MaxNLocator

    figure, ax = _axes(size)
    ax.set_ylim(0, limit or y_limit(lines))
    ax.yaxis.set_major_locator(MaxNLocator(nbins=5))
    ax.set_ylabel(y_text, parse_math=False)
    ax.set_xlabel(axis.text, parse_math=False)
    if axis.is_named:
        most = LONG_LABELS * (0.6 if size == SMALL else 1)
        is_long = sum(map(len, axis.labels)) > most
        turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if is_long else {}
        ax.set_xticks(axis.positions, axis.labels, parse_math=False, **turned)
        ax.set_xlim(-0.5, len(axis.labels) - 0.5)
    elif axis.bounds:
        ax.set_xlim(axis.bounds[0][0], axis.bounds[-1][1])
    buckets = pl.DataFrame({"bucket": axis.labels}, schema={"bucket": pl.String})
    numbers = pl.col("^(mean|low|high|plain)$").cast(pl.Float64)
    drawn: list[Any] = []
    for name, style in styles.items():
        means = lines.filter(line=name)
        line = buckets.join(means, on="bucket", how="left", maintain_order="left").select(numbers)
        if in_front and name != in_front:
            ax.plot(axis.positions, line["mean"], color=FAINT, linewidth=0.8, zorder=1)
            continue
        band = {"color": style.colour, "alpha": 0.15, "linewidth": 0, "zorder": 2}
        ax.fill_between(axis.positions, line["low"], line["high"], **band)
        if "plain" in line.columns:
            dots = (0, (3.0, 2.0))
            ax.plot(
                axis.positions, line["plain"], color=style.colour, linewidth=0.9, linestyle=dots
            )
        look: dict[str, Any] = {"color": style.colour, "marker": style.marker, "markersize": 5}
        look |= {"markeredgewidth": 0, "linewidth": 1.8, "zorder": 3, "clip_on": False}
        drawn += ax.plot(axis.positions, line["mean"], **look)
    if len(styles) > 1 and not in_front:
        names = [cut(name, LONGEST_NAME) for name in styles]
        n_columns = 2 if max(map(len, names)) <= MAX_NAME else 1
        look = {"loc": "outside lower center", "ncols": n_columns, "frameon": False, "fontsize": 9}
        figure.legend(drawn, names, **look)  # without handles the legend would include the bands
        n_more = -(-len(names) // n_columns) - LEGEND_LINES
        figure.set_figheight(size[1] + LEGEND_LINE * max(n_more, 0))
    if around_zero:
        known = [v for name in ("mean", "low", "high") for v in lines[name].abs().drop_nulls()]
        reach = 1.06 * max(known, default=0.0) or 0.01
        ax.set_ylim(-reach, reach)
        ax.axhline(0, color=CONTROL, linewidth=0.8, zorder=1.9)
    return figure


def draw_histogram(bins: pl.DataFrame, *, x_text: str) -> "Figure":
    """Draw a histogram of ``bins`` with the columns bin_low, bin_high and n_queries."""
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


def draw_heat_map(cells: pl.DataFrame) -> "Figure":
    """Draw a heat map with a number in every cell; higher values are darker, null is empty.

    ``cells`` has row, column and value, in this order. It is legible at 31 x 31. More than ten
    columns are numbered, and the names of rows that are also columns begin with these numbers.
    """
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    wide = cells.pivot(cells.columns[1], index=cells.columns[0], values=cells.columns[2])
    rows, columns, known = wide.to_series().to_list(), wide.columns[1:], wide[:, 1:].to_numpy()
    known = known.astype(float)
    is_numbered = len(columns) > MANY_COLUMNS
    heads = [cut(name, 16) for name in columns]
    names = [cut(name, LONGEST_NAME) for name in rows]
    if is_numbered:
        heads = [str(number) for number in range(1, len(columns) + 1)]
        numbers = {name: f"{head} " for name, head in zip(columns, heads, strict=True)}
        names = [f"{numbers.get(row, '')}{name}" for row, name in zip(rows, names, strict=True)]
    width = 0.29 if is_numbered else 0.1 + 0.085 * max(5, *map(len, heads))
    size = (width * len(heads) + 0.09 * max(map(len, names)) + 0.3, 0.26 * len(names) + 0.5)
    none = dict.fromkeys(("axes.grid", "axes.spines.left", "axes.spines.bottom"), False)
    figure, ax = _axes(size, {**none, "font.size": 8})
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.set_xticks(range(len(heads)), heads, parse_math=False)
    ax.xaxis.tick_top()
    # starts at a colour that differs from an empty cell
    blues = ListedColormap(colormaps["Blues"](np.linspace(0.12, 1.0, 256)))
    image = ax.imshow(known, cmap=blues, interpolation="none", aspect="auto")
    for (row, column), value in np.ndenumerate(known):
        if value == value:
            text = f"{value:.2f}"
            look: dict[str, Any] = {"ha": "center", "va": "center", "size": 8}
            look["color"] = LIGHT if image.norm(value) >= DARKER else DARK
            ax.text(column, row, text.removeprefix("0") if is_numbered else text, **look)
    return figure


def _axes(size: tuple[float, float], changes: dict[str, Any] | None = None) -> tuple["Figure", Any]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({**RC, **(changes or {})}):
        figure = Figure(figsize=size, layout="constrained")
        ax = figure.subplots()
        ax.tick_params(length=0, pad=6)
    return figure, ax


def as_image(figure: "Figure") -> str:
    """Return a figure as a data address of its SVG image."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context({**RC, "svg.hashsalt": "psibench"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
