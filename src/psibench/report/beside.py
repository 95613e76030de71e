"""Figures from elsewhere beside a run's own: tables as they were printed, and grids of both.

What is compared is data: which panel of a page a table belongs to, and for which recipes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from psibench.report.tables import Table, table_of
from psibench.report.views import Row


@dataclass(frozen=True)
class PrintedTable:
    """A printed table: its rows, the same as text with all printed digits, and its source."""

    rows: pl.DataFrame
    texts: pl.DataFrame
    source: str

    @property
    def place(self) -> tuple[str, str]:
        """Paper and table."""
        paper, _, table = self.source.split(":")[0].partition(", ")
        return paper, table


def read_printed(path: str | Path) -> PrintedTable:
    """Read a CSV file of printed figures, whose column ``source`` names paper and table."""
    rows = pl.read_csv(path, infer_schema_length=None)
    texts = pl.read_csv(path, infer_schema=False).fill_null("")
    sources = "; ".join(rows["source"].unique(maintain_order=True))
    return PrintedTable(rows.drop("source"), texts.drop("source"), sources)


@dataclass(frozen=True)
class Reference:
    """A printed table beside a panel of the report.

    ``recipes``: recipe of a benchmark -> beginning of the columns that are about it; empty: it is
    beside every benchmark's. ``languages``: language, ISO 639-3 -> column, where the table has
    one for each.
    """

    panel: str
    printed: PrintedTable
    recipes: Mapping[str, str]
    languages: Mapping[str, str]


def read_references(
    entries: Sequence[Mapping[str, Any]], files: Iterable[str | Path]
) -> list[Reference]:
    """Read the tables that entries name.

    Of an entry: panel, table (its file's name without suffix) and, where they apply, recipes and
    languages; see `Reference`. ``files`` are the paths of the tables.
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
    """List the references of a panel for a benchmark of a recipe."""
    return [
        one for one in references if one.panel == panel and recipe in (one.recipes or (recipe,))
    ]


# --- grids: a printed table with a run's figures beneath each model


def inside() -> pl.Expr:
    """Whether a published figure lies in the own one's interval, granting it its rounding."""
    half = 0.5 / (pl.col("scale") * 10.0 ** pl.col("decimals")) + 1e-9
    published = pl.col("published")
    low, high = (pl.col(name).cast(pl.Float64) for name in ("low", "high"))
    return (published + half >= low) & (published - half <= high)


def grid(name: str, printed: pl.DataFrame, measured: pl.DataFrame) -> Table:
    """Return a paper's grid with a run's rows beneath each model, starred outside the interval."""
    star = pl.when(pl.col("inside").eq_missing(False)).then(pl.lit("*")).otherwise(pl.lit(""))
    texts = {"the paper": printed.with_columns(text=printed_text("published"))}
    for (benchmark,), mine in measured.group_by("benchmark", maintain_order=True):
        told = pl.format("{}\n{}{}", printed_text("own"), printed_text("difference", "+"), star)
        texts[f"run here: {benchmark}"] = mine.with_columns(text=told)
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
    """Print a column of values in [0, 1] as the paper's table does, with a true minus."""

    def text(row: Row) -> str:
        digits = row["decimals"]
        scaled = round(row[name] * row["scale"], digits)
        said = f"{scaled:{sign}.{digits}f}" if scaled else f"{0:.{digits}f}"
        return said.replace("-", "\N{MINUS SIGN}")

    return pl.struct(name, "scale", "decimals").map_elements(text, pl.String)
