"""How good translations are: tables and heat maps of grades, agreement with people."""

import polars as pl

from psibench.build.agreement import ANNOTATOR_MEAN, GRADES
from psibench.build.quality import DIMENSIONS, OVERALL, POOLED
from psibench.metrics.buckets import LENGTH_BUCKETS
from psibench.report.fragments import Block, render_blocks
from psibench.report.heat_map import HeatMap, draw_heat_map
from psibench.report.panels import FigureView, Panel, slug
from psibench.report.plain import Table
from psibench.report.wording import MISSING, count, percent

ALL_TEXTS = {"language": "all languages", "domain": "all domains"}
QUALITY_NOTE = (
    "Mean grades by a language model, 1 (poor) to 5 (flawless), without a reference translation; "
    "overall is the mean of the four. Q1 to Q4: sources of up to 512, 1,024, 1,536 and more tokens."
)
AGREEMENT_NOTE = (
    "Pairs: a person's grade and the language model's of the same document. Within 1: at most one "
    "apart. MAE: mean absolute difference. Unmatched grades by people are not compared."
)
CONFUSION_NOTE = "Pairs of grades, and below the share of the pairs with that grade by a person."


def render_quality(
    quality: pl.DataFrame,
    *,
    benchmark: str,
    agreement: pl.DataFrame | None = None,
    confusion: pl.DataFrame | None = None,
    published_agreement: pl.DataFrame | None = None,
) -> str:
    """Return the panels of a benchmark's translations as HTML; see `quality_blocks`."""
    blocks = quality_blocks(
        quality,
        benchmark=benchmark,
        agreement=agreement,
        confusion=confusion,
        published_agreement=published_agreement,
    )
    return render_blocks(blocks, about=benchmark)


def quality_blocks(
    quality: pl.DataFrame,
    *,
    benchmark: str,
    agreement: pl.DataFrame | None = None,
    confusion: pl.DataFrame | None = None,
    published_agreement: pl.DataFrame | None = None,
) -> list[Block]:
    """Return the tables and heat maps of a benchmark's translations.

    Parameters
    ----------
    quality, agreement, confusion
        TRANSLATION_QUALITY, TRANSLATION_AGREEMENT and TRANSLATION_CONFUSION rows.
    published_agreement
        ``dimension``, ``agreement`` (share) and ``mae``, as in PosIR's Table 9.
    """
    if quality.is_empty():
        return []
    blocks: list[Block] = [quality_table(quality)]
    whole = quality.filter(pl.col("length_bin") == POOLED)
    by_dimension = whole.filter(pl.col("domain") == POOLED)
    anchor = slug("quality", benchmark)
    figures = (
        _figure(by_dimension, "language", "dimension", "Grades by language", anchor),
        _figure(
            whole.filter(pl.col("dimension") == OVERALL),
            "domain",
            "language",
            "Overall grade by domain and language",
            anchor,
        ),
    )
    blocks += [figure for figure in figures if figure is not None]
    if agreement is not None and agreement.height:
        blocks.append(agreement_table(agreement, published_agreement))
    if confusion is not None and confusion.height:
        blocks.append(confusion_table(confusion))
    return blocks


def quality_table(quality: pl.DataFrame) -> Table:
    """Return a row per language: mean of every dimension, and the overall one by length."""
    whole = quality.filter(pl.col("domain") == POOLED)
    columns = ("language", "length_bin", "dimension", "n", "n_unjudged", "mean")
    cells = {row[:3]: row[3:] for row in whole.select(columns).iter_rows()}
    dimensions = (*DIMENSIONS, OVERALL)
    rows = []
    for language in dict.fromkeys(whole["language"]):
        n, n_unjudged, _ = cells[language, POOLED, OVERALL]
        means = [cells[language, POOLED, name][2] for name in dimensions]
        lengths = [cells.get((language, name, OVERALL), (0, 0, None))[2] for name in LENGTH_BUCKETS]
        name = ALL_TEXTS["language"] if language == POOLED else language
        rows.append((name, count(n), count(n_unjudged), *map(_grade, (*means, *lengths))))
    return Table(
        "Quality of the translations",
        ("language", "graded", "not graded", *dimensions, *LENGTH_BUCKETS),
        tuple(rows),
        n_names=1,
        groups=(
            ("", 1),
            ("documents", 2),
            ("mean grade", len(dimensions)),
            ("overall, by length", len(LENGTH_BUCKETS)),
        ),
        note=QUALITY_NOTE,
    )


