"""Language pairs side by side, the models' averages over them, and leaderboards."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from psibench.metrics.buckets import LENGTH_BUCKETS
from psibench.metrics.summaries import CROSS_LINGUAL, MONOLINGUAL
from psibench.report.plots import LineStyle
from psibench.report.scores import bucket_axis, curve_numbers, curves_by, small_multiples
from psibench.report.tables import Block, FigureView, Table, slug
from psibench.report.verdict import finding_of
from psibench.report.views import PAIR, BenchmarkInfo, ModelInfo, Row, leading_rows
from psibench.report.wording import (
    MISSING,
    change,
    number,
    p_text,
    pair_text,
    split_pair,
)
from psibench.tables.spec import POOLED

Pair = tuple[str, str]
"""Language of the queries, language of the documents."""
WHOLE = (pl.col("domain") == POOLED) & (pl.col("length_bucket") == POOLED)
MAX_PAIRS = 18
CHARACTERS = 1_000
MARKS = {"depends": " ●", "none": " ○"}
MARK_NOTE = (
    "● scores depend on where the evidence is (p ≤ 0.05, adjusted over the models of the pair), ○ "
    "no evidence of it; unmarked: not tested, or next to nothing found."
)
AVERAGE_NOTE = (
    "Every language counts alike, however many queries it has. PosIR averages the means over "
    "queries for all lengths together, and for a length bucket the means over position buckets; "
    "so does this table, and language_averages.csv has both for both. PSI is the published one; "
    "below it what noise of independent queries gives, and PSI at equal documents. There is no "
    "interval (languages share queries). A model that lacks a language has no average, so that "
    "all models are averaged over the same; "
    "(2 of 3): two of the three languages or pairs have such a value."
)
LEADERBOARD_NOTE = (
    "Spearman's rank correlation of the models' averages over languages (All: means over queries; "
    "Q1 to Q4: means over bucket means) with their scores on the leaderboard. With few models it "
    "says little: look at p and at the number of models. Models that lack a language are not "
    "ranked. Both averages for every length, and who is left out: leaderboards.csv."
)


def pair_blocks(
    info: BenchmarkInfo,
    *,
    psi_table: pl.DataFrame,
    bucket_scores: pl.DataFrame,
    languages: Sequence[str],
    summaries: Mapping[str, pl.DataFrame],
    models: Sequence[ModelInfo],
    styles: Mapping[str, LineStyle],
    metric: str,
) -> list[Block]:
    """Return tables and figure of a benchmark with two or more language pairs; none of another.

    The tables may have rows of other benchmarks, too; ``languages`` is their order.
    """
    pairs = pairs_of(psi_table, info.id, languages)
    if len(pairs) < 2:
        return []
    names = [model.id for model in models]
    blocks: list[Block] = [
        *_pair_tables(leading_rows(psi_table, info, metric), pairs, names, metric=metric)
    ]
    if "language_averages" in summaries:
        averages = leading_rows(summaries["language_averages"], info, metric)
        blocks += _average_tables(averages, names, metric=metric)
    rows = leading_rows(bucket_scores, info, metric).filter(WHOLE)
    model = _best_covered(rows, models)
    if model is not None:
        trend = summaries.get("position_trend")
        notes = {} if trend is None else _trends(leading_rows(trend, info, metric), model)
        mine, anchor = rows.filter(model=model), slug("pairs", info.id)
        blocks.append(_pair_figure(mine, pairs, styles[model], notes, metric=metric, anchor=anchor))
    return blocks


def _best_covered(rows: pl.DataFrame, models: Sequence[ModelInfo]) -> str | None:
    """Return the first model that has most pairs; those that are no controls go first."""
    counted = rows.group_by("model").agg(pl.struct("query_lang", "corpus_lang").n_unique())
    n_pairs = dict(counted.iter_rows())
    known = [model for model in models if model.id in n_pairs]
    best = min(known, key=lambda m: (-n_pairs[m.id], m.control is not None), default=None)
    return None if best is None else best.id


def _pair_figure(
    rows: pl.DataFrame,
    pairs: Sequence[Pair],
    style: LineStyle,
    notes: Mapping[str, str],
    *,
    metric: str,
    anchor: str,
) -> FigureView:
    """Return a panel per pair, up to 18; ``rows`` are one model's pooled BUCKET_SCORES rows."""
    model, scheme = rows["model"][0], rows["buckets"][0]
    axis = bucket_axis(rows, scheme)
    styles = {pair_text(*pair): style for pair in pairs[:MAX_PAIRS]}
    lines = curves_by("pair", rows.with_columns(PAIR), axis, styles)
    told = {n: f"{metric} by {axis.text}, {n}. {notes.get(n, '')}".strip() for n in lines}
    panels = small_multiples(lines, axis, anchor=anchor, metric=metric, told=told)
    left_out = f" The first {MAX_PAIRS} of {len(pairs)} pairs." if len(pairs) > MAX_PAIRS else ""
    unit = f"per {CHARACTERS:,} characters" if scheme == "squad" else "from start to end"
    return FigureView(
        anchor,
        title="By position in every language pair",
        caption=f"Plain means of {metric} of {model}, which mix position with document; the other "
        f"pairs are faint. Slope: change of the mean {unit}, by least squares over the buckets; "
        f"Spearman: rank correlation of mean and position.{left_out} Other models: "
        "position_trend.csv.",
        panels=tuple(replace(panel, note=notes.get(panel.name, "")) for panel in panels),
        legend=(),
        header=("languages", *axis.labels),
        rows=curve_numbers(lines),
    )


