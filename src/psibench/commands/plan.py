"""`psibench plan`: the work of every stage of a config, its time and its cost."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psibench.commands.base import add_config, read_given, refuse_unwritable
from psibench.commands.json_output import add_json, messages_to_stderr, print_json
from psibench.config.paths import RESULTS_FOLDER
from psibench.plan.config import load_config
from psibench.report.text_table import UNDEFINED, aligned

if TYPE_CHECKING:
    import polars as pl

    from psibench.plan.benchmarks import PlannedBenchmark
    from psibench.plan.plan import Plan

BY = {"stage": None, "model": "by", "language": "language", "benchmark": "benchmark"}
"""The label column besides the stage, by value of --by."""
WORK_COLUMNS = {
    "items": ("items", 1),
    "M tokens in": ("tokens_in", 1e6),
    "out": ("tokens_out", 1e6),
    "GPU h": ("gpu_minutes", 60),
    "CPU h": ("cpu_minutes", 60),
    "jobs": ("jobs", 1),
    "longest, min": ("job_minutes", 1),
    "store GB": ("store_bytes", 1e9),
    "USD": ("usd", 1),
}
"""Column of the table of work and divisor of its numbers, by heading."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `psibench plan`."""
    add_config(parser, bare=True)
    parser.add_argument(
        "--by",
        choices=BY,
        default="stage",
        help="one row per stage, or per stage and model, language or benchmark (default: stage)",
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write all rows, not rounded")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Print the table of a config's work, with totals."""
    with messages_to_stderr(args.json):
        content = _plan(args)
    if args.json:
        print_json("plan", content)


def _plan(args: argparse.Namespace) -> dict[str, Any]:
    """Print the table (without --json) and return the document's content."""
    import polars as pl

    from psibench.plan.measured import MeasuredWork
    from psibench.plan.plan import make_plan
    from psibench.plan.work import UNCERTAINTY, long_jobs, summed, work_table
    from psibench.tables.atomic import atomic_path

    refuse_unwritable("--csv", args.csv)
    config, models = load_config(read_given(args))
    plan = make_plan(config, models)
    work = MeasuredWork(plan, RESULTS_FOLDER)
    table = work_table(work)
    if args.csv is not None and not table.is_empty():
        with atomic_path(args.csv) as temporary:
            table.write_csv(temporary)
    names = [name for name in ("stage", BY[args.by]) if name is not None]
    notes = [] if table.is_empty() else [*long_jobs(work), *_notes(table, plan)]
    rows = summed(table, names)
    (total,) = summed(table.with_columns(stage=pl.lit("total")), ["stage"]).to_dicts() or [{}]
    total["items"] = None  # documents, requests and pairs cannot be added
    if args.json:
        about = {"by": args.by, "uncertainty_factor": UNCERTAINTY, "rows": rows}
        return about | {"total": total, "notes": notes}
    if table.is_empty():
        print("This config has no work: nothing to compute and no requests.")
        return {}
    print_rows([*rows.iter_rows(named=True), total], names, WORK_COLUMNS)
    print("\n".join(notes))
    return {}


def print_rows(
    rows: Iterable[Mapping[str, Any]],
    labels: Sequence[str],
    columns: Mapping[str, tuple[str, float]],
) -> None:
    """Print rows of the table of work, and the uncertainty of their numbers."""
    from psibench.plan.texts import UNCERTAIN

    cells = [
        (
            *(row.get(name) or "" for name in labels),
            *(_cell(name, row[name], per) for name, per in columns.values()),
        )
        for row in rows
    ]
    print("\n".join(aligned([(*labels, *columns), *cells], n_text=len(labels))))
    print(
        f"Estimates: expected values; most actual values are {UNCERTAIN} these. After a trial run, "
        "its measurements replace the assumptions."
    )


def _cell(name: str, value: float | None, per: float) -> str:
    if value is None:
        return UNDEFINED
    return money(value) if name == "usd" else amount(value / per)


def amount(value: float) -> str:
    """Return a number as text: three decimals below 1, one up to 10, then none."""
    if value == int(value) or value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.3f}"


