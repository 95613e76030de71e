"""The options of `psibench score`, and the visible part of documents that they imply."""

import argparse
import json
import sys
from pathlib import Path
from typing import get_args

import polars as pl

from psibench.commands.base import whole
from psibench.commands.json_output import add_json
from psibench.errors import InputError
from psibench.formats.beir import NEEDED, read_texts
from psibench.formats.checks import IdenticalIds
from psibench.formats.runs import RUN_FORMATS
from psibench.metrics.chunks import SPAN_KINDS, SPAN_METRICS, TOKEN_METRIC
from psibench.metrics.query_scores import evidence_documents, name_some
from psibench.metrics.ranking import HEADLINE_METRICS, METRICS
from psibench.publish.control import BUILTIN
from psibench.reading import shown, whole_number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add all options in groups, and defaults of values that `--example` sets."""
    parser.set_defaults(benchmark="custom", language="und", kinds={}, on_filter_panel=(), ends=None)
    parser.set_defaults(searched=None)
    files = parser.add_argument_group("files")
    files.add_argument(
        "--run",
        type=Path,
        action="append",
        metavar="FILE",
        help="ranked results of one model; may be repeated. Rows of chunks have doc_id, start and "
        "end (characters, end exclusive). Formats by suffix: "
        + "; ".join(f"{name} {' '.join(found)}" for name, found in RUN_FORMATS.items() if found)
        + "; a .tsv without a header: msmarco (query, document, rank)",
    )
    add_judgements(files)
    files.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the tables; default: none written"
    )
    files.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write one HTML page with verdicts, PSI table and curves",
    )
    files.add_argument(
        "--example",
        action="store_true",
        help="score runs that ship with psibench, on Python's documentation; tables and page go to "
        "psibench-example, or to --out and --report",
    )
    add_json(files)
    parser.add_argument_group("labels").add_argument(
        "--labelled",
        type=Path,
        metavar="FILE",
        help="human grades of a random sample of the queries, in a format of --qrels: adds the "
        "agreement of the qrels by position, and corrected means",
    )
    _add_rows(parser.add_argument_group("rows of the tables"))
    add_tolerance(parser.add_argument_group("what to accept"))
    _add_reading(parser.add_argument_group("the models' input (rows of visible evidence)"))


def add_judgements(group: argparse._ArgumentGroup) -> None:
    """Add the options for queries and qrels, and for reading runs."""
    group.add_argument(
        "--queries",
        type=Path,
        nargs="+",
        action="extend",
        metavar="FILE",
        help=f"{NEEDED}; several files are concatenated, e.g. one per domain",
    )
    group.add_argument(
        "--qrels",
        type=Path,
        nargs="+",
        action="extend",
        metavar="FILE",
        help="a table with the columns query-id, corpus-id, score, or with the column names of "
        "ranx, PyTerrier or ir-measures; {query: {document: grade}} as .json; or TREC qrels; "
        "several files are concatenated",
    )
    group.add_argument(
        "--run-format", choices=RUN_FORMATS, help="format of the runs; default: by suffix"
    )
    group.add_argument(
        "--run-part",
        metavar="SUBSET/SPLIT",
        help="subset and split to read from an MTEB prediction file that has several",
    )
    group.add_argument(
        "--lower-is-better",
        action="store_true",
        help="scores are distances: the smallest ranks first",
    )
    group.add_argument(
        "--identical-ids",
        choices=get_args(IdenticalIds),
        default="auto",
        help="documents with the same id as the query (in ArguAna queries are documents). remove: "
        "leave them out of rankings, like BEIR and mteb. keep: like trec_eval. auto (default): the "
        "recorded choice of queries that psibench built; else remove them, unless the qrels mark "
        "such a document as relevant",
    )


def _add_rows(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--buckets",
        default="all",
        metavar="SCHEME",
        help="thirds, squad, relative-20 (any relative-N), thirds-every-tag, or all of the first "
        "three (default; only thirds if no query has a single evidence span)",
    )
    group.add_argument(
        "--metrics",
        nargs="+",
        metavar="METRIC",
        help=f"{', '.join(f'{kind}@K' for kind in METRICS)}; for evidence in the first K chunks "
        f"{', '.join(f'{kind}@K' for kind in SPAN_KINDS)}, or @Ntokens for the first N tokens "
        f"(default: {' '.join(HEADLINE_METRICS)}; for runs of chunks first "
        f"{' '.join(SPAN_METRICS)}, and {TOKEN_METRIC} if the run has tokens)",
    )
    group.add_argument(
        "--length-buckets",
        action=argparse.BooleanOptionalAction,
        help="rows per length bucket, if queries have pos_token_length (default: on)",
    )
    group.add_argument(
        "--length-edges",
        nargs="+",
        type=whole,
        metavar="TOKENS",
        help="edges of the length buckets (default: 512 1024 1536, PosIR's Q1 to Q4)",
    )
    group.add_argument("--by-domain", action="store_true", help="also rows per domain")
    group.add_argument(
        "--control",
        metavar="MODEL",
        help="run of a position-blind model; the other runs are compared with it. "
        f"{BUILTIN}: search --corpus with the mean of static word embeddings (needs "
        "psibench-ir[models]); default with --corpus, unless --max-tokens is given",
    )


def add_tolerance(group: argparse._ArgumentGroup) -> None:
    """Add the options that accept files with different ids."""
    group.add_argument(
        "--ignore-unknown",
        action="store_true",
        help="ignore query ids of runs and qrels that are not in the queries",
    )
    group.add_argument(
        "--ignore-unjudged", action="store_true", help="ignore queries without a positive"
    )


# --- The visible part of documents

EVERYTHING = "all"


def _add_reading(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--max-tokens",
        nargs="+",
        metavar="N",
        help="length of the model's input in tokens, with special tokens, or "
        f"{EVERYTHING!r}, or measured.json of `psibench audit --measure`; one value for all runs, "
        "or one per --run",
    )
    group.add_argument(
        "--tokenizer",
        metavar="NAME",
        help="tokenizer of the model: a folder, a tokenizer.json, a name on the hub, or "
        "embedded:all-MiniLM-L6-v2",
    )
    group.add_argument(
        "--corpus",
        type=Path,
        nargs="+",
        action="extend",
        metavar="FILE",
        help="documents (.jsonl, .jsonl.gz or .parquet with _id and text), to tokenize the "
        f"positives; for --control {BUILTIN}: all documents that the runs searched",
    )


def token_limits(args: argparse.Namespace) -> list[int | None] | None:
    """Return each run's input length in tokens, None for unlimited; None without the options.

    Raises InputError if an option is missing or a value is not a number of tokens.
    """
    others = {"--tokenizer": args.tokenizer, "--corpus": args.corpus}
    texts = [_measured(text) if text.endswith(".json") else text for text in args.max_tokens or []]
    for text in texts:
        if text != EVERYTHING and whole_number(text, least=1) is None:
            raise InputError(
                f"--max-tokens {shown(text)}; give a number of tokens, or {EVERYTHING!r}"
            )
    limits = [None if text == EVERYTHING else whole_number(text) for text in texts]
    if len(limits) not in (0, 1, len(args.run)):
        raise InputError(
            f"{len(limits)} values of --max-tokens for {len(args.run)} --run; give one, or one "
            "per --run"
        )
    limits *= len(args.run) if len(limits) == 1 else 1
    needed = any(limit is not None for limit in limits)
    if (needed and None in others.values()) or (not texts and args.tokenizer is not None):
        raise InputError("--max-tokens, --tokenizer and --corpus: give all three or none")
    return limits or None


def _measured(name: str) -> str:
    """Return the value of --max-tokens that `psibench audit --measure` found for documents.

    Raises InputError if the file is none of its files, or documents are not cut at the end.
    """
    try:
        found = json.loads(Path(name).read_text(encoding="utf-8"))["document"]
        cut, tokens = found["cut"], found["tokens"]
    except OSError as error:
        raise InputError(f"--max-tokens {name}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"--max-tokens {name}: not written by `psibench audit --measure ... --out DIR`"
        ) from error
    if cut == "none":
        return EVERYTHING
    if cut not in ("end", "refused") or whole_number(str(tokens), least=1) is None:
        raise InputError(
            f"--max-tokens {name}: found cut {cut!r} and {tokens} tokens; only a cut at the end, "
            "with a known number of tokens, shows which evidence is read"
        )
    return str(tokens)


def ends_from_limits(
    limits: list[int | None], queries: pl.DataFrame, qrels: pl.DataFrame, args: argparse.Namespace
) -> tuple[list[pl.DataFrame], str | None]:
    """Return the visible end of each run's positives, and the hash of the tokenizer.

    The ends are a frame of ``query_id`` and ``visible_char_end`` (characters, exclusive) per run.
    The hash is None if no run has a limit.

    Raises InputError if positives are missing in the corpus or have another length there, or if
    the tokenizer cannot be loaded or leaves no token for a text.
    """
    lengths = queries.select(query_id="_id", length="pos_char_length")
    unknown = lengths.filter(pl.col("length").is_null()).get_column("query_id")
    if len(unknown):
        raise InputError(
            f"--max-tokens needs pos_char_length for every query; missing for {name_some(unknown)}"
        )
    positives = evidence_documents(queries, qrels).join(lengths, on="query_id")
    ends: dict[int | None, pl.DataFrame] = {
        None: positives.select("query_id", visible_char_end="length")
    }
    identity = None
    if numbers := sorted({limit for limit in limits if limit is not None}):
        from psibench.encode.api_texts import tokenizer_identity
        from psibench.models.counting import load_tokenizer
        from psibench.models.tokenizing import tokenize_texts

        texts = read_texts(args.corpus, positives.get_column("document_id"))
        _check_lengths(positives, texts, args)
        tokenizer = load_tokenizer(args.tokenizer, option="--tokenizer")
        identity = tokenizer_identity(tokenizer, name=args.tokenizer)
        special = tokenizer.num_special_tokens_to_add()
        if numbers[0] <= special:
            raise InputError(
                f"--max-tokens {numbers[0]}: the tokenizer's {special} special tokens leave no "
                f"token for text; give at least {special + 1}"
            )
        for limit in numbers:
            read = tokenize_texts(tokenizer, texts["text"].to_list(), max_tokens=limit)
            ends_of = texts.select(document_id="_id").with_columns(
                pl.Series("visible_char_end", [one.visible_char_end for one in read], pl.Int64)
            )
            ends[limit] = positives.join(ends_of, on="document_id").select(
                "query_id", "visible_char_end"
            )
    return [ends[limit] for limit in limits], identity


def _check_lengths(positives: pl.DataFrame, texts: pl.DataFrame, args: argparse.Namespace) -> None:
    lengths = texts.select(document_id="_id", found=pl.col("text").str.len_chars())
    odd = positives.join(lengths, on="document_id").filter(pl.col("found") != pl.col("length"))
    named = ", ".join(str(path) for path in args.corpus)
    if odd.height:
        query_id, document_id, length, found = odd.sort("query_id").row(0)
        raise InputError(
            f"{named}: document {document_id!r} has {found} characters, but pos_char_length of "
            f"query {query_id!r} is {length} ({odd.height} such queries); spans and lengths must "
            "refer to the text in this corpus, without title (for translations: not the original)"
        )
    titles = texts.filter(pl.col("title").str.strip_chars().str.len_chars() > 0).height
    if titles:
        print(
            f"{named}: {titles} positives have a title, which is ignored here; a model with the "
            "title in its input read less of the text",
            file=sys.stderr,
        )
