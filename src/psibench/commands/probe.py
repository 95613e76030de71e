"""`psibench probe`: run one probe of a model on a corpus, without the workflow."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from psibench.commands.base import refuse_below, refuse_unwritable, whole
from psibench.commands.show import probe_lines
from psibench.config.models import Model, SentenceTransformerModel, StaticModel
from psibench.config.registry import load_registry
from psibench.errors import InputError, nearest
from psibench.formats.placed import read_placed_queries, read_unchanged_documents
from psibench.models.checkpoints import is_static, transformer_folder
from psibench.models.counting import token_counter
from psibench.models.declared import POSITIONS_KEY, declared_length, declared_number
from psibench.probes.run import run_probe
from psibench.probes.settings import OF_QUERIES, PROBES, Probes, why_not
from psibench.probes.tables import PROBE_TABLE
from psibench.sources.files import SUPPORTED
from psibench.tables import read_table, write_csv, write_table
from psibench.tables.derived import derived
from psibench.tables.job import Job
from psibench.tables.schemas import CORPUS, QRELS, QUERIES
from psibench.tables.stage import version_of
from psibench.text.lengths import count_whitespace_tokens, with_lengths

CORPUS_DOMAIN = "corpus"
MAX_TOKENS = 512
TOKENIZER = "embedded:all-MiniLM-L6-v2"
"""Tokenizer that counts the tokens of fillers."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `psibench probe`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "name", metavar="NAME", choices=list(PROBES), help="one of the probes above"
    )
    add_model_and_corpus(parser)
    parser.add_argument(
        "--queries",
        type=Path,
        help=f"queries with pos_char_span and pos_corpus_id; needed by {', '.join(OF_QUERIES)}",
    )
    parser.add_argument(
        "--n",
        type=whole,
        default=Probes().n_documents,
        help="number of documents (default: 200)",
    )
    parser.add_argument(
        "--out", type=Path, help="summary, .parquet or .csv; rows go to STEM.rows.parquet"
    )


def add_model_and_corpus(parser: argparse.ArgumentParser, *, needs_corpus: bool = True) -> None:
    """Add the model, the corpus, and options for reading them."""
    parser.add_argument(
        "model", metavar="MODEL", help="id of the registry, or a folder with a checkpoint"
    )
    documents = f"documents: a folder of files ({SUPPORTED}), or one such file"
    parser.add_argument(
        "corpus",
        metavar="CORPUS",
        type=Path,
        nargs=None if needs_corpus else "?",
        help=documents,
    )
    parser.add_argument(
        "--text-column", default="text", help="field with the texts (default: text)"
    )
    parser.add_argument(
        "--max-tokens",
        type=whole,
        help="input length for a folder's checkpoint; default: from its files",
    )


def run(args: argparse.Namespace) -> None:
    """Run the probe, print its summary, and write it with --out."""
    _check(args)
    entry = find_model(args.model, max_tokens=args.max_tokens)
    if (reason := why_not(entry, args.name)) is not None:
        raise InputError(f"model {args.model!r} cannot be probed: {reason}")
    with tempfile.TemporaryDirectory(prefix="psibench-probe-") as folder:
        temporary = Path(folder)
        values = {
            "probe": args.name,
            "entry": entry,
            "model": Path(args.model).name,
            "benchmark": args.corpus.name,
            "lang": "und",
            "domains": [CORPUS_DOMAIN],
            "probes": Probes(n_documents=args.n),
            "length_tokenizer": TOKENIZER,
            "level": 0.95,
            "store": str(temporary / "store"),
        }
        rows, table = temporary / "rows.parquet", temporary / "table.parquet"
        outputs = {"rows": str(rows), "table": str(table)}
        inputs = _as_tables(args, temporary)
        run_probe(Job("probe", version_of("probe"), inputs, outputs, values))
        found = read_table(table, PROBE_TABLE)
        if args.out is not None:
            if args.out.suffix == ".csv":
                write_csv(found, args.out)
            else:
                shutil.copyfile(table, args.out)
            shutil.copyfile(rows, args.out.with_name(f"{args.out.stem}.rows.parquet"))
    if found.is_empty():
        print("no document fits this probe; docs/probes.md lists its conditions", file=sys.stderr)
    for line in probe_lines(found):
        print(line)
    if not found.is_empty() and "whole" not in found["read"]:
        print(
            "\nThe model reads none of the texts completely: the numbers include the effect of the "
            "cut."
        )


