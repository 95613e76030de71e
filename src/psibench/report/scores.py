"""What models score by position: answers, the PSI table, controls, truncation, curves.

The page of ``psibench score --report`` is this alone (`render_scores`).
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import polars.selectors as cs
from markupsafe import Markup

from psibench.metrics.psi import FLAGS
from psibench.report.plots import (
    SERIES,
    SMALL,
    Axis,
    LineStyle,
    draw_curves,
    draw_drops,
    model_styles,
    short_name,
    y_limit,
)
from psibench.report.tables import (
    TEMPLATES,
    Columns,
    FigureView,
    Form,
    Panel,
    Table,
    figure_of,
    flag_chip,
    kind_chip,
    panel,
    render_page,
    slug,
    table_of,
    with_ends,
)
from psibench.report.verdict import (
    control_reading,
    finding_of,
    has_flag,
    place,
    undefined_text,
    verdicts,
)
from psibench.report.views import (
    PAIR,
    SCHEME_ORDER,
    BenchmarkInfo,
    ModelInfo,
    Row,
    headline_metric,
    headlines,
    main_scheme,
    schemes_of,
    with_headline,
)
from psibench.report.wording import ALPHA, SCHEME_TEXTS, number, p_value, pair_text, percent
from psibench.tables.spec import POOLED

# --- the page


@dataclass(frozen=True)
class Scored:
    """Scores of models on benchmarks: the tables, and what is on the page in which order.

    ``language_order`` decides which pair a benchmark with several leads with. ``csv_folder`` is
    where the tables are as CSV, as seen from the page, with a slash at the end; empty: beside it.
    """

    psi_table: pl.DataFrame
    bucket_scores: pl.DataFrame
    comparisons: pl.DataFrame
    benchmarks: Sequence[BenchmarkInfo] = ()
    models: Sequence[ModelInfo] = ()
    language_order: Sequence[str] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    title: str = "Position bias of retrievers"
    created: str = ""
    csv_folder: str = ""


def score_context(inputs: Scored) -> dict[str, Any]:
    """Return what ``report.html`` shows of scores. Only what is made here goes in unescaped."""
    benchmarks, models = inputs.benchmarks, inputs.models
    controls: dict[str, str | None] = {model.id: model.control for model in models}
    styles = model_styles(controls)
    metric = headline_metric(inputs.psi_table)
    leading = headlines(inputs.psi_table, inputs.language_order)
    of_buckets = headlines(inputs.bucket_scores.filter(metric=metric), inputs.language_order)
    every = with_headline(inputs.bucket_scores, of_buckets | leading).filter(pl.col("headline"))
    rows = every.filter(metric=metric)
    table = prepared(
        fitting(with_headline(inputs.psi_table, leading)),
        controls,
        benchmarks=[info.id for info in benchmarks],
    )
    lead = table.filter(pl.col("headline"), metric=metric)
    n_pairs = dict(inputs.psi_table.group_by("benchmark").agg(PAIR.n_unique()).iter_rows())
    curves = [
        (info, curve_figures(rows, info, styles=styles, metric=metric)) for info in benchmarks
    ]
    return {
        "title": inputs.title,
        "created": inputs.created,
        "made_of": inputs.provenance,
        "metric": metric,
        "csv_folder": inputs.csv_folder,
        "benchmarks": benchmarks,
        "n_models": len(models),
        "models": _model_table(table, models),
        "scheme_texts": SCHEME_TEXTS,
        "answers": [answers(lead, info, controls, styles=styles) for info in benchmarks],
        "leading_pairs": {
            name: pair_text(line["query_lang"], line["corpus_lang"])
            for name, line in leading.items()
            if n_pairs[name] > 1
        },
        "n_left_out": inputs.psi_table.height - table.height,
        **psi_context(table, lead, metric),
        "curves": [(info, figures) for info, figures in curves if figures],
        "comparison": full_and_tiny_figure(rows, benchmarks, styles=styles, metric=metric),
        "controls": control_tables(lead, controls),
        "against": against_control(inputs.comparisons, lead, benchmarks),
        "first_stages": first_stages(every, benchmarks, models, metric=metric),
        "visibility": visibility(lead, inputs.comparisons, benchmarks),
        "script": Markup((TEMPLATES / "report.js").read_text(encoding="utf-8")),
    }


def render_scores(inputs: Scored) -> str:
    """Return a page of scores alone as HTML: the same inputs give the same text."""
    absent = ("languages", "leaderboards", "mitigations", "training", "data", "examples")
    nothing: dict[str, Any] = dict.fromkeys((*absent, "published", "probes"), ())
    return render_page("report.html", **score_context(inputs), **nothing)


def _model_table(table: pl.DataFrame, models: Sequence[ModelInfo]) -> Table:
    shown = dict(table.select("model", "kind").iter_rows())
    rows = []
    for model in models:
        kind = "control" if model.control else shown.get(model.id, model.kind)
        control = f" ({model.control} control)" if model.control else ""
        rows.append((model.id, kind_chip(kind), f"{model.description}{control}"))
    return Table("Models", ("Model", "Kind", "Description"), tuple(rows), 2, prose=(2,))


# --- the PSI table: rows of the server, and all rows as JSON for the page's script

DECIMALS = 8
MAX_ROWS = 20_000
"""Rows up to which the page has all, those of single domains among them."""
SLICE_COLUMNS = ("benchmark", "buckets", "pair", "domain", "length_bucket", "evidence", "metric")
TEXT_COLUMNS = ("model", "kind", *SLICE_COLUMNS, "flags", "reason")
CHART_COLUMNS = ("psi_same", "psi_same_low", "psi_same_high", "psi_noise_p95")
NUMBER_COLUMNS = (
    *("mean", "psi", "psi_low", "psi_high", *CHART_COLUMNS, "p_adjusted", "p_control_adjusted"),
    *("seen", "drop", "n_queries", "n_documents"),
)


def fitting(psi_table: pl.DataFrame, *, limit: int = MAX_ROWS) -> pl.DataFrame:
    """Return the rows that a page can carry: all up to ``limit``, else those of pooled domains.

    ``psi_table`` carries ``headline``; the leading rows stay.
    """
    if psi_table.height <= limit:
        return psi_table
    is_pooled = pl.col("domain") == POOLED
    return psi_table.filter(is_pooled | pl.col("headline") | ~is_pooled.any().over("benchmark"))


def prepared(
    psi_table: pl.DataFrame, controls: Mapping[str, str | None], *, benchmarks: Sequence[str]
) -> pl.DataFrame:
    """Return the rows in page order, with ``pair``, ``kind`` and ``reason`` as shown.

    ``psi_table`` carries ``headline``. Order: ``benchmarks``, leading slice first, bucket scheme,
    slice, evidence, then as the verdicts (`psibench.report.verdict.place`). Controls are of the
    kind ``control``.
    """
    # both renderings of the table start from the same rounded numbers
    rows = psi_table.with_columns(cs.float().round(DECIMALS), PAIR).to_dicts()
    for row in rows:
        row["reason"] = "" if row["psi"] is not None else undefined_text(row)
        row["kind"] = "control" if controls[row["model"]] else row["kind"]
    schema = pl.Schema({**psi_table.schema, "pair": pl.String(), "reason": pl.String()})
    schemes = {name: i for i, name in enumerate(SCHEME_ORDER)}
    order = {name: i for i, name in enumerate(benchmarks)}

    def page_order(row: Row) -> tuple[Any, ...]:
        names = ("buckets", "metric", "pair", "domain", "length_bucket", "evidence")
        scheme = schemes.get(row["buckets"], len(schemes))
        first = (order[row["benchmark"]], not row["headline"], scheme)
        return (*first, *(row[name] for name in names), place(row), row["model"])

    return pl.DataFrame(sorted(rows, key=page_order), schema=schema)


def psi_context(table: pl.DataFrame, lead: pl.DataFrame, metric: str) -> dict[str, Any]:
    """Return what the template shows of the PSI table; ``lead`` are its leading rows."""
    shown = lead.filter(pl.col("evidence") == "all")
    end = scale_end(shown)
    raised = {name for flags in table["flags"].unique() for name in flags.split(", ")}
    return {
        "n_rows": table.height,
        "rows": [cells(row, end=end) for row in shown.iter_rows(named=True)],
        "constant": [name for name in SLICE_COLUMNS if shown[name].n_unique() <= 1],
        "scale_end": end,
        "raised_flags": {name: text for name, text in FLAGS.items() if name in raised},
        "payload": Markup(payload(table, metric=metric)),
    }


def payload(rows: pl.DataFrame, *, metric: str) -> str:
    """Return all rows and what flags mean as JSON, safe inside a ``<script>`` element.

    Text columns are written once per distinct value and referred to by number; what is not
    finite is null.
    """
    columns: dict[str, Any] = {}
    for name in TEXT_COLUMNS:
        values = list(dict.fromkeys(rows[name]))
        number_of = {value: i for i, value in enumerate(values)}
        columns[name] = {"values": values, "codes": [number_of[v] for v in rows[name]]}
    for name in NUMBER_COLUMNS:
        columns[name] = [v if v is not None and math.isfinite(v) else None for v in rows[name]]
    columns["headline"] = [int(value) for value in rows["headline"]]
    data = {"n": rows.height, "metric": metric, "pooled": POOLED, "flags": FLAGS}
    data["columns"] = columns
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def scale_end(rows: pl.DataFrame) -> float:
    """Return the right end of the small PSI charts: the next tenth above all, 1 at most."""
    ends = [rows[name].max() for name in CHART_COLUMNS]
    largest = max((float(str(end)) for end in ends if end is not None), default=1.0)
    return min(1.0, max(0.1, math.ceil(largest * 10 - 1e-9) / 10))


def cells(row: Row, *, end: float) -> dict[str, Any]:
    """Return a row with its flags, what it shows, and its small chart in percent of ``end``."""
    return {
        **row,
        "named_flags": [(name, FLAGS.get(name, "")) for name in row["flags"].split(", ") if name],
        "depends": finding_of(row) == "depends",
        "at_floor": has_flag(row, "at_floor"),
        "chart": {
            name: None if row[name] is None else round(min(100.0, 100 * row[name] / end), 1)
            for name in CHART_COLUMNS
        },
    }


# --- the answers on top

UNSAID_FLAGS = ("filter_panel", "small_buckets", "at_ceiling")
"""Flags that the verdict's sentences do not put in words."""
QUESTIONS = (
    "Does the score depend on where the evidence is?",
    "The model, or the questions?",
    "How much is truncation?",
    "How large could it be?",
)


