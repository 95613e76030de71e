"""How a model is drawn: one colour, marker and dash for the whole page."""

from collections.abc import Sequence
from dataclasses import dataclass

from psibench.report.inputs import ModelInfo
from psibench.report.svg import CONTROL, INK, SERIES, VARIABLES

# matplotlib marker, and the same shape as an SVG path around (0, 0) for the legend
MARKERS = (
    ("o", "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z"),
    ("s", "M-3-3h6v6h-6z"),
    ("^", "M0-4L4 3h-8z"),
    ("D", "M0-4.2L4.2 0 0 4.2-4.2 0z"),
    ("v", "M0 4L4-3h-8z"),
    ("P", "M-1.3-4h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7v-2.6h2.7z"),
)
CONTROL_MARKERS = {
    "position-blind": ("X", "M-4-2.5l1.5-1.5L0-1.5 2.5-4 4-2.5 1.5 0 4 2.5 2.5 4 0 1.5-2.5 4z"),
    "truncating": ("<", "M3-4v8L-4 0z"),
}
DASHES = {"position-blind": (4.0, 2.0), "truncating": (1.0, 1.5)}


@dataclass(frozen=True)
class LineStyle:
    """Colour (light value), marker with its legend path, and dash lengths in points."""

    colour: str
    marker: str
    path: str
    dash: tuple[float, ...] = ()

    @property
    def css(self) -> str:
        """The colour as the page's style sheet names it."""
        return f"var({VARIABLES[self.colour]}, {self.colour})"


BAR_STYLES = (LineStyle(SERIES[0], *MARKERS[1]), LineStyle(SERIES[4], *MARKERS[1]))


def model_styles(models: Sequence[ModelInfo]) -> dict[str, LineStyle]:
    """Return the style of every model: controls grey and dashed, the others in palette order.

    Colours repeat after six models, then with the next marker, so no two models look the same
    among the first 36.
    """
    styles: dict[str, LineStyle] = {}
    n_plain = 0
    for model in models:
        if model.control is not None:
            colour = CONTROL if model.control == "truncating" else INK
            marker = CONTROL_MARKERS[model.control]
            styles[model.id] = LineStyle(colour, *marker, dash=DASHES[model.control])
            continue
        turn, place = divmod(n_plain, len(SERIES))
        styles[model.id] = LineStyle(SERIES[place], *MARKERS[(place + turn) % len(MARKERS)])
        n_plain += 1
    return styles
