"""`psibench show`: print a PSI table or a table of probes."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from psibench.commands.base import RESULTS_FOLDER
from psibench.commands.psi_text import print_glance
from psibench.commands.text_table import TextForm, frame_lines
from psibench.errors import InputError
from psibench.probes.tables import PROBE_TABLE
from psibench.report.views import author_texts
from psibench.report.wording import p_value
from psibench.tables import read_provenance, read_table
from psibench.tables.build_schemas import FLOW
from psibench.tables.domains import LANGUAGE, by_place
from psibench.tables.ledger import most_lost
from psibench.tables.schemas import ATTRITION, PSI_TABLE
from psibench.tables.spec import ALL

PROBE_NAMES = (
    *("benchmark", "language", "domain", "probe", "model", "measure", "condition", "read", "size"),
)

MOST_POSITIONS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `psibench show`."""
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        help="psi_table.parquet or probe_table.parquet; default: the PSI table in results, else "
        "the probe table",
    )


def run(args: argparse.Namespace) -> None:
    """Print the main rows of a table, with verdicts for a PSI table."""
    file = args.file or _default_table()
    record = read_provenance(file) or {}
    if record.get("table") == PROBE_TABLE.name:
        print("\n".join(probe_lines(read_table(file, PROBE_TABLE))))
        return
    csv = file.with_suffix(".csv")
    print_glance(read_table(file, PSI_TABLE), csv if csv.is_file() else file)
    print(*author_texts(str(record.get("queries_by") or "")).values(), sep="\n")
    benchmarks = read_table(file, PSI_TABLE)["benchmark"].unique(maintain_order=True)
    for line in (one for name in benchmarks for one in lost_lines(file.parent / name)):
        print(line)


def lost_lines(folder: Path) -> Iterator[str]:
    """Yield where a benchmark lost most queries in each language, and what to try.

    ``folder`` is the benchmark's folder of results; yields nothing without its ledger, e.g. for a
    view.
    """
    specs = {"flow": by_place(FLOW), "attrition": ATTRITION}
    paths = {name: folder / f"{name}.parquet" for name in specs}
    if not all(path.is_file() for path in paths.values()):
        return
    flow, dropped = (read_table(paths[name], spec) for name, spec in specs.items())
    for language in flow[LANGUAGE.name].unique(maintain_order=True):
        for text in most_lost(flow, dropped, language=language):
            yield f"{folder.name}, {language}: {text}"


def _default_table() -> Path:
    candidates = [RESULTS_FOLDER / f"{name}.parquet" for name in ("psi_table", "probe_table")]
    table = next((path for path in candidates if path.is_file()), None)
    if table is None:
        raise InputError(
            f"no {' and no '.join(map(str, candidates))} in {Path.cwd()}; name a table, or change "
            "to the folder of the run"
        )
    return table


def probe_lines(table: pl.DataFrame) -> Iterator[str]:
    """Yield the summary rows of a PROBE_TABLE."""
    # All documents, all sizes together, and the first positions.
    of_any_size, size = [n for n in PROBE_NAMES if n not in ("condition", "size")], pl.col("size")
    shown = table.filter(
        ~pl.col("measure").str.ends_with(" profile"),
        size.is_null() | ~size.is_null().any().over(of_any_size),
        pl.col("place").is_null() | (pl.col("place") <= MOST_POSITIONS),
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
    forms: dict[str, TextForm] = {"p": p_value, "size": ".0%"}
    forms |= dict.fromkeys(("value", "interval"), ".4f")
    yield from frame_lines(lines, forms, n_text=len(PROBE_NAMES))


DESCRIPTION = (
    "Print a psi_table.parquet with a verdict and a next step per model, or the summary rows of a "
    "probe_table.parquet. The CSV file next to a table has every row."
)
