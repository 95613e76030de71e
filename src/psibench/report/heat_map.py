"""A heat map as inline SVG: a number in every cell, the higher the darker, legible at 31 x 31.

Cells have their own colours in light and dark mode; everything around them follows the page's.
"""

from html import escape

from psibench.report.colour_ramp import RAMP, colour, text_colour
from psibench.report.heat_map_layout import (
    CELL_HEIGHT,
    FONT,
    LEGEND_HEIGHT,
    LEGEND_WIDTH,
    HeatMap,
    Layout,
    fitting,
    row_names,
    text_width,
)
from psibench.report.svg import INK

SMALL_FONT = 10.5
MUTED = "#565e68"

__all__ = ["HeatMap", "draw_heat_map"]


def draw_heat_map(data: HeatMap, *, name: str, title: str, description: str) -> str:
    """Return a heat map as an ``<svg>`` element.

    With more than ten columns these are numbered, and the names of rows that are also columns
    begin with their numbers; the name of any cell shows when it is pointed at.

    Parameters
    ----------
    name
        What ids begin with: unique on the page.
    title, description
        For screen readers.
    """
    layout = Layout.of(data)
    parts = [*_names(data, layout), *_cells(data, layout), *_legend(data, layout, name)]
    ids = f"{name}-title {name}-desc"
    return (
        f'<svg viewBox="0 0 {layout.width:g} {layout.height:g}" role="img" '
        f'aria-labelledby="{escape(ids)}" style="max-width: {layout.width:g}px">'
        f'<title id="{escape(name)}-title">{escape(title)}</title>'
        f'<desc id="{escape(name)}-desc">{escape(description)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def _text(
    x: float, y: float, text: str, *, anchor: str, fill: str, size: float = FONT, tip: str = ""
) -> str:
    shown = f"<title>{escape(tip)}</title>" if tip else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}" '
        f'dominant-baseline="central" style="fill: {fill}">{shown}{escape(text)}</text>'
    )


def _names(data: HeatMap, layout: Layout) -> list[str]:
    ink, muted = f"var(--ink, {INK})", f"var(--muted, {MUTED})"
    parts = []
    if data.corner:
        parts.append(_text(layout.left - 8, layout.top / 2, data.corner, anchor="end", fill=muted))
    for place, (name, shown) in enumerate(
        zip(data.rows, row_names(data, layout.is_numbered), strict=True)
    ):
        y = layout.top + (place + 0.5) * CELL_HEIGHT
        tip = name if shown.endswith("…") else ""
        parts.append(_text(layout.left - 8, y, shown, anchor="end", fill=ink, tip=tip))
    for place, name in enumerate(data.columns):
        x = layout.left + (place + 0.5) * layout.cell
        shown = str(place + 1) if layout.is_numbered else fitting(name, layout.cell)
        tip = "" if shown == name else name
        parts.append(_text(x, layout.top / 2, shown, anchor="middle", fill=ink, tip=tip))
    return parts


def _cells(data: HeatMap, layout: Layout) -> list[str]:
    low, high = data.ends
    parts = []
    for i, (row, values) in enumerate(zip(data.rows, data.values, strict=True)):
        for j, (column, value) in enumerate(zip(data.columns, values, strict=True)):
            if value is None:
                continue
            share = (value - low) / (high - low) if high > low else 0.5
            x, y = layout.left + j * layout.cell, layout.top + i * CELL_HEIGHT
            painted = colour(share)
            size = SMALL_FONT if layout.is_numbered else FONT
            shown = _text(
                x + layout.cell / 2,
                y + CELL_HEIGHT / 2,
                data.text(value),
                anchor="middle",
                fill=text_colour(painted),
                size=size,
            )
            parts.append(
                f"<g><title>{escape(f'{row}, {column}: {value:.{data.decimals}f}')}</title>"
                f'<rect x="{x:g}" y="{y:g}" width="{layout.cell - 1:g}" '
                f'height="{CELL_HEIGHT - 1}" style="fill: {painted}"/>{shown}</g>'
            )
    return parts


def _legend(data: HeatMap, layout: Layout, name: str) -> list[str]:
    if all(value is None for row in data.values for value in row):
        return []
    low, high = data.ends
    muted = f"var(--muted, {MUTED})"
    y = layout.foot + 14
    stops = "".join(
        f'<stop offset="{place / (len(RAMP) - 1):.3g}" stop-color="{one}"/>'
        for place, one in enumerate(RAMP)
    )
    ends = [f"{end:.{data.decimals}f}" for end in (low, high)]
    left = layout.left + text_width(ends[0]) + 6
    middle = y + LEGEND_HEIGHT / 2
    return [
        f'<defs><linearGradient id="{escape(name)}-ramp">{stops}</linearGradient></defs>',
        _text(layout.left, middle, ends[0], anchor="start", fill=muted),
        f'<rect x="{left:g}" y="{y:g}" width="{LEGEND_WIDTH}" height="{LEGEND_HEIGHT}" '
        f'style="fill: url(#{escape(name)}-ramp)"/>',
        _text(left + LEGEND_WIDTH + 6, middle, ends[1], anchor="start", fill=muted),
    ]
