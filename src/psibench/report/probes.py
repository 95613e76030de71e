"""Stage ``probe_page``: the page of the probes, with each model's PSI.

The first table compares the probes and PSI: the end of a text that a model prefers by each of them.
A chart per probe follows. probe_table.csv has all numbers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import polars as pl

from psibench.probes.settings import PROBES
from psibench.probes.tables import PROBE_TABLE
from psibench.report.beside import grid, inside
from psibench.report.plots import (
    SERIES,
    SMALL,
    Axis,
    LineStyle,
    as_image,
    draw_curves,
)
from psibench.report.scores import small_multiples
from psibench.report.tables import FigureView, Panel, Table, render_page, slug
from psibench.report.verdict import shown_psi
from psibench.report.views import headline_metric
from psibench.report.wording import MISSING, estimate, p_value
from psibench.tables import read_provenance
from psibench.tables.atomic import write_text
from psibench.tables.job import Job
from psibench.tables.provenance import now
from psibench.tables.schemas import PSI_TABLE
from psibench.tables.spec import ALL
from psibench.tables.stage import stage

PLACES = ("beginning", "middle", "end")
PLACE_STYLES = {
    place: LineStyle(colour, marker)
    for place, colour, marker in zip(PLACES, SERIES, ("o", "s", "^"), strict=False)
}
SIGNS = (
    ("insertion, gap", "insertion", "cosine gap", None, -1),
    ("removal, gap", "removal", "cosine gap", None, -1),
    ("segments, gap", "segments", "cosine gap", None, 1),
    ("moving, cosine gap", "moving", "cosine gap", None, 1),
    ("moving, nDCG@10 gap", "moving", "ndcg@10 gap", None, 1),
    ("saliency, gap", "saliency", "saliency gap", None, 1),
    ("reversal, delta_change", "reversal", "delta_change", None, 1),
    (
        *("regression, first sentence, shuffled", "regression", "importance excess"),
        *("first sentence, shuffled", 1),
    ),
)
"""Values that show which end of a text a model prefers: title, probe, measure, condition, and the
sign for the front."""


@dataclass(frozen=True)
class PrintedFigure:
    """A published value of a probe, to compare with a run's value.

    ``title`` and ``note`` describe its table, ``column`` and ``model_name`` its cell; ``published``
    is printed times ``scale`` with ``decimals`` decimals. The run's value has the same
    ``benchmark``, ``probe``, ``model`` and, unless null, ``n_places``. ``figure`` is its measure
    and, if needed, condition; or ``highest`` or ``lowest``: the position with the highest or lowest
    cosine with the query.
    """

    title: str
    note: str
    column: str
    model_name: str
    published: float
    scale: int
    decimals: int
    benchmark: str
    probe: str
    model: str
    n_places: int | None
    figure: str | tuple[str, ...]


@stage("probe_page", version=5)
def run_probe_page(job: Job) -> None:
    """Write the page.

    Inputs: ``table``, the PROBE_TABLE of all probes, and ``psi``, the PSI_TABLE tables of the
    probed benchmarks. Parameters: ``beside``, published values sorted by table; ``run_title``, the
    report's title; ``notice``, the first text of its pages.
    """
    beside = job.value("beside", list[PrintedFigure])
    rows = job.read("table", PROBE_TABLE).filter(domain=ALL)
    psi_rows = job.read("psi", PSI_TABLE)
    by_language = rows.group_by("benchmark", "language", maintain_order=True)
    shown = [
        section(str(benchmark), str(language), mine, psi_rows, beside)
        for (benchmark, language), mine in by_language
    ]
    made_of = {path: str((read_provenance(path) or {}).get("rows_hash", "")) for path in job.used}
    page = render_page(
        "probes.html",
        title="Probes: which parts of a text move its embedding",
        created=now(),
        made_of=made_of,
        run_title=job.value("run_title"),
        notice=job.value("notice", default=""),
        probes={name: text for name, text in PROBES.items() if name in set(rows["probe"])},
        sections=shown,
    )
    write_text(page, str(job.outputs["html"]))


def section(
    benchmark: str,
    language: str,
    rows: pl.DataFrame,
    psi: pl.DataFrame,
    beside: Sequence[PrintedFigure],
) -> dict[str, Any]:
    """Return the page's section of a benchmark in one language; ``rows`` are over all domains."""
    tested = psi.filter(benchmark=benchmark, query_lang=language, corpus_lang=language)
    whole = rows.filter(read="all")
    return {
        "id": slug(benchmark, language),
        "title": f"{benchmark}, {language}",
        "agreement": agreement(rows, tested),
        "beside": beside_printed(whole, benchmark, beside),
        "figures": [*_by_size(whole), *_by_place(whole)],
    }


