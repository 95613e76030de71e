"""Views of a benchmark beside it: raw labels beside clean ones, the tiny subset beside all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from psibench.report.inputs import BenchmarkInfo
from psibench.report.plain import Table
from psibench.report.views import SLICE, Headline, headlines, main_scheme, schemes_of
from psibench.report.wording import MISSING, change, count, interval, number, percent

NEGATIVES_STAGES = ("false_negatives", "above_positive")
CLEAN_NOTE = (
    "Raw: before documents that answer a query and are not its positive were dealt with. Clean: "
    "after. Raw holds the queries that were then removed, too."
)
TINY_NOTE = (
    "Tiny: the subset drawn for slow models, over the same documents. Its intervals are wider; if "
    "the order of the models agrees, the subset is enough for a first look."
)

Rows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class PsiRows:
    """PSI rows of benchmarks and views, the metric shown, models and languages in page order."""

    table: pl.DataFrame
    metric: str
    models: tuple[str, ...]
    languages: Sequence[str] = ()


def clean_block(psi_rows: PsiRows, info: BenchmarkInfo, raw: str, *, flow: pl.DataFrame) -> Table:
    """Return each model under raw and clean labels; ``flow`` are the benchmark's FLOW rows."""
    rows = beside(psi_rows, info, (raw, info.id))
    note = " ".join([removed_text(flow), CLEAN_NOTE]).strip()
    title = "False negatives: raw and clean labels"
    return _table(title, psi_rows.metric, ("raw", "clean"), rows, note)


def tiny_block(psi_rows: PsiRows, info: BenchmarkInfo, tiny: str) -> Table:
    """Return each model on all queries and on the tiny subset."""
    rows = beside(psi_rows, info, (info.id, tiny))
    title = "All queries and the tiny subset"
    return _table(title, psi_rows.metric, ("all", "tiny"), rows, TINY_NOTE)


def beside(psi_rows: PsiRows, info: BenchmarkInfo, pair: tuple[str, str]) -> Rows:
    """Return one row per model of the benchmark or its view: queries, score and both PSIs.

    Parameters
    ----------
    info
        The benchmark; its leading slice and bucket scheme are taken for both of ``pair``.
    pair
        Ids in the order of the columns.
    """
    table = psi_rows.table
    leading = headlines(table, psi_rows.languages).get(info.id)
    scheme = main_scheme(schemes_of(table, info.id), info.recipe)
    if leading is None or scheme is None:
        return ()
    rows = table.filter(
        pl.col("benchmark").is_in(pair)
        & _in_slice(leading)
        & (pl.col("buckets") == scheme)
        & (pl.col("metric") == psi_rows.metric)
        & (pl.col("evidence") == "all")
    )
    found = {(row["model"], row["benchmark"]): row for row in rows.iter_rows(named=True)}
    present = {model for model, _ in found}
    both = [
        (name, [found.get((name, one)) for one in pair])
        for name in psi_rows.models
        if name in present
    ]
    return tuple((name, *_compared(sides)) for name, sides in both)


def removed_text(flow: pl.DataFrame) -> str:
    """Say how many queries and documents left on account of false negatives; empty if unknown."""
    removed = flow.filter(pl.col("stage").is_in(NEGATIVES_STAGES))
    totals = removed.group_by("unit", maintain_order=True).agg(
        pl.col("dropped").sum(), pl.col("entered").sum()
    )
    parts = [
        f"{count(dropped)} of {count(entered)} {unit} ({percent(dropped / entered, 2)})"
        for unit, dropped, entered in totals.iter_rows()
        if entered
    ]
    return f"Removed: {'; '.join(parts)}." if parts else ""


def _in_slice(leading: Headline) -> pl.Expr:
    return pl.all_horizontal([pl.col(name) == getattr(leading, name) for name in SLICE])


def _table(title: str, metric: str, pair: tuple[str, str], rows: Rows, note: str) -> Table:
    return Table(
        title,
        ("model", *pair, *(*pair, "change") * 3),
        rows,
        n_names=1,
        groups=(
            *(("", 1), ("queries", 2), (metric, 3)),
            *(("published PSI", 3), ("PSI at equal documents", 3)),
        ),
        note=note,
    )


def _compared(sides: Sequence[Mapping[str, Any] | None]) -> tuple[str, ...]:
    return (
        *(MISSING if side is None else count(side["n_queries"]) for side in sides),
        *(MISSING if side is None else number(side["mean"]) for side in sides),
        _difference(sides, "mean"),
        *(_psi(side, "psi") for side in sides),
        _difference(sides, "psi"),
        *(_psi(side, "psi_same") for side in sides),
        _difference(sides, "psi_same"),
    )


def _psi(row: Mapping[str, Any] | None, name: str) -> str:
    if row is None:
        return MISSING
    if row["psi"] is None:
        return "undefined"
    ends = interval(row[f"{name}_low"], row[f"{name}_high"])
    return f"{number(row[name])}\n{ends}" if ends else number(row[name])


def _difference(sides: Sequence[Mapping[str, Any] | None], name: str) -> str:
    """Return second less first, where both have a value."""
    first, second = (None if side is None else side[name] for side in sides)
    return MISSING if first is None or second is None else change(second - first)
