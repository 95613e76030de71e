"""`psibench efficiency`: what the jobs of a run took."""

import argparse
from pathlib import Path

from psibench.commands.base import Command, refuse_unwritable, write_unrounded
from psibench.commands.text_table import aligned, figure

COLUMNS = {
    "rule": ("rule", ""),
    "model": ("model", ""),
    "jobs": ("jobs", ",.0f"),
    "wall s": ("wall_s", ",.0f"),
    "median": ("median_s", ",.1f"),
    "longest": ("max_s", ",.1f"),
    "CPU s": ("cpu_s", ",.0f"),
    "cores": ("cores", ",.1f"),
    "asked": ("cores_asked", ",.1f"),
    "MB": ("max_rss_mb", ",.0f"),
    "of asked": ("memory_share", ".0%"),
    "of time": ("time_share", ".0%"),
    "input MB": ("input_mb", ",.1f"),
    "tokens/s": ("tokens_per_s", ",.0f"),
    "padding": ("padding", ".0%"),
}
"""Heading, and the column of the table below it with its format."""
N_TEXT_COLUMNS = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add where the files are, and a CSV file."""
    parser.add_argument(
        "--benchmarks",
        type=Path,
        default=Path("benchmarks"),
        help="folder of Snakemake's benchmark files (default: benchmarks)",
    )
    parser.add_argument(
        "--logs", type=Path, default=Path("logs"), help="folder of the logs (default: logs)"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write the table, unrounded")


def run_efficiency(args: argparse.Namespace) -> None:
    """Print a row per rule and model, and their sum."""
    from psibench.cluster.job_records import read_records, summarise

    refuse_unwritable("--csv", args.csv)
    table = summarise(read_records(args.benchmarks, args.logs))
    rows = [[*COLUMNS]]
    for row in table.iter_rows(named=True):
        rows.append([figure(row[name], form) for name, form in COLUMNS.values()])
    print("\n".join(aligned(rows, n_text=N_TEXT_COLUMNS)))
    print(
        "Jobs that succeeded, the last attempt of each. MB: the largest memory of a job; of asked, "
        "of time: the largest share of the memory and of the minutes that one asked for."
    )
    write_unrounded(table, args.csv)


COMMAND = Command(
    description="Sum up Snakemake's benchmark files and the jobs' logs by rule and model: jobs, "
    "wall-clock time, CPU time, cores used, largest memory, the shares of the memory and the time "
    "asked for, the largest inputs, and of encodings tokens per second and the share of padding. "
    "The longest come first.",
    add_arguments=add_arguments,
    run=run_efficiency,
)
