"""Published tables next to a run's results, and grids with the values of both.

``tables.yaml`` declares which panel of a page shows a published table, and for which recipes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from psibench.report.tables import Table, table_of
from psibench.report.views import TableRow


@dataclass(frozen=True)
class PrintedTable:
    """A printed table: its rows, the same rows as text with all printed digits, and its source."""

    rows: pl.DataFrame
    texts: pl.DataFrame
    source: str

    @property
    def place(self) -> tuple[str, str]:
        """Names of paper and table."""
        paper, _, table = self.source.split(":")[0].partition(", ")
        return paper, table


def read_printed(path: str | Path) -> PrintedTable:
    """Read a CSV file of printed values; its column ``source`` names paper and table."""
    rows = pl.read_csv(path, infer_schema_length=None)
    texts = pl.read_csv(path, infer_schema=False).fill_null("")
    sources = "; ".join(rows["source"].unique(maintain_order=True))
    return PrintedTable(rows.drop("source"), texts.drop("source"), sources)


@dataclass(frozen=True)
class Reference:
    """A printed table for comparison in a panel of the report.

    ``recipes`` maps a benchmark's recipe to the prefix of its columns; if empty, the table applies
    to every benchmark. ``languages`` maps a language (ISO 639-3) to its column, if there is one
    column per language.
    """

    panel: str
    printed: PrintedTable
    recipes: Mapping[str, str]
    languages: Mapping[str, str]


def read_references(
    entries: Sequence[Mapping[str, Any]], files: Iterable[str | Path]
) -> list[Reference]:
    """Read the printed tables of some entries.

    An entry has ``panel``, ``table`` (file name without suffix), and optionally ``recipes`` and
    ``languages``; see `Reference`. ``files`` are the paths of the tables.
    """
    paths = {Path(path).stem: path for path in files}
    return [
        Reference(
            one["panel"],
            read_printed(paths[one["table"]]),
            one.get("recipes", {}),
            one.get("languages", {}),
        )
        for one in entries
    ]


def beside_panel(references: Iterable[Reference], panel: str, recipe: str) -> list[Reference]:
    """Return the references of a panel that apply to a recipe."""
    return [
        one for one in references if one.panel == panel and recipe in (one.recipes or (recipe,))
    ]


# --- Grids: a printed table with a run's values below each model


def inside() -> pl.Expr:
    """Whether a published value, within its rounding, lies in the interval of the run's value."""
    half = 0.5 / (pl.col("scale") * 10.0 ** pl.col("decimals")) + 1e-9
    published = pl.col("published")
    low, high = (pl.col(name).cast(pl.Float64) for name in ("low", "high"))
    return (published + half >= low) & (published - half <= high)


def grid(name: str, printed: pl.DataFrame, measured: pl.DataFrame) -> Table:
    """Return a paper's grid with the run's rows below each model; ``*``: outside the interval."""
    star = pl.when(pl.col("inside").eq_missing(False)).then(pl.lit("*")).otherwise(pl.lit(""))
    texts = {"the paper": printed.with_columns(text=printed_text("published"))}
    for (benchmark,), mine in measured.group_by("benchmark", maintain_order=True):
        cell = pl.format("{}\n{}{}", printed_text("own"), printed_text("difference", "+"), star)
        texts[f"run here: {benchmark}"] = mine.with_columns(text=cell)
    models = printed.select(Model="model_name").unique(maintain_order=True).with_row_index()
    cells = pl.concat(
        rows.select(
            "text",
            Model="model_name",
            Figures=pl.lit(who),
            place=pl.format("{}|{}", "group", "column"),
        )
        for who, rows in texts.items()
    )
    ordered = cells.join(models, on="Model").sort("index", maintain_order=True)
    places = (
        printed.select(pl.format("{}|{}", "group", "column"))
        .to_series()
        .unique(maintain_order=True)
    )
    wide = ordered.pivot("place", on_columns=places, index=["Model", "Figures"], values="text")
    return table_of(name, wide)


def printed_text(name: str, sign: str = "") -> pl.Expr:
    """Format a column of values in [0, 1] like the paper's table, with a true minus sign."""

    def cell_text(row: TableRow) -> str:
        digits = row["decimals"]
        scaled = round(row[name] * row["scale"], digits)
        text = f"{scaled:{sign}.{digits}f}" if scaled else f"{0:.{digits}f}"
        return text.replace("-", "\N{MINUS SIGN}")

    return pl.struct(name, "scale", "decimals").map_elements(cell_text, pl.String)