def find_model(
    name: str,
    *,
    known: Mapping[str, Model] | None = None,
    max_tokens: int | None = None,
) -> Any:
    """Return the registry entry of an id, or a new entry for a folder with a checkpoint.

    ``known`` are the entries by id, by default the entries of the registry. The input length of a
    folder is ``max_tokens``; else the value in its files; else the smaller of `MAX_TOKENS` and its
    number of positions.

    Raises InputError if ``name`` is neither an id nor a folder.
    """
    also = "" if known is None else " (with --config FILE also the ids of a config)"
    known = load_registry() if known is None else known
    if name in known:
        if max_tokens is not None:
            raise InputError(
                f"--max-tokens: {name!r} has it in the registry; leave it out, or give a folder"
            )
        return known[name]
    if not Path(name).is_dir():
        near = nearest(name, known)
        meant = f"; did you mean {' or '.join(near)}?" if near else "."
        raise InputError(
            f"model {name!r} is neither an id of the registry nor a folder{meant} `psibench "
            f"models` lists the ids{also}; or give the folder of a checkpoint"
        )
    if is_static(Path(name)):
        if max_tokens is not None:
            raise InputError(
                f"--max-tokens: {name!r} has static embeddings, whose files decide how much of a "
                "text is read; leave it out"
            )
        return StaticModel(backend="static-embeddings", checkpoint=name)
    entry = SentenceTransformerModel(
        backend="sentence-transformers", checkpoint=name, max_tokens=max_tokens or MAX_TOKENS
    )
    if max_tokens is not None:
        return entry
    config = transformer_folder(Path(name)) / "config.json"
    most = min(int(declared_number(config, POSITIONS_KEY) or MAX_TOKENS), MAX_TOKENS)
    most = declared_length(entry, Path(name)) or most
    return entry.model_copy(update={"max_tokens": most})


def _check(args: argparse.Namespace) -> None:
    refuse_unwritable("--out", args.out)
    if args.out is not None and args.out.suffix not in (".parquet", ".csv"):
        raise InputError(f"--out {args.out}: the name must end in .parquet or .csv")
    refuse_below(args, {"n": 2, "max_tokens": 8})
    if args.name in OF_QUERIES and args.queries is None:
        raise InputError(f"{args.name} needs --queries with pos_char_span and pos_corpus_id")
    if args.name not in OF_QUERIES and args.queries is not None:
        raise InputError(f"--queries: the probe {args.name} uses no queries; leave it out")


def _as_tables(args: argparse.Namespace, folder: Path) -> dict[str, str]:
    """Write corpus and queries as the tables that the stage reads; return the files by name."""
    origin = derived("probe", params={})
    documents = read_unchanged_documents(args.corpus, text_column=args.text_column)
    corpus = with_lengths(documents, count_tokens=count_whitespace_tokens)
    write_table(corpus, folder / "corpus.parquet", CORPUS, provenance=origin)
    if args.queries is None:
        return {"corpora": str(folder / "corpus.parquet")}
    queries = read_placed_queries(args.queries, documents, corpus=args.corpus)
    known = dict(corpus.select("_id", "text").iter_rows())
    counts = token_counter(TOKENIZER)([known[one] for one in queries["pos_corpus_id"]])
    queries = queries.with_columns(pos_token_length=pl.Series(counts, dtype=pl.Int64))
    table = queries.select(QUERIES.column_names)
    write_table(table, folder / "queries.parquet", QUERIES, provenance=origin)
    pairs = {"query-id": "_id", "corpus-id": "pos_corpus_id"}
    qrels = queries.select(**{name: pl.col(of) for name, of in pairs.items()}, score=1)
    write_table(qrels, folder / "qrels.parquet", QRELS, provenance=origin)
    names = {"corpora": "corpus", "queries": "queries", "qrels": "qrels"}
    return {table: str(folder / f"{name}.parquet") for table, name in names.items()}


PROBE_LIST = "\n".join(f"  {name:<11} {text}" for name, text in PROBES.items())
DESCRIPTION = (
    f"Run one probe of a model on a corpus and print its summary.\n\nprobes:\n{PROBE_LIST}"
)