def answers(
    lead: pl.DataFrame,
    info: BenchmarkInfo,
    controls: Mapping[str, str | None],
    *,
    styles: Mapping[str, LineStyle],
) -> tuple[BenchmarkInfo, str, Table | None, FigureView | None]:
    """Return benchmark, bucket scheme, the verdicts on its models, and late against early.

    ``lead`` are the leading PSI rows of one metric.
    """
    rows = _main_rows(lead, info).to_dicts()
    if not rows:
        return info, "", None, None
    by_model = {row["model"]: row for row in rows if row["evidence"] == "all"}
    lines, looks, shown = [], [], []
    for one in verdicts(rows, controls=controls):
        row, control = by_model[one.model], controls.get(one.model)
        shown.append(row)
        flags = [name for name in row["flags"].split(", ") if name in UNSAID_FLAGS]
        chips = [kind_chip(f"{control} control" if control else row["kind"])]
        chips += [flag_chip(name, FLAGS[name]) for name in flags]
        name = Markup("<bdi>{}</bdi> {}").format(one.model, Markup(" ").join(chips))
        lines.append((name, one.depends, one.beyond, one.truncation, one.size))
        p = row["p_control_adjusted"] if row["test"] == "within" else None
        is_beyond = one.finding == "depends" and p is not None and p <= ALPHA
        looks.append(f"{one.finding}{' beyond' if is_beyond else ''}")
    table = Table(
        f"Answers for {info.id}",
        ("Model", *QUESTIONS),
        tuple(lines),
        n_names=1,
        prose=range(1, 5),
        looks=tuple(looks),
        css="answers",
    )
    return info, rows[0]["buckets"], table, drop_figure(shown, info, styles, controls)


