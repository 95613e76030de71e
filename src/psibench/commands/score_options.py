"""The options of `psibench score`, and what they say of how much of a document models read."""

import argparse
import sys
from pathlib import Path
from typing import get_args

import polars as pl

from psibench.commands.base import whole
from psibench.errors import InputError
from psibench.formats.beir import NEEDED, read_texts
from psibench.formats.checks import IdenticalIds
from psibench.formats.runs import RUN_FORMATS
from psibench.metrics.chunks import SPAN_KINDS, SPAN_METRICS
from psibench.metrics.query_scores import evidence_documents, name_some
from psibench.metrics.ranking import HEADLINE_METRICS, METRICS
from psibench.reading import shown, whole_number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add all options, in groups, and what `--example` says beside them."""
    parser.set_defaults(benchmark="custom", language="und", kinds={}, on_filter_panel=(), ends=None)
    files = parser.add_argument_group("files")
    files.add_argument(
        "--run",
        type=Path,
        action="append",
        metavar="FILE",
        help="scores of one model; may be repeated. Rows of chunks have doc_id, start and end "
        "(characters, end exclusive). By suffix: "
        + "; ".join(f"{name} {' '.join(found)}" for name, found in RUN_FORMATS.items() if found)
        + "; a .tsv without a header: msmarco (query, document, rank)",
    )
    add_judgements(files)
    files.add_argument(
        "--out", type=Path, metavar="DIR", help="for the tables; without it none are written"
    )
    files.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write what the tables say as one page: verdicts, PSI table and curves",
    )
    files.add_argument(
        "--example",
        action="store_true",
        help="score runs that ship with psibench, of the documentation of Python; tables and page "
        "go to psibench-example, or --out and --report",
    )
    parser.add_argument_group("labels").add_argument(
        "--labelled",
        type=Path,
        metavar="FILE",
        help="human grades of some of the queries, drawn at random, in a file as --qrels takes: "
        "how often the qrels agree by position, and means corrected for where they do not",
    )
    _add_rows(parser.add_argument_group("rows of the tables"))
    add_tolerance(parser.add_argument_group("what to accept"))
    _add_reading(parser.add_argument_group("what the models read (rows of visible evidence)"))


def add_judgements(group: argparse._ArgumentGroup) -> None:
    """Add queries and qrels, and what is to be known of runs."""
    group.add_argument(
        "--queries",
        type=Path,
        nargs="+",
        action="extend",
        metavar="FILE",
        help=f"{NEEDED}; several files, as of domains that a run pools, are put together",
    )
    group.add_argument(
        "--qrels",
        type=Path,
        nargs="+",
        action="extend",
        metavar="FILE",
        help="query-id, corpus-id, score with a header, or as ranx, PyTerrier and ir-measures name "
        "them; {query: {document: grade}} as .json; TREC qrels; several are put together",
    )
    group.add_argument("--run-format", choices=RUN_FORMATS, help="instead of the suffix")
    group.add_argument(
        "--run-part",
        metavar="SUBSET/SPLIT",
        help="which part of an MTEB prediction file that holds several",
    )
    group.add_argument(
        "--lower-is-better",
        action="store_true",
        help="the runs' scores are distances: the smallest comes first",
    )
    group.add_argument(
        "--identical-ids",
        choices=get_args(IdenticalIds),
        default="auto",
        help="remove: rankings are without the document that has the query's own id, as BEIR's and "
        "mteb's are (in ArguAna queries are documents). auto (default): removed unless the qrels "
        "call such a document relevant, or queries of psibench say otherwise. keep: as trec_eval",
    )


def _add_rows(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--buckets",
        default="all",
        metavar="SCHEME",
        help="thirds, squad, relative-20 (any relative-N), thirds-every-tag, or all of the first "
        "three (default; thirds alone where no query has one evidence span)",
    )
    group.add_argument(
        "--metrics",
        nargs="+",
        metavar="METRIC",
        help=f"{', '.join(f'{kind}@K' for kind in METRICS)}; of the evidence in the first K chunks "
        f"{', '.join(f'{kind}@K' for kind in SPAN_KINDS)} (default: {' '.join(HEADLINE_METRICS)}; "
        f"of runs of chunks also {' '.join(SPAN_METRICS)})",
    )
    group.add_argument(
        "--length-buckets",
        action=argparse.BooleanOptionalAction,
        help="also rows per length bucket, where pos_token_length is given (default: with them)",
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
        help="which of the runs knows no position; the others are compared with it",
    )


def add_tolerance(group: argparse._ArgumentGroup) -> None:
    """Add what is accepted of files that do not fit each other."""
    group.add_argument(
        "--ignore-unknown",
        action="store_true",
        help="leave out runs' and qrels' query ids that are not among the queries",
    )
    group.add_argument(
        "--ignore-unjudged", action="store_true", help="leave out queries without a positive"
    )


# --- how much of a document the models read

EVERYTHING = "all"


def _add_reading(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--max-tokens",
        nargs="+",
        metavar="N",
        help="tokens of a document that the model was given, special tokens counted, or "
        f"{EVERYTHING!r}; one for all runs, or one per --run",
    )
    group.add_argument(
        "--tokenizer",
        metavar="NAME",
        help="the model's: a folder, a tokenizer.json, a name on the hub, or "
        "embedded:all-MiniLM-L6-v2",
    )
    group.add_argument(
        "--corpus",
        type=Path,
        nargs="+",
        action="extend",
        metavar="FILE",
        help="the documents (.jsonl, .jsonl.gz or .parquet with _id and text): their positives "
        "are tokenized",
    )


def token_limits(args: argparse.Namespace) -> list[int | None] | None:
    """Return the tokens each run's model was given, None for everything; None if nothing is said.

    Raises InputError if an option is given without the others, or a number is none.
    """
    others = {"--tokenizer": args.tokenizer, "--corpus": args.corpus}
    texts = args.max_tokens or []
    for text in texts:
        if text != EVERYTHING and whole_number(text, least=1) is None:
            raise InputError(
                f"--max-tokens {shown(text)}; give a number of tokens, or {EVERYTHING!r}"
            )
    limits = [None if text == EVERYTHING else whole_number(text) for text in texts]
    if len(limits) not in (0, 1, len(args.run)):
        raise InputError(
            f"{len(limits)} --max-tokens for {len(args.run)} --run; give one, or one for each"
        )
    limits *= len(args.run) if len(limits) == 1 else 1
    needed = any(limit is not None for limit in limits)
    if (needed and None in others.values()) or (not texts and any(others.values())):
        raise InputError("--max-tokens, --tokenizer and --corpus: give all three or none")
    return limits or None


def visible_ends(
    limits: list[int | None], queries: pl.DataFrame, qrels: pl.DataFrame, args: argparse.Namespace
) -> tuple[list[pl.DataFrame], str | None]:
    """Tokenize the positives: how far each run's model read into them, and the tokenizer's hash.

    Per run a (n_queries, 2) frame of `query_id` and `visible_char_end`; no hash where no run has a
    number of tokens.

    Raises InputError if positives are not in the corpus or of another length there, or the
    tokenizer cannot be loaded or leaves no token for a text.
    """
    lengths = queries.select(query_id="_id", length="pos_char_length")
    unknown = lengths.filter(pl.col("length").is_null()).get_column("query_id")
    if len(unknown):
        raise InputError(
            f"--max-tokens needs the pos_char_length of every query; without: {name_some(unknown)}"
        )
    asked = evidence_documents(queries, qrels).join(lengths, on="query_id")
    ends: dict[int | None, pl.DataFrame] = {
        None: asked.select("query_id", visible_char_end="length")
    }
    identity = None
    if numbers := sorted({limit for limit in limits if limit is not None}):
        from psibench.encode.api_texts import tokenizer_identity
        from psibench.models.counting import load_tokenizer
        from psibench.models.tokenizing import tokenize_texts

        texts = read_texts(args.corpus, asked.get_column("document_id"))
        _check_lengths(asked, texts, args)
        tokenizer = load_tokenizer(args.tokenizer, option="--tokenizer")
        identity = tokenizer_identity(tokenizer, name=args.tokenizer)
        special = tokenizer.num_special_tokens_to_add()
        if numbers[0] <= special:
            raise InputError(
                f"--max-tokens {numbers[0]}: the tokenizer adds {special} special tokens, which "
                "count and leave the text none"
            )
        for limit in numbers:
            read = tokenize_texts(tokenizer, texts["text"].to_list(), max_tokens=limit)
            ends_of = texts.select(document_id="_id").with_columns(
                pl.Series("visible_char_end", [one.visible_char_end for one in read], pl.Int64)
            )
            ends[limit] = asked.join(ends_of, on="document_id").select(
                "query_id", "visible_char_end"
            )
    return [ends[limit] for limit in limits], identity


def _check_lengths(asked: pl.DataFrame, texts: pl.DataFrame, args: argparse.Namespace) -> None:
    lengths = texts.select(document_id="_id", found=pl.col("text").str.len_chars())
    odd = asked.join(lengths, on="document_id").filter(pl.col("found") != pl.col("length"))
    named = ", ".join(str(path) for path in args.corpus)
    if odd.height:
        query_id, document_id, length, found = odd.sort("query_id").row(0)
        raise InputError(
            f"{named}: document {document_id!r} has {found} characters, and pos_char_length of "
            f"query {query_id!r} is {length} ({odd.height} such queries); spans and lengths must "
            "be of this corpus' text, without title, and not of the original of a translation"
        )
    titles = texts.filter(pl.col("title").str.strip_chars().str.len_chars() > 0).height
    if titles:
        print(
            f"{named}: {titles} positives have a title, which is not read here; a model that was "
            "given it before the text was given less of the text",
            file=sys.stderr,
        )
