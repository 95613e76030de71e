"""`psibench plan`: how much a config has to encode, and in how many jobs."""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from psibench.commands.base import Command, refuse_unwritable
from psibench.commands.text_table import aligned
from psibench.config.load import load_config, read_yaml
from psibench.config.paths import DEFAULT_CONFIG, REGISTRY

if TYPE_CHECKING:
    from psibench.config.encoding_plan import Encoding

HEADINGS = (
    "benchmark",
    "language",
    "model",
    "texts",
    "M tokens",
    "GPU min",
    "jobs",
    "min per job",
    "store GB",
)
N_TEXT_COLUMNS = 3
UNKNOWN = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the config and a CSV file."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="your config; else the default")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write the table, unrounded")


def run_plan(args: argparse.Namespace) -> None:
    """Print a row per benchmark, language and model that is encoded, and their sums."""
    from psibench.config.encoding_plan import encoding_plan, later_encodings
    from psibench.tables.atomic import atomic_path

    refuse_unwritable("--csv", args.csv)
    given = read_yaml(args.config) if args.config is not None else {}
    config, models = load_config(DEFAULT_CONFIG, given, registry=REGISTRY)
    plan = encoding_plan(config, models)
    if plan.is_empty():
        print("No model of this config encodes texts.")
        return
    rows = [HEADINGS, *(_cells(row) for row in plan.iter_rows(named=True))]
    print("\n".join(aligned(rows, n_text=N_TEXT_COLUMNS)))
    print(_sums(plan, later_encodings(config, models), gpu_tflops=config.encoding.gpu_tflops))
    if args.csv is not None:
        with atomic_path(args.csv) as path:
            plan.write_csv(path)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["benchmark"],
        row["language"],
        row["model"],
        _number(row["texts"]),
        UNKNOWN if row["tokens"] is None else f"{row['tokens'] / 1e6:,.1f}",
        _minutes(row["gpu_minutes"]),
        f"{row['jobs']:,}",
        _minutes(row["minutes_per_job"]),
        "" if row["store_bytes"] is None else _gigabytes(row["store_bytes"]),
    )


def _sums(plan: pl.DataFrame, later: Sequence["Encoding"], *, gpu_tflops: float) -> str:
    known = plan.drop_nulls("gpu_minutes")
    n_jobs = sum(plan.get_column("jobs"))
    lines = [f"{n_jobs:,} {_jobs(n_jobs)} that encode{'s' if n_jobs == 1 else ''}."]
    counts = Counter((one.benchmark, one.language, one.after) for one in later)
    for (name, language, first), n in counts.items():
        lines.append(
            f"{n:,} more {_jobs(n)} of {name} {language}: its texts are those of {first}, which "
            "are encoded and stored by then."
        )
    if known.height:
        per_job = known.select(pl.col("minutes_per_job").repeat_by("jobs").explode()).to_series()
        hours = known.get_column("gpu_minutes").sum() / 60
        lines.append(
            f"{hours:,.1f} GPU hours at {gpu_tflops:g} TFLOPS (encoding.gpu_tflops); a job takes "
            f"{_minutes(per_job.median())} minutes (median), the longest {_minutes(per_job.max())}."  # type: ignore[arg-type]
        )
    room = plan.get_column("store_bytes").drop_nulls().to_list()
    if room:
        of_some = "" if len(room) == plan.height else ", where dimensions and texts are known"
        lines.append(f"{_gigabytes(sum(room))} GB of vectors in the store{of_some}.")
    if plan.get_column("texts").null_count():
        lines.append(
            "'-': the config does not say how many texts there will be (no sample.n_documents); "
            "encoding.shards: NUMBER cuts them into that many jobs."
        )
    return "\n".join(lines)


def _jobs(n: int) -> str:
    return "job" if n == 1 else "jobs"


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def _minutes(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:,.1f}" if n_bytes >= 1e8 else f"{n_bytes / 1e9:.3f}"


PLAN = Command(
    help="say how much a config has to encode, and in how many jobs of which length",
    description="Print texts, tokens, GPU minutes and jobs of every encoding, by benchmark, "
    "language and model, from the config's numbers alone: documents of a sample spread over its "
    "length bins, queries before any filter, two operations per parameter (input embeddings aside) "
    "and token, and the room that vectors take in the store. Nothing is read or run.",
    add_arguments=add_arguments,
    run=run_plan,
)