def money(usd: float) -> str:
    """Return US dollars as text: cents up to a hundred, whole dollars above."""
    if 0 < usd < 0.01:
        return "<0.01"
    return f"{usd:,.2f}" if usd < 100 else f"{usd:,.0f}"


def _notes(table: "pl.DataFrame", plan: "Plan") -> Iterator[str]:
    import polars as pl

    from psibench.plan.work import CPU_GFLOPS, n_cores

    encoding = plan.config.encoding
    if table["gpu_minutes"].count():
        yield (
            f"GPU hours assume {encoding.gpu_tflops:g} TFLOPS (encoding.gpu_tflops), and for text "
            f"generation {encoding.gpu_gb_per_s:g} GB/s (encoding.gpu_gb_per_s). CPU hours are "
            f"the same work without a GPU, on this machine ({n_cores()} cores, {CPU_GFLOPS} "
            "GFLOPS each)."
        )
    yield "`psibench estimate` lists the paid requests."
    yield from unknown_counts(table, plan)
    reads = table.filter(pl.col("tokens_in") > 0)
    times = pl.col("cpu_minutes", "gpu_minutes", "usd")
    no_time = reads.filter(pl.all_horizontal(times.is_null()))
    no_size = reads.filter(pl.col("store_bytes").is_null(), stage="encode")
    sizes = "size (parameters_m; vllm: parameters_b or, on a CPU, tokens_per_s) or price"
    for what, rows, missing in (
        ("Time", no_time, sizes),
        ("Disk use", no_size, "dimensions (dim, max_terms)"),
    ):
        if len(rows):
            names = ", ".join(rows["by"].unique(maintain_order=True))
            yield f"{what} of {names} unknown: its entry has no {missing}."


def unknown_counts(table: "pl.DataFrame", plan: "Plan") -> Iterator[str]:
    """Yield a line per benchmark with an unknown text count: the reason, and a run that counts."""
    names = table.filter(basis="unknown")["benchmark"]
    for name in dict.fromkeys(plan.named[one].base for one in names):
        planned = plan.benchmarks[name]
        yield (
            f"Text count of {name} unknown: {_why_unknown(planned)}. Run `psibench run CONFIG "
            f"{_counting(planned)}` (makes no paid calls). Until then its encodings are one job "
            "each, or `encoding.shards: NUMBER` jobs."
        )


def _counting(planned: "PlannedBenchmark") -> str:
    """Return the arguments of a run that reads a benchmark's texts without language models."""
    if planned.is_generated:
        return "-- --until sample"
    if not planned.translated:
        return f"results/{planned.id}/statistics.parquet"
    return " ".join(path for lang in planned.native for path in planned.tables(lang, "corpus"))


def _why_unknown(planned: "PlannedBenchmark") -> str:
    from psibench.config.sources import BeirSource, FarRelevantSource, HubSource
    from psibench.plan.sources import MOST_DOCUMENTS

    if planned.is_generated:
        return "its section has no sample.n_documents"
    if any(isinstance(place.source, FarRelevantSource) for place in planned.places):
        return "collections in FarRelevant's layout are counted on reading"
    if any(isinstance(place.source, BeirSource) for place in planned.places):
        return "datasets in BEIR's layout are counted on reading"
    if any(isinstance(place.source, HubSource) for place in planned.places):
        return "its texts are on the hub"
    return f"its source has {MOST_DOCUMENTS:,} documents or more, or cannot be read"


DESCRIPTION = (
    "Print the work of each stage of a config: items, tokens, GPU and CPU hours, jobs and the "
    "longest job, disk use, cost. Counts come from the tables of a run, else from local files, "
    "else from the config (documents of a sample spread over its length bins, queries by the share "
    "that filters keep in a run or in the papers). Assumes two operations per parameter (without "
    "input embeddings) and token. Runs nothing."
)
