"""What a page leads with, and the views of a benchmark beside it: raw and tiny."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from psibench.llm.sections import STAND_IN_PREFIX
from psibench.report.tables import Table
from psibench.report.wording import MISSING, change, count, number, percent, with_interval
from psibench.tables.spec import POOLED

PREFERRED_METRIC = "ndcg@10"
SCHEME_ORDER = ("squad", "thirds", "thirds-every-tag", "relative-20")
SLICE = ("query_lang", "corpus_lang", "domain", "length_bucket")
PAIR = (
    pl.when(pl.col("query_lang") == pl.col("corpus_lang"))
    .then("query_lang")
    .otherwise(pl.format("{} → {}", "query_lang", "corpus_lang"))
    .alias("pair")
)
"""A language pair as shown, as `psibench.report.wording.pair_text`."""
NEGATIVES_STAGES = ("false_negatives", "above_positive")
CLEAN_NOTE = (
    "Raw: before documents that answer a query and are not its positive were dealt with. Clean: "
    "after. Raw holds the queries that were then removed, too."
)
TINY_NOTE = (
    "Tiny: the subset drawn for slow models, over the same documents. Its intervals are wider; if "
    "the order of the models agrees, the subset is enough for a first look."
)

KNOWN_ITEM_NOTE = (
    "The queries are known-item queries drawn by a program from the evidence span itself "
    "(Azzopardi, de Rijke and Balog, SIGIR 2007), not written by people or a language model. "
    "They compare positions; being made of a passage's own words they favour lexical matching, so "
    "they do not compare models, and absolute scores say little about real users."
)
STAND_IN_NOTE = (
    "A rule-based stand-in answered in place of a language model, through the same requests: its "
    "queries are words of one sentence each. They compare positions; being made of a passage's "
    "own words they favour lexical matching, so they do not compare models. Name a language model "
    "in the benchmark's tasks to have real queries."
)

Headline = dict[str, str]
"""The slice of one benchmark that the page leads with: a value per column of `SLICE`."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class BenchmarkInfo:
    """One benchmark: what it is, and whether anything in it was simulated.

    ``recipe`` and ``subset`` decide which figures apply; ``note`` says what was simulated and how.
    ``length_unit`` is what length bins count, ``margin_threshold`` the margin that queries were
    kept from; both as far as they apply. ``headline`` is the first of its bucket schemes.
    """

    id: str
    recipe: str
    subset: str = ""
    description: str = ""
    simulated: bool = False
    note: str = ""
    length_unit: str = ""
    margin_threshold: float | None = None
    headline: str = ""


def simulation_note(queries_by: str) -> str:
    """Say what was simulated, from what a table says of who wrote the queries; empty: nothing."""
    if f"llm:{STAND_IN_PREFIX}" in queries_by:
        return STAND_IN_NOTE
    return KNOWN_ITEM_NOTE if queries_by == "simulation" else ""


@dataclass(frozen=True)
class ModelInfo:
    """One model: its kind, what it is, and which of the two controls it is, if any.

    ``depth``: how many documents of a first stage a reranker orders.
    """

    id: str
    kind: str
    description: str = ""
    control: Literal["position-blind", "truncating"] | None = None
    depth: int | None = None


def headline_metric(psi_table: pl.DataFrame) -> str:
    """Return ndcg@10 if the table has it (or is empty), else its first metric in sorted order."""
    metrics = sorted(psi_table["metric"].unique())
    return PREFERRED_METRIC if PREFERRED_METRIC in metrics or not metrics else str(metrics[0])


def headlines(table: pl.DataFrame, languages: Sequence[str] = ()) -> dict[str, Headline]:
    """Return the leading slice of every benchmark of a PSI or bucket table.

    ``all`` is taken in each of language pair, domain and length bucket where it occurs; where it
    does not, the value whose rows hold the most queries, and a pair of one language before a pair
    of two. On a tie the first of ``languages`` is taken, then the first by name.
    """
    places = {language: place for place, language in enumerate(languages)}
    ranked = [
        pl.col(name).replace_strict(places, default=len(places), return_dtype=pl.Int64)
        for name in ("corpus_lang", "query_lang")
    ]
    pooled = pl.sum_horizontal([(pl.col(name) == POOLED).cast(pl.Int32) for name in SLICE])
    is_crossed = pl.col("query_lang") != pl.col("corpus_lang")
    ordered = (
        table.group_by("benchmark", *SLICE)
        .agg(pl.col("n_queries").max())
        .sort([-pooled, is_crossed, -pl.col("n_queries"), *ranked, *map(pl.col, SLICE)])
    )
    best: dict[str, Headline] = {}
    for row in ordered.iter_rows(named=True):
        best.setdefault(row["benchmark"], {name: row[name] for name in SLICE})
    return best


