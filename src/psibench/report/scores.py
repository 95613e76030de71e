"""What models score by position: answers, the PSI table, controls, truncation, curves.

The page of ``psibench score --report`` is this alone (`render_scores`).
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import polars as pl
import polars.selectors as cs
from markupsafe import Markup

from psibench.metrics.psi import FLAGS
from psibench.report.plots import (
    NAN,
    SERIES,
    SMALL,
    Axis,
    Line,
    LineStyle,
    draw_curves,
    draw_drops,
    draw_pair,
    model_styles,
    short_name,
    y_limit,
)
from psibench.report.tables import (
    TEMPLATES,
    FigureView,
    Panel,
    Table,
    each,
    flag_chip,
    kind_chip,
    render_page,
    slug,
    text_rows,
)
from psibench.report.verdict import (
    finding_of,
    has_flag,
    place,
    undefined_text,
    verdict,
    verdicts,
)
from psibench.report.views import (
    PAIR,
    SCHEME_ORDER,
    BenchmarkInfo,
    Headline,
    ModelInfo,
    Row,
    headline_metric,
    headlines,
    main_scheme,
    schemes_of,
    with_headline,
)
from psibench.report.wording import (
    ALPHA,
    MISSING,
    SCHEME_TEXTS,
    count,
    estimate,
    number,
    p_value,
    pair_text,
    percent,
    with_interval,
)
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
    by_id = {model.id: model for model in models}
    styles = model_styles({model.id: model.control for model in models})
    metric = headline_metric(inputs.psi_table)
    bucket_scores = inputs.bucket_scores.filter(metric=metric)
    leading = headlines(inputs.psi_table, inputs.language_order)
    every = with_headline(
        inputs.bucket_scores, headlines(bucket_scores, inputs.language_order) | leading
    ).filter(pl.col("headline"))
    rows = every.filter(metric=metric)
    marked = fitting(with_headline(inputs.psi_table, leading))
    table = prepared(marked, by_id, benchmarks=[info.id for info in benchmarks])
    lead = table.filter(pl.col("headline"), metric=metric)
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
        "answers": answers(lead, benchmarks, by_id, styles=styles),
        "leading_pairs": _leading_pairs(inputs.psi_table, leading),
        "n_left_out": inputs.psi_table.height - table.height,
        **psi_context(table, lead, metric),
        "curves": [(info, figures) for info, figures in curves if figures],
        "comparison": full_and_tiny_figure(rows, benchmarks, styles=styles, metric=metric),
        "controls": control_tables(lead, models),
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


def _leading_pairs(psi_table: pl.DataFrame, leading: Mapping[str, Headline]) -> dict[str, str]:
    """Return the language pair that the page leads with, of benchmarks that have several."""
    n_pairs = dict(psi_table.group_by("benchmark").agg(PAIR.n_unique()).iter_rows())
    return {
        name: pair_text(line["query_lang"], line["corpus_lang"])
        for name, line in leading.items()
        if n_pairs[name] > 1
    }


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
    psi_table: pl.DataFrame, models: Mapping[str, ModelInfo], *, benchmarks: Sequence[str]
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
        if models[row["model"]].control is not None:
            row["kind"] = "control"
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
    benchmarks: Sequence[BenchmarkInfo],
    models: Mapping[str, ModelInfo],
    *,
    styles: Mapping[str, LineStyle],
) -> list[tuple[BenchmarkInfo, str, Table | None, FigureView | None]]:
    """Return benchmark, bucket scheme, the verdicts on its models, and late against early.

    ``lead`` are the leading PSI rows of one metric.
    """
    controls = {name: model.control for name, model in models.items() if model.control}
    found = []
    for info in benchmarks:
        scheme, rows = _main_rows(lead, info)
        by_model = {row["model"]: row for row in rows if row["evidence"] == "all"}
        said = verdicts(rows, controls=controls)
        lines, looks = [], []
        for one in said:
            row, control = by_model[one.model], controls.get(one.model)
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
        figure = drop_figure([by_model[one.model] for one in said], info, styles, controls)
        found.append((info, scheme or "", table if said else None, figure))
    return found


def _main_rows(lead: pl.DataFrame, info: BenchmarkInfo) -> tuple[str | None, list[dict[str, Any]]]:
    """Return a benchmark's main bucket scheme and its leading PSI rows of that, in page order."""
    scheme = main_scheme(lead, info)
    return scheme, lead.filter(benchmark=info.id, buckets=scheme).to_dicts() if scheme else []


