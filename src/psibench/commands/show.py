"""`psibench show`: a PSI table on the terminal."""

import argparse
from pathlib import Path

import polars as pl

from psibench.commands.base import Command
from psibench.commands.psi_text import format_flags, format_psi_table, format_verdicts
from psibench.config.llms import STAND_IN_PREFIX
from psibench.metrics.aggregate import POOLED
from psibench.tables import read_provenance, read_table
from psibench.tables.schemas import PSI_TABLE

AUTHORS = {
    "simulation": "simulated known-item queries; no person and no language model wrote them",
    "people": "questions written by people",
}
STAND_IN_AUTHOR = (
    "{model}, a rule-based program in a language model's place; they compare positions, not models"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file and how much of it to show."""
    parser.add_argument("file", type=Path, help="a psi_table.parquet")
    parser.add_argument(
        "--all",
        action="store_true",
        help="also other bucket schemes, lengths and domains, and what every language pair says",
    )


def run_show(args: argparse.Namespace) -> None:
    """Print the table, one block per benchmark and language pair, best-known rows first."""
    table = read_table(args.file, PSI_TABLE)
    benchmarks = table.get_column("benchmark").unique().to_list()
    for (name,), rows in table.group_by("benchmark", maintain_order=True):
        pairs = rows.group_by("query_lang", "corpus_lang", maintain_order=True)
        several = rows.select("query_lang", "corpus_lang").n_unique() > 1
        for number, ((asked, searched), own) in enumerate(pairs):
            title = f"{name}, {pair_text(str(asked), str(searched))}" if several else str(name)
            headline = headline_rows(own)
            print(f"\n{title}\n{format_psi_table(own if args.all else headline)}")
            is_view = any(str(name).startswith(f"{other}-") for other in benchmarks)
            if args.all or not (number or is_view):
                print(f"\n{format_verdicts(headline, controls_of(headline))}")
    record = read_provenance(args.file) or {}
    for author in str(record.get("queries_by") or "").split(", "):
        if author:
            print(f"\nQueries: {author_text(author)}.")
    flags = format_flags(table)
    print(f"\nFlags:\n{flags}\ndocs/psi.md says how to read a row." if flags else "")


def pair_text(asked: str, searched: str) -> str:
    """Name a language pair: one language, or queries of one against documents of another."""
    return searched if asked == searched else f"queries {asked}, documents {searched}"


def controls_of(rows: pl.DataFrame) -> dict[str, str | None]:
    """Return which of the models is the position-blind control the others are compared with."""
    named = rows.get_column("control").drop_nulls().unique().to_list()
    return dict.fromkeys(named, "position-blind")


def author_text(author: str) -> str:
    """Say in words who wrote queries, from the name that provenance gives."""
    model = author.removeprefix("llm:")
    if model.startswith(STAND_IN_PREFIX):
        return STAND_IN_AUTHOR.format(model=model)
    return AUTHORS.get(author) or (f"written by {model}" if model != author else author)


def headline_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Keep the pooled rows of a benchmark's first bucket scheme."""
    if rows.is_empty():
        return rows
    first = rows.get_column("buckets")[0]
    return rows.filter(
        (pl.col("buckets") == first)
        & (pl.col("domain") == POOLED)
        & (pl.col("length_bucket") == POOLED)
    )


COMMAND = Command(
    description="Print the headline rows of a psi_table.parquet, or with --all every row.",
    add_arguments=add_arguments,
    run=run_show,
)
