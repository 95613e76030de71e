"""`psibench plan`: how much a config has to encode, and in how many jobs."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psibench.commands.base import (
    Command,
    add_config,
    read_config,
    refuse_unwritable,
    write_unrounded,
)
from psibench.commands.text_table import UNDEFINED, aligned, figure
from psibench.plan.config import load_config

if TYPE_CHECKING:
    import polars as pl

RESULTS = Path("results")
HEADINGS = (
    *("benchmark", "language", "model", "by", "texts", "M tokens"),
    *("GPU min", "CPU min", "jobs", "min per job", "store GB"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the config and a CSV file."""
    add_config(parser)
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write the table, unrounded")


def run_plan(args: argparse.Namespace) -> None:
    """Print a row per benchmark, language and model that is encoded, and their sums."""
    from psibench.plan.encodings import CPU_GFLOPS, encoding_plan

    refuse_unwritable("--csv", args.csv)
    config, models = load_config(read_config(args))
    plan = encoding_plan(config, models, results=RESULTS)
    if plan.is_empty():
        print("No model of this config encodes texts.")
        return
    lines = [*aligned([HEADINGS, *map(_cells, plan.iter_rows(named=True))], n_text=4)]
    n_jobs = int(plan["jobs"].sum())
    lines.append("1 job that encodes." if n_jobs == 1 else f"{n_jobs:,} jobs that encode.")
    known = plan.drop_nulls("gpu_minutes")
    if known.height:
        n_cores, on_cpu = os.cpu_count() or 1, config.encoding.device == "cpu"
        per_job = known.select(known["minutes_per_job"].repeat_by(known["jobs"]).explode())
        median, longest = per_job.to_series().median(), per_job.to_series().max()
        hours, minutes = known["gpu_minutes"].sum() / 60, known["cpu_minutes"].sum()
        here = f"{minutes / 60:,.0f} hours" if minutes >= 600 else f"{_minutes(minutes)} minutes"
        lines.append(
            f"{hours:,.1f} GPU hours at {config.encoding.gpu_tflops:g} TFLOPS "
            f"(encoding.gpu_tflops), or {here} on this machine's CPU "
            f"({n_cores} cores of {CPU_GFLOPS} GFLOPS); a job takes {_minutes(median)} minutes of "
            f"a {'CPU' if on_cpu else 'GPU'} (median), the longest {_minutes(longest)}."
        )
    room = plan["store_bytes"].drop_nulls()
    if len(room):
        of_some = "" if len(room) == plan.height else ", where dimensions and texts are known"
        lines.append(f"{_gigabytes(int(room.sum()))} GB of vectors in the store{of_some}.")
    if plan["texts"].null_count():
        lines.append(
            "'-': nobody can tell how many texts there will be (no sample.n_documents, and a "
            "source that is large or on the hub); build it first; encoding.shards: NUMBER cuts it "
            "into so many jobs."
        )
    lines += _unsized(plan.drop_nulls("texts"))
    print("\n".join(lines))
    write_unrounded(plan, args.csv)


def _unsized(plan: "pl.DataFrame") -> Iterator[str]:
    """Say why a model's minutes or its room are not known, where its texts are."""
    for column, key, what in (
        ("gpu_minutes", "`parameters_m`", "minutes"),
        ("store_bytes", "`dim` (of a sparse encoder `max_terms`)", "room"),
    ):
        lacking = (
            plan.filter(plan[column].is_null()).get_column("model").unique(maintain_order=True)
        )
        if len(lacking):
            yield (
                f"'-': no {what} of {', '.join(lacking)}: neither its entry nor a checkpoint on "
                f"this machine says how large it is; set {key} in `registry:`."
            )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    tokens, room = row["tokens"], row["store_bytes"]
    return (
        *(row[key] for key in ("benchmark", "language", "model", "basis")),
        figure(row["texts"], ","),
        UNDEFINED if tokens is None else f"{tokens / 1e6:,.{1 if tokens >= 1e6 else 3}f}",
        *(_minutes(row["gpu_minutes"]), _minutes(row["cpu_minutes"])),
        *(f"{row['jobs']:,}", _minutes(row["minutes_per_job"])),
        UNDEFINED if room is None else _gigabytes(room),
    )


def _minutes(value: Any) -> str:
    return figure(value, ",.0f" if value is not None and value >= 10 else ".1f")


def _gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:,.1f}" if n_bytes >= 1e8 else f"{n_bytes / 1e9:.3f}"


COMMAND = Command(
    description="Print texts, tokens, GPU and CPU minutes, jobs and room in the store of every "
    "encoding, by benchmark, language and model: of the tables that a run made, else of the "
    "config's numbers (documents of a sample spread over its length bins, queries before any "
    "filter), else of the source where it is here. Two operations per parameter (input embeddings "
    "aside) and token. Nothing is run.",
    add_arguments=add_arguments,
    run=run_plan,
)