def drop_figure(
    rows: Sequence[Row],
    info: BenchmarkInfo,
    styles: Mapping[str, LineStyle],
    controls: Mapping[str, Any],
) -> FigureView | None:
    """Return how much worse late evidence is found than early, a row per model.

    ``rows`` are PSI rows over all evidence, in the order shown; those at the floor go last.
    ``controls`` are the models marked as such. None where no row has a drop.
    """
    known = [row for row in rows if row["drop"] is not None]
    known.sort(key=lambda row: has_flag(row, "at_floor"))
    if not known:
        return None
    names = [short_name(row["model"]) for row in known]
    names = [
        f"{n} (control)" if r["model"] in controls else n for n, r in zip(names, known, strict=True)
    ]
    plain = [row["psi_same"] is None or has_flag(row, "between_documents") for row in known]
    faint = [has_flag(row, "at_floor") for row in known]
    said = "1 − last / first bucket at equal documents, with its interval."
    if any(plain):
        said += " Open markers: of plain means, which mix position with document."
    if any(faint):
        said += " Pale: finds next to nothing."
    drawn = draw_drops(
        [{**row, "name": name} for row, name in zip(known, names, strict=True)],
        [styles[row["model"]] for row in known],
        plain=plain,
        faint=faint,
    )
    return FigureView.drawn(
        drawn,
        slug("drop", info.id),
        "Late against early evidence",
        said,
        header=("model", "drop"),
        rows=text_rows(known, "model", partial(with_interval, name="drop", separator=" ")),
    )


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


def control_tables(lead: pl.DataFrame, models: Sequence[ModelInfo]) -> dict[str, Table | None]:
    """Return each control's rows over all queries with what they say; None if it was not run."""
    rows = lead.filter(pl.col("evidence") == "all").to_dicts()
    found: dict[str, Table | None] = {}
    for control in ("position-blind", "truncating"):
        own = [model.id for model in models if model.control == control]
        mine = text_rows(
            [row for name in own for row in rows if row["model"] == name],
            lambda row: f"{row['benchmark']}\n{row['model']}",
            "buckets",
            partial(with_interval, name="psi_same"),
            *each(p_value, "p_adjusted"),
            *each(number, "drop"),
            *each(percent, "seen"),
            partial(control_reading, control=control),
        )
        header = ("Benchmark", "Buckets", "PSI at equal documents", "Adjusted p", "Drop", "Given")
        title = f"The {control} control"
        found[control] = Table(title, (*header, "Reading"), mine, prose=(6,)) if mine else None
    return found


def control_reading(row: Row, control: str) -> str:
    """Return what a control's PSI row says about its benchmark."""
    if control == "position-blind":
        said = verdict(row, control=control)
        return f"{said.depends} {said.beyond}".strip()
    finding = finding_of(row)
    if finding in ("undefined", "floor", "untested"):
        return verdict(row, control=control).depends
    if row["seen"] is not None and row["seen"] >= 1.0:
        return "It was given all evidence: documents are too short here to cut anything."
    if finding == "none":
        return (
            "No effect of what it is known to do: an effect as large of another model could be "
            "missed here, too."
        )
    if row["drop_low"] is not None and row["drop_low"] > 0:
        return "Late evidence is found worse, as it must be."
    return (
        "An effect, but not of late evidence found worse: look closer before reading other models."
    )


