"""Leaderboard of several runs: a table per benchmark, language pair and length, a row per model.

Systems in one table have the same number of queries of a benchmark, the same metric and bucket
scheme; means of other systems are not comparable.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
from markupsafe import Markup

from psibench.errors import InputError
from psibench.metrics.psi import FLAGS
from psibench.report.scores import PSI_FORMS, verdict_chip
from psibench.report.tables import Columns, Table, chip, render_page, table_of
from psibench.report.verdict import (
    CUT_OFF,
    SENSITIVE,
    VERDICT_LABELS,
    exceeds_control,
    finding_of,
    has_flag,
    label_of,
    shown_psis,
)
from psibench.report.views import PAIR_COLUMN, headline_metric, simulation_note
from psibench.report.wording import SCHEME_TEXTS
from psibench.tables import read_provenance, read_table
from psibench.tables.io import read_any_table
from psibench.tables.provenance import now
from psibench.tables.schemas import PSI_TABLE
from psibench.tables.spec import ALL

REPORT = "report.html"
LENGTH_TEXTS = {ALL: "all lengths"}
ASKED = ("benchmark", "pair", "length_bucket", "metric", "buckets", "n_asked")
"""Columns with one value in each table; n_asked: queries of the pair."""
FIGURES = {
    "Source": "source",
    "Mean": "mean",
    "PSI at equal documents": "psi_same",
    "Published PSI": "psi",
    "Adjusted p": "p_adjusted",
    "p, control": "p_control_adjusted",
    "In input": "seen",
}
"""Heading -> column; a table omits columns without values."""

BY_CONTROL = "based on p, control: the test without the control is not significant"
BY_VISIBLE = "p, control of evidence in the model's input is at most 0.05"
"""Basis of a verdict that the p in the same row does not support."""


@dataclass(frozen=True)
class Run:
    """A folder of results and the unique name of its run."""

    folder: Path
    name: str

    @property
    def table(self) -> Path:
        """Path of the PSI table."""
        return self.folder / f"{PSI_TABLE.name}.parquet"

    def rows(self) -> pl.DataFrame:
        """Return a row per benchmark, language pair, length and model, over all domains."""
        has = read_any_table(self.table).columns
        if missing := [name for name in PSI_TABLE.column_names if name not in has]:
            version = (read_provenance(self.table) or {}).get("psibench_version", "no version")
            raise InputError(
                f"{self.table} has no {', '.join(missing)}: another version of psibench made it "
                f"({version}). Run `psibench run` or `psibench score` again"
            )
        psi = read_table(self.table, PSI_TABLE)
        is_first = pl.col("buckets") == pl.col("buckets").first().over("benchmark")
        shown = psi.filter(is_first, domain=ALL, metric=headline_metric(psi))
        pair, found = ("benchmark", "query_lang", "corpus_lang"), []
        for _, group in shown.group_by(*pair, "length_bucket", "model", maintain_order=True):
            views = {row["evidence"]: row for row in group.to_dicts()}
            if ALL not in views:
                raise InputError(
                    f"{self.table}: model {group.item(0, 'model')!r} has rows of "
                    f"{', '.join(views)} evidence only; a leaderboard needs its row of evidence "
                    f"{ALL!r}. Use the whole table that `psibench run` or `psibench score` wrote"
                )
            found.append(views["all"] | {"word": label_of(views["all"], views.get("visible"))})
        return pl.DataFrame(found, schema={**shown.schema, "word": pl.String}).with_columns(
            n_asked=pl.col("n_queries").max().over(pair),
            source=pl.lit(self.name),
        )


def runs_of(folders: Sequence[Path]) -> list[Run]:
    """Return runs, named by the paths of their folders below the common parent folder.

    Raises InputError if a folder has no PSI table or is given twice.
    """
    paths = [folder.resolve() for folder in folders]
    for folder, path in zip(folders, paths, strict=True):
        if not Run(folder, "").table.is_file():
            raise InputError(
                f"{folder}: no {PSI_TABLE.name}.parquet there; use the results folder of a run, or "
                "the --out of `psibench score`"
            )
        if paths.count(path) > 1:
            raise InputError(f"{folder} is given twice; use each run once")
    whole = os.path.commonpath([path.parent for path in paths])
    names = [path.relative_to(whole).as_posix() for path in paths]
    return [Run(*one) for one in zip(folders, names, strict=True)]


def all_rows(runs: Sequence[Run]) -> pl.DataFrame:
    """Return the rows of a page in its order: benchmark, language pair, length, highest mean.

    Adds to the columns of PSI_TABLE and `ASKED`: source, word (the verdict), and is_twice, true if
    several runs have the model in one table.
    """
    found = [run.rows() for run in runs]
    rows = pl.concat(found, how="diagonal_relaxed").with_row_index("place")
    pair = PAIR_COLUMN.replace("und", "no language given").alias("pair")
    is_twice = pl.len().over(*ASKED, "model") > 1
    n_asked, is_crossed = pl.col("n_asked"), pl.col("query_lang") != pl.col("corpus_lang")
    order = [
        pl.col("place").min().over("benchmark"),
        is_crossed,
        n_asked != n_asked.max().over("benchmark", is_crossed),  # the leading pair
        pl.col("pair"),
        pl.col("length_bucket") != ALL,
        pl.col("length_bucket"),
        -n_asked,
        -pl.col("mean"),
        pl.col("psi"),
    ]
    rows = rows.with_columns(pair).with_columns(is_twice=is_twice)
    return rows.sort(order, nulls_last=True, maintain_order=True).drop("place")


# --- The page


def _table(rows: pl.DataFrame, runs: Mapping[str, Run], folder: Path) -> Table:
    """Return the table of rows with equal `ASKED`; ``folder`` is the page's folder."""
    is_of_one = rows["source"].n_unique() == 1
    columns: Columns = {
        heading: shown_psis(rows, name) if f"{name}_low" in rows.columns else name
        for heading, name in FIGURES.items()
        if rows[name].count() and not (is_of_one and name == "source")
    }
    figures = table_of("", rows, columns, forms=PSI_FORMS, n_names=1)
    cells = []
    for row, others in zip(rows.iter_rows(named=True), figures.rows, strict=True):
        name = f"{row['model']} ({row['source']})" if row["is_twice"] else row["model"]
        shown, run = Markup("<bdi>{}</bdi>").format(name), runs.get(row["source"])
        if run is not None and (page := run.folder / REPORT).is_file():
            address = quote(Path(os.path.relpath(page, folder)).as_posix())
            shown = Markup('<a href="{}">{}</a>').format(address, shown)
        chips = [chip(row["kind"])]
        if has_flag(row, "few_clusters"):
            chips.append(chip("few clusters", "", FLAGS["few_clusters"]))
        shown = Markup(" ").join([shown, *chips])
        word = verdict_chip(row["word"])
        if row["word"] in (SENSITIVE, CUT_OFF) and finding_of(row) == "none":
            word += Markup(" ") + chip("against the control", "", BY_CONTROL)
        elif row["word"] == SENSITIVE and not exceeds_control(row):
            word += Markup(" ") + chip("on evidence in input", "", BY_VISIBLE)
        cells.append((shown, *others, word))
    header = ("Model", *figures.header, "Verdict")
    return replace(
        figures,
        header=header,
        rows=tuple(cells),
        prose=[place for place, name in enumerate(header) if name in ("Source", "Verdict")],
    )


