"""Sections of the page of published figures: a paper's table with a run's rows beneath."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from psibench.report.published_wording import COMPARABLE

NO_CELL = "–"


@dataclass(frozen=True)
class Cell:
    """A cell as text; `difference` and `is_outside` of a run's figure only."""

    text: str
    difference: str = ""
    is_outside: bool = False


@dataclass(frozen=True)
class Line:
    """A row: of the paper, or of the benchmark named."""

    name: str
    cells: tuple[Cell, ...]
    is_own: bool = False


@dataclass(frozen=True)
class Panel:
    """One grid of a table: headings with their width, columns, rows."""

    name: str
    groups: tuple[tuple[str, int], ...]
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    has_own: bool

    @property
    def edges(self) -> frozenset[int]:
        """Columns, from 0, at which a group other than the first begins."""
        widths = [width for _, width in self.groups]
        return frozenset(sum(widths[:place]) for place in range(1, len(widths)))


@dataclass(frozen=True)
class Section:
    """A published table: what it is, its grids, and how many of its figures a run has.

    With several benchmarks there are more comparisons than figures compared.
    `missing` are the models none of whose figures has a counterpart; `differs` is, per benchmark
    that has some, what differs from the paper's data.
    """

    id: str
    source: str
    title: str
    text: str
    panels: tuple[Panel, ...]
    n_figures: int
    n_compared: int
    n_comparisons: int
    n_with_interval: int
    n_inside: int
    missing: tuple[str, ...]
    differs: tuple[tuple[str, str], ...]


def sections(figures: pl.DataFrame, found: pl.DataFrame) -> list[Section]:
    """Return a section per table, in the figures' order.

    Parameters
    ----------
    figures, found
        As `published_figures` and `compare` return them.
    """
    return [
        _section(name, figures.filter(spec=name), found.filter(spec=name))
        for name in figures.get_column("spec").unique(maintain_order=True)
    ]


def _section(name: str, figures: pl.DataFrame, found: pl.DataFrame) -> Section:
    title, text = COMPARABLE[name]
    first = figures.row(0, named=True)
    measured = figures.filter(pl.col("data") != "")
    known = found.filter(pl.col("inside").is_not_null())
    ran = set(found.get_column("model_name"))
    names = measured.get_column("model_name").unique(maintain_order=True)
    return Section(
        id=name,
        source=f"{first['paper']}, {first['table']}",
        title=title,
        text=text,
        panels=tuple(
            _panel(panel, figures.filter(panel=panel), found.filter(panel=panel))
            for panel in figures.get_column("panel").unique(maintain_order=True)
        ),
        n_figures=measured.height,
        n_compared=_distinct(found).height,
        n_comparisons=found.height,
        n_with_interval=known.height,
        n_inside=int(known.get_column("inside").sum()),
        missing=tuple(name for name in names if name not in ran),
        differs=_differences(found),
    )


def _distinct(found: pl.DataFrame) -> pl.DataFrame:
    return found.select("panel", "model_name", "group", "column").unique()


def _differences(found: pl.DataFrame) -> tuple[tuple[str, str], ...]:
    """Per benchmark what differs, its most frequent wording first; empty if nothing is known."""
    counted = (
        found.group_by("benchmark", "differs", maintain_order=True)
        .agg(pl.len().alias("n"))
        .sort("benchmark", "n", descending=[False, True], maintain_order=True)
    )
    said: dict[str, list[str]] = {}
    for benchmark, differs, _ in counted.iter_rows():
        said.setdefault(benchmark, []).append(differs or "")
    return tuple((name, _short(texts)) for name, texts in said.items())


def _short(texts: Sequence[str], limit: int = 2) -> str:
    """Join the first wordings; the number of queries may differ by language."""
    shown = [text for text in texts if text]
    if not shown:
        return ""
    more = f"; and {len(shown) - limit} more such" if len(shown) > limit else ""
    only_some = " (of some figures)" if len(shown) < len(texts) else ""
    return " / ".join(shown[:limit]) + more + only_some


def _panel(name: str, figures: pl.DataFrame, found: pl.DataFrame) -> Panel:
    places = figures.select("group", "column").unique(maintain_order=True).rows()
    groups: dict[str, int] = {}
    for group, _ in places:
        groups[group] = groups.get(group, 0) + 1
    lines: list[Line] = []
    for model in figures.get_column("model_name").unique(maintain_order=True):
        printed = _by_place(figures.filter(model_name=model))
        cells = (_printed(printed.get(place)) for place in places)
        lines.append(Line(model, tuple(cells)))
        lines.extend(_own_lines(places, found.filter(model_name=model)))
    columns = tuple(column for _, column in places)
    return Panel(name, tuple(groups.items()), columns, tuple(lines), has_own=found.height > 0)


def _own_lines(places: Sequence[tuple[str, str]], found: pl.DataFrame) -> Iterable[Line]:
    for benchmark in found.get_column("benchmark").unique(maintain_order=True):
        own = _by_place(found.filter(benchmark=benchmark))
        yield Line(benchmark, tuple(_own(own.get(place)) for place in places), is_own=True)


def _by_place(rows: pl.DataFrame) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["group"], row["column"]): row for row in rows.iter_rows(named=True)}


def _printed(row: dict[str, Any] | None) -> Cell:
    return Cell(NO_CELL) if row is None else Cell(_text(row, row["published"]))


def _own(row: dict[str, Any] | None) -> Cell:
    if row is None:
        return Cell("")
    difference = _text(row, row["difference"], sign="+")
    return Cell(_text(row, row["own"]), difference, is_outside=row["inside"] is False)


def _text(row: dict[str, Any], value: float, sign: str = "") -> str:
    """Print a value in [0, 1] as the paper's table does, with a true minus."""
    digits = row["decimals"]
    scaled = round(value * row["scale"], digits)
    text = f"{scaled:{sign}.{digits}f}" if scaled else f"{0:.{digits}f}"
    return text.replace("-", "\N{MINUS SIGN}")