def _main_rows(lead: pl.DataFrame, info: BenchmarkInfo) -> pl.DataFrame:
    """Return a benchmark's leading PSI rows of its main bucket scheme, in page order."""
    return lead.filter(benchmark=info.id, buckets=main_scheme(lead, info) or "")


def drop_figure(
    rows: Sequence[Row],
    info: BenchmarkInfo,
    styles: Mapping[str, LineStyle],
    controls: Mapping[str, str | None],
) -> FigureView | None:
    """Return how much worse late evidence is found than early, a row per model.

    ``rows`` are PSI rows over all evidence, in the order shown; those at the floor go last. None
    where no row has a drop.
    """
    known = [
        {
            **row,
            "name": short_name(row["model"]) + (" (control)" if controls[row["model"]] else ""),
            "style": styles[row["model"]],
            "plain": row["psi_same"] is None or has_flag(row, "between_documents"),
            "faint": has_flag(row, "at_floor"),
        }
        for row in rows
        if row["drop"] is not None
    ]
    if not known:
        return None
    known.sort(key=lambda row: row["faint"])
    said = "1 − last / first bucket at equal documents, with its interval."
    if any(row["plain"] for row in known):
        said += " Open markers: of plain means, which mix position with document."
    if any(row["faint"] for row in known):
        said += " Pale: finds next to nothing."
    anchor = slug("drop", info.id)
    return figure_of(draw_drops(known), anchor, "Late against early evidence", said)


