"""Language pairs side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from psibench.report.scores import bucket_axis, plain_lines, small_multiples
from psibench.report.tables import Block, FigureView, Table, table_of
from psibench.report.verdict import finding_of
from psibench.report.views import PAIR, BenchmarkInfo, ModelInfo, leading_rows
from psibench.report.wording import change, number, pair_text
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


def pair_blocks(
    info: BenchmarkInfo,
    *,
    psi_table: pl.DataFrame,
    bucket_scores: pl.DataFrame,
    position_trend: pl.DataFrame,
    languages: Sequence[str],
    models: Sequence[ModelInfo],
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
    rows = leading_rows(bucket_scores, info, metric).filter(WHOLE)
    n_pairs = dict(rows.group_by("model").agg(PAIR.n_unique()).iter_rows())
    # the first model that has most pairs; those that are no controls go first
    known = [model for model in models if model.id in n_pairs]
    if known:
        best = min(known, key=lambda m: (-n_pairs[m.id], m.control is not None)).id
        notes = _trends(leading_rows(position_trend, info, metric), best)
        blocks.append(_pair_figure(rows.filter(model=best), pairs, notes, metric=metric))
    return blocks


def _pair_figure(
    rows: pl.DataFrame, pairs: Sequence[Pair], notes: Mapping[str, str], *, metric: str
) -> FigureView:
    """Return a panel per pair, up to 18; ``rows`` are one model's pooled BUCKET_SCORES rows."""
    model, scheme = rows["model"][0], rows["buckets"][0]
    axis, lines = bucket_axis(rows, scheme), plain_lines(rows.with_columns(PAIR), "pair")
    ran = set(lines["line"])
    names = [name for name in (pair_text(*pair) for pair in pairs[:MAX_PAIRS]) if name in ran]
    left_out = f" The first {MAX_PAIRS} of {len(pairs)} pairs." if len(pairs) > MAX_PAIRS else ""
    unit = f"per {CHARACTERS:,} characters" if scheme == "squad" else "from start to end"
    return FigureView(
        title="By position in every language pair",
        caption=f"Plain means of {metric} of {model}, which mix position with document; the other "
        f"pairs are faint. Slope: change of the mean {unit}, by least squares over the buckets; "
        f"Spearman: rank correlation of mean and position.{left_out} Other models: "
        "position_trend.csv.",
        panels=small_multiples(
            lines.filter(pl.col("line").is_in(names)), axis, names, metric=metric, notes=notes
        ),
    )


def _trends(rows: pl.DataFrame, model: str) -> dict[str, str]:
    """Return the slope and rank correlation of a model on each pair, in words."""
    found = {}
    for row in rows.filter(WHOLE, model=model).with_columns(PAIR).iter_rows(named=True):
        text = f"{row['n_buckets']} buckets hold queries: no trend"
        if row["slope"] is not None:
            unit = CHARACTERS if row["buckets"] == "squad" else 1
            text = f"slope {change(unit * row['slope'])}, Spearman {change(row['spearman'], 2)}"
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
    found = [
        {
            "model": row["model"],
            "pair": row["pair"],
            "text": f"{number(row['mean'])}\n{number(row['psi'])}\n{number(row['psi_same'])}"
            f"{MARKS.get(finding_of(row), '')}",
        }
        for row in rows.filter(WHOLE).with_columns(PAIR).iter_rows(named=True)
    ]
    every = pl.DataFrame(found, schema=dict.fromkeys(("model", "pair", "text"), pl.String))
    of_models = pl.DataFrame({"model": models}).join(every, on="model", maintain_order="left")
    note = f"In a cell: mean {metric}, published PSI, PSI at equal documents. {MARK_NOTE}"
    tables = []
    for title, is_crossed in (
        ("Queries and documents in one language", False),
        ("Queries in another language than the documents", True),
    ):
        columns = [pair_text(*pair) for pair in pairs if (pair[0] != pair[1]) is is_crossed]
        wide = of_models.pivot("pair", on_columns=columns, index="model", values="text")
        if columns:
            tables.append(table_of(title, wide, n_names=1, note=note))
    return tables
