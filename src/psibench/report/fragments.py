"""Blocks of the page as HTML of their own: tables and figures without the page around them."""

from collections.abc import Sequence
from typing import Any

from psibench.report.panels import FigureView
from psibench.report.plain import Table
from psibench.report.templating import environment

Block = Table | FigureView


def render_blocks(blocks: Sequence[Block], *, about: str) -> str:
    """Return blocks as HTML, with the page's own macros; no blocks give the empty string.

    Parameters
    ----------
    about
        What the tables are about, for screen readers: a benchmark's id.
    """
    macros: Any = environment().get_template("parts.html").module
    return "\n".join(str(macros.block(block, about)) for block in blocks)