# --- controls, truncation or neglect

VISIBLE_NOTE = (
    "Effect of truncation: change of the score where the evidence lay beyond the input, at equal "
    "document and position; a dash where no document tells. Right: the same test and PSI as on "
    "top, over the queries whose evidence the model was given (evidence: visible)."
)
WINDOWS_NOTE = (
    "Each query is scored under both. Gain: what the longer input adds to the mean score on the "
    "queries whose evidence only it holds, which is what truncation costs the shorter one there; "
    "and on the queries whose document the shorter input holds whole, where it should be near 0."
)
AGAINST_NOTE = (
    "Hit scale: each query's score as a share of the model's mean; miss scale: what is missing to "
    "1 as a share of the mean missing. The adjusted p is of the larger p of the two, and of 1 "
    "where they point in opposite directions."
)
FIRST_STAGE_NOTE = (
    "A reranker orders what its first stage found: where that misses the relevant document, no "
    "reranker can bring it back, so that a first stage which misses late evidence makes a reranker "
    "look position-sensitive. Recall at a reranker's depth is its first stage's."
)


def control_tables(
    lead: pl.DataFrame, controls: Mapping[str, str | None]
) -> dict[str, Table | None]:
    """Return each control's rows over all queries with what they say; None if it was not run."""
    found: dict[str, Table | None] = {}
    for control in ("position-blind", "truncating"):
        names = [name for name, its in controls.items() if its == control]
        rows = pl.concat(
            [lead.clear(), *(lead.filter(evidence="all", model=name) for name in names)]
        )
        readings = [control_reading(row, control) for row in rows.iter_rows(named=True)]
        shown: Columns = {
            "Benchmark": pl.format("{}\n{}", "benchmark", "model"),
            "Buckets": "buckets",
            "PSI at equal documents": with_ends("psi_same"),
            "Adjusted p": "p_adjusted",
            "Drop": "drop",
            "Given": "seen",
            "Reading": pl.Series(readings, dtype=pl.String),
        }
        forms: dict[str, Form] = {"Adjusted p": p_value, "Given": percent}
        table = table_of(f"The {control} control", rows, shown, forms=forms, prose=(6,))
        found[control] = table if readings else None
    return found