def agreement(rows: pl.DataFrame, psi: pl.DataFrame) -> Table:
    """Return a table of the end that each model prefers by each probe, and of its PSI.

    The end is *front* or *back* if the printed interval excludes 0 (cosines of equal vectors differ
    by rounding). Uses the mean over all sizes of insertion and removal, and the fewest segments.
    Each model has a column of all documents and one of documents read whole. Omits rows without any
    value.
    """
    models = rows["model"].unique(maintain_order=True).to_list()
    sides = [(model, read) for model in models for read in ("all", "whole")]
    parts = [rows.filter(model=model, read=read) for model, read in sides]
    signs = [(title, *(_end(part, *sign) for part in parts)) for title, *sign in SIGNS]
    found = [row for row in signs if set(row[1:]) != {MISSING}]
    beside = [
        _psi(psi.filter(model=model), "all" if read == "all" else "visible")
        for model, read in sides
    ]
    found.append(("PSI at equal documents", *(value for value, _ in beside)))
    found.append(("its p", *(p for _, p in beside)))
    return Table(
        "Do they agree?",
        ("probe", *(read for _, read in sides)),
        tuple(found),
        1,
        groups=(("", 1), *((model, 2) for model in models)),
    )


def _end(rows: pl.DataFrame, probe: str, measure: str, condition: str | None, front: int) -> str:
    chosen = rows.filter(probe=probe, measure=measure)
    if condition is not None:
        chosen = chosen.filter(condition=condition)
    if chosen["size"].is_null().any():
        chosen = chosen.filter(pl.col("size").is_null())
    if chosen.is_empty():
        return MISSING
    row = chosen.sort("n_places", maintain_order=True).row(0, named=True)
    end = ""
    if row["low"] is not None and not round(row["low"], 3) <= 0 <= round(row["high"], 3):
        end = ": front" if (row["value"] > 0) == (front > 0) else ": back"
    return estimate(row["value"], row["low"], row["high"], separator="\n") + end


def _psi(psi: pl.DataFrame, evidence: str) -> tuple[str, str]:
    chosen = psi.filter(
        domain=ALL, length_bucket=ALL, evidence=evidence, metric=headline_metric(psi)
    )
    if chosen.is_empty():
        return MISSING, MISSING
    row = chosen.row(0, named=True)
    return shown_psi(row, separator="\n"), p_value(row["p_adjusted"])


# --- Published values ---


def beside_printed(
    rows: pl.DataFrame, benchmark: str, figures: Sequence[PrintedFigure]
) -> list[Table]:
    """Return published tables with the run's values for the models that the run has.

    ``rows`` are PROBE_TABLE rows of one benchmark and language, over all domains and documents.
    Omits tables for which the run has no value.
    """
    names = ("benchmark", "model_name", "column", "published", "scale", "decimals")
    found, of_benchmark = [], (one for one in figures if one.benchmark == benchmark)
    for title, group in groupby(of_benchmark, key=lambda one: one.title):
        shown, note = list[dict[str, Any]](), ""
        for one in group:
            note, mine = one.note, rows.filter(probe=one.probe, model=one.model)
            if one.n_places is not None:
                mine = mine.filter(n_places=one.n_places)
            if mine.height:
                place = {name: getattr(one, name) for name in names}
                shown.append(place | {"group": ""} | _counterpart(mine, one.figure))
        every = pl.DataFrame(shown, infer_schema_length=None)
        if shown and every["own"].count():
            measured = every.drop_nulls("own").with_columns(
                difference=pl.col("own") - pl.col("published"), inside=inside()
            )
            found.append(replace(grid(title, every, measured), note=note))
    return found