FIRST_STAGE_NOTE = (
    "A reranker orders what its first stage found: where that misses the relevant document, no "
    "reranker can bring it back, so that a first stage which misses late evidence makes a reranker "
    "look position-sensitive. Recall at a reranker's depth is its first stage's."
)


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
        scheme = main_scheme(mine, info)
        if scheme is None:
            continue
        mine = mine.filter(buckets=scheme)
        axis = bucket_axis(mine, scheme)
        lines = []
        for model in models:
            recall = f"recall@{model.depth}"
            of = {
                (name, bucket): mean
                for name, bucket, mean in mine.filter(model=model.id)
                .select("metric", "bucket", "mean")
                .iter_rows()
            }
            if not any(name == recall for name, _ in of):
                continue
            for name, said in ((recall, f"first stage, {recall}"), (metric, f"reranked, {metric}")):
                lines.append((model.id, said, *(number(of.get((name, b))) for b in axis.labels)))
        if lines:
            header = ("reranker", "", *axis.labels)
            table = Table(f"{info.id}: first stages", header, tuple(lines), note=FIRST_STAGE_NOTE)
            found.append((info, table))
    return found


def against_control(
    comparisons: pl.DataFrame, lead: pl.DataFrame, benchmarks: Sequence[BenchmarkInfo]
) -> list[tuple[BenchmarkInfo, Table]]:
    """Return the models of each benchmark beside its position-blind control, on all queries."""
    found = []
    for info in benchmarks:
        own, compared = _compared(comparisons, lead, info, relation="control")
        if not compared:
            continue
        rows = text_rows(
            [row | {"adjusted": own[row["model"]]["p_control_adjusted"]} for row in compared],
            "model",
            *each(number, "mean", "other_mean", "psi_same", "other_psi_same"),
            partial(with_interval, name="psi_difference"),
            *each(p_value, "p_hit", "p_miss", "adjusted"),
        )
        header = ("model", *("own", "control") * 2, "difference", "hit scale", "miss scale")
        psi = "PSI at equal documents, noise taken out"
        groups = (("", 1), ("mean", 2), (psi, 3), ("p of unlike profiles", 3))
        title = f"{info.id}: the others against {compared[0]['other']}"
        found.append((info, Table(title, (*header, "adjusted"), rows, 1, groups, AGAINST_NOTE)))
    return found


def visibility(
    lead: pl.DataFrame, comparisons: pl.DataFrame, benchmarks: Sequence[BenchmarkInfo]
) -> list[tuple[BenchmarkInfo, str, list[Table]]]:
    """Return benchmark, bucket scheme and tables of what models were given and made of it."""
    found = []
    for info in benchmarks:
        scheme, rows = _main_rows(lead, info)
        visible = {row["model"]: row for row in rows if row["evidence"] == "visible"}
        given = [row for row in rows if row["evidence"] == "all" and row["model"] in visible]
        tables = [_given_table(sorted(given, key=place), visible)] if given else []
        _, compared = _compared(comparisons, lead, info, relation="shorter_input")
        tables += [_windows_table(compared)] if compared else []
        if tables:
            found.append((info, str(scheme), tables))
    return found


def _given_table(given: Sequence[Row], visible: Mapping[str, Row]) -> Table:
    between = "\nbetween documents"
    all_evidence = text_rows(
        given,
        "model",
        *each(percent, "seen"),
        partial(with_interval, name="truncation"),
        *each(p_value, "p_truncation"),
    )
    on_given = text_rows(
        [visible[row["model"]] for row in given],
        *each(count, "n_queries"),
        partial(with_interval, name="psi_same"),
        lambda row: p_value(row["p_adjusted"]) + (between if row["test"] == "between" else ""),
        *each(p_value, "p_control_adjusted"),
    )
    header = ("model", "given", "effect of truncation", "p", "queries", "PSI at equal documents")
    return Table(
        "What models were given, and position in it",
        (*header, "adjusted p", "p against control"),
        tuple((*one, *other) for one, other in zip(all_evidence, on_given, strict=True)),
        n_names=1,
        groups=(("", 1), ("all evidence", 3), ("evidence it was given", 4)),
        note=VISIBLE_NOTE,
    )