def first_stages(
    rows: pl.DataFrame,
    benchmarks: Sequence[BenchmarkInfo],
    models: Sequence[ModelInfo],
    *,
    metric: str,
) -> list[tuple[BenchmarkInfo, Table]]:
    """Return what each reranker was given by position beside its scores.

    ``rows`` are the leading BUCKET_SCORES rows of all metrics. A reranker of ``depth`` K has a row
    of recall@K, where ``psi_metrics`` names it; other models have none.
    """
    found = []
    for info in benchmarks:
        mine = rows.filter(benchmark=info.id, evidence="all")
        scheme = main_scheme(mine, info) or ""
        mine = mine.filter(buckets=scheme)
        labels = bucket_axis(mine, scheme).labels
        lines = []
        for model in models:
            recall = f"recall@{model.depth}"
            if mine.filter(model=model.id, metric=recall).is_empty():
                continue
            for name, said in ((recall, f"first stage, {recall}"), (metric, f"reranked, {metric}")):
                own = mine.filter(model=model.id, metric=name).select("bucket", "mean")
                of = dict(own.iter_rows())
                lines.append((model.id, said, *(number(of.get(label)) for label in labels)))
        if lines:
            header = ("reranker", "", *labels)
            table = Table(f"{info.id}: first stages", header, tuple(lines), note=FIRST_STAGE_NOTE)
            found.append((info, table))
    return found


def against_control(
    comparisons: pl.DataFrame, lead: pl.DataFrame, benchmarks: Sequence[BenchmarkInfo]
) -> list[tuple[BenchmarkInfo, Table]]:
    """Return the models of each benchmark beside its position-blind control, on all queries."""
    found = []
    psi, p = "PSI at equal documents, noise taken out", "p of unlike profiles"
    for info in benchmarks:
        rows = _compared(comparisons, lead, info, relation="control")
        if rows.is_empty():
            continue
        shown: Columns = {
            "model": "model",
            "mean|own": "mean",
            "mean|control": "other_mean",
            f"{psi}|own": "psi_same",
            f"{psi}|control": "other_psi_same",
            f"{psi}|difference": with_ends("psi_difference"),
            f"{p}|hit scale": "p_hit",
            f"{p}|miss scale": "p_miss",
            f"{p}|adjusted": "p_control_adjusted",
        }
        forms: dict[str, Form] = {name: p_value for name in shown if name.startswith(p)}
        title = f"{info.id}: the others against {rows['other'][0]}"
        table = table_of(title, rows, shown, forms=forms, n_names=1, note=AGAINST_NOTE)
        found.append((info, table))
    return found


def visibility(
    lead: pl.DataFrame, comparisons: pl.DataFrame, benchmarks: Sequence[BenchmarkInfo]
) -> list[tuple[BenchmarkInfo, str, list[Table]]]:
    """Return benchmark, bucket scheme and tables of what models were given and made of it."""
    found = []
    for info in benchmarks:
        rows = _main_rows(lead, info)
        given = rows.filter(evidence="all").join(
            rows.filter(evidence="visible"), on="model", suffix="_given", maintain_order="left"
        )
        compared = _compared(comparisons, lead, info, relation="shorter_input")
        tables = [_given_table(given)] if given.height else []
        tables += [_windows_table(compared)] if compared.height else []
        if tables:
            found.append((info, str(rows["buckets"][0]), tables))
    return found


def _given_table(given: pl.DataFrame) -> Table:
    tested = given.select("p_adjusted_given", "test_given").iter_rows()
    p = [p_value(p) + "\nbetween documents" * (test == "between") for p, test in tested]
    same = pl.struct("psi_same_given", "psi_same_low_given", "psi_same_high_given")
    every, own = "all evidence", "evidence it was given"
    shown: Columns = {
        "model": "model",
        f"{every}|given": "seen",
        f"{every}|effect of truncation": with_ends("truncation"),
        f"{every}|p": "p_truncation",
        f"{own}|queries": "n_queries_given",
        f"{own}|PSI at equal documents": same,
        f"{own}|adjusted p": pl.Series(p),
        f"{own}|p against control": "p_control_adjusted_given",
    }
    forms: dict[str, Form] = {f"{every}|given": percent, f"{every}|p": p_value}
    forms[f"{own}|p against control"] = p_value
    title = "What models were given, and position in it"
    return table_of(title, given, shown, forms=forms, n_names=1, note=VISIBLE_NOTE)


