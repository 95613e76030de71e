"""`psibench show`: a PSI table or the figures of probes on the terminal."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from psibench.commands.psi_text import print_glance
from psibench.commands.text_table import Form, frame_lines
from psibench.errors import InputError
from psibench.probes.tables import PROBE_TABLE
from psibench.report.views import author_texts
from psibench.report.wording import p_value
from psibench.tables import read_provenance, read_table
from psibench.tables.schemas import PSI_TABLE
from psibench.tables.spec import ALL

PROBE_NAMES = (
    *("benchmark", "language", "domain", "probe", "model", "measure", "condition", "read", "size"),
)

MOST_PLACES = 10
RESULTS = Path("results")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file and how much of it to show."""
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        help="a psi_table or probe_table.parquet; default: the PSI table in results, else that of "
        "the probes",
    )


def run(args: argparse.Namespace) -> None:
    """Print what a table comes to."""
    file = args.file or _table_here()
    record = read_provenance(file) or {}
    if record.get("table") == PROBE_TABLE.name:
        print("\n".join(probe_lines(read_table(file, PROBE_TABLE))))
        return
    beside = file.with_suffix(".csv")
    print_glance(read_table(file, PSI_TABLE), beside if beside.is_file() else file)
    print(*author_texts(str(record.get("queries_by") or "")).values(), sep="\n")


def _table_here() -> Path:
    """Return the table of the results here; raise InputError if there is none."""
    found = [RESULTS / f"{name}.parquet" for name in ("psi_table", "probe_table")]
    there = next((path for path in found if path.is_file()), None)
    if there is None:
        raise InputError(
            f"no {' and no '.join(map(str, found))} in {Path.cwd()}; name a table, or go to the "
            "folder of the run"
        )
    return there


def probe_lines(table: pl.DataFrame) -> Iterator[str]:
    """Yield the PROBE_TABLE rows that sum probes up."""
    # Of all documents; all sizes as one; of places the first.
    of_any_size, size = [n for n in PROBE_NAMES if n not in ("condition", "size")], pl.col("size")
    shown = table.filter(
        ~pl.col("measure").str.ends_with(" profile"),
        size.is_null() | ~size.is_null().any().over(of_any_size),
        pl.col("place").is_null() | (pl.col("place") <= MOST_PLACES),
        domain=ALL,
        read="all",
    )
    lines = shown.select(
        *PROBE_NAMES,
        "value",
        interval=pl.concat_list("low", "high"),
        p="p",
        relative="relative",
        docs="n_documents",
    )
    forms: dict[str, Form] = {"p": p_value, "size": ".0%"}
    forms |= dict.fromkeys(("value", "interval"), ".4f")
    yield from frame_lines(lines, forms, n_text=len(PROBE_NAMES))


DESCRIPTION = (
    "Print what a psi_table.parquet comes to, a word per model and what to do; or the rows that "
    "sum up a probe_table.parquet. The CSV beside a table has every row."
)
