"""`psibench plan`: what every stage of a config has to do, takes and costs."""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psibench.commands.base import (
    add_config,
    read_given,
    refuse_unwritable,
)
from psibench.commands.text_table import UNDEFINED, aligned
from psibench.plan.config import load_config

if TYPE_CHECKING:
    import polars as pl

    from psibench.plan.benchmarks import PlannedBenchmark
    from psibench.plan.plan import Plan

RESULTS = Path("results")
BY = {"stage": None, "model": "by", "language": "language", "benchmark": "benchmark"}
"""What rows are summed by -> the column beside the stage."""
HEADINGS = ("items", "M tokens in", "out", "GPU h", "CPU h", "jobs", "longest, min", "store GB")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the config, what is summed up, and a CSV file."""
    add_config(parser, bare=True)
    parser.add_argument(
        "--by",
        choices=BY,
        default="stage",
        help="rows: each stage, or each stage by model, language or benchmark (default stage)",
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write all rows, unrounded")


def run(args: argparse.Namespace) -> None:
    """Print the table of a config's work, and its sums."""
    import polars as pl

    from psibench.plan.measured import Measured
    from psibench.plan.plan import make_plan
    from psibench.plan.work import long_jobs, summed, work_table
    from psibench.tables.atomic import atomic_path

    refuse_unwritable("--csv", args.csv)
    config, models = load_config(read_given(args))
    plan = make_plan(config, models)
    known = Measured(plan, RESULTS)
    table = work_table(known)
    if table.is_empty():
        print("This config has nothing that computes or asks.")
        return
    names = [name for name in ("stage", BY[args.by]) if name is not None]
    (total,) = summed(table.with_columns(stage=pl.lit("total")), ["stage"]).to_dicts()
    total |= {"items_high": None}  # documents, requests and pairs are no sum
    rows = [*summed(table, names).iter_rows(named=True), total]
    cells = [(*(row.get(name) or "" for name in names), *_cells(row)) for row in rows]
    print("\n".join(aligned([(*names, *HEADINGS, "USD"), *cells], n_text=len(names))))
    for line in (*long_jobs(known), *_notes(table, plan)):
        print(line)
    if args.csv is not None:
        with atomic_path(args.csv) as temporary:
            table.write_csv(temporary)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    def one(name: str, per: float = 1.0) -> str:
        return UNDEFINED if row[name] is None else number(row[name] / per)

    def between(name: str, per: float = 1.0) -> str:
        return ends(row, name, lambda value: number(value / per))

    tokens = (between("tokens_in", 1e6), between("tokens_out", 1e6))
    hours = (between("gpu_minutes", 60), one("cpu_minutes", 60))
    jobs = (f"{row['jobs']:,}", one("job_minutes"))
    return (between("items"), *tokens, *hours, *jobs, one("store_bytes", 1e9), between("usd"))


def ends(row: dict[str, Any], name: str, write: Callable[[float], str]) -> str:
    """Write a range, one number where both ends are alike."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return UNDEFINED if high is None else " to ".join(dict.fromkeys((write(low), write(high))))


def number(value: float) -> str:
    """Write a number: three digits behind the point below 1, one up to 100, then none."""
    if value == int(value) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.3f}"


def _notes(table: "pl.DataFrame", plan: "Plan") -> Iterator[str]:
    """Say what hours are by, and why numbers are not known."""
    import polars as pl

    from psibench.plan.work import CPU_GFLOPS, n_cores

    encoding = plan.config.encoding
    if table["gpu_minutes_high"].count():
        yield (
            f"GPU hours by {encoding.gpu_tflops:g} TFLOPS (encoding.gpu_tflops), language models "
            f"that write by {encoding.gpu_gb_per_s:g} GB/s (encoding.gpu_gb_per_s). CPU hours are "
            "the same work without a GPU, at most: hours of this machine (cores: "
            f"{n_cores()}, of {CPU_GFLOPS} GFLOPS each)."
        )
    yield "`psibench estimate` has what is paid."
    known = pl.col("basis") != "unknown"
    if len(unknown := table.filter(~known)):
        for name in dict.fromkeys(plan.named[one].base for one in unknown["benchmark"]):
            yield (
                f"Not counted: {name}. {_why_unknown(plan.benchmarks[name])}: `psibench run CONFIG "
                "-- --until sample build` first, which asks nobody. encoding.shards: NUMBER cuts "
                "its encodings into so many jobs."
            )
    reads = table.filter(known, pl.col("tokens_in_high") > 0)
    no_time = reads.filter(
        pl.all_horizontal(pl.col("cpu_minutes", "gpu_minutes_high", "usd_high").is_null())
    )
    no_room = reads.filter(pl.col("store_bytes").is_null(), stage="encode")
    for what, rows, keys in (
        ("hours", no_time, "parameters_m; vllm: parameters_b or, on a CPU, tokens_per_s; price"),
        ("room", no_room, "dim, max_terms"),
    ):
        if len(rows):
            names = ", ".join(rows["by"].unique(maintain_order=True))
            yield f"No {what} of {names}: its entry does not say its size ({keys})."


def _why_unknown(planned: "PlannedBenchmark") -> str:
    """Say why nobody can tell how many texts a benchmark will have."""
    from psibench.config.sources import BeirSource, HubSource
    from psibench.plan.sources import MOST_DOCUMENTS

    if planned.is_generated:
        return "Its section does not say how many documents are drawn (sample.n_documents)"
    if any(isinstance(place.source, BeirSource) for place in planned.places):
        return "Datasets in BEIR's layout are counted when they are read"
    if any(isinstance(place.source, HubSource) for place in planned.places):
        return "Its texts are on the hub"
    return f"Its source has {MOST_DOCUMENTS:,} documents or more, or cannot be read"


DESCRIPTION = (
    "Print what each stage of a config has to do: items, tokens, GPU and CPU hours, "
    "jobs and the longest of them, room in the store, money. Counts are those of the tables "
    "that a run made, else of local files, else of the config's numbers (documents of a sample "
    "spread over its length bins, queries by what filters left in a run or in the papers). "
    "Two operations per parameter (input embeddings aside) and token. Nothing is run."
)
