"""The PSI table and what it says, as text for a terminal."""

import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from psibench.commands.text_table import UNDEFINED, aligned, figure
from psibench.llm.sections import STAND_IN_PREFIX
from psibench.metrics.psi import FLAGS
from psibench.report.verdict import verdicts
from psibench.report.wording import MISSING, p_value

AUTHORS = {
    "simulation": "simulated known-item queries; no person and no language model wrote them",
    "people": "questions written by people",
}
STAND_IN_AUTHOR = (
    "{model}, a rule-based program in a language model's place; they compare positions, not models"
)
COLUMNS: dict[str, str | Callable[[dict[str, Any]], str]] = {
    **{name: name for name in ("model", "domain")},
    "length": "length_bucket",
    **{name: name for name in ("metric", "buckets", "evidence")},
    "queries": "n_queries",
    "docs": "n_documents",
    "mean": lambda row: figure(row["mean"]),
    "PSI": lambda row: figure(row["psi"]),
    "same-doc": lambda row: figure(row["psi_same"]),
    "interval": lambda row: (
        UNDEFINED
        if row["psi_same_low"] is None
        else f"{row['psi_same_low']:.3f}-{row['psi_same_high']:.3f}"
    ),
    "p": lambda row: p_value(row["p_adjusted"]).replace(MISSING, UNDEFINED),
    "p control": lambda row: p_value(row["p_control_adjusted"]).replace(MISSING, UNDEFINED),
    "given": lambda row: figure(row["seen"], ".0%"),
    "drop": lambda row: figure(row["drop"]),
    "flags": lambda row: row["flags"] or UNDEFINED,
}
"""Heading, and the column below it, or what is written of a row."""
N_TEXT_COLUMNS = 6
WIDTH = 100


def format_psi_table(table: pl.DataFrame) -> str:
    """Lay out a PSI table in aligned columns, numbers with three decimals.

    ``same-doc`` and ``interval`` are the PSI at equal documents, ``p`` and ``p control`` the
    adjusted ones, ``given`` the share of queries whose evidence the model was given. A row of
    another evidence view that is about the same queries as the row of `all` is left out. What is
    undefined is shown as ``-``.
    """
    is_all, n_queries = pl.col("evidence") == "all", pl.col("n_queries")
    of_all = pl.when(is_all).then(n_queries).forward_fill()
    kept = table.filter(is_all | (n_queries != of_all))
    lines = [
        [
            str(row[column]) if isinstance(column, str) else column(row)
            for column in COLUMNS.values()
        ]
        for row in kept.iter_rows(named=True)
    ]
    return "\n".join(aligned([[*COLUMNS], *lines], n_text=N_TEXT_COLUMNS))


def format_flags(table: pl.DataFrame) -> str:
    """Say what the flags that occur in a PSI table mean, a line each."""
    raised = {name for flags in table["flags"] for name in flags.split(", ") if name}
    return "\n".join(f"{name}: {text}" for name, text in FLAGS.items() if name in raised)


def format_verdicts(table: pl.DataFrame, controls: Mapping[str, str | None]) -> str:
    """Say what the rows of one benchmark, language pair, metric and scheme allow to conclude."""
    pooled = table.filter(domain="all", length_bucket="all")
    lines = [
        textwrap.fill(f"{one.model}: {' '.join(one.sentences)}", WIDTH, subsequent_indent="  ")
        for one in verdicts(pooled.to_dicts(), controls=controls)
    ]
    isolates = str.maketrans("", "", "\u2068\u2069")  # for pages; a terminal shows them as boxes
    return "\n".join(lines).translate(isolates)


def author_text(author: str) -> str:
    """Say in words who wrote queries, from the name that provenance gives."""
    model = author.removeprefix("llm:")
    if model.startswith(STAND_IN_PREFIX):
        return STAND_IN_AUTHOR.format(model=model)
    return AUTHORS.get(author) or (f"written by {model}" if model != author else author)