def _counterpart(rows: pl.DataFrame, figure: str | tuple[str, ...]) -> dict[str, float | None]:
    """Return a model's value and its interval as own, low, high; null without a value."""
    nothing = dict.fromkeys(("own", "low", "high"))
    if isinstance(figure, str):
        places = rows.filter(pl.col("place") > 0, measure="cosine").sort(
            "value", descending=figure == "highest", maintain_order=True
        )
        return nothing | ({"own": float(places["place"][0])} if places.height else {})
    measure, *condition = figure
    mine = rows.filter(pl.col("measure") == measure, *(pl.col("condition") == c for c in condition))
    if mine.height != 1:
        return nothing
    return mine.select(own="value", low="low", high="high").row(0, named=True)


# --- Figures ---


def _by_size(rows: pl.DataFrame) -> Iterator[FigureView]:
    """Yield a figure of insertion and of removal: a panel per model, a line per position."""
    texts = {
        "insertion": ("Insertion", "filler, share of the document's tokens"),
        "removal": ("Removal", "removed share of the sentences"),
    }
    for probe, (title, axis_text) in texts.items():
        moved = rows.filter(pl.col("size").is_not_null(), probe=probe, measure="cosine")
        panels = []
        for (model,), mine in moved.group_by("model", maintain_order=True):
            sizes = mine["size"].unique().sort()
            axis = Axis(tuple(map(_size, sizes)), (), axis_text)
            lines = mine.select(
                bucket=pl.col("size").map_elements(_size, pl.String),
                line=pl.col("place").replace_strict(dict(enumerate(PLACES, start=1)), default=None),
                mean=1 - pl.col("value"),
                low=1 - pl.col("high"),
                high=1 - pl.col("low"),
            )
            drawn = draw_curves(lines, axis, PLACE_STYLES, y_text="1 − cosine", size=SMALL)
            panels.append(Panel(as_image(drawn), str(model)))
        if panels:
            yield FigureView(f"{title}: how far the vector moves", "", tuple(panels))


def _size(share: float) -> str:
    return f"{100 * share:g} %"


def _by_place(rows: pl.DataFrame) -> Iterator[FigureView]:
    """Yield the profiles of segments and moved evidence, and the importance of sentences.

    Each model has a panel, with the other models in pale colours.
    """
    shuffled = pl.col("condition").str.ends_with(", shuffled")
    cosine, place = "cosine profile", "position of the evidence"
    weight = ("regression", "importance")
    kinds = (
        ("segments", cosine, "Segments", "segment", "cosine", True),
        ("moving", cosine, "Moved evidence", place, "cosine", True),
        ("moving", "ndcg@10 profile", "Moved evidence", place, "nDCG@10", True),
        ("saliency", "saliency profile", "Saliency", "tenth of the document", "saliency", True),
        (*weight, "Regression", "sentence", "importance − 1", ~shuffled),
        (*weight, "Regression, shuffled", "sentence", "importance − 1", shuffled),
    )
    for probe, measure, title, axis_text, y_text, chosen in kinds:
        less = 1 if probe == "regression" else 0
        lines = rows.filter(chosen, probe=probe, measure=measure).select(
            "n_places",
            "place",
            bucket=pl.col("place").cast(pl.String),
            line="model",
            mean=pl.col("value") - less,
            low=pl.col("low") - less,
            high=pl.col("high") - less,
        )
        for n_places in lines["n_places"].unique().sort().to_list():
            part = lines.filter(pl.col("n_places").eq_missing(n_places))
            places = part["place"].unique().sort().to_list()
            bounds = tuple((k - 0.5, k + 0.5) for k in places)
            axis = Axis(tuple(map(str, places)), bounds, axis_text)
            about = y_text if probe == "regression" else f"{y_text} minus the document's mean"
            named = f"{title}: {about}"
            models = part["line"].unique(maintain_order=True).to_list()
            panels = small_multiples(part, axis, models, metric=y_text, around_zero=True)
            yield FigureView(named, "", panels)
