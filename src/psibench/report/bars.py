"""Drawing of stacked shares: one horizontal bar per row of a figure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psibench.report.styles import LineStyle
from psibench.report.svg import INK, RC

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 6.6  # inches, as ROW and FRAME
ROW, FRAME = 0.36, 0.75
TINT = 0.42  # ink on the bars stays readable in light and dark
LABELLED = 0.075  # smallest share with room for its label


@dataclass(frozen=True)
class Stack:
    """One bar: its name, the shares stacked in it, and what stands to its right."""

    label: str
    shares: tuple[float, ...]
    note: str = ""


def draw_stacks(stacks: Sequence[Stack], styles: Sequence[LineStyle], *, x_text: str) -> "Figure":
    """Draw shares, which add up to 1, as stacked bars, the first one on top.

    Labels in the bars are whole percentages; a part too narrow for one has none.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    with mpl.rc_context({**RC, "axes.grid": False, "axes.spines.left": False}):
        figure = Figure(figsize=(WIDTH, FRAME + ROW * len(stacks)), layout="constrained")
        ax = figure.subplots()
        for place, stack in enumerate(stacks):
            left = 0.0
            for share, style in zip(stack.shares, styles, strict=True):
                ax.barh(place, share, left=left, height=0.74, color=style.colour, alpha=TINT)
                if share >= LABELLED:
                    middle = left + share / 2
                    ax.text(middle, place, f"{100 * share:.0f} %", ha="center", va="center")
                left += share
            ax.text(1.015, place, stack.note, ha="left", va="center", parse_math=False)
        ax.set_yticks(range(len(stacks)), [stack.label for stack in stacks], parse_math=False)
        ax.set_ylim(len(stacks) - 0.5, -0.5)
        ax.set_xlim(0, 1)
        ax.axvline(0, color=INK, linewidth=0.8)
        ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
        ax.set_xlabel(x_text, parse_math=False)
        ax.tick_params(length=0, pad=6)
    return figure
