"""The building blocks of HTML pages: tables, charts, and the function that renders a page."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from markupsafe import Markup

from psibench import __version__
from psibench.report.wording import ENDS, MISSING, count, estimate, number_text, percent

TEMPLATES = Path(__file__).parent / "templates"
Columns = dict[str, str | pl.Expr | pl.Series]
"""Column by heading of a table."""
Form = Callable[[Any], str]
"""Formats a non-null value of a column as text."""


@dataclass(frozen=True)
class Table:
    """A table of the page: title, header and rows of text.

    The first ``n_names`` columns name a row, the columns in ``prose`` hold sentences, the others
    numbers. ``groups`` are headings above the header, each with the number of columns it spans.
    The page prints ``note`` below the table and keeps line breaks within cells. ``css`` is a CSS
    class of the table.
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
    """Return a table of the ``columns`` of a frame, by default of all; ``more``: fields of `Table`.

    A heading ``group|heading`` goes under that group. ``forms`` format the values of a column; by
    default integers have thousands separators, floats three decimals, and null is a dash. A column
    of `with_ends` shows its interval on a second line, a struct of a count and its ``share`` the
    share.
    """
    forms = forms or {}

    def cell(value: Any, form: Form | None) -> str:
        if isinstance(value, dict) and "share" in value:
            n, share = value.values()
            text = "" if share is None else f"\n{percent(share, 2)}"
            return MISSING if n is None else f"{count(n)}{text}"
        if isinstance(value, dict):
            middle, low, high = value.values()
            return estimate(middle, low, high, shown=form or number_text, separator="\n")
        if value is None or isinstance(value, str):
            return MISSING if value is None else value
        return (form or (count if isinstance(value, int) else number_text))(value)

    shown = rows.select(**columns) if columns else rows
    cells = [[cell(v, forms.get(column)) for v in shown[column]] for column in shown.columns]
    split = [column.rpartition("|") for column in shown.columns]
    groups: list[tuple[str, int]] = []
    for group, *_ in split:
        same = groups and groups[-1][0] == group
        groups[-1:] = [(group, groups[-1][1] + 1)] if same else [*groups[-1:], (group, 1)]
    header = tuple(heading for *_, heading in split)
    shown_groups = tuple(groups) if len(groups) > 1 else ()
    return Table(name, header, tuple(zip(*cells, strict=True)), groups=shown_groups, **more)


def with_ends(name: str) -> pl.Expr:
    """Return a column with its interval, NAME_low and NAME_high, for `table_of`."""
    return pl.struct(f"{name}{end}" for end in ENDS)


@dataclass(frozen=True)
class Panel:
    """One chart as the address of an image.

    Among several it has a name above, then numbers with their names (``facts``), and a text below.
    """

    image: str
    name: str = ""
    note: str = ""
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class FigureView:
    """One figure of the page; a folded one shows only title and caption until it is opened.

    ``templates/notes.html`` has the fixed notes of figures and tables, by title.
    """

    title: str
    caption: str
    panels: tuple[Panel, ...]
    is_folded: bool = False


PageBlock = Table | FigureView


def slug(*parts: str) -> str:
    """Return an id for HTML and CSS with only ASCII letters, digits and hyphens.

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
    """Return a page as HTML; ``made_of`` is its provenance.

    ``template`` is a file of `TEMPLATES`, or the path of one that extends those. The page shows
    ``notice`` in a box at its top (`psibench.config.sections.Report.notice`). Text is escaped,
    except images, labels and style that are made here. A missing value is an error.
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