def _windows_table(compared: Sequence[Row]) -> Table:
    rows = text_rows(
        compared,
        *("model", "other"),
        lambda row: MISSING if row["n_cut"] is None else count(row["n_cut"]),
        partial(with_interval, name="cut_gain"),
        *each(p_value, "p_cut_gain"),
        partial(with_interval, name="uncut_gain"),
    )
    header = ("longer input", "shorter input", "queries cut", "gain on them", "p")
    title = "One model with two lengths of input"
    return Table(title, (*header, "gain where nothing is cut"), rows, note=WINDOWS_NOTE)


def _compared(
    comparisons: pl.DataFrame, lead: pl.DataFrame, info: BenchmarkInfo, *, relation: str
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Return the leading rows by model, and comparisons of the same slice in their order."""
    own = {row["model"]: row for row in _main_rows(lead, info)[1] if row["evidence"] == "all"}
    first = next(iter(own.values()), None)
    if first is None or first["length_bucket"] != POOLED:
        return own, []
    same = ("benchmark", "query_lang", "corpus_lang", "domain", "metric", "buckets", "evidence")
    mine = comparisons.filter(relation=relation, **{name: first[name] for name in same})
    rows = [row for row in mine.iter_rows(named=True) if row["model"] in own]
    return own, sorted(rows, key=lambda row: place(own[row["model"]]))


# --- curves by position

MAX_OVERLAID = 6
BAR_STYLES = (LineStyle(SERIES[0]), LineStyle(SERIES[4]))


def bucket_axis(table: pl.DataFrame, scheme: str) -> Axis:
    """Return the buckets of a scheme in order, with bounds and a name for the axis."""
    columns = ("bucket", "bucket_low", "bucket_high")
    ordered = table.select(columns).unique().sort("bucket_low", "bucket_high", "bucket")
    buckets = {name: (low, high) for name, low, high in reversed(ordered.rows())}
    labels = tuple(dict.fromkeys(ordered["bucket"]))
    texts = {"squad": "start of the evidence, characters", "relative-20": "relative position"}
    text = texts.get(scheme, SCHEME_TEXTS.get(scheme, scheme))
    return Axis(labels, tuple(buckets[name] for name in labels), text)


def curve(rows: Mapping[str, Row], axis: Axis, style: LineStyle, *, at_equal: bool = False) -> Line:
    """Return the means of a model; ``rows``: bucket -> BUCKET_SCORES row, NaN where it has none.

    At equal documents where asked for and told of the model, with the plain means beside them.
    """

    def values(name: str) -> tuple[float, ...]:
        found = [rows[bucket][name] if bucket in rows else None for bucket in axis.labels]
        return tuple(NAN if value is None else value for value in found)

    plain, same = values("mean"), values("same_mean")
    if at_equal and any(value == value for value in same):
        return Line(same, values("same_low"), values("same_high"), style, plain)
    return Line(plain, values("low"), values("high"), style)


def curves_by(
    name: str,
    table: pl.DataFrame,
    axis: Axis,
    styles: Mapping[str, LineStyle],
    *,
    at_equal: bool = False,
) -> dict[str, Line]:
    """Return the `curve` of each value of a column, in the order of the styles."""
    found: dict[str, dict[str, Row]] = {}
    for row in table.iter_rows(named=True):
        found.setdefault(row[name], {})[row["bucket"]] = row
    return {
        one: curve(found[one], axis, style, at_equal=at_equal)
        for one, style in styles.items()
        if one in found
    }


def curve_numbers(lines: Mapping[str, Line]) -> tuple[tuple[str, ...], ...]:
    """Return the numbers behind the lines as text, one row per line and kind of mean."""
    rows = []
    for name, line in lines.items():
        rows.append((name, *map(estimate, line.mean, line.low, line.high)))
        if line.plain:
            rows.append((f"{name}, plain", *map(number, line.plain)))
    return tuple(rows)


def small_multiples(
    lines: Mapping[str, Line], axis: Axis, *, anchor: str, metric: str, told: Mapping[str, str]
) -> tuple[Panel, ...]:
    """Return a panel per line in front of the others; ``told``: name -> its description."""
    limit = y_limit(list(lines.values()))
    panels = []
    for i, (name, line) in enumerate(lines.items()):
        others = [other for other in lines.values() if other is not line]
        drawn = draw_curves([line], axis, y_text=metric, size=SMALL, limit=limit, behind=others)
        panels.append(Panel.drawn(drawn, f"{anchor}-{i}", name, told[name], name=name))
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
        axis = bucket_axis(table, scheme)
        lines = curves_by("model", table, axis, styles, at_equal=True)
        anchor, text = slug("curves", info.id, scheme), f"{metric} by {axis.text}"
        is_overlaid = len(lines) <= MAX_OVERLAID
        if is_overlaid:
            told = f"{text}, one line per model: {', '.join(lines)}."
            drawn = draw_curves(list(lines.values()), axis, y_text=metric)
            panels: tuple[Panel, ...] = (Panel.drawn(drawn, anchor, text, told),)
        else:
            each = {name: f"{text} for {name}; the other models are faint lines." for name in lines}
            panels = small_multiples(lines, axis, anchor=anchor, metric=metric, told=each)
        sizes = dict(table.group_by("bucket").agg(pl.col("n_queries").max()).iter_rows())
        counts = (count(sizes[name]) if name in sizes else MISSING for name in axis.labels)
        figures.append(
            FigureView(
                anchor,
                title=SCHEME_TEXTS.get(scheme, scheme),
                caption=_curve_caption(lines, table.row(0, named=True)),
                panels=panels,
                legend=tuple((name, styles[name]) for name in lines) if is_overlaid else (),
                header=("model", *axis.labels),
                rows=(("queries", *counts), *curve_numbers(lines)),
            )
        )
    return figures


def _curve_caption(lines: Mapping[str, Line], row: Row) -> str:
    """Say which means are drawn, and of which slice of the benchmark."""
    plain = [name for name, line in lines.items() if not line.plain]
    said = "Plain means with their intervals; at equal documents they cannot be told."
    if len(plain) < len(lines):
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
    """Return the figure of the full SQuAD-PosQ against its tiny subset; None unless both exist."""
    mine = rows.filter(evidence="all", buckets="squad")
    present = set(mine["benchmark"])
    squads = [b for b in benchmarks if b.recipe.lower() == "squad_posq" and b.id in present]
    by_subset = {info.subset.lower(): info for info in reversed(squads)}
    others = [info for info in squads if info.subset != squads[0].subset]
    if {"full", "tiny"} <= by_subset.keys():
        pair = (by_subset["full"], by_subset["tiny"])
    elif others:
        pair = (squads[0], others[0])
    else:
        return None
    axis = bucket_axis(mine.filter(pl.col("benchmark").is_in([info.id for info in pair])), "squad")
    one, two = (curves_by("model", mine.filter(benchmark=info.id), axis, styles) for info in pair)
    common = {name: (one[name], two[name]) for name in one if name in two}
    if not common:
        return None
    names = [info.subset or info.id for info in pair]
    limit = y_limit([line for lines in common.values() for line in lines])
    panels = []
    for i, (name, lines) in enumerate(common.items()):
        text = f"{metric} by position for {name}: {names[0]} beside {names[1]}."
        bars = [Line(a.mean, a.low, a.high, b) for a, b in zip(lines, BAR_STYLES, strict=True)]
        drawn = draw_pair((bars[0], bars[1]), axis, limit=limit, y_text=metric)
        panels.append(Panel.drawn(drawn, f"full-tiny-{i}", name, text, name=name))
    numbers = [
        row
        for name, lines in common.items()
        for side, line in zip(names, lines, strict=True)
        for row in curve_numbers({f"{name} · {side}": line})
    ]
    return FigureView(
        "full-tiny",
        title=f"{names[0]} against {names[1]}",
        caption=f"{pair[0].id} beside {pair[1].id}; plain means by {axis.text}.",
        panels=tuple(panels),
        legend=tuple(zip(names, BAR_STYLES, strict=True)),
        header=("model", *axis.labels),
        rows=tuple(numbers),
    )
