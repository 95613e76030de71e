"""Drawing: plain numbers in, matplotlib figures out.

Names of models stand in the page around a figure, so that any script, length and direction of
writing is laid out by the browser and never measured with a font that lacks it. Only where each
model has a row of its own do they stand beside it, cut to a length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psibench.report.styles import BAR_STYLES, LineStyle
from psibench.report.svg import ACCENT, CONTROL, FAINT, INK, RC

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE = (5.6, 3.1)
SMALL = (3.6, 2.3)
DROP_WIDTH = 5.2
MAX_NAME = 28  # characters of a model's id in a figure
MAX_NAMED_TICKS = 8
LONG_LABELS = 42


@dataclass(frozen=True)
class Axis:
    """The x axis of a figure by position: bucket labels, bounds, and what they mean.

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
        """Where the buckets stand: 0, 1, 2, ... or the middles of their bounds."""
        if self.is_named:
            return [float(i) for i in range(len(self.labels))]
        return [(low + high) / 2 for low, high in self.bounds]


@dataclass(frozen=True)
class Line:
    """Means by bucket with their intervals; NaN where a bucket has no value."""

    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    style: LineStyle
    plain: tuple[float, ...] = ()
    """Plain means beside those at equal documents; empty where `mean` is plain itself."""


@dataclass(frozen=True)
class Drop:
    """How much worse late evidence is found than early: one row of a figure; NaN: not known.

    `is_plain` is of plain means, not at equal documents; `is_faint` means nothing by itself.
    """

    name: str
    value: float
    low: float
    high: float
    style: LineStyle
    is_plain: bool = False
    is_faint: bool = False
    is_control: bool = False


def y_limit(lines: Sequence[Line]) -> float:
    """Return a y limit above every mean and interval: 1 at most, 0.1 at least."""
    values = [v for line in lines for v in (*line.mean, *line.high, *line.plain) if v == v]
    return min(1.0, max(0.1, 1.06 * max(values, default=0.1)))


def draw_curves(lines: Sequence[Line], axis: Axis, *, y_text: str) -> "Figure":
    """Draw means by position as lines with bands, plain ones thin, all in one panel."""
    figure, ax = _panel(WIDE, axis, y_limit(lines), y_text)
    for line in lines:
        _band(ax, axis, line, line.style.colour)
        _curve(ax, axis, line)
    return figure


def draw_highlight(
    line: Line, others: Sequence[Line], axis: Axis, *, limit: float, y_text: str
) -> "Figure":
    """Draw one model's curve in front of the others, which are faint: one of small multiples."""
    figure, ax = _panel(SMALL, axis, limit, y_text)
    for other in others:
        ax.plot(axis.places, other.mean, color=FAINT, linewidth=0.8, zorder=1)
    _band(ax, axis, line, line.style.colour)
    _curve(ax, axis, line)
    return figure


def draw_pair(pair: tuple[Line, Line], axis: Axis, *, limit: float, y_text: str) -> "Figure":
    """Draw two sets of bucket means side by side as bars with their intervals."""
    figure, ax = _panel(SMALL, axis, limit, y_text)
    step = min((b - a for a, b in zip(axis.places, axis.places[1:], strict=False)), default=1.0)
    for line, style, side in zip(pair, BAR_STYLES, (-0.21, 0.21), strict=True):
        places = [x + side * step for x in axis.places]
        ax.bar(places, line.mean, width=0.4 * step, color=style.colour, linewidth=0)
        ax.vlines(places, line.low, line.high, color=INK, linewidth=1)
    return figure


