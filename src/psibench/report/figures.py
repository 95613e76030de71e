"""Drawing: plain numbers in, matplotlib figures out. Names of models stay out of the drawings.

Names stand in the page around a figure, so that any script, length and direction of writing is
laid out by the browser and never measured with a font that lacks it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psibench.report.styles import BAR_STYLES, LineStyle
from psibench.report.svg import ACCENT, FAINT, INK, RC

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE = (5.6, 3.1)
SMALL = (3.6, 2.3)
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


def y_limit(lines: Sequence[Line]) -> float:
    """Return a y limit above every mean and interval: 1 at most, 0.1 at least."""
    values = [v for line in lines for v in (*line.mean, *line.high) if v == v]
    return min(1.0, max(0.1, 1.06 * max(values, default=0.1)))


def draw_curves(lines: Sequence[Line], axis: Axis, *, y_text: str) -> "Figure":
    """Draw means by position as lines with confidence bands, all in one panel."""
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
