"""Scores by position: curves with a verdict for each model, and the PSI table.

``psibench score --report`` writes a page with only these (`render_scores`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl
from markupsafe import Markup

from psibench.metrics.chunks import CHUNK_METRICS
from psibench.metrics.psi import FLAGS
from psibench.report.plots import (
    SERIES,
    SMALL,
    Axis,
    LineStyle,
    as_image,
    draw_curves,
    y_limit,
)
from psibench.report.tables import (
    Columns,
    FigureView,
    Form,
    Panel,
    Table,
    chip,
    render_page,
    table_of,
    with_ends,
)
from psibench.report.verdict import (
    ASSUMPTION,
    SENSITIVE,
    UNKNOWN_INPUT,
    VERDICT_LABELS,
    has_unknown_input,
    row_order,
    shown_psi,
    shown_psis,
    verdicts,
)
from psibench.report.views import (
    PAIR_COLUMN,
    BenchmarkInfo,
    ModelInfo,
    TableRow,
    headline_metric,
    headlines,
    leading_pair_rows,
    schemes_of,
)
from psibench.report.wording import SCHEME_TEXTS, number_text, p_value, pair_text, percent

# --- the page


@dataclass(frozen=True)
class Scored:
    """Result tables, with the benchmarks and models in the order of the page.

    ``benchmarks`` and ``models`` cover all rows of the tables. ``csv_folder`` is the folder of the
    CSV tables relative to the page, with a slash at the end; empty for the page's folder.
    """

    psi_table: pl.DataFrame
    bucket_scores: pl.DataFrame
    benchmarks: Sequence[BenchmarkInfo] = ()
    models: Sequence[ModelInfo] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    title: str = "Position bias of retrievers"
    notice: str = ""
    created: str = ""
    csv_folder: str = ""


def score_context(inputs: Scored) -> dict[str, Any]:
    """Return the values for the scores sections of ``report.html``."""
    benchmarks, models = inputs.benchmarks, inputs.models
    metric = headline_metric(inputs.psi_table)
    leading = headlines(inputs.psi_table)
    rows = leading_pair_rows(inputs.bucket_scores, leading).filter(metric=metric)
    lead = leading_pair_rows(inputs.psi_table, leading).filter(metric=metric)
    ids = [info.id for info in benchmarks]
    schemes = {name: schemes_of(lead, name) for name in ids}

    def order(row: TableRow) -> tuple[Any, ...]:
        name = row["benchmark"]
        return ids.index(name), schemes[name].index(row["buckets"]), row_order(row), row["model"]

    lead = pl.DataFrame(sorted(lead.to_dicts(), key=order), schema=lead.schema)
    n_pairs = dict(inputs.psi_table.group_by("benchmark").agg(PAIR_COLUMN.n_unique()).iter_rows())
    curves = {info.id: curve_figures(rows, info, models, metric=metric) for info in benchmarks}
    found = [answers(lead, info, curves[info.id]) for info in benchmarks]
    others = [
        (info, [figure for name, figure in curves[info.id].items() if name != scheme])
        for info, scheme, _ in found
    ]
    return {
        "title": inputs.title,
        "notice": inputs.notice,
        "created": inputs.created,
        "made_of": inputs.provenance,
        "metric": metric,
        "csv_folder": inputs.csv_folder,
        "benchmarks": benchmarks,
        "n_models": len(models),
        "models": _model_table(models),
        "scheme_texts": SCHEME_TEXTS,
        "answers": found,
        "verdict_labels": VERDICT_LABELS,
        "leading_pairs": {
            name: pair_text(line["query_lang"], line["corpus_lang"])
            for name, line in leading.items()
            if n_pairs[name] > 1
        },
        "n_rows": inputs.psi_table.height,
        "chunks": [
            (info, [table])
            for info in benchmarks
            if (table := chunk_table(leading_pair_rows(inputs.bucket_scores, leading), info))
        ],
        "psi": [two for two in ((info, psi_tables(lead, info)) for info in benchmarks) if two[1]],
        "flags": {
            name: text for name, text in FLAGS.items() if lead["flags"].str.contains(name).any()
        },
        "curves": [(info, figures) for info, figures in others if figures],
        "comparison": full_and_tiny_figure(rows, benchmarks, metric=metric),
    }


def render_scores(inputs: Scored) -> str:
    """Return a page with only scores as HTML; the same inputs give the same text."""
    absent = ("languages", "training", "data", "examples", "links")
    nothing: dict[str, Any] = dict.fromkeys(absent, ())
    return render_page("report.html", **score_context(inputs), **nothing)


def _model_table(models: Sequence[ModelInfo]) -> Table:
    rows = []
    for model in models:
        control = f" ({model.control} control)" if model.control else ""
        kind = "control" if model.control else model.kind
        rows.append((model.id, chip(kind), f"{model.description}{control}"))
    return Table("Models", ("Model", "Kind", "Description"), tuple(rows), 2, prose=(2,))


def chunk_table(buckets: pl.DataFrame, info: BenchmarkInfo) -> Table | None:
    """Return the metrics of chunks by position, in a benchmark's first scheme; None without any.

    ``buckets`` are rows of BUCKET_SCORES over all domains and lengths.
    """
    rows = buckets.filter(
        pl.col("metric").is_in(CHUNK_METRICS), benchmark=info.id, evidence="all"
    ).filter(pl.col("buckets") == pl.col("buckets").first(), pl.col("n_queries") > 0)
    if rows.is_empty():
        return None
    names = rows["bucket"].unique(maintain_order=True)
    order = pl.col("metric").cast(pl.Enum(CHUNK_METRICS))
    wide = rows.with_columns(value=pl.struct("mean", "low", "high"))
    wide = wide.pivot("bucket", index=["metric", "model"], values="value").sort(order)
    columns: Columns = {"Metric": "metric", "Model": "model", **{name: name for name in names}}
    return table_of(
        "Evidence in chunks, by position of the evidence",
        wide,
        columns,
        note="span-cut: the share of the evidence that no single chunk holds, whatever was found.",
    )


PSI_FORMS: dict[str, Form] = {"Adjusted p": p_value, "p, control": p_value, "In input": percent}


def psi_tables(lead: pl.DataFrame, info: BenchmarkInfo) -> list[Table]:
    """Return a table of a benchmark's leading PSI rows for each bucket scheme.

    Rows of other evidence views with no queries, or with as many as ``all``, are left out.
    """
    shown: Columns = {
        "Model": "model",
        "Evidence": "evidence",
        "Mean": "mean",
        "Published PSI": "shown_psi",
        "At equal documents": "shown_psi_same",
        "Adjusted p": "p_adjusted",
        "p, control": "p_control_adjusted",
        "In input": "seen",
        "Truncation": with_ends("truncation"),
        "Drop": "drop",
        "Queries": "n_queries",
        "Docs": "n_documents",
    }
    if lead.filter(benchmark=info.id)["n_clusters"].count():
        shown["Clusters"] = "n_clusters"
    shown["Flags"] = "flags"
    n_queries, is_all = pl.col("n_queries"), pl.col("evidence") == "all"
    of_all = n_queries.filter(is_all).first().over("model")
    tables = []
    for scheme in schemes_of(lead, info.id):
        mine = lead.filter(benchmark=info.id, buckets=scheme)
        models = mine.filter(is_all).select("model").with_row_index()
        rows = (
            mine.filter(is_all | ((n_queries > 0) & (n_queries != of_all)))
            .join(models, on="model")
            .sort("index", "evidence")
        )
        rows = rows.with_columns(
            shown_psis(rows, name).alias(f"shown_{name}") for name in ("psi", "psi_same")
        )
        title = SCHEME_TEXTS.get(scheme, scheme)
        tables.append(
            table_of(title, rows, shown, forms=PSI_FORMS, n_names=1, prose=(len(shown) - 1,))
        )
    return tables


# --- the answers on top


def answers(
    lead: pl.DataFrame,
    info: BenchmarkInfo,
    curves: Mapping[str, FigureView],
) -> tuple[BenchmarkInfo, str, FigureView | None]:
    """Return the benchmark, its first bucket scheme, and curves with each model's verdict.

    A model without a curve has only its verdict. The curves are None if the benchmark has no rows.
    ``lead`` are the leading PSI rows of one metric; ``curves`` are by bucket scheme.
    """
    scheme = next(iter(schemes_of(lead, info.id)), "")
    undrawn = FigureView(SCHEME_TEXTS.get(scheme, scheme), "No bucket has a mean to draw.", ())
    curve = curves.get(scheme, undrawn)
    panels = {one.name: one for one in curve.panels}
    verdict_panels = []
    is_first, mine = pl.col("buckets") == scheme, lead.filter(benchmark=info.id)
    found = verdicts(mine.filter(is_first).to_dicts(), mine.filter(~is_first).to_dicts())
    rows = {row["model"]: row for row in mine.filter(is_first, evidence="all").to_dicts()}
    has_control = any(row["control"] is not None for row in rows.values())
    for one in found:
        name = Markup("{} {}").format(one.model, verdict_chip(one.label))
        drawn = panels.get(one.model, Panel(""))
        facts = card_facts(rows[one.model], has_control=has_control)
        verdict_panels.append(replace(drawn, name=name, note=one.advice, facts=facts))
    notes = [curve.caption]
    if any(one.label == SENSITIVE for one in found):
        notes.append(ASSUMPTION)
    if any(has_unknown_input(rows[one.model], one.label) for one in found):
        notes.append(UNKNOWN_INPUT)
    whole = replace(curve, panels=tuple(verdict_panels), caption=" ".join(filter(None, notes)))
    return info, scheme, whole if verdict_panels else None


def card_facts(row: TableRow, *, has_control: bool) -> tuple[tuple[str, str], ...]:
    """Return the numbers of a model's card: mean, PSI with its interval, p, share in the input.

    The names of mean and PSI have the metric and the bucket scheme. Without means at equal
    documents the PSI is the published one. An unknown number is a dash.
    """
    has_same = row["psi_same"] is not None or row["psi"] is None
    name, kind = ("psi_same", "PSI") if has_same else ("psi", "Published PSI")
    facts = [
        (f"Mean {row['metric']}", number_text(row["mean"])),
        ("In input", percent(row["seen"], 0)),
        (f"{kind} by {row['buckets']}", shown_psi(row, name)),
        ("p", p_value(row["p_adjusted"])),
    ]
    if has_control:
        facts.append(("p against control", p_value(row["p_control_adjusted"])))
    return tuple(facts)


def verdict_chip(label: str) -> Markup:
    """Return one of `VERDICT_LABELS` as a chip, with its meaning as tooltip."""
    return chip(label, "finding", VERDICT_LABELS[label])


# --- curves by position

SUBSET_STYLES = {"full": LineStyle(SERIES[0], "o"), "tiny": LineStyle(SERIES[1])}


def bucket_axis(table: pl.DataFrame, scheme: str) -> Axis:
    """Return the axis of a scheme: its buckets in order, their bounds, and the axis name."""
    columns = ("bucket", "bucket_low", "bucket_high")
    ordered = table.select(columns).unique("bucket").sort("bucket_low", "bucket_high", "bucket")
    texts = {"squad": "start of the evidence, characters", "relative-20": "relative position"}
    text = texts.get(scheme, SCHEME_TEXTS.get(scheme, scheme))
    labels, *bounds = ordered.get_columns()
    return Axis(tuple(labels), tuple(zip(*bounds, strict=True)), text)


def plain_lines(table: pl.DataFrame, by: str) -> pl.DataFrame:
    """Return bucket means as the lines of a plot, one line per value of the column ``by``."""
    return table.select("bucket", "mean", "low", "high", line=by)


def lines_at_equal_documents(table: pl.DataFrame) -> pl.DataFrame:
    """Return a line per model: means at equal documents if known, else plain means.

    The column ``plain`` has the plain means of models with means at equal documents, else null.
    """
    is_known = pl.col("same_mean").is_not_null().any().over("model")
    chosen = {
        name: pl.when(is_known).then(f"same_{name}").otherwise(name)
        for name in ("mean", "low", "high")
    }
    return table.select("bucket", line="model", plain=pl.when(is_known).then("mean"), **chosen)


def small_multiples(
    lines: pl.DataFrame,
    axis: Axis,
    names: Sequence[str],
    *,
    metric: str,
    around_zero: bool = False,
) -> tuple[Panel, ...]:
    """Return a panel per name, with its line in front of the others."""
    limit, style = y_limit(lines), LineStyle(SERIES[0], "o")
    panels = []
    for name in names:
        drawn = draw_curves(
            lines,
            axis,
            dict.fromkeys(names, style),
            y_text=metric,
            size=SMALL,
            limit=limit,
            in_front=name,
            around_zero=around_zero,
        )
        panels.append(Panel(as_image(drawn), name))
    return tuple(panels)


def curve_figures(
    rows: pl.DataFrame, info: BenchmarkInfo, models: Sequence[ModelInfo], *, metric: str
) -> dict[str, FigureView]:
    """Return a figure of means by position for each bucket scheme of a benchmark.

    ``rows`` are the leading rows of ``bucket_scores`` (one pair per benchmark, one metric). The
    figures use only ``evidence = all``; a benchmark without such rows has none.
    """
    mine = rows.filter(benchmark=info.id, evidence="all")
    figures = {}
    for scheme in schemes_of(mine, info.id):
        table = mine.filter(buckets=scheme)
        lines = lines_at_equal_documents(table)
        names = [model.id for model in models if model.id in set(table["model"])]
        panels = small_multiples(lines, bucket_axis(table, scheme), names, metric=metric)
        caption = _curve_caption(lines, table.row(0, named=True), n_models=len(names))
        title = f"{metric} by {SCHEME_TEXTS.get(scheme, scheme)}"
        figures[scheme] = FigureView(title, caption, panels)
    return figures


def _curve_caption(lines: pl.DataFrame, row: TableRow, *, n_models: int) -> str:
    caption = "Line: plain means; means at equal documents cannot be computed."
    if lines["plain"].count():
        caption = (
            "Thick line: means at equal documents (as if each document had queries in every "
            "bucket). Dashed line: plain means; a model has only these if means at equal documents "
            "cannot be computed."
        )
    caption += " Band: interval of each mean."
    if n_models > 1:
        caption += " Grey lines: the other models of the benchmark, for comparison."
    pair = pair_text(row["query_lang"], row["corpus_lang"])
    return caption if pair == "und" else f"{caption} Language: {pair}."


def full_and_tiny_figure(
    rows: pl.DataFrame, benchmarks: Sequence[BenchmarkInfo], *, metric: str
) -> FigureView | None:
    """Return a figure of the full SQuAD-PosQ and its tiny subset; None unless both exist.

    It has a panel for each model that both have (PosQ, figure 3).
    """
    ids = {info.id: info.subset for info in benchmarks if info.recipe == "squad_posq"}
    known = pl.col("benchmark").is_in(list(ids))
    mine = rows.filter(known, evidence="all", buckets="squad")
    lines = plain_lines(mine, "benchmark").with_columns(
        mine["model"], line=pl.col("line").replace(ids)
    )
    both = lines.filter(pl.col("line").n_unique().over("model") == len(SUBSET_STYLES))
    axis, panels = bucket_axis(mine, "squad"), []
    for (name,), of_model in both.group_by("model", maintain_order=True):
        drawn = draw_curves(
            of_model, axis, SUBSET_STYLES, y_text=metric, size=SMALL, limit=y_limit(both)
        )
        panels.append(Panel(as_image(drawn), str(name)))
    caption = f"{' and '.join(ids)}; plain means by {axis.text}."
    return FigureView("full and tiny", caption, tuple(panels)) if panels else None