def _windows_table(compared: pl.DataFrame) -> Table:
    shown: Columns = {
        "longer input": "model",
        "shorter input": "other",
        "queries cut": "n_cut",
        "gain on them": with_ends("cut_gain"),
        "p": "p_cut_gain",
        "gain where nothing is cut": with_ends("uncut_gain"),
    }
    title = "One model with two lengths of input"
    return table_of(title, compared, shown, forms={"p": p_value}, note=WINDOWS_NOTE)


def _compared(
    comparisons: pl.DataFrame, lead: pl.DataFrame, info: BenchmarkInfo, *, relation: str
) -> pl.DataFrame:
    """Return the comparisons of a benchmark's leading slice, in the order of its models."""
    same = ["model", "benchmark", "query_lang", "corpus_lang", "domain", "metric", "buckets"]
    own = _main_rows(lead, info).filter(evidence="all", length_bucket=POOLED)
    return own.select(*same, "evidence", "p_control_adjusted").join(
        comparisons.filter(relation=relation),
        on=[*same, "evidence"],
        maintain_order="left_right",
    )


# --- curves by position

MAX_OVERLAID = 6
SUBSET_STYLES = {"full": LineStyle(SERIES[0], "o"), "tiny": LineStyle(SERIES[1])}


def bucket_axis(table: pl.DataFrame, scheme: str) -> Axis:
    """Return the buckets of a scheme in order, with bounds and a name for the axis."""
    columns = ("bucket", "bucket_low", "bucket_high")
    ordered = table.select(columns).unique().sort("bucket_low", "bucket_high", "bucket")
    buckets = {name: (low, high) for name, low, high in reversed(ordered.rows())}
    labels = tuple(dict.fromkeys(ordered["bucket"]))
    texts = {"squad": "start of the evidence, characters", "relative-20": "relative position"}
    text = texts.get(scheme, SCHEME_TEXTS.get(scheme, scheme))
    return Axis(labels, tuple(buckets[name] for name in labels), text)


def plain_lines(table: pl.DataFrame, by: str) -> pl.DataFrame:
    """Return bucket means as the lines of a plot, one per value of a column."""
    return table.select("bucket", "mean", "low", "high", line=by)


def lines_at_equal_documents(table: pl.DataFrame) -> pl.DataFrame:
    """Return a line per model: at equal documents where that is told, else of plain means.

    ``plain`` has the plain means beside means at equal documents, null elsewhere.
    """
    is_told = pl.col("same_mean").is_not_null().any().over("model")
    chosen = {
        name: pl.when(is_told).then(f"same_{name}").otherwise(name)
        for name in ("mean", "low", "high")
    }
    return table.select("bucket", line="model", plain=pl.when(is_told).then("mean"), **chosen)


def of_lines(styles: Mapping[str, LineStyle], lines: pl.DataFrame) -> dict[str, LineStyle]:
    """Return the styles of those lines that there are, in the order of the styles."""
    there = set(lines["line"])
    return {name: style for name, style in styles.items() if name in there}


def small_multiples(
    lines: pl.DataFrame,
    axis: Axis,
    styles: Mapping[str, LineStyle],
    *,
    anchor: str,
    metric: str,
    told: Mapping[str, str],
    notes: Mapping[str, str] | None = None,
) -> tuple[Panel, ...]:
    """Return a panel per line in front of the others; ``told``: name -> its description."""
    limit = y_limit(lines)
    panels = []
    for i, name in enumerate(styles):
        drawn = draw_curves(
            lines, axis, styles, y_text=metric, size=SMALL, limit=limit, in_front=name
        )
        note = (notes or {}).get(name, "")
        panels.append(panel(drawn, f"{anchor}-{i}", name, told[name], name=name, note=note))
    return tuple(panels)


