"""Descriptions of benchmarks and models on a page, and the rows that it shows first."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from psibench.llm.sections import STAND_IN_PREFIX
from psibench.metrics.chunks import LEADING_SPAN_METRICS
from psibench.tables.spec import ALL

PREFERRED_METRIC = "ndcg@10"
SIDES = ("query_lang", "corpus_lang")
PAIR_COLUMN = (
    pl.when(pl.col("query_lang") == pl.col("corpus_lang"))
    .then("query_lang")
    .otherwise(pl.format("{} → {}", "query_lang", "corpus_lang"))
    .alias("pair")
)
"""The text of a language pair, like `psibench.report.wording.pair_text`."""
AUTHORS = {
    "simulation": "simulated known-item queries, drawn from the evidence itself; no person and no "
    "language model wrote them, and they compare positions, not models",
    "people": "questions written by people",
}
STAND_IN_AUTHOR = (
    "written by {model}, a rule-based program that stands in for a language model; they compare "
    "positions, not models"
)
STAND_IN_TRANSLATOR = "translated by {model}, a rule-based program that stands in for a translator"

Headline = dict[str, str]
"""The leading language pair of a benchmark: a value per column of `SIDES`."""
TableRow = Mapping[str, Any]


@dataclass(frozen=True)
class BenchmarkInfo:
    """Description of a benchmark.

    ``recipe`` and ``subset`` decide which published tables apply. ``note`` describes simulated
    queries; empty if there are none. ``length_unit`` is the unit of length bins and
    ``margin_threshold`` the least margin of kept queries, if the recipe has them.
    """

    id: str
    recipe: str
    subset: str = ""
    description: str = ""
    note: str = ""
    length_unit: str = ""
    margin_threshold: float | None = None


def author_texts(queries_by: str) -> dict[str, str]:
    """Return a sentence on each recorded author of the queries; unknown authors have none."""
    found = {}
    for author in filter(None, queries_by.split(", ")):
        kind, _, model = author.partition(":")
        is_standin = model.startswith(STAND_IN_PREFIX)
        if kind == "translation":
            text = STAND_IN_TRANSLATOR if is_standin else "translated by {model}"
        elif kind == "llm":
            text = STAND_IN_AUTHOR if is_standin else "written by {model}"
        elif author == "not recorded":
            continue
        else:
            text, model = "{model}", AUTHORS.get(author, f"by {author}")
        found[author] = f"Queries are {text.format(model=model)}."
    return found


def simulation_note(queries_by: str) -> str:
    """Return sentences on simulated queries; empty without simulated queries."""
    return " ".join(
        text
        for author, text in author_texts(queries_by).items()
        if author == "simulation" or author.partition(":")[2].startswith(STAND_IN_PREFIX)
    )


@dataclass(frozen=True)
class ModelInfo:
    """Description of a model; ``control`` if it is one of the two controls."""

    id: str
    kind: str
    description: str = ""
    control: Literal["position-blind", "truncating"] | None = None


def headline_metric(psi_table: pl.DataFrame) -> str:
    """Return the metric that a page leads with.

    If all models have chunks, a metric of evidence spans (`LEADING_SPAN_METRICS`), else ndcg@10 if
    the table has it or is empty, else the first metric in sorted order, if possible of all models.
    """
    counts = psi_table.group_by("metric").agg(pl.col("model").n_unique()).sort("metric")
    of_all = counts.filter(pl.col("model") == psi_table["model"].n_unique())["metric"].to_list()
    spans = [name for name in LEADING_SPAN_METRICS if name in of_all]
    preferred = (*spans, PREFERRED_METRIC, *of_all, *counts["metric"])
    return next(name for name in preferred if name in counts["metric"] or counts.is_empty())


def headlines(table: pl.DataFrame) -> dict[str, Headline]:
    """Return the leading language pair of every benchmark of a PSI table.

    A pair within one language comes before a pair of two languages, then the pair with the most
    queries; on a tie the first in the table.
    """
    pairs = table.group_by("benchmark", *SIDES, maintain_order=True).agg(pl.col("n_queries").max())
    order = [pl.col("query_lang") != pl.col("corpus_lang"), -pl.col("n_queries")]
    best: dict[str, Headline] = {}
    for row in pairs.sort(order, maintain_order=True).iter_rows(named=True):
        best.setdefault(row["benchmark"], {name: row[name] for name in SIDES})
    return best


def leading_pair_rows(frame: pl.DataFrame, leading: Mapping[str, Headline]) -> pl.DataFrame:
    """Return the rows of every benchmark's leading pair, over all domains and lengths."""
    keys = [{"benchmark": name, **pair} for name, pair in leading.items()]
    wanted = pl.DataFrame(keys, schema=dict.fromkeys(("benchmark", *SIDES), pl.String))
    pooled = frame.filter(domain=ALL, length_bucket=ALL)
    return pooled.join(wanted, on=wanted.columns, how="semi", maintain_order="left")


def schemes_of(frame: pl.DataFrame, benchmark: str) -> list[str]:
    """Return the bucket schemes of a benchmark, in the order of its rows and config."""
    return frame.filter(benchmark=benchmark)["buckets"].unique(maintain_order=True).to_list()


def leading_rows(table: pl.DataFrame, info: BenchmarkInfo, metric: str) -> pl.DataFrame:
    """Return a benchmark's rows of one metric and its first bucket scheme, over all queries."""
    rows = table.filter(benchmark=info.id, metric=metric, evidence="all")
    return rows.filter(pl.col("buckets") == pl.col("buckets").first())
