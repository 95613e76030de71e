"""Stage ``probe_page``: the page of the probes, with each model's PSI beside them.

The first table asks whether they agree: which end of a text each probe finds a model to look at.
Then a figure per probe. Every figure, and what two models differ in, is in probe_table.csv and
probe_comparison.csv.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from psibench.probes.settings import PROBES
from psibench.probes.tables import PROBE_TABLE
from psibench.report.plots import (
    SERIES,
    SMALL,
    Axis,
    LineStyle,
    as_image,
    draw_curves,
)
from psibench.report.published import probes_beside
from psibench.report.scores import small_multiples
from psibench.report.tables import FigureView, Panel, Table, render_page, slug
from psibench.report.verdict import shown_psi
from psibench.report.views import headline_metric
from psibench.report.wording import MISSING, estimate, p_value
from psibench.tables import read_provenance, read_table
from psibench.tables.atomic import write_text
from psibench.tables.derived import read_all
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
"""Figures that say which end of a text a model looks at: title, probe, measure, condition, and the
sign that means the front."""


@stage("probe_page", version=5)
def run_probe_page(
    *,
    table: str | Path,
    psi: Sequence[str | Path],
    run_title: str,
    notice: str = "",
    html: str | Path,
) -> None:
    """Write the page.

    Parameters
    ----------
    table
        PROBE_TABLE of all probes.
    psi
        PSI_TABLE tables of the benchmarks that were probed.
    run_title, notice
        What the config calls its report, and what its pages begin with. A small run, which has a
        notice, is not compared with the papers.
    """
    rows = read_table(table, PROBE_TABLE).filter(domain=ALL)
    psi_rows = read_all(psi, PSI_TABLE)
    by_language = rows.group_by("benchmark", "language", maintain_order=True)
    shown = [
        section(str(benchmark), str(language), mine, psi_rows, is_compared=not notice)
        for (benchmark, language), mine in by_language
    ]
    made_of = {
        str(path): str((read_provenance(path) or {}).get("rows_hash", "")) for path in (table, *psi)
    }
    page = render_page(
        "probes.html",
        title="Probes: what the embeddings look at",
        created=now(),
        made_of=made_of,
        run_title=run_title,
        notice=notice,
        probes={name: text for name, text in PROBES.items() if name in set(rows["probe"])},
        sections=shown,
    )
    write_text(page, html)


def section(
    benchmark: str,
    language: str,
    rows: pl.DataFrame,
    psi: pl.DataFrame,
    *,
    is_compared: bool = True,
) -> dict[str, Any]:
    """Return what the page shows of a benchmark in one language; rows are pooled."""
    tested = psi.filter(benchmark=benchmark, query_lang=language, corpus_lang=language)
    whole = rows.filter(read="all")
    return {
        "id": slug(benchmark, language),
        "title": f"{benchmark}, {language}",
        "agreement": agreement(rows, tested),
        "beside": probes_beside(whole, benchmark) if is_compared else [],
        "figures": [*_by_size(whole), *_by_place(whole)],
    }


def agreement(rows: pl.DataFrame, psi: pl.DataFrame) -> Table:
    """Say of each model which end each probe finds it to look at, and its PSI.

    *front* or *back* where the interval, as it is printed, leaves 0 out: cosines of vectors that
    are all alike differ by rounding. Mean over all sizes for insertion and removal; the fewest
    segments. Once of all documents, once of those read whole. Figures that no model has are left
    out.
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
        ("figure", *(read for _, read in sides)),
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


# --- Figures ---


def _by_size(rows: pl.DataFrame) -> Iterator[FigureView]:
    """Yield a figure of insertion and of removal: a panel per model, a line per place."""
    texts = {
        "insertion": ("Insertion", "filler, share of the document's tokens"),
        "removal": ("Removal", "sentences taken away"),
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

    A panel per model, the others faint.
    """
    shuffled = pl.col("condition").str.ends_with(", shuffled")
    cosine, place = "cosine profile", "place of the evidence"
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
            about = y_text if probe == "regression" else f"{y_text}, less the document's mean"
            named = f"{title}: {about}"
            models = part["line"].unique(maintain_order=True).to_list()
            panels = small_multiples(part, axis, models, metric=y_text, around_zero=True)
            yield FigureView(named, "", panels)
