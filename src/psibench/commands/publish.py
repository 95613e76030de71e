"""`psibench publish`: many runs on one page."""

import argparse
import sys
from pathlib import Path

from psibench.commands.base import refuse_unwritable
from psibench.errors import InputError
from psibench.report.leaderboard import all_rows, render_leaderboard, runs_of
from psibench.tables import write_text
from psibench.tables.schemas import PSI_TABLE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is published: a command of its own, so that folders may stand behind options."""
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="WHAT")
    text = "many runs side by side, one page"
    board = kinds.add_parser("leaderboard", help=text, description=DESCRIPTION, allow_abbrev=False)
    board.add_argument(
        "results",
        type=Path,
        nargs="+",
        metavar="RESULTS",
        help="folders with a psi_table.parquet: the results of a run, or --out of psibench score",
    )
    board.add_argument(
        "--out", type=Path, required=True, metavar="FILE.html", help="the page; replaced if there"
    )


def run(args: argparse.Namespace) -> None:
    """Write the page of the runs."""
    refuse_unwritable("--out", args.out)
    name = f"{PSI_TABLE.name}.parquet"
    runs = runs_of([one.parent if one.name == name else one for one in args.results])
    rows = all_rows(runs)
    if rows.is_empty():
        raise InputError(f"{', '.join(map(str, args.results))}: no row to show")
    twice = rows.filter("is_twice").select("benchmark", "model", "source")
    twice = twice.unique(maintain_order=True)
    for (benchmark, model), group in twice.group_by("benchmark", "model", maintain_order=True):
        named = ", ".join(f"{model} ({source})" for source in group["source"])
        print(
            f"{model} is on {benchmark} in {group.height} runs; on the page: {named}",
            file=sys.stderr,
        )
    write_text(render_leaderboard(runs, rows, args.out.parent), args.out)
    print(args.out)


DESCRIPTION = (
    "Write one HTML file with the PSI tables of several runs side by side: mean, PSI, p-values, "
    "and a word per model. A model's name leads to the report.html of its run."
)
