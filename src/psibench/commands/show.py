"""`psibench show`: print a PSI table, a table of probes, or a published table."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from psibench.commands.base import config_file
from psibench.commands.json_output import print_json
from psibench.config.paths import RESULTS_FOLDER
from psibench.errors import InputError
from psibench.metrics.buckets import bucket_scheme
from psibench.papers.figures import PUBLISHED, published_tables
from psibench.probes.tables import PROBE_TABLE
from psibench.report.paper_tables import PaperTable, latex, markdown, paper_tables
from psibench.report.psi_text import print_glance
from psibench.report.summary import chosen_rows, summaries
from psibench.report.text_table import TextForm, frame_lines
from psibench.report.views import author_texts
from psibench.report.wording import p_value
from psibench.tables import read_provenance, read_table
from psibench.tables.build_schemas import FLOW
from psibench.tables.domains import LANGUAGE, by_place
from psibench.tables.ledger import most_lost
from psibench.tables.schemas import ATTRITION, BUCKET_SCORES, PSI_TABLE
from psibench.tables.spec import ALL

PROBE_NAMES = (
    *("benchmark", "language", "domain", "probe", "model", "measure", "condition", "read", "size"),
)

MOST_POSITIONS = 10
WRITERS = {"latex": latex, "markdown": markdown}
"""The function by format that writes a table of a paper."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `psibench show`."""
    parser.add_argument(
        "file",
        type=config_file,
        nargs="?",
        help="psi_table.parquet or probe_table.parquet; default: the PSI table in results, else "
        "the probe table. shipped:published/posq_table1.csv is a published table (docs/papers.md)",
    )
    group = parser.add_argument_group("other formats of a PSI table")
    group.add_argument(
        "--format",
        choices=("text", *WRITERS, "json"),
        default="text",
        help="latex or markdown: a table per benchmark and language pair for a paper, with buckets "
        "as columns, mean and PSI, the best in bold; json: one document (docs/json.md). Reads "
        f"{BUCKET_SCORES.name}.parquet next to the table. Default: text",
    )
    group.add_argument("--intervals", action="store_true", help="latex, markdown: also intervals")
    group.add_argument(
        "--equal-documents",
        action="store_true",
        help="latex, markdown: bucket means and PSI at equal documents instead of plain means and "
        "the published PSI",
    )
    group.add_argument(
        "--buckets", metavar="SCHEME", help="bucket scheme; default: the first of each benchmark"
    )
    group.add_argument("--metric", help="default: ndcg@10, or the first metric")


def run(args: argparse.Namespace) -> None:
    """Print the main rows of a table, with verdicts for a PSI table."""
    _check_options(args)
    file = args.file or _default_table()
    if file.suffix == ".csv":
        show_published(file, args)
        return
    if args.format == "text":
        show_table(file)
    elif not is_probe_table(file):
        show_formatted(file, args)
    elif args.format == "json":
        print_json("show", {"probes": read_table(file, PROBE_TABLE)})
    else:
        raise InputError(f"{file}: --format {args.format} needs a {PSI_TABLE.name}.parquet")


def is_probe_table(file: Path) -> bool:
    """Return whether a file is a table of probes."""
    return (read_provenance(file) or {}).get("table") == PROBE_TABLE.name


def show_table(file: Path) -> None:
    """Print the main rows of a table as text, with verdicts for a PSI table."""
    if is_probe_table(file):
        print("\n".join(probe_lines(read_table(file, PROBE_TABLE))))
        return
    record = read_provenance(file) or {}
    csv = file.with_suffix(".csv")
    print_glance(read_table(file, PSI_TABLE), csv if csv.is_file() else file)
    print(*author_texts(str(record.get("queries_by") or "")).values(), sep="\n")
    benchmarks = read_table(file, PSI_TABLE)["benchmark"].unique(maintain_order=True)
    for line in (one for name in benchmarks for one in lost_lines(file.parent / name)):
        print(line)


def _check_options(args: argparse.Namespace) -> None:
    """Raise InputError if an option does not fit the format."""
    fitting = {"text": (), "json": ("buckets", "metric")}
    fits = fitting.get(args.format, ("intervals", "equal_documents", "buckets", "metric"))
    for name in ("intervals", "equal_documents", "buckets", "metric"):
        if getattr(args, name) and name not in fits:
            formats = [*WRITERS, "json"] if name in fitting["json"] else [*WRITERS]
            option = name.replace("_", "-")
            raise InputError(f"--{option} needs --format {' or '.join(formats)}")
    if args.buckets is not None:
        bucket_scheme(args.buckets)


def show_formatted(file: Path, args: argparse.Namespace) -> None:
    """Print a PSI table as LaTeX, Markdown or JSON.

    Raises InputError if the table of bucket means is missing, or has no rows of the scheme or the
    metric.
    """
    psi, path = read_table(file, PSI_TABLE), file.with_name(f"{BUCKET_SCORES.name}.parquet")
    if not path.is_file():
        raise InputError(f"{path}: --format {args.format} needs this table next to {file}")
    for name, value in {"buckets": args.buckets, "metric": args.metric}.items():
        known = psi[name].unique(maintain_order=True).to_list()
        if value is not None and value not in known:
            raise InputError(f"{file}: no rows of --{name} {value}; found: {', '.join(known)}")
    buckets = read_table(path, BUCKET_SCORES)
    chosen = {"metric": args.metric, "scheme": args.buckets}
    if args.format == "json":
        print_json("show", {"results": summaries(psi, buckets, **chosen)})
        return
    rows = chosen_rows(psi, **chosen)
    _print_tables(paper_tables(rows, buckets, equal_documents=args.equal_documents), args)


def show_published(file: Path, args: argparse.Namespace) -> None:
    """Print a published table; raises InputError if the file is not one that ships."""
    if file.parent.resolve() != PUBLISHED.resolve():
        raise InputError(
            f"{file}: give the table as .parquet, or a published table as "
            "shipped:published/NAME.csv"
        )
    values, tables = published_tables(file.stem)
    for name in ("intervals", "equal_documents", "buckets", "metric"):
        if getattr(args, name):
            raise InputError(f"--{name.replace('_', '-')}: not known for a published table")
    if args.format == "json":
        print_json("show", {"published": values})
    else:
        _print_tables(tables, args)


def _print_tables(tables: Sequence[PaperTable], args: argparse.Namespace) -> None:
    write = WRITERS.get(args.format, markdown)
    print("\n\n".join(write(table, intervals=args.intervals) for table in tables))


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
    "probe_table.parquet. With --format latex or markdown, print tables for a paper. The CSV file "
    "next to a table has every row."
)
