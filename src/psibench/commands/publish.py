"""`psibench publish`: one page for several runs."""

import argparse
import sys
from pathlib import Path

from psibench.commands.base import refuse_unwritable
from psibench.errors import InputError
from psibench.report.leaderboard import all_rows, render_leaderboard, runs_of
from psibench.tables import write_text
from psibench.tables.schemas import PSI_TABLE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands, so that folders may follow options."""
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="WHAT")
    text = "write one page that compares several runs"
    board = kinds.add_parser("leaderboard", help=text, description=DESCRIPTION, allow_abbrev=False)
    board.add_argument(
        "results",
        type=Path,
        nargs="+",
        metavar="RESULTS",
        help="folders with a psi_table.parquet: results of a run, or --out of psibench score",
    )
    board.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE.html",
        help="the page; an existing file is replaced",
    )


def run(args: argparse.Namespace) -> None:
    """Write the page of the runs."""
    refuse_unwritable("--out", args.out)
    name = f"{PSI_TABLE.name}.parquet"
    runs = runs_of([one.parent if one.name == name else one for one in args.results])
    rows = all_rows(runs)
    if rows.is_empty():
        raise InputError(f"{', '.join(map(str, args.results))}: the tables have no rows")
    twice = rows.filter("is_twice").select("benchmark", "model", "source")
    twice = twice.unique(maintain_order=True)
    for (benchmark, model), group in twice.group_by("benchmark", "model", maintain_order=True):
        named = ", ".join(f"{model} ({source})" for source in group["source"])
        print(
            f"{model} is in {group.height} runs of {benchmark}; names on the page: {named}",
            file=sys.stderr,
        )
    write_text(render_leaderboard(runs, rows, args.out.parent), args.out)
    print(args.out)


DESCRIPTION = (
    "Write one HTML file with the PSI tables of several runs: mean, PSI, p-values and a verdict "
    "per model. A model's name links to the report.html of its run."
)