def draw_drops(drops: Sequence[Drop]) -> "Figure":
    """Draw drops with their intervals, one row each, the first one on top.

    Intervals are cut at -100 %; faint rows do not widen the axis.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    with mpl.rc_context({**RC, "axes.grid.axis": "x", "axes.spines.left": False}):
        figure = Figure(figsize=(DROP_WIDTH, 1.0 + 0.3 * len(drops)), layout="constrained")
        ax = figure.subplots()
        ax.axvline(0, color=INK, linewidth=1, zorder=1)
        for row, drop in enumerate(drops):
            colour = FAINT if drop.is_faint else drop.style.colour
            ax.hlines(row, drop.low, drop.high, color=colour, linewidth=2, zorder=2)
            face = "none" if drop.is_plain else colour
            ax.plot(
                drop.value,
                row,
                marker=drop.style.marker,
                markersize=7,
                markerfacecolor=face,
                markeredgecolor=colour,
                zorder=3,
            )
        names = [f"{_shortened(d.name)}{' (control)' if d.is_control else ''}" for d in drops]
        ax.set_yticks(range(len(drops)), names, parse_math=False)
        for label, drop in zip(ax.get_yticklabels(), drops, strict=True):
            label.set_color(CONTROL if drop.is_faint else INK)
        ax.set_ylim(len(drops) - 0.5, -0.5)
        shown = [drop for drop in drops if not drop.is_faint]
        lows = [max(drop.low, -1.0) for drop in shown if drop.low == drop.low]
        highs = [drop.high for drop in shown if drop.high == drop.high]
        values = [drop.value for drop in shown]
        left, right = min([*lows, *values, -0.05]), max([*highs, *values, 0.05])
        margin = 0.06 * (right - left)
        ax.set_xlim(left - margin, right + margin)
        ax.xaxis.set_major_locator(MaxNLocator(nbins=5))
        ax.xaxis.set_major_formatter(FuncFormatter(_signed_percent))
        ax.set_xlabel("\u2190 late found better   \u00b7   late found worse \u2192")
        ax.tick_params(length=0, pad=6)
    return figure


def _signed_percent(share: float, _: int) -> str:
    return f"{100 * share:.0f} %".replace("-", "\N{MINUS SIGN}")


def _shortened(name: str) -> str:
    """Cut the middle out of a name too long for the figure."""
    return name if len(name) <= MAX_NAME else f"{name[:16]}\u2026{name[16 - MAX_NAME + 1 :]}"


def draw_histogram(
    edges: Sequence[tuple[float, float]], counts: Sequence[int], *, x_text: str
) -> "Figure":
    """Draw how many queries have their evidence in each bin; ``edges`` are bin bounds."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    with mpl.rc_context(RC):
        figure = Figure(figsize=(5.6, 2.4), layout="constrained")
        ax = figure.subplots()
        widths = [high - low for low, high in edges]
        left = [low for low, _ in edges]
        ax.bar(left, counts, width=widths, align="edge", color=ACCENT, edgecolor="none")
        ax.set_xlabel(x_text, parse_math=False)
        ax.set_ylabel("queries")
        ax.tick_params(length=0, pad=6)
        ax.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        if edges:
            ax.set_xlim(edges[0][0], edges[-1][1])
    return figure


def _panel(
    size: tuple[float, float], axis: Axis, limit: float, y_text: str
) -> tuple["Figure", Any]:
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    with mpl.rc_context(RC):
        figure = Figure(figsize=size, layout="constrained")
        ax = figure.subplots()
        ax.set_ylim(0, limit)
        ax.yaxis.set_major_locator(MaxNLocator(nbins=5))
        ax.set_ylabel(y_text, parse_math=False)
        ax.set_xlabel(axis.text, parse_math=False)
        ax.tick_params(length=0, pad=6)
        if axis.is_named:
            small = size == SMALL
            long = sum(map(len, axis.labels)) > (LONG_LABELS * 0.6 if small else LONG_LABELS)
            turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if long else {}
            ax.set_xticks(axis.places, axis.labels, parse_math=False, **turned)
            ax.set_xlim(-0.5, len(axis.labels) - 0.5)
        elif axis.bounds:
            ax.set_xlim(axis.bounds[0][0], axis.bounds[-1][1])
    return figure, ax


def _band(ax: Any, axis: Axis, line: Line, colour: str) -> None:
    ax.fill_between(
        axis.places, line.low, line.high, color=colour, alpha=0.15, linewidth=0, zorder=2
    )


def _curve(ax: Any, axis: Axis, line: Line) -> None:
    style = line.style
    if line.plain:
        dots = (0, (3.0, 2.0))
        ax.plot(axis.places, line.plain, color=style.colour, linewidth=0.9, linestyle=dots)
    drawn = (0, style.dash) if style.dash else "-"
    ax.plot(
        axis.places,
        line.mean,
        color=style.colour,
        marker=style.marker,
        markersize=5,
        markeredgewidth=0,
        linewidth=1.8,
        linestyle=drawn,
        zorder=3,
        clip_on=False,
    )
