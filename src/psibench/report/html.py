"""Render a report as one HTML file that needs nothing else to be read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from markupsafe import Markup

from psibench import __version__
from psibench.report import psi_rows
from psibench.report.data import data_section
from psibench.report.inputs import (
    BenchmarkInfo,
    ModelInfo,
    ReportInput,
    benchmark_infos,
    checked,
    model_infos,
    without_views,
)
from psibench.report.panels import comparison_figure, curve_figures, slug
from psibench.report.sections import control_reading, visibility_rows
from psibench.report.styles import model_styles
from psibench.report.verdict import verdict
from psibench.report.view_tables import PsiRows
from psibench.report.views import (
    bucket_order,
    headline_metric,
    headlines,
    main_scheme,
    schemes_of,
    with_headline,
)
from psibench.report.wording import SCHEME_TEXTS
from psibench.tables.atomic import write_text

TEMPLATES = Path(__file__).parent / "templates"
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
    template = _environment().get_template("report.html")
    return template.render(**_context(without_views(every), every.psi_table)) + "\n"


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["slug"] = slug
    return environment


def _context(inputs: ReportInput, every: pl.DataFrame) -> dict[str, Any]:
    """Return what the template shows. Only SVG, style, script and JSON made here are unescaped.

    ``inputs`` are without views; ``every`` has the PSI rows of benchmarks and views.
    """
    benchmarks, models = benchmark_infos(inputs), model_infos(inputs)
    by_id = {model.id: model for model in models}
    leading = headlines(inputs.psi_table)
    metric = headline_metric(inputs.psi_table)
    names = [info.id for info in benchmarks]
    marked = with_headline(inputs.psi_table, leading)
    table = psi_rows.prepared(marked, by_id, benchmarks=names)
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
        "verdicts": _verdicts(lead, benchmarks, by_id),
        "controls": _controls(lead, inputs.bucket_scores, models),
        "visibility": _visibility(lead, benchmarks),
        "provenance": dict(inputs.provenance),
        "style": Markup((TEMPLATES / "report.css").read_text(encoding="utf-8")),
        "script": Markup((TEMPLATES / "report.js").read_text(encoding="utf-8")),
        **_table_context(table, lead, metric),
        **_drawings(inputs, benchmarks, models, metric),
        "data": data_section(inputs, benchmarks, PsiRows(every, metric, tuple(by_id))),
    }


def _table_context(table: pl.DataFrame, lead: pl.DataFrame, metric: str) -> dict[str, Any]:
    shown = lead.filter(pl.col("evidence") == "all")
    end = psi_rows.scale_end(shown)
    return {
        "n_rows": table.height,
        "rows": [psi_rows.cells(row, end=end) for row in shown.iter_rows(named=True)],
        "constant": {name: shown[name].n_unique() <= 1 for name in SLICE_COLUMNS},
        "scale_end": end,
        "payload": Markup(psi_rows.payload(table, metric=metric)),
    }


def _drawings(
    inputs: ReportInput,
    benchmarks: Sequence[BenchmarkInfo],
    models: Sequence[ModelInfo],
    metric: str,
) -> dict[str, Any]:
    scores = inputs.bucket_scores.filter(pl.col("metric") == metric)
    leading = headlines(scores) | headlines(inputs.psi_table)
    rows = with_headline(scores, leading).filter(pl.col("headline"))
    styles = model_styles(models)
    curves = [
        (info, curve_figures(rows, info, models, styles=styles, metric=metric))
        for info in benchmarks
    ]
    return {
        "curves": curves,
        "comparison": comparison_figure(rows, benchmarks, models, styles=styles, metric=metric),
    }


def _kinds(table: pl.DataFrame, models: Sequence[ModelInfo]) -> dict[str, str]:
    shown = dict(table.select("model", "kind").iter_rows())
    return {m.id: "control" if m.control else shown.get(m.id, m.kind) for m in models}


def _verdicts(
    lead: pl.DataFrame, benchmarks: Sequence[BenchmarkInfo], models: Mapping[str, ModelInfo]
) -> list[Any]:
    found = []
    for info in benchmarks:
        scheme = main_scheme(schemes_of(lead, info.id), info.recipe)
        rows = _rows(lead.filter(pl.col("evidence") == "all"), info.id, scheme)
        found.append(verdict(info, scheme, rows, models=models))
    return found


def _rows(lead: pl.DataFrame, benchmark: str, scheme: str | None) -> list[dict[str, Any]]:
    if scheme is None:
        return []
    mine = (pl.col("benchmark") == benchmark) & (pl.col("buckets") == scheme)
    return lead.filter(mine).to_dicts()


def _controls(
    lead: pl.DataFrame, bucket_scores: pl.DataFrame, models: Sequence[ModelInfo]
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each control over all queries, with what they say."""
    rows = lead.filter(pl.col("evidence") == "all").to_dicts()
    end = psi_rows.scale_end(lead)
    found: dict[str, list[dict[str, Any]]] = {"position-blind": [], "truncating": []}
    for model in models:
        for row in (row for row in rows if row["model"] == model.id and model.control):
            mine = (pl.col("benchmark") == row["benchmark"]) & (pl.col("buckets") == row["buckets"])
            order = bucket_order(bucket_scores.filter(mine))
            reading = control_reading(row, str(model.control), order[0] if order else None)
            cells = psi_rows.cells(row, end=end)
            found[str(model.control)].append({**cells, "reading": reading})
    return found


def _visibility(
    lead: pl.DataFrame, benchmarks: Sequence[BenchmarkInfo]
) -> list[tuple[BenchmarkInfo, str, list[dict[str, Any]]]]:
    found = []
    for info in benchmarks:
        scheme = main_scheme(schemes_of(lead, info.id), info.recipe)
        rows = visibility_rows(_rows(lead, info.id, scheme))
        if rows and scheme is not None:
            found.append((info, scheme, rows))
    return found