def curve_figures(
    rows: pl.DataFrame, info: BenchmarkInfo, *, styles: Mapping[str, LineStyle], metric: str
) -> list[FigureView]:
    """Return one figure of means by position per bucket scheme of a benchmark.

    ``rows`` are the leading rows of ``bucket_scores`` (one slice per benchmark, one metric);
    only ``evidence = all`` is drawn. A benchmark without such rows has no figure.
    """
    mine = rows.filter(benchmark=info.id, evidence="all")
    figures = []
    for scheme in schemes_of(mine, info.id):
        table = mine.filter(buckets=scheme)
        axis, lines = bucket_axis(table, scheme), lines_at_equal_documents(table)
        own = of_lines(styles, lines)
        anchor, text = slug("curves", info.id, scheme), f"{metric} by {axis.text}"
        is_overlaid = len(own) <= MAX_OVERLAID
        if is_overlaid:
            told = f"{text}, one line per model: {', '.join(own)}."
            drawn = draw_curves(lines, axis, own, y_text=metric)
            panels: tuple[Panel, ...] = (panel(drawn, anchor, text, told),)
        else:
            each = {name: f"{text} for {name}; the other models are faint lines." for name in own}
            panels = small_multiples(lines, axis, own, anchor=anchor, metric=metric, told=each)
        title = SCHEME_TEXTS.get(scheme, scheme)
        caption = _curve_caption(lines, list(own), table.row(0, named=True))
        legend = own if is_overlaid else {}
        figures.append(FigureView(anchor, title, caption, panels, legend))
    return figures


def _curve_caption(lines: pl.DataFrame, names: Sequence[str], row: Row) -> str:
    """Say which means are drawn, and of which slice of the benchmark."""
    plain = [name for name in names if not lines.filter(line=name)["plain"].count()]
    said = "Plain means with their intervals; at equal documents they cannot be told."
    if len(plain) < len(names):
        said = "Means at equal documents with their intervals; thin and dashed: plain means."
        said += f" Plain means alone: {', '.join(plain)}." if plain else ""
    pair = pair_text(row["query_lang"], row["corpus_lang"])
    parts = {"languages": pair, "domain": row["domain"], "length": row["length_bucket"]}
    shown = "; ".join(f"{name} {value}" for name, value in parts.items() if value != POOLED)
    return f"{said} Shown: {shown}." if shown else said


def full_and_tiny_figure(
    rows: pl.DataFrame,
    benchmarks: Sequence[BenchmarkInfo],
    *,
    styles: Mapping[str, LineStyle],
    metric: str,
) -> FigureView | None:
    """Return the full SQuAD-PosQ beside its tiny subset (PosQ, figure 3); None unless both exist.

    One panel per model that both have.
    """
    ids = {info.subset: info.id for info in reversed(benchmarks) if info.recipe == "squad_posq"}
    if not SUBSET_STYLES.keys() <= ids.keys():
        return None
    names = {ids[subset]: subset for subset in SUBSET_STYLES}
    mine = rows.filter(pl.col("benchmark").is_in(list(names)), evidence="all", buckets="squad")
    both = mine.filter(pl.col("benchmark").n_unique().over("model") == len(names))
    if both.is_empty():
        return None
    axis = bucket_axis(mine, "squad")
    lines = plain_lines(both, "benchmark").with_columns(pl.col("line").replace(names))
    panels = []
    for i, name in enumerate(of_lines(styles, both.select(line="model"))):
        own = lines.filter(both["model"] == name)
        text = f"{metric} by position for {name}: full beside tiny."
        drawn = draw_curves(
            own, axis, SUBSET_STYLES, y_text=metric, size=SMALL, limit=y_limit(lines)
        )
        panels.append(panel(drawn, f"full-tiny-{i}", name, text, name=name))
    said = f"{ids['full']} beside {ids['tiny']}; plain means by {axis.text}."
    return FigureView("full-tiny", "full against tiny", said, tuple(panels), SUBSET_STYLES)
