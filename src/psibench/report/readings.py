"""What the leading PSI rows say: the answers on top, controls, truncation or neglect."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from psibench.metrics.aggregate import POOLED
from psibench.report import psi_rows
from psibench.report.inputs import BenchmarkInfo, ModelInfo
from psibench.report.panels import FigureView, drop_figure
from psibench.report.plain import Table
from psibench.report.styles import LineStyle
from psibench.report.verdict import (
    Row,
    Verdict,
    finding_of,
    place,
    undefined_text,
    verdict,
    verdicts,
)
from psibench.report.views import main_scheme, schemes_of
from psibench.report.wording import ALPHA, MISSING, count, interval, number, p_value, percent

UNSAID_FLAGS = ("filter_panel", "small_buckets", "at_ceiling")
"""Flags that the verdict's sentences do not put in words."""

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


@dataclass(frozen=True)
class Answer:
    """What is said of one model on one benchmark.

    ``kind`` is shown beside its name; ``flags`` are those that no sentence puts in words;
    ``is_beyond``: position-sensitive, within documents, beyond the position-blind control.
    """

    verdict: Verdict
    kind: str
    flags: tuple[str, ...]
    is_beyond: bool


@dataclass(frozen=True)
class Answers:
    """The verdicts on the models of one benchmark, in their order, and late against early."""

    benchmark: BenchmarkInfo
    scheme: str
    lines: tuple[Answer, ...]
    figure: FigureView | None


def answers(
    lead: pl.DataFrame,
    benchmarks: Sequence[BenchmarkInfo],
    models: Mapping[str, ModelInfo],
    *,
    styles: Mapping[str, LineStyle],
) -> list[Answers]:
    """Return what is said of every benchmark; ``lead`` are the leading PSI rows of one metric."""
    found = []
    for info in benchmarks:
        scheme = main_scheme(schemes_of(lead, info.id), info.recipe)
        rows = _rows(lead, info.id, scheme)
        controls = {name: model.control for name, model in models.items() if model.control}
        said = verdicts(rows, controls=controls)
        by_model = {row["model"]: row for row in rows if row["evidence"] == "all"}
        lines = tuple(_answer(one, by_model[one.model], controls.get(one.model)) for one in said)
        ordered = [by_model[one.model] for one in said]
        figure = drop_figure(ordered, info, styles=styles, controls=controls)
        found.append(Answers(info, scheme or "", lines, figure))
    return found


def _answer(said: Verdict, row: Row, control: str | None) -> Answer:
    flags = tuple(name for name in row["flags"].split(", ") if name in UNSAID_FLAGS)
    p = row["p_control_adjusted"] if row["test"] == "within" else None
    return Answer(
        said,
        kind=f"{control} control" if control else row["kind"],
        flags=flags,
        is_beyond=said.finding == "depends" and p is not None and p <= ALPHA,
    )


def _rows(lead: pl.DataFrame, benchmark: str, scheme: str | None) -> list[dict[str, Any]]:
    if scheme is None:
        return []
    return lead.filter(benchmark=benchmark, buckets=scheme).to_dicts()


