"""What the page is made of: tables of text and figures, and the one way they become HTML."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from markupsafe import Markup

from psibench import __version__
from psibench.report.wording import ENDS, MISSING, count, estimate, number, percent

TEMPLATES = Path(__file__).parent / "templates"
Columns = dict[str, str | pl.Expr | pl.Series]
"""Heading of a table -> the column below it."""
Form = Callable[[Any], str]
"""Writes a value of a column, other than null, as text."""


@dataclass(frozen=True)
class Table:
    """A table of the page: what it is about, header, and rows of text.

    The first ``n_names`` columns name a row, those in ``prose`` are sentences, the others numbers.
    ``groups`` are headings above the header, each with the number of columns it spans; ``note``
    stands below the table. ``css`` is a CSS class of the whole. A line break within a cell is shown
    as one.
    """

    name: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_names: int = 2
    groups: tuple[tuple[str, int], ...] = ()
    note: str = ""
    prose: Sequence[int] = ()
    css: str = ""

    @property
    def edges(self) -> frozenset[int]:
        """Columns, from 0, at which a group other than the first begins."""
        widths = [width for _, width in self.groups]
        return frozenset(sum(widths[:place]) for place in range(1, len(widths)))


def table_of(
    name: str,
    rows: pl.DataFrame,
    columns: Columns | None = None,
    *,
    forms: Mapping[str, Form] | None = None,
    **more: Any,
) -> Table:
    """Return a table of a frame: heading -> its column, else all columns; ``more``: as of `Table`.

    A heading ``group|heading`` stands under that group. Numbers are written by their type, whole
    ones with separators, others with three decimals, unless ``forms`` has one for the column;
    `with_ends` with the interval, and a struct of a count and its ``share`` with that, on a second
    line; nulls as a dash.
    """
    written = forms or {}

    def cell(value: Any, form: Form | None) -> str:
        if isinstance(value, dict) and "share" in value:
            n, share = value.values()
            text = "" if share is None else f"\n{percent(share, 2)}"
            return MISSING if n is None else f"{count(n)}{text}"
        if isinstance(value, dict):
            figure, low, high = value.values()
            return estimate(figure, low, high, shown=form or number, separator="\n")
        if value is None or isinstance(value, str):
            return MISSING if value is None else value
        return (form or (count if isinstance(value, int) else number))(value)

    shown = rows.select(**columns) if columns else rows
    cells = [[cell(v, written.get(column)) for v in shown[column]] for column in shown.columns]
    split = [column.rpartition("|") for column in shown.columns]
    groups: list[tuple[str, int]] = []
    for group, *_ in split:
        same = groups and groups[-1][0] == group
        groups[-1:] = [(group, groups[-1][1] + 1)] if same else [*groups[-1:], (group, 1)]
    header = tuple(heading for *_, heading in split)
    kept = tuple(groups) if len(groups) > 1 else ()
    return Table(name, header, tuple(zip(*cells, strict=True)), groups=kept, **more)


def with_ends(name: str) -> pl.Expr:
    """Return a column together with its interval, NAME_low and NAME_high, for `table_of`."""
    return pl.struct(f"{name}{end}" for end in ENDS)


@dataclass(frozen=True)
class Panel:
    """One drawing, as the address of an image; of several with a name above, a text below it."""

    image: str
    name: str = ""
    note: str = ""


@dataclass(frozen=True)
class FigureView:
    """One figure of the page; a folded one shows title and caption alone until it is opened.

    What is always said of a figure or table is in ``templates/notes.html``, by its title.
    """

    title: str
    caption: str
    panels: tuple[Panel, ...]
    is_folded: bool = False


Block = Table | FigureView


def slug(*parts: str) -> str:
    """Return an id usable in HTML and CSS, made of ASCII letters, digits and hyphens.

    Other characters become their hexadecimal code point, so different ids stay different.
    """
    return "-".join(
        re.sub(r"[^a-z0-9-]", lambda m: f"_{ord(m[0]):x}_", part.lower()) for part in parts
    )


def chip(text: str, css: str = "", title: str = "") -> Markup:
    """Return a small label beside a name."""
    return Markup('<span class="chip {}" title="{}">{}</span>').format(css, title, text)


def render_page(
    template: str | Path,
    *,
    title: str,
    created: str,
    made_of: Mapping[str, str],
    notice: str = "",
    **context: Any,
) -> str:
    """Return a page: text is escaped, a missing value is an error; ``made_of`` is its provenance.

    ``template`` is a file of `TEMPLATES`, or the path of one that extends those.
    ``notice`` stands in a box at its top (`psibench.config.sections.Report.notice`).
    Only images, labels and style made here are unescaped.
    """
    page = TEMPLATES / template
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([page.parent, TEMPLATES]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["slug"] = slug
    made.globals["chip"] = chip
    facts = {"psibench": __version__, **made_of}
    context |= {
        "title": title,
        "created": created,
        "notice": notice,
        "version": __version__,
        "style": Markup((TEMPLATES / "report.css").read_text(encoding="utf-8")),
        "provenance": Table("", (), tuple(facts.items()), 1, prose=(1,), css="provenance"),
    }
    return made.get_template(page.name).render(**context) + "\n"
