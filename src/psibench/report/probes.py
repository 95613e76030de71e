"""Stage ``probe_page``: the page of the probes, with each model's PSI beside them.

The first table asks whether they agree: which end of a text each probe finds a model to look at.
Then a figure and a table per probe.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from psibench.probes.comparison import PROBE_COMPARISON, contrasts
from psibench.probes.settings import PROBES
from psibench.probes.tables import PROBE_TABLE
from psibench.report.plots import (
    NAN,
    SERIES,
    SMALL,
    Axis,
    Line,
    LineStyle,
    draw_changes,
    draw_curves,
    model_styles,
)
from psibench.report.published import probes_beside
from psibench.report.tables import FigureView, Panel, Table, each, render_page, slug, text_rows
from psibench.report.views import headline_metric
from psibench.report.wording import MISSING, count, estimate, interval, number, p_value
from psibench.tables import read_provenance, read_table
from psibench.tables.atomic import write_text
from psibench.tables.derived import read_all
from psibench.tables.provenance import now
from psibench.tables.schemas import PSI_TABLE
from psibench.tables.spec import POOLED
from psibench.tables.stage import stage

PLACES = ("beginning", "middle", "end")
PLACE_STYLES = tuple(
    LineStyle(colour, marker) for colour, marker in zip(SERIES, ("o", "s", "^"), strict=False)
)


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


@stage("probe_page", version=3)
def run_probe_page(
    *,
    table: str | Path,
    psi: Sequence[str | Path],
    comparison: Sequence[str | Path] = (),
    controls: Mapping[str, str | None],
    run_title: str,
    html: str | Path,
) -> None:
    """Write the page.

    Parameters
    ----------
    table
        PROBE_TABLE of all probes.
    psi
        PSI_TABLE tables of the benchmarks that were probed.
    comparison
        PROBE_COMPARISON of pairs of models, if any are compared.
    controls
        Model -> position-blind, truncating or None, in the order of the models.
    run_title
        What the config calls its report.
    """
    rows = read_table(table, PROBE_TABLE).filter(domain=POOLED)
    psi_rows = read_all(psi, PSI_TABLE)
    pairs = read_all(comparison, PROBE_COMPARISON).filter(domain=POOLED)
    shown = [
        section(
            str(benchmark),
            str(language),
            own,
            psi_rows,
            pairs.filter(benchmark=benchmark, language=language),
            model_styles(dict(controls)),
        )
        for (benchmark, language), own in rows.group_by(
            "benchmark", "language", maintain_order=True
        )
    ]
    made_of = {
        str(path): str((read_provenance(path) or {}).get("rows_hash", ""))
        for path in (table, *comparison, *psi)
    }
    page = render_page(
        "probes.html",
        title="Probes: what the embeddings look at",
        created=now(),
        made_of=made_of,
        run_title=run_title,
        styles=("report.css", "published.css"),
        probes={name: text for name, text in PROBES.items() if name in set(rows["probe"])},
        sections=shown,
    )
    write_text(page, html)


def section(
    benchmark: str,
    language: str,
    rows: pl.DataFrame,
    psi: pl.DataFrame,
    pairs: pl.DataFrame,
    styles: Mapping[str, LineStyle],
) -> dict[str, Any]:
    """Return what the page shows of a benchmark in one language; rows and pairs are pooled."""
    named = slug(benchmark, language)
    own = psi.filter(benchmark=benchmark, query_lang=language, corpus_lang=language)
    tables = [_numbers(probe, rows.filter(probe=probe)) for probe in PROBES]
    return {
        "id": named,
        "title": f"{benchmark}, {language}",
        "agreement": agreement(rows, own),
        "compared": compared(pairs),
        "beside": probes_beside(rows.filter(read="all"), benchmark),
        "figures": [*_moved_by_size(rows, named), *_by_place(rows, named, styles)],
        "tables": [table for table in tables if table.rows],
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
    note = (
        "front, back: the end that the model looks at by this figure; none where the interval "
        "holds 0. whole: documents that the model reads to their ends; the PSI beside them is of "
        "evidence that it was given."
    )
    return Table(
        "Do they agree?",
        ("figure", *(read for _, read in sides)),
        tuple(found),
        1,
        groups=(("", 1), *((model, 2) for model in models)),
        css="narrow",
        note=note,
    )


def compared(pairs: pl.DataFrame) -> Table:
    """Return what two models differ in: gaps, ranges and contrasts; means over all sizes."""
    texts = text_rows(
        contrasts(pairs),
        *("model", "other", "probe", "measure", "condition"),
        *each(number, "value", "other_value"),
        lambda row: estimate(row["difference"], row["low"], row["high"]),
        *each(p_value, "p"),
        *each(number, "relative", "other_relative"),
        *each(count, "n_documents"),
    )
    header = (
        *("model", "compared with", "probe", "measure", "condition"),
        *("value", "the other's", "difference", "p", "relative", "the other's", "documents"),
    )
    note = (
        "On the documents that fit both models, as pairs. p of a range: of the differences being "
        "the same at all places. relative: over the mean of 1 − cosine, as all cosines may rise."
    )
    return Table("Compared", header, texts, 5, note=note)


def _end(rows: pl.DataFrame, probe: str, measure: str, condition: str | None, front: int) -> str:
    own = rows.filter(probe=probe, measure=measure)
    if condition is not None:
        own = own.filter(condition=condition)
    if own["size"].is_null().any():
        own = own.filter(pl.col("size").is_null())
    if own.is_empty():
        return MISSING
    row = own.sort("n_places", maintain_order=True).row(0, named=True)
    end = ""
    if row["low"] is not None and not round(row["low"], 3) <= 0 <= round(row["high"], 3):
        end = ": front" if (row["value"] > 0) == (front > 0) else ": back"
    return _unbroken(row, "value", "low", "high") + end


def _unbroken(row: Mapping[str, Any], *names: str) -> str:
    """Return a figure and its interval, which a line does not end in: the cell is narrow."""
    value, low, high = (row[name] for name in names)
    ends = interval(low, high).replace(" ", "\N{NO-BREAK SPACE}")
    return f"{number(value)} {ends}".strip()


def _psi(psi: pl.DataFrame, evidence: str) -> tuple[str, str]:
    own = psi.filter(
        domain=POOLED, length_bucket=POOLED, evidence=evidence, metric=headline_metric(psi)
    )
    if own.is_empty():
        return MISSING, MISSING
    row = own.row(0, named=True)
    return _unbroken(row, "psi_same", "psi_same_low", "psi_same_high"), p_value(row["p_adjusted"])


# --- Figures ---


def _moved_by_size(rows: pl.DataFrame, named: str) -> Iterator[FigureView]:
    """Yield a figure of insertion and of removal: a panel per model, a line per place."""
    texts = {
        "insertion": ("Insertion", "filler, share of the document's tokens"),
        "removal": ("Removal", "sentences taken away"),
    }
    for probe, (title, axis_text) in texts.items():
        own = rows.filter(pl.col("size").is_not_null(), probe=probe, measure="cosine", read="all")
        panels, numbers = [], []
        for (model,), mine in own.group_by("model", maintain_order=True):
            sizes = mine["size"].unique().sort().to_list()
            axis = Axis(tuple(f"{100 * size:g} %" for size in sizes), (), axis_text)
            lines = []
            for place, style in zip((1, 2, 3), PLACE_STYLES, strict=True):
                placed = mine.filter(place=place).sort("size")
                line = _line(placed, style, lambda value: 1 - value)
                lines.append(line)
                numbers.append((str(model), PLACES[place - 1], *map(number, line.mean)))
            anchor = slug(probe, named, str(model))
            told = f"{title}: 1 less the cosine with the document, {model}, a line per place."
            drawn = draw_curves(lines, axis, y_text="1 − cosine", size=SMALL)
            named_panel = Panel.drawn(drawn, anchor, f"{title}, {model}", told, name=str(model))
            panels.append(named_panel)
        if panels:
            yield FigureView(
                slug(probe, named),
                title=f"{title}: how far the vector moves",
                caption="By size and place. A model that knows no place has three equal lines "
                "(insertion). All documents: what a model does not read cannot move it.",
                panels=tuple(panels),
                legend=tuple(zip(PLACES, PLACE_STYLES, strict=True)),
                header=("model", "place", *axis.labels),
                rows=tuple(numbers),
            )


def _by_place(
    rows: pl.DataFrame, named: str, styles: Mapping[str, LineStyle]
) -> Iterator[FigureView]:
    """Yield the profiles of segments and moved evidence, and the importance of sentences."""
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
        own = rows.filter(chosen, probe=probe, measure=measure, read="all")
        for n_places in own["n_places"].unique().sort().to_list():
            part = own.filter(pl.col("n_places").eq_missing(n_places))
            places = part["place"].unique().sort().to_list()
            axis = Axis(
                tuple(map(str, places)), tuple((k - 0.5, k + 0.5) for k in places), axis_text
            )
            lines = {
                str(model): _line(
                    pl.DataFrame({"place": places}).join(mine, on="place", how="left"),
                    styles[str(model)],
                    (lambda value: value - 1) if probe == "regression" else (lambda value: value),
                )
                for (model,), mine in part.group_by("model", maintain_order=True)
            }
            about = y_text if probe == "regression" else f"{y_text}, less the document's mean"
            anchor = slug(probe, named, y_text, str(n_places), title)
            text = f"{title}: {about}"
            drawn = draw_changes(list(lines.values()), axis, y_text=y_text)
            yield FigureView(
                anchor,
                title=text,
                caption=CAPTIONS[probe],
                panels=(Panel.drawn(drawn, anchor, text, ", ".join(lines)),),
                legend=tuple((name, line.style) for name, line in lines.items()),
                header=("model", *axis.labels),
                rows=tuple((name, *map(number, line.mean)) for name, line in lines.items()),
            )


CAPTIONS = {
    "segments": "Each segment's cosine with the whole text, with intervals over documents.",
    "moving": "Query, evidence and the other sentences are the same at every place.",
    "saliency": "Gradient of the query's cosine by tokens; the evidence is in the middle.",
    "regression": "0 where all sentences weigh alike. What shuffled documents show is the model's.",
}


def _line(rows: pl.DataFrame, style: LineStyle, change: Callable[[float], float]) -> Line:
    """Make a line of rows in order; a change that turns it round swaps the ends of intervals."""

    def values(name: str) -> tuple[float, ...]:
        return tuple(NAN if value is None else change(value) for value in rows[name])

    ends = values("low"), values("high")
    low, high = ends if change(1.0) > change(0.0) else ends[::-1]
    return Line(values("value"), low, high, style)


def _numbers(probe: str, rows: pl.DataFrame) -> Table:
    """Return every figure of a probe."""
    texts = text_rows(
        rows,
        *("model", "measure", "condition"),
        lambda row: MISSING if row["size"] is None else f"{100 * row['size']:g} %",
        "read",
        lambda row: estimate(row["value"], row["low"], row["high"]),
        *each(p_value, "p"),
        *each(number, "relative"),
        *each(count, "n_documents", "n_left_out"),
        *each(number, "read_share"),
    )
    header = (
        *("model", "measure", "condition", "size", "read"),
        *("value", "p", "relative", "documents", "left out", "part read"),
    )
    return Table(f"{probe}: {PROBES[probe]}", header, texts, 5)  # type: ignore[index]
