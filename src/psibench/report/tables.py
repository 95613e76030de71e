"""What the page is made of: tables of text and figures, and the one way they become HTML."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import polars as pl
from markupsafe import Markup

from psibench import __version__
from psibench.report.plots import LineStyle, inline_svg, swatch
from psibench.report.wording import count, interval, number, p_value, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPLATES = Path(__file__).parent / "templates"
FOLDED_ROWS = 40
Cell = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True)
class Table:
    """A table of the page: what it is about, header, and rows of text.

    The first ``n_names`` columns name a row, those in ``prose`` are sentences, the others numbers.
    ``groups`` are headings above the header, each with the number of columns it spans; ``note``
    stands below the table. ``looks`` are CSS classes of the rows, ``css`` one of the whole. A line
    break within a cell is shown as one.
    """

    name: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_names: int = 2
    groups: tuple[tuple[str, int], ...] = ()
    note: str = ""
    prose: Sequence[int] = ()
    looks: tuple[str, ...] = ()
    css: str = ""

    @property
    def is_long(self) -> bool:
        """Whether the table is folded until it is asked for."""
        return len(self.rows) > FOLDED_ROWS

    @property
    def edges(self) -> frozenset[int]:
        """Columns, from 0, at which a group other than the first begins."""
        widths = [width for _, width in self.groups]
        return frozenset(sum(widths[:place]) for place in range(1, len(widths)))


def text_rows(
    rows: pl.DataFrame | Iterable[Mapping[str, Any]], *cells: str | Cell
) -> tuple[tuple[str, ...], ...]:
    """Return a row of text per row: a cell is a column, or what a function makes of the row."""
    given = rows.iter_rows(named=True) if isinstance(rows, pl.DataFrame) else rows
    return tuple(
        tuple(row[cell] if isinstance(cell, str) else cell(row) for cell in cells) for row in given
    )


def each(form: Callable[..., str], *names: str, **options: Any) -> list[Cell]:
    """Return cells that have columns in one form, such as `percent`; see `text_rows`."""
    return [lambda row, name=name: form(row[name], **options) for name in names]  # type: ignore[misc]


@dataclass(frozen=True)
class Panel:
    """One drawing, with a name above and a line of text below it where there are several."""

    svg: str
    name: str = ""
    note: str = ""

    @classmethod
    def drawn(
        cls, figure: "Figure", anchor: str, title: str, told: str, *, name: str = "", note: str = ""
    ) -> "Panel":
        """Return a drawing with its title and description for screen readers."""
        return cls(inline_svg(figure, name=anchor, title=title, description=told), name, note)


@dataclass(frozen=True)
class FigureView:
    """One figure of the page: panels, legend, caption, and the numbers behind it.

    A folded one shows its title and caption alone until it is opened.
    """

    anchor: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    legend: tuple[tuple[str, LineStyle], ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    is_folded: bool = False

    @classmethod
    def drawn(
        cls,
        figure: "Figure",
        anchor: str,
        title: str,
        caption: str,
        *,
        header: tuple[str, ...],
        rows: tuple[tuple[str, ...], ...],
        legend: tuple[tuple[str, LineStyle], ...] = (),
        css: str = "",
    ) -> "FigureView":
        """Return a view of one drawing, which the caption describes for screen readers, too."""
        svg = inline_svg(figure, name=anchor, title=title, description=caption, css=css)
        return cls(anchor, title, caption, (Panel(svg),), legend, header, rows)

    @property
    def numbers(self) -> Table:
        """The numbers behind the figure."""
        return Table(f"Numbers of the figure {self.title}", self.header, self.rows, n_names=1)


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
    told = Markup(' title="{}"').format(title) if title else ""
    return Markup('<span class="chip{}"{}>{}</span>').format(f" {css}" if css else "", told, text)


def kind_chip(kind: str) -> Markup:
    """Return the label that says what kind of model this is."""
    return chip(kind or "unknown", f"kind kind-{slug(kind)}")


def flag_chip(flag: str, text: str) -> Markup:
    """Return the label of a flag; ``text`` says what it means."""
    return chip(flag, "flag warn" if flag == "filter_panel" else "flag", text)


def render_page(
    template: str,
    *,
    title: str,
    created: str,
    made_of: Mapping[str, str],
    styles: Sequence[str] = ("report.css",),
    **context: Any,
) -> str:
    """Return a page: text is escaped, a missing value is an error; ``made_of`` is its provenance.

    Only SVG, style, script and JSON made here are unescaped.
    """
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"slug": slug, "number": number, "percent": percent, "p_value": p_value}
    made.filters |= {"count": count, "interval": interval}
    made.globals |= {"chip": chip, "kind_chip": kind_chip, "flag_chip": flag_chip}
    made.globals |= {"swatch": lambda style, name: Markup(swatch(style, name))}
    facts = {"psibench": __version__, **made_of}
    context |= {
        "title": title,
        "created": created,
        "version": __version__,
        "style": Markup("\n".join((TEMPLATES / n).read_text(encoding="utf-8") for n in styles)),
        "provenance": Table("", (), tuple(facts.items()), 1, prose=(1,), css="provenance"),
    }
    return made.get_template(template).render(**context) + "\n"
