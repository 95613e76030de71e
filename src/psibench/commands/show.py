"""`psibench show`: a PSI table, what training did, or the figures of probes, on the terminal."""

import argparse
from pathlib import Path
from typing import Any

import polars as pl

from psibench.commands.base import Command
from psibench.commands.probe_text import comparison_lines, probe_lines
from psibench.commands.psi_text import author_text, format_flags, format_psi_table, format_verdicts
from psibench.commands.text_table import aligned, ends, figure
from psibench.metrics.aggregate import POOLED
from psibench.probes.comparison import PROBE_COMPARISON
from psibench.probes.tables import PROBE_TABLE
from psibench.report.wording import p_text
from psibench.tables import read_provenance, read_table
from psibench.tables.schemas import PSI_TABLE
from psibench.train.results import TABLES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file and how much of it to show."""
    parser.add_argument(
        "file",
        type=Path,
        help="a psi_table, training_table, probe_table or probe_comparison.parquet",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="also other bucket schemes, lengths and domains, and what every language pair says",
    )


def run_show(args: argparse.Namespace) -> None:
    """Print the table, one block per benchmark and language pair, best-known rows first."""
    record = read_provenance(args.file) or {}
    if record.get("stage") == "training_results":
        print(format_training(args.file))
        return
    if record.get("table") == PROBE_TABLE.name:
        for line in probe_lines(read_table(args.file, PROBE_TABLE), every_domain=args.all):
            print(line)
        return
    if record.get("table") == PROBE_COMPARISON.name:
        compared = read_table(args.file, PROBE_COMPARISON)
        print("\n".join(comparison_lines(compared, every_row=args.all)))
        return
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
                _print_verdicts(headline)
    for author in str(record.get("queries_by") or "").split(", "):
        if author:
            print(f"\nQueries: {author_text(author)}.")
    flags = format_flags(table)
    print(f"\nFlags:\n{flags}\ndocs/psi.md says how to read a row." if flags else "")


def _print_verdicts(headline: pl.DataFrame) -> None:
    metrics = headline.get_column("metric").unique(maintain_order=True).to_list()
    for metric in metrics:
        said = headline.filter(metric=metric)
        of = f"\n{metric} by {said.item(0, 'buckets')}:" if len(metrics) > 1 else ""
        print(f"{of}\n{format_verdicts(said, controls_of(said))}")


def format_training(path: Path) -> str:
    """Return what training did by benchmark: the tables that lie beside each other, as text."""
    table, reduction, buckets = (
        headline_rows(
            read_table(path.with_name(f"{spec.name}.parquet"), spec).filter(evidence="all")
        )
        for spec in TABLES
    )
    lines = []
    place = ["benchmark", "query_lang", "corpus_lang", "metric"]
    for key, rows in table.group_by(place, maintain_order=True):
        own = dict(zip(place, key, strict=True))
        labels = buckets.filter(**own)["bucket"].unique(maintain_order=True).to_list()
        shown = [["base", "trained on", *labels, "mean", "PSI", "at equal documents"]]
        shown[0].append("of the seeds")
        for row in rows.iter_rows(named=True):
            names = {name: row[name] for name in ("training", "base", "distribution")}
            means = dict(buckets.filter(**own, **names).select("bucket", "mean").iter_rows())
            spread = "" if row["psi_seed_sd"] is None else f" ± {row['psi_seed_sd']:.3f}"
            shown.append(
                [
                    *(row["base"], row["distribution"]),
                    *(figure(means.get(label)) for label in labels),
                    *(figure(row["mean"]), _with_ends(row, "psi"), _with_ends(row, "psi_same")),
                    f"{figure(row['psi_seed_mean'])}{spread}",
                ]
            )
        title = f"{own['benchmark']}, {pair_text(own['query_lang'], own['corpus_lang'])}"
        lines += [f"\n{title}, {own['metric']} by position", *aligned(shown, n_text=2), ""]
        for row in reduction.filter(**own).iter_rows(named=True):
            same = row["psi_same_difference"] is not None
            difference = _with_ends(row, "psi_same_difference" if same else "psi_difference")
            worst = ", the worst" if row["worst"] else ""
            scale = "at equal documents" if same else "plain"
            lines.append(
                f"{row['base']}: PSI {figure(row['psi'])} ({row['distribution']}{worst}), "
                f"{figure(row['psi_balanced'])} ({row['balanced']}): "
                f"{row['verdict']} (difference {difference}, {scale}; profiles "
                f"{p_text(row['p_adjusted'])})"
            )
    return "\n".join(lines)


def _with_ends(row: dict[str, Any], name: str) -> str:
    """Return a figure with its interval, where it has one; a dash for none."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return figure(row[name]) + ("" if row[name] is None or low is None else f" {ends(low, high)}")


def pair_text(asked: str, searched: str) -> str:
    """Name a language pair: one language, or queries of one against documents of another."""
    return searched if asked == searched else f"queries {asked}, documents {searched}"


def controls_of(rows: pl.DataFrame) -> dict[str, str | None]:
    """Return which of the models is the position-blind control the others are compared with."""
    named = rows.get_column("control").drop_nulls().unique().to_list()
    return dict.fromkeys(named, "position-blind")


def headline_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Keep the pooled rows of the first bucket scheme of each benchmark."""
    is_first = pl.col("buckets") == pl.col("buckets").first().over("benchmark")
    pooled = [
        pl.col(name) == POOLED for name in ("domain", "length_bucket") if name in rows.columns
    ]
    return rows.filter(is_first, *pooled)


COMMAND = Command(
    description=(
        "Print the headline rows of a psi_table.parquet or probe_table.parquet, with --all every "
        "row; of a training_table.parquet what training did, with the tables beside it."
    ),
    add_arguments=add_arguments,
    run=run_show,
)
