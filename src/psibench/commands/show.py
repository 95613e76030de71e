"""`psibench show`: a PSI table or the figures of probes on the terminal."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from psibench.commands.base import Command
from psibench.commands.psi_text import author_text, format_flags, format_psi_table, format_verdicts
from psibench.commands.text_table import Form, frame_lines
from psibench.metrics.aggregate import POOLED
from psibench.probes.comparison import PROBE_COMPARISON
from psibench.probes.tables import PROBE_TABLE
from psibench.report.wording import p_value, pair_text
from psibench.tables import read_provenance, read_table
from psibench.tables.schemas import PSI_TABLE

PROBE_NAMES = (
    *("benchmark", "language", "domain", "probe", "model", "other", "measure", "condition"),
    *("read", "size"),
)

MOST_PLACES = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file and how much of it to show."""
    parser.add_argument(
        "file",
        type=Path,
        help="a psi_table, probe_table or probe_comparison.parquet",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="also other bucket schemes, lengths and domains, and what every language pair says",
    )


def run_show(args: argparse.Namespace) -> None:
    """Print the table, one block per benchmark and language pair, best-known rows first."""
    record = read_provenance(args.file) or {}
    for spec in (PROBE_TABLE, PROBE_COMPARISON):
        if record.get("table") == spec.name:
            print("\n".join(probe_lines(read_table(args.file, spec), every_row=args.all)))
            return
    table = read_table(args.file, PSI_TABLE)
    benchmarks = table.get_column("benchmark").unique().to_list()
    is_first = pl.col("buckets") == pl.col("buckets").first()
    for (name,), rows in table.group_by("benchmark", maintain_order=True):
        pairs = rows.group_by("query_lang", "corpus_lang", maintain_order=True)
        several = rows.select("query_lang", "corpus_lang").n_unique() > 1
        for number, ((asked, searched), own) in enumerate(pairs):
            title = f"{name}, {pair_text(str(asked), str(searched))}" if several else str(name)
            headline = own.filter(is_first, domain=POOLED, length_bucket=POOLED)
            print(f"\n{title}\n{format_psi_table(own if args.all else headline)}")
            is_view = any(str(name).startswith(f"{other}-") for other in benchmarks)
            if args.all or not (number or is_view):
                _print_verdicts(headline)
    for author in str(record.get("queries_by") or "").split(", "):
        if author:
            print(f"\nQueries: {author_text(author)}.")
    flags = format_flags(table)
    print(f"\nFlags:\n{flags}\ndocs/psi.md says how to read a row." if flags else "")


def _print_verdicts(headline: pl.DataFrame) -> None:
    """Print what the rows say, the models beside the control that they are compared with."""
    controls: dict[str, str | None] = dict.fromkeys(headline["control"], "position-blind")
    by_metric = headline.group_by("metric", maintain_order=True)
    several = headline["metric"].n_unique() > 1
    for (metric,), rows in by_metric:
        of = f"\n{metric} by {rows['buckets'][0]}:" if several else ""
        print(f"{of}\n{format_verdicts(rows, controls)}")


def probe_lines(table: pl.DataFrame, *, every_row: bool = False) -> Iterator[str]:
    """Yield PROBE_TABLE or PROBE_COMPARISON rows that sum probes up, or every one."""
    names = [name for name in PROBE_NAMES if name in table.columns]
    # Of all documents; all sizes as one; of places the first.
    of_any_size, size = [n for n in names if n not in ("condition", "size")], pl.col("size")
    pooled = table.filter(
        ~pl.col("measure").str.ends_with(" profile"),
        size.is_null() | ~size.is_null().any().over(of_any_size),
        pl.col("place").is_null() | (pl.col("place") <= MOST_PLACES),
        domain=POOLED,
        read="all",
    )
    shown = table if every_row else pooled
    figures = {"value": "value"}
    if "other_value" in table.columns:
        figures = {"value": "value", "other's": "other_value", "difference": "difference"}
    lines = shown.select(
        *names,
        **figures,
        interval=pl.concat_list("low", "high"),
        p="p",
        relative="relative",
        docs="n_documents",
    )
    forms: dict[str, Form] = {"p": p_value, "size": ".0%"}
    forms |= dict.fromkeys(("value", "other's", "difference", "interval"), ".4f")
    yield from frame_lines(lines, forms, n_text=len(names))


COMMAND = Command(
    description=(
        "Print the headline rows of a psi_table.parquet or probe_table.parquet, with --all every "
        "row."
    ),
    add_arguments=add_arguments,
    run=run_show,
)