def _figure(
    table: pl.DataFrame, rows: str, columns: str, title: str, anchor: str
) -> FigureView | None:
    """Draw mean grades by two columns of the quality table; None where a side has one value."""
    names = [tuple(dict.fromkeys(table[side])) for side in (rows, columns)]
    if min(len(set(side) - {POOLED}) for side in names) < 2:
        return None
    cells = {(a, b): mean for a, b, mean in table.select(rows, columns, "mean").iter_rows()}
    values = tuple(tuple(cells.get((a, b)) for b in names[1]) for a in names[0])
    down, across = (
        tuple(ALL_TEXTS.get(side, POOLED) if name == POOLED else name for name in found)
        for side, found in zip((rows, columns), names, strict=True)
    )
    caption = f"Mean grade by {rows} and {columns}, 1 to 5."
    name = slug(anchor, rows, columns)
    data = HeatMap(down, across, values, corner=rows)
    svg = draw_heat_map(data, name=name, title=title, description=caption)
    numbers = tuple((row, *map(_grade, found)) for row, found in zip(down, values, strict=True))
    return FigureView(name, title, caption, (Panel(svg),), (), (rows, *across), numbers)


def agreement_table(agreement: pl.DataFrame, published: pl.DataFrame | None = None) -> Table:
    """Return how grades by people and by the language model agree, PosIR's Table 9 beside it.

    Published figures stand beside the same dimensions of all languages and annotators.
    """
    known = {} if published is None else {row["dimension"]: row for row in published.to_dicts()}
    rows = []
    for row in agreement.iter_rows(named=True):
        is_whole = row["annotator"] == POOLED and row["language"] == POOLED
        theirs = known.get(row["dimension"]) if is_whole else None
        beside = (
            (percent(theirs["agreement"]), _grade(theirs["mae"])) if theirs else (MISSING, MISSING)
        )
        rows.append(
            (
                ALL_TEXTS["language"] if row["language"] == POOLED else row["language"],
                _annotator(row["annotator"]),
                "the four together" if row["dimension"] == POOLED else row["dimension"],
                count(row["n"]),
                count(row["n_unmatched"]),
                percent(row["within_one"]),
                *(_grade(row[name]) for name in ("mae", "mean_human", "mean_llm")),
                *(beside if known else ()),
            )
        )
    header = ("language", "annotator", "dimension", "pairs", "unmatched", "within 1", "MAE")
    return Table(
        "Agreement with people",
        (*header, "people", "language model", *(("within 1", "MAE") if known else ())),
        tuple(rows),
        n_names=3,
        groups=(("", 3), ("this run", 6), ("published: PosIR, table 9", 2)) if known else (),
        note=AGREEMENT_NOTE,
    )


def confusion_table(confusion: pl.DataFrame) -> Table:
    """Return the grades of all languages and dimensions, a row per grade by a person."""
    whole = confusion.filter((pl.col("language") == POOLED) & (pl.col("dimension") == POOLED))
    columns = ("human", "llm", "n", "share")
    cells = {(h, m): (n, share) for h, m, n, share in whole.select(columns).iter_rows()}
    rows = tuple(
        (str(human), *(f"{count(n)}\n{percent(s)}" for n, s in (cells[human, m] for m in GRADES)))
        for human in GRADES
    )
    return Table(
        "Grades by people and by the language model",
        ("by a person", *map(str, GRADES)),
        rows,
        n_names=1,
        groups=(("", 1), ("by the language model", len(GRADES))),
        note=CONFUSION_NOTE,
    )


def _annotator(name: str) -> str:
    return {POOLED: "each", ANNOTATOR_MEAN: "mean of a document's"}.get(name, name)


def _grade(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"
