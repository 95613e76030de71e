"""What every page of scores has, and the page of `psibench score --report`, which is that alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from markupsafe import Markup

from psibench import __version__
from psibench.report import scores
from psibench.report.plots import model_styles
from psibench.report.tables import TEMPLATES, Table, kind_chip, provenance_table, render
from psibench.report.views import (
    BenchmarkInfo,
    Headline,
    ModelInfo,
    headline_metric,
    headlines,
    with_headline,
)
from psibench.report.wording import SCHEME_TEXTS, pair_text


@dataclass(frozen=True)
class Scored:
    """Scores of models on benchmarks: the tables, and what is on the page in which order.

    ``languages`` decide which pair a benchmark with several leads with. ``csv_folder`` is where
    the tables are as CSV, as seen from the page and with a slash at the end; empty: beside it.
    """

    psi_table: pl.DataFrame
    bucket_scores: pl.DataFrame
    comparisons: pl.DataFrame
    benchmarks: Sequence[BenchmarkInfo]
    models: Sequence[ModelInfo]
    languages: Sequence[str] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    title: str = "Position bias of retrievers"
    created: str = ""
    csv_folder: str = ""


def score_context(inputs: Scored) -> dict[str, Any]:
    """Return what ``report.html`` shows of scores. Only what is made here goes in unescaped."""
    benchmarks, models = inputs.benchmarks, inputs.models
    by_id = {model.id: model for model in models}
    styles = model_styles({model.id: model.control for model in models})
    metric = headline_metric(inputs.psi_table)
    bucket_scores = inputs.bucket_scores.filter(metric=metric)
    leading = headlines(inputs.psi_table, inputs.languages)
    rows = with_headline(bucket_scores, headlines(bucket_scores, inputs.languages) | leading)
    rows = rows.filter(pl.col("headline"))
    marked = scores.fitting(with_headline(inputs.psi_table, leading))
    table = scores.prepared(marked, by_id, benchmarks=[info.id for info in benchmarks])
    lead = table.filter(pl.col("headline"), metric=metric)
    curves = [
        (info, scores.curve_figures(rows, info, styles=styles, metric=metric))
        for info in benchmarks
    ]
    return {
        "title": inputs.title,
        "created": inputs.created,
        "version": __version__,
        "metric": metric,
        "csv_folder": inputs.csv_folder,
        "benchmarks": benchmarks,
        "n_models": len(models),
        "models": _model_table(table, models),
        "scheme_texts": SCHEME_TEXTS,
        "answers": scores.answers(lead, benchmarks, by_id, styles=styles),
        "leading_pairs": _leading_pairs(inputs.psi_table, leading),
        "n_left_out": inputs.psi_table.height - table.height,
        **scores.psi_context(table, lead, metric),
        "curves": [(info, figures) for info, figures in curves if figures],
        "comparison": scores.full_and_tiny_figure(rows, benchmarks, styles=styles, metric=metric),
        "controls": scores.control_tables(lead, models),
        "against": scores.against_control(inputs.comparisons, lead, benchmarks),
        "visibility": scores.visibility(lead, inputs.comparisons, benchmarks),
        "provenance": provenance_table(inputs.provenance),
        "style": Markup((TEMPLATES / "report.css").read_text(encoding="utf-8")),
        "script": Markup((TEMPLATES / "report.js").read_text(encoding="utf-8")),
    }


def render_scores(inputs: Scored) -> str:
    """Return a page of scores alone as HTML: the same inputs give the same text."""
    absent = ("languages", "leaderboards", "mitigations", "training", "data", "examples")
    nothing: dict[str, Any] = dict.fromkeys(absent, ())
    return render("report.html", **score_context(inputs), **nothing, published="", probes="")


def _leading_pairs(psi_table: pl.DataFrame, leading: Mapping[str, Headline]) -> dict[str, str]:
    """Return the language pair that the page leads with, of benchmarks that have several."""
    pairs = psi_table.select("benchmark", "query_lang", "corpus_lang").unique()
    several = pairs.group_by("benchmark").len().filter(pl.col("len") > 1)["benchmark"]
    return {
        name: pair_text(leading[name]["query_lang"], leading[name]["corpus_lang"])
        for name in several
    }


def _model_table(table: pl.DataFrame, models: Sequence[ModelInfo]) -> Table:
    shown = dict(table.select("model", "kind").iter_rows())
    rows = []
    for model in models:
        kind = "control" if model.control else shown.get(model.id, model.kind)
        control = f" ({model.control} control)" if model.control else ""
        rows.append((model.id, kind_chip(kind), f"{model.description}{control}"))
    return Table("Models", ("Model", "Kind", "Description"), tuple(rows), 2, prose=(2,))
