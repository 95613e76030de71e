"""`psibench efficiency`: what the jobs of a run took."""

import argparse
from pathlib import Path
from typing import Any

from psibench.commands.base import Command, refuse_unwritable
from psibench.commands.text_table import aligned

HEADINGS = (
    "rule",
    "model",
    "jobs",
    "wall s",
    "median",
    "longest",
    "CPU s",
    "cores",
    "asked",
    "MB",
    "of asked",
    "tokens/s",
    "padding",
)
N_TEXT_COLUMNS = 2
UNKNOWN = "-"


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
    from psibench.tables.atomic import atomic_path

    refuse_unwritable("--csv", args.csv)
    table = summarise(read_records(args.benchmarks, args.logs))
    rows = [HEADINGS, *(_cells(row) for row in table.iter_rows(named=True))]
    print("\n".join(aligned(rows, n_text=N_TEXT_COLUMNS)))
    print(
        "Jobs that succeeded, the last attempt of each. CPU time and memory are looked at every "
        "30 s at least; `asked` and `of asked` are known with `--benchmark-extended`."
    )
    if args.csv is not None:
        with atomic_path(args.csv) as path:
            table.write_csv(path)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["rule"],
        row["model"],
        f"{row['jobs']:,}",
        _number(row["wall_s"]),
        _number(row["median_s"], 1),
        _number(row["max_s"], 1),
        _number(row["cpu_s"]),
        _number(row["cores"], 1),
        _number(row["cores_asked"], 1),
        _number(row["max_rss_mb"]),
        _share(row["memory_share"]),
        _number(row["tokens_per_s"]),
        _share(row["padding"]),
    )


def _number(value: float | None, decimals: int = 0) -> str:
    return UNKNOWN if value is None else f"{value:,.{decimals}f}"


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0%}"


COMMAND = Command(
    description="Sum up Snakemake's benchmark files and the encoding logs by rule and model: jobs, "
    "wall-clock time, CPU time, cores used, largest memory and its share of what was asked for, "
    "and of encodings tokens per second and the share of padding. The longest come first.",
    add_arguments=add_arguments,
    run=run_efficiency,
)
