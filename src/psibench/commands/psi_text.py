"""The PSI table and what it says, as text for a terminal."""

import textwrap
from collections.abc import Mapping

import polars as pl

from psibench.commands.text_table import UNDEFINED, Form, frame_lines
from psibench.llm.sections import STAND_IN_PREFIX
from psibench.metrics.psi import FLAGS
from psibench.report.verdict import verdicts
from psibench.report.wording import p_value

AUTHORS = {
    "simulation": "simulated known-item queries; no person and no language model wrote them",
    "people": "questions written by people",
}
STAND_IN_AUTHOR = (
    "{model}, a rule-based program in a language model's place; they compare positions, not models"
)
COLUMNS = {
    **{name: name for name in ("model", "domain")},
    "length": "length_bucket",
    **{name: name for name in ("metric", "buckets", "evidence")},
    "queries": "n_queries",
    "docs": "n_documents",
    "mean": "mean",
    "PSI": "psi",
    "same-doc": "psi_same",
    "interval": pl.concat_list("psi_same_low", "psi_same_high"),
    "p": "p_adjusted",
    "p control": "p_control_adjusted",
    "given": "seen",
    "drop": "drop",
    "flags": pl.col("flags").replace("", None),
}
"""Heading -> column."""


def _from_to(ends: list[float | None]) -> str:
    low, high = ends
    return UNDEFINED if low is None else f"{low:.3f}-{high:.3f}"


FORMS: dict[str, Form] = {"interval": _from_to, "p": p_value, "p control": p_value, "given": ".0%"}
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
    return "\n".join(frame_lines(kept.select(**COLUMNS), FORMS, n_text=6))


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
