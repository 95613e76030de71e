"""Language pairs of a benchmark side by side, and their averages."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from psibench.metrics.buckets import LENGTH_BUCKETS
from psibench.metrics.language_averages import CROSS_LINGUAL, MONOLINGUAL
from psibench.report.inputs import BenchmarkInfo
from psibench.report.plain import Table
from psibench.report.verdict import finding_of
from psibench.report.views import POOLED, main_scheme, schemes_of
from psibench.report.wording import MISSING, number, pair_text

Pair = tuple[str, str]
"""Language of the queries, language of the documents."""

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


def pairs_of(psi_table: pl.DataFrame, benchmark: str, languages: Sequence[str]) -> list[Pair]:
    """Return a benchmark's pairs, monolingual ones first, in the order of ``languages``."""
    mine = psi_table.filter(pl.col("benchmark") == benchmark)
    places = {language: place for place, language in enumerate(languages)}

    def place(pair: Pair) -> tuple[Any, ...]:
        at = [(places.get(language, len(places)), language) for language in pair]
        return pair[0] != pair[1], at[1], at[0]

    return sorted(set(mine.select("query_lang", "corpus_lang").iter_rows()), key=place)


def leading_rows(table: pl.DataFrame, info: BenchmarkInfo, metric: str) -> pl.DataFrame:
    """Return a benchmark's rows of one metric and its main bucket scheme, over all queries."""
    scheme = main_scheme(schemes_of(table, info.id), info.recipe)
    return table.filter(
        pl.col("benchmark") == info.id,
        pl.col("metric") == metric,
        pl.col("buckets") == scheme,
        pl.col("evidence") == "all",
    )


def pair_tables(
    rows: pl.DataFrame, pairs: Sequence[Pair], models: Sequence[str], *, metric: str
) -> list[Table]:
    """Return score and PSI of every model on every pair: one table per setting.

    ``rows`` are PSI rows as `leading_rows` gives them.
    """
    pooled = rows.filter(pl.col("domain") == POOLED, pl.col("length_bucket") == POOLED)
    names = ("model", "query_lang", "corpus_lang")
    found = {tuple(row[name] for name in names): row for row in pooled.iter_rows(named=True)}
    shown = [name for name in models if name in set(pooled["model"])]
    tables = []
    for title, is_crossed in (
        ("Queries and documents in one language", False),
        ("Queries in another language than the documents", True),
    ):
        columns = [pair for pair in pairs if (pair[0] != pair[1]) is is_crossed]
        if not columns:
            continue
        lines = tuple(
            (name, *(_cell(found.get((name, *pair))) for pair in columns)) for name in shown
        )
        header = ("model", *(_heading(pair) for pair in columns))
        note = f"In a cell: mean {metric}, published PSI, PSI at equal documents. {MARK_NOTE}"
        tables.append(Table(title, header, lines, n_names=1, note=note))
    return tables


def _heading(pair: Pair) -> str:
    return pair_text(*pair).replace(" → ", " →\n")


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return MISSING
    mark = MARKS.get(finding_of(row), "")
    return f"{number(row['mean'])}\n{number(row['psi'])}\n{number(row['psi_same'])}{mark}"


def average_tables(rows: pl.DataFrame, models: Sequence[str], *, metric: str) -> list[Table]:
    """Return the models' averages over languages by length: one table per setting.

    ``rows`` are LANGUAGE_AVERAGES rows as `leading_rows` gives them. A setting of one language
    has no table: its averages are that language's figures.
    """
    tables: list[Table] = []
    for setting in (MONOLINGUAL, CROSS_LINGUAL):
        mine = rows.filter(pl.col("setting") == setting)
        if mine.is_empty() or max(mine["n_all_languages"]) < 2:
            continue
        present = set(mine["length_bucket"])
        lengths = [name for name in LENGTH_BUCKETS if name in present]
        cells = {(r["model"], r["length_bucket"]): r for r in mine.iter_rows(named=True)}
        shown = [name for name in models if name in set(mine["model"])]
        found = {name: [cells.get((name, one)) for one in (POOLED, *lengths)] for name in shown}
        names = _languages(mine)
        groups = [("", 1), (f"{metric}, over queries", 1)]
        groups += [(f"{metric}, over buckets", len(lengths))] if lengths else []
        tables.append(
            Table(
                f"Average over languages, {setting}",
                ("model", "All", *lengths, "All", *lengths),
                tuple(_average_line(name, found[name], len(names)) for name in shown),
                n_names=1,
                groups=(*groups, ("PSI", 1 + len(lengths))),
                note=_caption(names, setting),
            )
        )
    # what holds for both stands once, below the last
    return [*tables[:-1], *(replace(one, note=f"{one.note} {AVERAGE_NOTE}") for one in tables[-1:])]


def _languages(rows: pl.DataFrame) -> list[str]:
    """Return the languages, or pairs, in which any model has a score."""
    return sorted({name for one in rows["languages"] if one for name in one.split(", ")})


def _caption(names: Sequence[str], setting: str) -> str:
    """Name the languages, or pairs, that averages are of."""
    shown = names if setting == MONOLINGUAL else [_arrow(name) for name in names]
    what = "languages" if setting == MONOLINGUAL else "pairs (queries → documents)"
    return f"{len(names)} {what}: {', '.join(shown)}."


def _arrow(pair: str) -> str:
    """Turn ``qps-Latn-eng-Latn`` into ``qps-Latn → eng-Latn``."""
    parts = pair.split("-")
    return pair_text("-".join(parts[: len(parts) // 2]), "-".join(parts[len(parts) // 2 :]))


def _average_line(
    name: str, by_length: Sequence[Mapping[str, Any] | None], total: int
) -> tuple[str, ...]:
    """Return one model's averages; ``by_length`` has all lengths together first.

    ``total`` is the number of languages, or pairs, that the caption names.
    """
    return (
        name,
        _average(by_length[0], "mean", "n_languages", total),
        *(_average(row, "mean_of_buckets", "n_mean_of_buckets", total) for row in by_length[1:]),
        *(_average(row, "psi", "n_psi", total) for row in by_length),
    )


def _average(row: Mapping[str, Any] | None, name: str, n_name: str, total: int) -> str:
    """Return one average, or a dash and what the model has where it lacks a language."""
    if row is None:
        return MISSING
    if row["n_languages"] < row["n_all_languages"]:
        what = "languages" if row["setting"] == MONOLINGUAL else "pairs"
        return f"{MISSING}\n{row['n_languages']} of {row['n_all_languages']} {what}"
    if row[name] is None:
        return MISSING
    text = f"{number(row[name])}{_of(row[n_name], total)}"
    if name != "psi":
        return text
    same = "" if row["psi_same"] is None else f"{_of(row['n_psi_same'], total)}"
    return (
        f"{text}\nnoise {number(row['psi_noise_mean'])}\nequal docs {number(row['psi_same'])}{same}"
    )


def _of(n: int, total: int) -> str:
    """Say how many languages an average is of, where it is not of all in the caption."""
    return "" if n == total else f" ({n} of {total})"
