"""`psibench publish`: a model's results as the hub reads them; many runs on one page."""

import argparse
import sys
from pathlib import Path

from psibench.commands.base import refuse_unwritable
from psibench.errors import InputError
from psibench.publish.results import corpus_rows, eval_results
from psibench.report.leaderboard import all_rows, render_leaderboard, runs_of
from psibench.tables import read_provenance, read_table, write_text
from psibench.tables.schemas import PSI_TABLE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the two things that are published."""
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="WHAT")
    text = "many runs side by side, one page that loads nothing"
    board = kinds.add_parser(
        "leaderboard",
        help=text,
        description="Write one HTML file with the PSI tables of several runs side by side: mean, "
        "groups that are not told apart, PSI, p-values, and a word per model. A model's name leads "
        "to the report.html of its run.",
    )
    board.add_argument(
        "results",
        type=Path,
        nargs="*",
        metavar="RESULTS",
        help="folders with a psi_table.parquet: the results of a run, or --out of psibench score; "
        "none: --example",
    )
    board.add_argument(
        "--example",
        action="store_true",
        help="the figures of the papers, alone or beside those of RESULTS",
    )
    board.add_argument(
        "--out", type=Path, required=True, metavar="FILE.html", help="the page; replaced if there"
    )
    results = kinds.add_parser(
        "results",
        help="a model's results for its repository on the hub",
        description="Write OUT/.eval_results/BENCHMARK.yaml: nDCG@10 of each corpus in percent "
        "with the PSI in the notes.",
    )
    results.add_argument("table", type=Path, metavar="PSI_TABLE", help="a psi_table.parquet")
    results.add_argument("model", help="id of the model in the table")
    results.add_argument("out", type=Path, metavar="OUT", help="folder of the model, or a new one")
    results.add_argument("--benchmark", required=True, help="id of the benchmark in the table")
    results.add_argument(
        "--dataset", required=True, metavar="OWNER/NAME", help="the benchmark on the hub"
    )
    results.add_argument(
        "--pooled",
        action="store_true",
        help="the domains of a language were searched as one corpus, or there is one domain: take "
        "the rows of all domains (else those of each domain)",
    )
    results.add_argument(
        "--source", required=True, metavar="URL", help="where the evaluation is to be read"
    )


def run(args: argparse.Namespace) -> None:
    """Write the page, or the file of a model's results."""
    (_leaderboard if args.kind == "leaderboard" else _results)(args)


def _leaderboard(args: argparse.Namespace) -> None:
    """Write the page of runs, of published figures, or of both."""
    refuse_unwritable("--out", args.out)
    name = f"{PSI_TABLE.name}.parquet"
    runs = runs_of([one.parent if one.name == name else one for one in args.results])
    rows = all_rows(runs, published=args.example or not runs)
    if rows.is_empty():
        raise InputError(f"{', '.join(map(str, args.results))}: no row to show")
    twice = rows.filter("is_twice").select("benchmark", "model", "source")
    twice = twice.unique(maintain_order=True)
    for (benchmark, model), own in twice.group_by("benchmark", "model", maintain_order=True):
        named = ", ".join(f"{model} ({source})" for source in own["source"])
        print(
            f"{model} is on {benchmark} in {own.height} runs; on the page: {named}",
            file=sys.stderr,
        )
    write_text(render_leaderboard(runs, rows, args.out.parent), args.out)
    print(args.out)


def _results(args: argparse.Namespace) -> None:
    """Write `.eval_results/BENCHMARK.yaml`."""
    rows = corpus_rows(
        read_table(args.table, PSI_TABLE),
        benchmark=args.benchmark,
        model=args.model,
        pooled=args.pooled,
    )
    day = str((read_provenance(args.table) or {}).get("created", ""))[:10]
    results = eval_results(rows, dataset=args.dataset, source_url=args.source, date=day)
    path = args.out / ".eval_results" / f"{args.benchmark}.yaml"
    if path.exists():
        raise InputError(f"{path} is there; remove it, or name another folder")
    write_text(results, path)
    print(path)


DESCRIPTION = (
    "Write many runs side by side on one static page, or a model's results for its "
    "repository on the hub."
)