def _trends(rows: pl.DataFrame, model: str) -> dict[str, str]:
    """Return the slope and rank correlation of a model on each pair, in words."""
    found = {}
    for row in rows.filter(WHOLE, model=model).with_columns(PAIR).iter_rows(named=True):
        text = f"{row['n_buckets']} buckets hold queries: no trend"
        if row["slope"] is not None:
            unit = CHARACTERS if row["buckets"] == "squad" else 1
            rank = MISSING if row["spearman"] is None else change(row["spearman"], 2)
            text = f"slope {change(unit * row['slope'])}, Spearman {rank}"
        found[row["pair"]] = text
    return found


def pairs_of(psi_table: pl.DataFrame, benchmark: str, languages: Sequence[str]) -> list[Pair]:
    """Return a benchmark's pairs, monolingual ones first, in the order of ``languages``."""
    places = {language: place for place, language in enumerate(languages)}

    def place(pair: Pair) -> tuple[Any, ...]:
        at = [(places.get(language, len(places)), language) for language in pair]
        return pair[0] != pair[1], at[1], at[0]

    mine = psi_table.filter(benchmark=benchmark).select("query_lang", "corpus_lang")
    return sorted(set(mine.iter_rows()), key=place)


def _pair_tables(
    rows: pl.DataFrame, pairs: Sequence[Pair], models: Sequence[str], *, metric: str
) -> list[Table]:
    """Return score and PSI of every model on every pair: one table per setting."""

    def cell(row: Row) -> str:
        mark = MARKS.get(finding_of(row), "")
        return f"{number(row['mean'])}\n{number(row['psi'])}\n{number(row['psi_same'])}{mark}"

    found: dict[str, dict[Pair, str]] = {}
    for row in rows.filter(WHOLE).iter_rows(named=True):
        pair = (row["query_lang"], row["corpus_lang"])
        found.setdefault(row["model"], {})[pair] = cell(row)
    tables = []
    for title, is_crossed in (
        ("Queries and documents in one language", False),
        ("Queries in another language than the documents", True),
    ):
        columns = [pair for pair in pairs if (pair[0] != pair[1]) is is_crossed]
        if not columns:
            continue
        lines = tuple(
            (name, *(found[name].get(pair, MISSING) for pair in columns))
            for name in models
            if name in found
        )
        header = ("model", *(pair_text(*pair).replace(" → ", " →\n") for pair in columns))
        note = f"In a cell: mean {metric}, published PSI, PSI at equal documents. {MARK_NOTE}"
        tables.append(Table(title, header, lines, n_names=1, note=note))
    return tables


