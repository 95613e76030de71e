"""The PSI table and what it says, as text for a terminal."""

import textwrap
from collections.abc import Mapping
from typing import Any

import polars as pl

from psibench.commands.text_table import aligned
from psibench.llm.sections import STAND_IN_PREFIX
from psibench.metrics.estimate import FLAGS
from psibench.report.verdict import verdicts
from psibench.report.wording import MISSING, p_value

AUTHORS = {
    "simulation": "simulated known-item queries; no person and no language model wrote them",
    "people": "questions written by people",
}
STAND_IN_AUTHOR = (
    "{model}, a rule-based program in a language model's place; they compare positions, not models"
)
HEADINGS = (
    "model",
    "domain",
    "length",
    "metric",
    "buckets",
    "evidence",
    "queries",
    "docs",
    "mean",
    "PSI",
    "same-doc",
    "interval",
    "p",
    "p control",
    "given",
    "drop",
    "flags",
)
N_TEXT_COLUMNS = 6
WIDTH = 100
UNDEFINED = "-"


def format_psi_table(table: pl.DataFrame) -> str:
    """Lay out a PSI table in aligned columns, numbers with three decimals.

    ``same-doc`` and ``interval`` are the PSI at equal documents, ``p`` and ``p control`` the
    adjusted ones, ``given`` the share of queries whose evidence the model was given. A row of
    another evidence view that is about the same queries as the row of `all` is left out. What is
    undefined is shown as ``-``.
    """
    kept = [row for row in _numbered(table) if not row["repeats"]]
    return "\n".join(aligned([HEADINGS, *(_cells(row) for row in kept)], n_text=N_TEXT_COLUMNS))


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


def _numbered(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows with `repeats`: whether a view's row is about the queries of `all`."""
    everything: dict[str, Any] = {}
    rows = []
    for row in table.iter_rows(named=True):
        if row["evidence"] == "all":
            everything = row
        same = row["evidence"] != "all" and row["n_queries"] == everything["n_queries"]
        rows.append(row | {"repeats": same})
    return rows


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    known = row["psi_same_low"] is not None
    interval = f"{row['psi_same_low']:.3f}-{row['psi_same_high']:.3f}" if known else UNDEFINED
    return (
        row["model"],
        row["domain"],
        row["length_bucket"],
        row["metric"],
        row["buckets"],
        row["evidence"],
        str(row["n_queries"]),
        str(row["n_documents"]),
        _decimal(row["mean"]),
        _decimal(row["psi"]),
        _decimal(row["psi_same"]),
        interval,
        p_value(row["p_adjusted"]).replace(MISSING, UNDEFINED),
        p_value(row["p_control_adjusted"]).replace(MISSING, UNDEFINED),
        UNDEFINED if row["seen"] is None else f"{100 * row['seen']:.0f}%",
        _decimal(row["drop"]),
        row["flags"] or UNDEFINED,
    )


def _decimal(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:.3f}"