def with_headline(frame: pl.DataFrame, leading: Mapping[str, Headline]) -> pl.DataFrame:
    """Return the frame with a boolean column ``headline``: the row is in its leading slice."""
    keys = [{"benchmark": name, **line} for name, line in leading.items()]
    schema = dict.fromkeys(("benchmark", *SLICE), pl.String)
    marked = pl.DataFrame(keys, schema=schema).with_columns(headline=pl.lit(value=True))
    joined = frame.join(marked, on=["benchmark", *SLICE], how="left", maintain_order="left")
    return joined.with_columns(pl.col("headline").fill_null(value=False))


def schemes_of(frame: pl.DataFrame, benchmark: str) -> list[str]:
    """Return the bucket schemes a benchmark has rows for: known ones first, then by name."""
    found = set(frame.filter(pl.col("benchmark") == benchmark)["buckets"])
    known = [name for name in SCHEME_ORDER if name in found]
    return known + sorted(found - set(known))


def main_scheme(frame: pl.DataFrame, info: BenchmarkInfo) -> str | None:
    """Return the benchmark's headline scheme; of a table without it the first, or None."""
    schemes = schemes_of(frame, info.id)
    return info.headline if info.headline in schemes else next(iter(schemes), None)


def leading_rows(table: pl.DataFrame, info: BenchmarkInfo, metric: str) -> pl.DataFrame:
    """Return a benchmark's rows of one metric and its main bucket scheme, over all queries."""
    return table.filter(
        pl.col("benchmark") == info.id,
        pl.col("metric") == metric,
        pl.col("buckets") == main_scheme(table, info),
        pl.col("evidence") == "all",
    )


@dataclass(frozen=True)
class PsiRows:
    """PSI rows of benchmarks and views, the metric shown, models and languages in page order."""

    table: pl.DataFrame
    metric: str
    models: tuple[str, ...]
    languages: Sequence[str] = ()


def clean_table(psi_rows: PsiRows, info: BenchmarkInfo, raw: str, *, flow: pl.DataFrame) -> Table:
    """Return each model under raw and clean labels; ``flow`` are the benchmark's FLOW rows."""
    note = " ".join([_removed_text(flow), CLEAN_NOTE]).strip()
    title = "False negatives: raw and clean labels"
    return _beside(psi_rows, info, {raw: "raw", info.id: "clean"}, title, note)


def tiny_table(psi_rows: PsiRows, info: BenchmarkInfo, tiny: str) -> Table:
    """Return each model on all queries and on the tiny subset."""
    title = "All queries and the tiny subset"
    return _beside(psi_rows, info, {info.id: "all", tiny: "tiny"}, title, TINY_NOTE)


def _beside(
    psi_rows: PsiRows, info: BenchmarkInfo, names: Mapping[str, str], title: str, note: str
) -> Table:
    """Return queries, score and both PSIs of each model on a benchmark and its view.

    ``names``: id -> heading, in the order of the columns; the benchmark's leading slice and bucket
    scheme are taken for both.
    """
    table = psi_rows.table
    shown = table.filter(
        buckets=main_scheme(table, info) or "",
        metric=psi_rows.metric,
        evidence="all",
        **headlines(table, psi_rows.languages).get(info.id, {"benchmark": ""}),
    )
    found: dict[str, dict[str, Row]] = {}
    for row in shown.iter_rows(named=True):
        if row["benchmark"] in names:
            found.setdefault(row["model"], {})[row["benchmark"]] = row
    rows = tuple(
        (model, *_compared([found[model].get(one) for one in names]))
        for model in psi_rows.models
        if model in found
    )
    pair = tuple(names.values())
    return Table(
        title,
        ("model", *pair, *(*pair, "change") * 3),
        rows,
        n_names=1,
        groups=(
            *(("", 1), ("queries", 2), (psi_rows.metric, 3)),
            *(("published PSI", 3), ("PSI at equal documents", 3)),
        ),
        note=note,
    )


def _removed_text(flow: pl.DataFrame) -> str:
    """Say how many queries and documents left on account of false negatives; empty if unknown."""
    removed = flow.filter(pl.col("stage").is_in(NEGATIVES_STAGES))
    totals = removed.group_by("unit", maintain_order=True).agg(pl.col("dropped", "entered").sum())
    parts = [
        f"{count(dropped)} of {count(entered)} {unit} ({percent(dropped / entered, 2)})"
        for unit, dropped, entered in totals.iter_rows()
        if entered
    ]
    return f"Removed: {'; '.join(parts)}." if parts else ""


def _compared(sides: Sequence[Row | None]) -> tuple[str, ...]:
    def shown(row: Row | None, name: str) -> str:
        if row is None:
            return MISSING
        if name == "mean":
            return number(row[name])
        return "undefined" if row["psi"] is None else with_interval(row, name)

    cells = [MISSING if side is None else count(side["n_queries"]) for side in sides]
    for name in ("mean", "psi", "psi_same"):
        first, second = (None if side is None else side[name] for side in sides)
        difference = MISSING if first is None or second is None else change(second - first)
        cells += [*(shown(side, name) for side in sides), difference]
    return tuple(cells)