def _average_tables(rows: pl.DataFrame, models: Sequence[str], *, metric: str) -> list[Table]:
    """Return the models' averages over languages by length: one table per setting.

    ``rows`` are LANGUAGE_AVERAGES rows. A setting of one language has no table: its averages are
    that language's figures.
    """
    tables: list[Table] = []
    for setting in (MONOLINGUAL, CROSS_LINGUAL):
        mine = rows.filter(setting=setting)
        if mine.is_empty() or max(mine["n_all_languages"]) < 2:
            continue
        lengths = [name for name in LENGTH_BUCKETS if name in set(mine["length_bucket"])]
        cells = {(r["model"], r["length_bucket"]): r for r in mine.iter_rows(named=True)}
        # languages, or pairs, in which any model has a score
        names = sorted({name for one in mine["languages"] if one for name in one.split(", ")})
        what = "languages"
        if setting == CROSS_LINGUAL:
            what = "pairs (queries → documents)"
            names = [pair_text(*split_pair(name)) for name in names]
        columns = [(POOLED, ("mean", "n_languages"))]
        columns += [(one, ("mean_of_buckets", "n_mean_of_buckets")) for one in lengths]
        columns += [(one, ("psi", "n_psi")) for one in (POOLED, *lengths)]
        given = [model for model in models if model in set(mine["model"])]
        lines = [
            (model, *(_average(cells.get((model, b)), *of, len(names)) for b, of in columns))
            for model in given
        ]
        groups = [("", 1), (f"{metric}, over queries", 1)]
        groups += [(f"{metric}, over buckets", len(lengths))] if lengths else []
        tables.append(
            Table(
                f"Average over languages, {setting}",
                ("model", "All", *lengths, "All", *lengths),
                tuple(lines),
                n_names=1,
                groups=(*groups, ("PSI", 1 + len(lengths))),
                note=f"{len(names)} {what}: {', '.join(names)}.",
            )
        )
    # what holds for both is said once, below the last
    return [*tables[:-1], *(replace(one, note=f"{one.note} {AVERAGE_NOTE}") for one in tables[-1:])]


def _average(row: Row | None, name: str, n_name: str, total: int) -> str:
    """Return one average, or a dash and what the model has where it lacks a language.

    ``total`` is the number of languages, or pairs, that the caption names.
    """

    def of(n: int) -> str:
        return "" if n == total else f" ({n} of {total})"

    if row is None:
        return MISSING
    if row["n_languages"] < row["n_all_languages"]:
        what = "languages" if row["setting"] == MONOLINGUAL else "pairs"
        return f"{MISSING}\n{row['n_languages']} of {row['n_all_languages']} {what}"
    if row[name] is None:
        return MISSING
    text = f"{number(row[name])}{of(row[n_name])}"
    if name != "psi":
        return text
    same = "" if row["psi_same"] is None else of(row["n_psi_same"])
    noise, equal = number(row["psi_noise_mean"]), number(row["psi_same"])
    return f"{text}\nnoise {noise}\nequal docs {equal}{same}"


def leaderboard_table(
    table: pl.DataFrame | None, benchmarks: Sequence[BenchmarkInfo], *, metric: str
) -> Table | None:
    """Return how the models' averages go with leaderboards, as PosIR's Table 2 ends; or None.

    ``table`` are LEADERBOARDS rows.
    """
    if table is None or table.is_empty():
        return None
    rows = pl.concat([leading_rows(table, info, metric) for info in benchmarks])
    if rows.is_empty():
        return None
    keys = ("leaderboard", "benchmark", "setting")
    lengths = [name for name in LENGTH_BUCKETS if name in set(rows["length_bucket"])]
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows.iter_rows(named=True):
        usual = "mean" if row["length_bucket"] == POOLED else "mean_of_buckets"
        if row["average"] == usual:
            mine = cells.setdefault(tuple(row[key] for key in keys), {})
            mine[row["length_bucket"]] = _correlation(row)
    lines = tuple(
        (*key, *(found.get(name, MISSING) for name in (POOLED, *lengths)))
        for key, found in cells.items()
    )
    header = (*keys, "All", *lengths)
    return Table("Correlation with leaderboards", header, lines, len(keys), note=LEADERBOARD_NOTE)


def _correlation(row: Row) -> str:
    n = f"{row['n_models']} {'model' if row['n_models'] == 1 else 'models'}"
    if row["spearman"] is None:
        return f"{MISSING}\n{n}"
    p = "" if row["p"] is None else f"{p_text(row['p'])}, "
    return f"{change(row['spearman'], 2)}\n{p}{n}"
