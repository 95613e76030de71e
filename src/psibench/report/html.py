"""Render a report as one HTML file that needs nothing else to be read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup

from psibench import __version__
from psibench.metrics.estimate import FLAGS
from psibench.report import psi_rows
from psibench.report.data import data_section
from psibench.report.examples import example_section
from psibench.report.inputs import (
    BenchmarkInfo,
    ModelInfo,
    ReportInput,
    benchmark_infos,
    checked,
    model_infos,
    without_views,
)
from psibench.report.languages import language_section, leaderboard_table
from psibench.report.panels import comparison_figure, curve_figures
from psibench.report.readings import against_control, answers, controls, visibility
from psibench.report.styles import model_styles
from psibench.report.templating import TEMPLATES, environment
from psibench.report.view_tables import PsiRows
from psibench.report.views import (
    Headline,
    headline_metric,
    headlines,
    language_order,
    with_headline,
)
from psibench.report.wording import SCHEME_TEXTS, pair_text
from psibench.tables.atomic import write_text

SLICE_COLUMNS = ("benchmark", "buckets", "pair", "domain", "length_bucket", "evidence", "metric")


def write_report(inputs: ReportInput, path: str | Path) -> None:
    """Write the page to ``path``, whole or not at all."""
    write_text(render_report(inputs), path)


def render_report(inputs: ReportInput) -> str:
    """Return the page as HTML: the same inputs give the same text.

    Tables without rows give a page that says so.

    Raises
    ------
    InputError
        If a frame does not follow its declared schema.
    """
    every = checked(inputs)
    template = environment().get_template("report.html")
    return template.render(**_context(without_views(every), every.psi_table)) + "\n"


def _context(inputs: ReportInput, every: pl.DataFrame) -> dict[str, Any]:
    """Return what the template shows. Only SVG, style, script and JSON made here are unescaped.

    ``inputs`` are without views; ``every`` has the PSI rows of benchmarks and views.
    """
    benchmarks, models = benchmark_infos(inputs), model_infos(inputs)
    languages = language_order(inputs.statistics)
    by_id = {model.id: model for model in models}
    leading = headlines(inputs.psi_table, languages)
    metric = headline_metric(inputs.psi_table)
    names = [info.id for info in benchmarks]
    marked = with_headline(inputs.psi_table, leading)
    table = psi_rows.prepared(psi_rows.fitting(marked), by_id, benchmarks=names)
    lead = table.filter(pl.col("headline") & (pl.col("metric") == metric))
    return {
        "title": inputs.title,
        "created": inputs.created,
        "version": __version__,
        "metric": metric,
        "simulated": [info for info in benchmarks if info.simulated],
        "benchmarks": benchmarks,
        "models": models,
        "by_id": by_id,
        "kinds": _kinds(table, models),
        "scheme_texts": SCHEME_TEXTS,
        "answers": answers(lead, benchmarks, by_id, styles=model_styles(models)),
        "leading_pairs": _leading_pairs(inputs.psi_table, leading),
        "controls": controls(lead, models),
        "against": against_control(inputs.comparisons, lead, benchmarks),
        "visibility": visibility(lead, inputs.comparisons, benchmarks),
        "leaderboards": leaderboard_table(inputs, benchmarks, metric=metric),
        "examples": example_section(inputs.examples, benchmarks),
        "published": inputs.published,
        "n_left_out": inputs.psi_table.height - table.height,
        "provenance": dict(inputs.provenance),
        "style": Markup((TEMPLATES / "report.css").read_text(encoding="utf-8")),
        "script": Markup((TEMPLATES / "report.js").read_text(encoding="utf-8")),
        **_table_context(table, lead, metric),
        **_drawings(inputs, benchmarks, models, metric),
        "data": data_section(inputs, benchmarks, PsiRows(every, metric, tuple(by_id), languages)),
    }


def _table_context(table: pl.DataFrame, lead: pl.DataFrame, metric: str) -> dict[str, Any]:
    shown = lead.filter(pl.col("evidence") == "all")
    end = psi_rows.scale_end(shown)
    return {
        "n_rows": table.height,
        "rows": [psi_rows.cells(row, end=end) for row in shown.iter_rows(named=True)],
        "constant": {name: shown[name].n_unique() <= 1 for name in SLICE_COLUMNS},
        "scale_end": end,
        "flag_texts": FLAGS,
        "raised_flags": psi_rows.raised_flags(table),
        "payload": Markup(psi_rows.payload(table, metric=metric)),
    }


def _drawings(
    inputs: ReportInput,
    benchmarks: Sequence[BenchmarkInfo],
    models: Sequence[ModelInfo],
    metric: str,
) -> dict[str, Any]:
    scores = inputs.bucket_scores.filter(pl.col("metric") == metric)
    languages = language_order(inputs.statistics)
    leading = headlines(scores, languages) | headlines(inputs.psi_table, languages)
    rows = with_headline(scores, leading).filter(pl.col("headline"))
    styles = model_styles(models)
    curves = [
        (info, curve_figures(rows, info, models, styles=styles, metric=metric))
        for info in benchmarks
    ]
    return {
        "curves": curves,
        "languages": language_section(inputs, benchmarks, models, styles=styles, metric=metric),
        "comparison": comparison_figure(rows, benchmarks, models, styles=styles, metric=metric),
    }


def _kinds(table: pl.DataFrame, models: Sequence[ModelInfo]) -> dict[str, str]:
    shown = dict(table.select("model", "kind").iter_rows())
    return {m.id: "control" if m.control else shown.get(m.id, m.kind) for m in models}


def _leading_pairs(psi_table: pl.DataFrame, leading: Mapping[str, Headline]) -> dict[str, str]:
    """Return the language pair that the page leads with, of benchmarks that have several."""
    several = (
        psi_table.group_by("benchmark")
        .agg(pl.struct("query_lang", "corpus_lang").n_unique().alias("n"))
        .filter(pl.col("n") > 1)
    )
    return {
        name: pair_text(leading[name].query_lang, leading[name].corpus_lang)
        for name in several["benchmark"]
    }
