"""`psibench export`: a benchmark's tables in the layout of PosIR's release."""

import argparse
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from psibench.commands.base import Command
from psibench.commands.export_card import DatasetCounts, card_text
from psibench.errors import InputError
from psibench.formats.posir import COLUMNS, TABLES, ReleaseTables, write_dataset
from psibench.formats.tabular import read_parquet
from psibench.tables import SPECS, read_provenance, read_table, write_text

LAYOUTS = ("posir",)


@dataclass(frozen=True)
class Dataset:
    """The folder of one language and domain of a benchmark."""

    language: str
    domain: str
    folder: Path

    def path(self, table: str) -> Path:
        """Where one of its tables lies."""
        return self.folder / f"{table}.parquet"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to export, where to, and how."""
    parser.add_argument(
        "benchmark", type=Path, metavar="RESULTS/BENCHMARK", help="as in results/python-docs"
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to make; may be there, empty")
    parser.add_argument("--layout", choices=LAYOUTS, default="posir", help="default: posir")
    parser.add_argument(
        "--extra", action="store_true", help="also the columns that the layout does not have"
    )
    parser.add_argument(
        "--keep-ids",
        action="store_true",
        help="leave ids as they are; by default a domain's name is taken off its ids where every "
        "one has it in front",
    )


def run_export(args: argparse.Namespace) -> None:
    """Write all datasets and a README.md, or nothing."""
    datasets = find_datasets(args.benchmark)
    if args.out.exists() and not (args.out.is_dir() and not any(args.out.iterdir())):
        raise InputError(f"{args.out} is there and not empty; name a new folder, or remove it")
    prefixed = set() if args.keep_ids else prefixed_domains(datasets)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=args.out.parent, prefix=f".{args.out.name}."))
    try:
        counts = [
            _export(dataset, temporary, strip=dataset.domain in prefixed, extra=args.extra)
            for dataset in datasets
        ]
        records = [read_provenance(d.path(table)) or {} for d in datasets for table in TABLES]
        text = card_text(args.benchmark.resolve().name, counts, records)
        write_text(text, temporary / "README.md")
        temporary.chmod(0o755)
        if args.out.exists():
            args.out.rmdir()
        temporary.replace(args.out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    queries = sum(count.n_queries for count in counts)
    print(f"{len(datasets)} datasets, {queries:,} queries written to {args.out}")


def find_datasets(benchmark: Path) -> list[Dataset]:
    """List the languages and domains of a benchmark, sorted.

    Raises
    ------
    InputError
        If there is none, or one lacks a table.
    """
    found = sorted((benchmark / "data").glob("*/*/"))
    datasets = [Dataset(folder.parent.name, folder.name, folder) for folder in found]
    if not datasets:
        raise InputError(
            f"{benchmark}: no folder data/LANGUAGE/DOMAIN in it; name the folder of a benchmark in "
            "results/, as in results/python-docs"
        )
    for dataset in datasets:
        lacking = [table for table in TABLES if not dataset.path(table).is_file()]
        if lacking:
            raise InputError(
                f"{dataset.folder}: no {', '.join(lacking)}; the benchmark is not built to its "
                "end, run it first"
            )
    return datasets


def prefixed_domains(datasets: list[Dataset]) -> set[str]:
    """Name the domains that stand before all of their own ids, in every language."""
    named = {dataset.domain for dataset in datasets}
    bare = {dataset.domain for dataset in datasets if not _all_prefixed(dataset)}
    return named - bare


def _all_prefixed(dataset: Dataset) -> bool:
    columns = {"corpus": ["_id"], "queries": ["_id"], "qrels": ["query-id", "corpus-id"]}
    prefix = f"{dataset.domain}/"
    for table, names in columns.items():
        frame = read_parquet(dataset.path(table), names)
        if not all(column.str.starts_with(prefix).all() for column in frame.iter_columns()):
            return False
    return True


def _export(dataset: Dataset, out: Path, *, strip: bool, extra: bool) -> DatasetCounts:
    frames = {}
    for table in TABLES:
        frame = read_table(dataset.path(table), SPECS[table])
        frames[table] = _without_prefix(frame, f"{dataset.domain}/") if strip else frame
    lengths = frames["queries"].get_column("pos_token_length")
    if lengths.null_count():
        raise InputError(
            f"{dataset.path('queries')}: {lengths.null_count()} queries have no pos_token_length, "
            "which the layout needs"
        )
    write_dataset(
        ReleaseTables(**frames), out, language=dataset.language, domain=dataset.domain, extra=extra
    )
    sizes = (frames[table].height for table in TABLES)
    return DatasetCounts(dataset.language, dataset.domain, *sizes)


def _without_prefix(frame: pl.DataFrame, prefix: str) -> pl.DataFrame:
    ids = ("_id", "query-id", "corpus-id", "pos_corpus_id")
    return frame.with_columns(
        pl.col(name).str.strip_prefix(prefix) for name in ids if name in frame.columns
    )


EXPORT = Command(
    help="write a benchmark in the layout of PosIR's release",
    description="Write the tables of results/BENCHMARK/data as "
    "OUT/{language}/{domain}/{corpus,queries,qrels}/test.parquet with the columns of PosIR's "
    f"release ({'; '.join(f'{table}: ' + ', '.join(names) for table, names in COLUMNS.items())}) "
    "and a README.md. `recipe: posir_release` reads it back.",
    add_arguments=add_arguments,
    run=run_export,
)