def render_leaderboard(runs: Sequence[Run], rows: pl.DataFrame, folder: Path) -> str:
    """Return the page of the rows of `all_rows`; ``folder`` is the page's folder."""
    by_name = {run.name: run for run in runs}
    of_benchmark: dict[str, list[dict[str, Any]]] = {}
    for _, group in rows.group_by(ASKED, maintain_order=True):
        row = group.row(0, named=True)
        tables = of_benchmark.setdefault(row["benchmark"], [])
        pair, length = row["pair"], row["length_bucket"]
        is_leading = length == ALL and (not tables or pair == tables[0]["pair"])
        is_of_one = group["source"].n_unique() == 1 and len(runs) > 1
        about = {"pair": pair, "length": length, "is_leading": is_leading}
        about |= {"n_queries": row["n_queries"]}
        about |= {"metric": row["metric"], "buckets": row["buckets"], "n_models": group.height}
        about |= {"source": row["source"] if is_of_one else ""}
        tables.append(about | {"table": _table(group, by_name, folder)})
    authors = rows.drop_nulls("queries_by").select("benchmark", "queries_by")
    notes: dict[str, list[str]] = {}
    for name, author in authors.unique(maintain_order=True).iter_rows():
        if note := simulation_note(author):
            notes.setdefault(note, []).append(name)
    records = {run.name: read_provenance(run.table) or {} for run in runs}
    notices = {one.get("params", {}).get("notice", "") for one in records.values()}
    return render_page(
        "leaderboard.html",
        title="Leaderboard: means and position bias",
        created=now(),
        notice=" ".join(sorted(notices - {""})),
        made_of={
            f"rows of {name}": f"{one.get('rows_hash')}, psibench {one.get('psibench_version')}"
            for name, one in records.items()
        },
        benchmarks=of_benchmark,
        notes=notes,
        simulated={name for names in notes.values() for name in names},
        runs=list(records),
        length_texts=LENGTH_TEXTS,
        scheme_texts=SCHEME_TEXTS,
        verdict_labels=VERDICT_LABELS,
    )