def controls(lead: pl.DataFrame, models: Sequence[ModelInfo]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each control over all queries, with what they say."""
    rows = lead.filter(pl.col("evidence") == "all").to_dicts()
    end = psi_rows.scale_end(lead)
    found: dict[str, list[dict[str, Any]]] = {"position-blind": [], "truncating": []}
    for model in models:
        for row in (row for row in rows if row["model"] == model.id and model.control):
            reading = control_reading(row, str(model.control))
            cells = psi_rows.cells(row, end=end)
            found[str(model.control)].append({**cells, "reading": reading})
    return found


def control_reading(row: Row, control: str) -> str:
    """Return what a control's PSI row says about its benchmark."""
    if control == "position-blind":
        said = verdict(row, visible=None, control=control)
        return f"{said.depends} {said.beyond}".strip()
    finding = finding_of(row)
    if finding == "undefined":
        return undefined_text(row)
    if finding in ("floor", "untested"):
        return verdict(row, visible=None, control=control).depends
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


def against_control(
    comparisons: pl.DataFrame, lead: pl.DataFrame, benchmarks: Sequence[BenchmarkInfo]
) -> list[tuple[BenchmarkInfo, Table]]:
    """Return the models of each benchmark beside its position-blind control, on all queries."""
    found = []
    for info in benchmarks:
        own, compared = _compared(comparisons, lead, info, relation="control")
        if compared:
            found.append((info, _against_table(info, own, compared)))
    return found


def _against_table(info: BenchmarkInfo, own: Mapping[str, Row], compared: Sequence[Row]) -> Table:
    rows = tuple(
        (
            row["model"],
            number(row["mean"]),
            number(row["other_mean"]),
            number(row["psi_same"]),
            number(row["other_psi_same"]),
            _with_interval(row, "psi_difference"),
            p_value(row["p_hit"]),
            p_value(row["p_miss"]),
            p_value(own[row["model"]]["p_control_adjusted"]),
        )
        for row in compared
    )
    return Table(
        f"{info.id}: the others against {compared[0]['other']}",
        ("model", *("own", "control") * 2, "difference", "hit scale", "miss scale", "adjusted"),
        rows,
        n_names=1,
        groups=(
            ("", 1),
            ("mean", 2),
            ("PSI at equal documents, noise taken out", 3),
            ("p of unlike profiles", 3),
        ),
        note=AGAINST_NOTE,
    )


def visibility(
    lead: pl.DataFrame, comparisons: pl.DataFrame, benchmarks: Sequence[BenchmarkInfo]
) -> list[tuple[BenchmarkInfo, str, list[Table]]]:
    """Return benchmark, bucket scheme and tables of what models were given and made of it."""
    found = []
    for info in benchmarks:
        scheme = main_scheme(schemes_of(lead, info.id), info.recipe)
        rows = _rows(lead, info.id, scheme)
        visible = {row["model"]: row for row in rows if row["evidence"] == "visible"}
        given = sorted(
            (row for row in rows if row["evidence"] == "all" and row["model"] in visible), key=place
        )
        tables = []
        if given:
            tables.append(_given_table(given, visible))
        _, compared = _compared(comparisons, lead, info, relation="shorter_input")
        if compared:
            tables.append(_windows_table(compared))
        if tables:
            found.append((info, str(scheme), tables))
    return found


def _given_table(given: Sequence[Row], visible: Mapping[str, Row]) -> Table:
    rows = []
    for row in given:
        seen = visible[row["model"]]
        rows.append(
            (
                row["model"],
                percent(row["seen"]),
                _with_interval(row, "truncation"),
                p_value(row["p_truncation"]),
                count(seen["n_queries"]),
                _with_interval(seen, "psi_same"),
                p_value(seen["p_adjusted"])
                + ("\nbetween documents" if seen["test"] == "between" else ""),
                p_value(seen["p_control_adjusted"]),
            )
        )
    return Table(
        "What models were given, and position in it",
        (
            *("model", "given", "effect of truncation", "p"),
            *("queries", "PSI at equal documents", "adjusted p", "p against control"),
        ),
        tuple(rows),
        n_names=1,
        groups=(("", 1), ("all evidence", 3), ("evidence it was given", 4)),
        note=VISIBLE_NOTE,
    )


def _windows_table(compared: Sequence[Row]) -> Table:
    rows = tuple(
        (
            row["model"],
            row["other"],
            MISSING if row["n_cut"] is None else count(row["n_cut"]),
            _with_interval(row, "cut_gain"),
            p_value(row["p_cut_gain"]),
            _with_interval(row, "uncut_gain"),
        )
        for row in compared
    )
    return Table(
        "One model with two lengths of input",
        (
            *("longer input", "shorter input", "queries cut", "gain on them", "p"),
            "gain where nothing is cut",
        ),
        rows,
        note=WINDOWS_NOTE,
    )


def _compared(
    comparisons: pl.DataFrame, lead: pl.DataFrame, info: BenchmarkInfo, *, relation: str
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Return the leading rows by model, and comparisons of the same slice in their order."""
    scheme = main_scheme(schemes_of(lead, info.id), info.recipe)
    own = {row["model"]: row for row in _rows(lead, info.id, scheme) if row["evidence"] == "all"}
    first = next(iter(own.values()), None)
    if first is None or first["length_bucket"] != POOLED:
        return own, []
    same = ("benchmark", "query_lang", "corpus_lang", "domain", "metric", "buckets", "evidence")
    mine = comparisons.filter(relation=relation, **{name: first[name] for name in same})
    rows = [row for row in mine.iter_rows(named=True) if row["model"] in own]
    return own, sorted(rows, key=lambda row: place(own[row["model"]]))


def _with_interval(row: Row, name: str) -> str:
    """Return a value and, below it, its interval."""
    ends = interval(row[f"{name}_low"], row[f"{name}_high"])
    return f"{number(row[name])}\n{ends}" if ends else number(row[name])
