"""`psibench export`: a benchmark's tables in the layout of PosIR's release."""

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from psibench.commands.base import Command
from psibench.commands.export_card import DatasetCounts, card_text, origin_lines
from psibench.errors import InputError
from psibench.formats.posir import COLUMNS, TABLES, ReleaseTables, write_dataset
from psibench.formats.tabular import read_parquet
from psibench.metrics.buckets import third_of_middle
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
        "--languages", type=_names, metavar="A,B", help="only these; default: all that are found"
    )
    parser.add_argument(
        "--domains", type=_names, metavar="X,Y", help="only these; default: all that are found"
    )
    parser.add_argument(
        "--keep-ids",
        action="store_true",
        help="leave ids as they are; by default a domain's name is taken off its ids where every "
        "one has it in front",
    )


def run_export(args: argparse.Namespace) -> None:
    """Write all datasets and a README.md, or nothing."""
    datasets = find_datasets(args.benchmark, languages=args.languages, domains=args.domains)
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
        records = {d: [read_provenance(d.path(t)) or {} for t in TABLES] for d in datasets}
        every = [record for of in records.values() for record in of]
        text = card_text(args.benchmark.resolve().name, counts, every, extra=args.extra)
        write_text(text, temporary / "README.md")
        temporary.chmod(0o755)
        if args.out.exists():
            args.out.rmdir()
        temporary.replace(args.out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for line in origin_lines(counts, list(records.values()), extra=args.extra):
        print(line)
    queries = sum(count.n_queries for count in counts)
    print(f"{len(datasets)} datasets, {queries:,} queries written to {args.out}")


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("names with commas between them, as in eng-Latn,ara-Arab")
    return names


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
    without = frames["queries"].get_column("pos_char_span").null_count()
    if without and not extra:
        raise InputError(
            f"{dataset.path('queries')}: the evidence of {without} queries is not one span, and "
            "the layout has no other place for it; use --extra"
        )
    write_dataset(
        ReleaseTables(**frames), out, language=dataset.language, domain=dataset.domain, extra=extra
    )
    n_documents, n_queries, n_qrels = (frames[table].height for table in TABLES)
    moved = n_elsewhere(frames["queries"])
    return DatasetCounts(dataset.language, dataset.domain, n_documents, n_queries, n_qrels, moved)


def n_elsewhere(queries: pl.DataFrame) -> int:
    """Count queries whose declared position is not the third their span's middle lies in."""
    aimed = queries.drop_nulls(["target_position", "pos_char_span"])
    ends = aimed.get_column("pos_char_span").cast(pl.List(pl.Int64))
    twice_mid = (ends.list.get(0) + ends.list.get(1)).to_numpy()
    length = aimed.get_column("pos_char_length").cast(pl.Int64).to_numpy()
    return int((third_of_middle(twice_mid, length) != aimed["target_position"].to_numpy()).sum())


def _without_prefix(frame: pl.DataFrame, prefix: str) -> pl.DataFrame:
    ids = ("_id", "query-id", "corpus-id", "pos_corpus_id")
    return frame.with_columns(
        pl.col(name).str.strip_prefix(prefix) for name in ids if name in frame.columns
    )


# --- the datasets of a built benchmark


def find_datasets(
    benchmark: Path,
    *,
    languages: Sequence[str] | None = None,
    domains: Sequence[str] | None = None,
) -> list[Dataset]:
    """List the languages and domains of a benchmark, sorted; those named, or all.

    Raises
    ------
    InputError
        If there is none, one that is named is not there, or one lacks a table.
    """
    found = sorted((benchmark / "data").glob("*/*/"))
    every = [Dataset(folder.parent.name, folder.name, folder) for folder in found]
    if not every:
        raise InputError(
            f"{benchmark}: no folder data/LANGUAGE/DOMAIN in it; name the folder of a benchmark in "
            "results/, as in results/python-docs"
        )
    datasets = _chosen(every, languages, domains)
    for dataset in datasets:
        lacking = [table for table in TABLES if not dataset.path(table).is_file()]
        if lacking:
            raise InputError(
                f"{dataset.folder}: no {', '.join(lacking)}; the benchmark is not built to its "
                "end, run it first"
            )
    return datasets


def _chosen(
    datasets: list[Dataset], languages: Sequence[str] | None, domains: Sequence[str] | None
) -> list[Dataset]:
    """Keep the named ones; each name has to be found together with one of the other kind."""
    kept = [
        one
        for one in datasets
        if (languages is None or one.language in languages)
        and (domains is None or one.domain in domains)
    ]
    for kind, wanted in (("language", languages), ("domain", domains)):
        lost = sorted(set(wanted or ()) - {getattr(one, kind) for one in kept})
        if lost:
            there = ", ".join(f"{one.language}/{one.domain}" for one in datasets)
            raise InputError(
                f"--{kind}s: no dataset of {', '.join(lost)} among those chosen; the benchmark has "
                f"{there}"
            )
    return kept


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


COMMAND = Command(
    description="Write the tables of results/BENCHMARK/data as "
    "OUT/{language}/{domain}/{corpus,queries,qrels}/test.parquet with the columns of PosIR's "
    f"release ({'; '.join(f'{table}: ' + ', '.join(names) for table, names in COLUMNS.items())}) "
    "and a README.md. `recipe: posir_release` reads it back.",
    add_arguments=add_arguments,
    run=run_export,
)
