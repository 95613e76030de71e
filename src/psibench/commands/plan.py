"""`psibench plan`: what every stage of a config has to do, takes and costs."""

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
from psibench.commands.text_table import UNDEFINED, aligned
from psibench.config.paths import PROFILES
from psibench.errors import InputError
from psibench.plan.config import Config, load_config, resolve_llms

if TYPE_CHECKING:
    import polars as pl

RESULTS = Path("results")
BY = {"stage": None, "model": "by", "language": "language", "benchmark": "benchmark"}
"""What rows are summed by -> the column beside the stage."""
HEADINGS = (
    *("items", "M tokens in", "out", "GPU h", "CPU h", "jobs", "longest, min"),
    *("store GB", "results GB", "USD"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the config, what is summed up, how many run at once, and a CSV file."""
    add_config(parser)
    parser.add_argument(
        "--by",
        choices=BY,
        default="stage",
        help="rows: each stage, or each stage by model, language or benchmark (default stage)",
    )
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="jobs at once (default: the profile slurm's)"
    )
    parser.add_argument("--gpus", type=int, metavar="N", help="GPUs at once (default: as --jobs)")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write all rows, unrounded")


def run_plan(args: argparse.Namespace) -> None:
    """Print the table of a config's work, its sums, and its bottleneck."""
    import polars as pl

    from psibench.plan.measured import Measured
    from psibench.plan.plan import make_plan
    from psibench.plan.work import summed, work_table

    refuse_unwritable("--csv", args.csv)
    for option in ("jobs", "gpus"):
        if (given := getattr(args, option)) is not None and given < 1:
            raise InputError(f"--{option} {given}; give a number from 1 up")
    config, models = load_config(read_config(args))
    table = work_table(Measured(make_plan(config, models), RESULTS))
    beside = BY[args.by]
    names = ["stage"] if beside is None else ["stage", beside]
    rows = [*summed(table, names).iter_rows(named=True)]
    (total,) = summed(table.with_columns(stage=pl.lit("total")), ["stage"]).to_dicts()
    total |= {"items_high": None}  # documents, requests and pairs are no sum
    cells = [(*(row.get(name) or "" for name in names), *_cells(row)) for row in (*rows, total)]
    lines = [*aligned([(*names, *HEADINGS), *cells], n_text=len(names))]
    lines += _totals(config, total)
    lines += _unknown(table, config)
    lines += _bottleneck(config, table, jobs=args.jobs, gpus=args.gpus)
    print("\n".join(lines))
    write_unrounded(table, args.csv)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    def ends(name: str, per: float = 1.0) -> str:
        low, high = row[f"{name}_low"], row[f"{name}_high"]
        if high is None:
            return UNDEFINED
        low, high = number(low / per), number(high / per)
        return low if low == high else f"{low} to {high}"

    def one(name: str, per: float) -> str:
        return UNDEFINED if row[name] is None else number(row[name] / per)

    tokens = (ends("tokens_in", 1e6), ends("tokens_out", 1e6))
    computing = (ends("gpu_minutes", 60), one("cpu_minutes", 60))
    jobs = (f"{row['jobs']:,}", one("job_minutes", 1))
    rooms = (one("store_bytes", 1e9), one("results_bytes", 1e9))
    return (ends("items"), *tokens, *computing, *jobs, *rooms, ends("usd"))


def number(value: float) -> str:
    """Write a number: three digits behind the point below 1, one up to 100, then none."""
    if value == int(value) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.3f}"


def _totals(config: Config, total: dict[str, Any]) -> Iterator[str]:
    """Say what the sums are by."""
    from psibench.plan.texts import CPU_GFLOPS

    encoding, n_cores = config.encoding, os.cpu_count() or 1
    if total["gpu_minutes_high"] is not None:
        yield (
            f"GPU hours by {encoding.gpu_tflops:g} TFLOPS (encoding.gpu_tflops), language models "
            f"that write by {encoding.gpu_gb_per_s:g} GB/s (encoding.gpu_gb_per_s); CPU hours by "
            f"this machine's {n_cores} cores of {CPU_GFLOPS} GFLOPS."
        )
    if total["usd_high"] is not None:
        yield "USD by task and model, and what they rest on: `psibench estimate`."


def _unknown(table: "pl.DataFrame", config: Config) -> Iterator[str]:
    """Say why numbers are not known."""
    import polars as pl

    unknown = table.filter(pl.col("basis") == "unknown")
    if len(unknown):
        names = unknown.get_column("benchmark").unique(maintain_order=True)
        yield (
            f"Not counted: {', '.join(names)}. Nobody can tell how many texts there will be (no "
            "sample.n_documents, and a source that is large or on the hub): build it first. "
            "encoding.shards: NUMBER cuts its encodings into so many jobs."
        )
    known = table.filter(pl.col("basis") != "unknown")
    reads = known.filter(pl.col("tokens_in_high") > 0)
    writes = pl.col("tokens_out_high").is_not_null()
    served = [name for name, llm in resolve_llms(config).items() if llm.backend == "vllm"]
    here = reads.filter(writes, pl.col("by").is_in(served))
    elsewhere = reads.filter(writes, ~pl.col("by").is_in(served), pl.col("usd_high").is_null())
    computed = reads.filter(~writes, pl.col("answered").is_null())
    no_size = "neither its entry nor a checkpoint on this machine says how large it is; "
    gpus, on_cpu = here.filter(pl.col("gpus") > 0), here.filter(gpus=0)
    for what, rows, column, advice in (
        ("GPU hours", computed, "cpu_minutes", f"{no_size}set `parameters_m`"),
        ("GPU hours", gpus, "gpu_minutes_high", "set `vllm.parameters_b`"),
        ("CPU hours", on_cpu, "cpu_minutes", "set `vllm.tokens_per_s` as a trial run shows it"),
        ("room", known.filter(stage="encode"), "store_bytes", f"{no_size}set `dim`, `max_terms`"),
        ("GPU hours or price", elsewhere, "gpu_minutes_high", "set `vllm: {parameters_b: ...}`"),
    ):
        if lacking := _without(rows, column):
            yield f"No {what} of {lacking}: {advice} in its entry."


def _without(rows: "pl.DataFrame", column: str) -> str:
    """List by whom the rows are that lack a number."""
    lacking = rows.filter(rows[column].is_null()).get_column("by").unique(maintain_order=True)
    return ", ".join(lacking)


def _bottleneck(
    config: Config, table: "pl.DataFrame", *, jobs: int | None, gpus: int | None
) -> Iterator[str]:
    """Say how long each stage takes, with so many jobs and GPUs at once, the longest first."""
    from psibench.plan.work import wall_minutes

    on_cpu = config.encoding.device == "cpu"
    n_jobs = jobs or (1 if on_cpu else _jobs_of_profile())
    n_gpus = gpus or n_jobs
    stages = wall_minutes(table, jobs=n_jobs, gpus=n_gpus, on_cpu=on_cpu)
    if not len(stages):
        return
    each = ", ".join(f"{stage} {duration(minutes)}" for stage, minutes in stages.iter_rows())
    whole = float(stages["minutes"].sum())
    at_once = f"{n_jobs:,} job{'s' * (n_jobs > 1)}"
    at_once += "" if on_cpu else f" and {n_gpus:,} GPU{'s' * (n_gpus > 1)}"
    yield (
        f"Bottleneck: {stages['stage'][0]}. At least, by the larger numbers, with {at_once} at "
        f"once (--jobs, --gpus): {each}; one after the other {duration(whole)}."
    )


def _jobs_of_profile() -> int:
    from psibench.config.files import read_yaml

    here = Path("profiles/slurm/config.yaml")
    profile = read_yaml(here if here.is_file() else PROFILES / "slurm" / "config.yaml")
    return int(profile["jobs"])


def duration(minutes: float) -> str:
    """Write a time: in minutes below two hours, in hours below two days, else in days."""
    if minutes < 1:
        return "less than a minute"
    for unit, size in (("days", 1440), ("hours", 60)):
        if minutes >= 2 * size:
            return f"{minutes / size:,.1f} {unit}"
    return f"{number(round(minutes, 1))} minutes"


COMMAND = Command(
    description="Print what each stage of a config has to do: items, tokens, GPU and CPU hours, "
    "jobs, room in the store and in results, money; and which stage takes longest. Counts are "
    "those of the tables that a run made, else of the config's numbers (documents of a sample "
    "spread over its length bins, queries by what filters left in a run or in the papers), else of "
    "the source where it is here. Two operations per parameter (input embeddings aside) and token. "
    "Nothing is run.",
    add_arguments=add_arguments,
    run=run_plan,
)
