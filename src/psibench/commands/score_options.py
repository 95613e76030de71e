"""The options of `psibench score`."""

import argparse
from pathlib import Path

from psibench.commands.score_reading import add_reading
from psibench.formats.beir import NEEDED, QRELS_FORMATS, QUERIES_FORMATS
from psibench.formats.runs import RUN_FORMATS
from psibench.metrics.aggregate import UncertaintySettings

METRICS = ("ndcg@10", "recall@10", "mrr@10")
DEFAULTS = UncertaintySettings()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add all options, in groups."""
    _add_files(parser.add_argument_group("files"))
    _add_rows(parser.add_argument_group("rows of the tables"))
    add_tolerance(parser.add_argument_group("what to accept"))
    add_reading(parser.add_argument_group("what the models read (rows of visible evidence)"))
    _add_uncertainty(parser.add_argument_group("uncertainty"))


def _add_files(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--run",
        type=Path,
        action="append",
        required=True,
        metavar="FILE",
        help="scores of one model; may be repeated. By suffix: "
        + "; ".join(f"{name} {' '.join(suffixes)}" for name, suffixes in RUN_FORMATS.items()),
    )
    add_judgements(group, required=True)
    group.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the tables")


def add_judgements(group: argparse._ArgumentGroup, *, required: bool) -> None:
    """Add queries and qrels, and the formats of these and of runs."""
    group.add_argument(
        "--queries",
        type=Path,
        nargs="+",
        action="extend",
        required=required,
        metavar="FILE",
        help=f"{NEEDED}; several files, as of domains that a run pools, are put together",
    )
    group.add_argument(
        "--qrels",
        type=Path,
        nargs="+",
        action="extend",
        required=required,
        metavar="FILE",
        help="query-id, corpus-id, score with a header, or TREC qrels; several are put together",
    )
    group.add_argument("--run-format", choices=RUN_FORMATS, help="instead of the suffix")
    group.add_argument("--queries-format", choices=QUERIES_FORMATS, help="instead of the suffix")
    group.add_argument("--qrels-format", choices=QRELS_FORMATS, help="instead of the suffix")
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


def _add_rows(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--buckets",
        default="all",
        metavar="SCHEME",
        help="squad, thirds, relative-20 (any relative-N), thirds-every-tag, or all of the first "
        "three (default; thirds alone where no query has one evidence span)",
    )
    group.add_argument("--benchmark", default="custom", metavar="NAME", help="default: custom")
    group.add_argument(
        "--model",
        action="append",
        metavar="NAME",
        help="one per --run, in order; default: the name in an MTEB file, else the file's name",
    )
    group.add_argument("--kind", default="run", help="kind of the models (default: run)")
    group.add_argument("--query-lang", default="und", help="e.g. eng-Latn (default: und)")
    group.add_argument("--corpus-lang", default="und", help="e.g. eng-Latn (default: und)")
    group.add_argument(
        "--metrics",
        nargs="+",
        default=list(METRICS),
        metavar="METRIC",
        help=f"ndcg@K, recall@K, mrr@K (default: {' '.join(METRICS)})",
    )
    group.add_argument(
        "--length-buckets",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also rows per length bucket, where pos_token_length is given",
    )
    group.add_argument("--by-domain", action="store_true", help="also rows per domain")


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
    group.add_argument(
        "--spans-may-overrun",
        action="store_true",
        help="accept spans that end beyond the document; their position counts as at most 1",
    )


def _add_uncertainty(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--level", type=float, default=DEFAULTS.level, help="of the intervals")
    group.add_argument(
        "--min-bucket-size",
        type=int,
        default=DEFAULTS.min_bucket_size,
        metavar="N",
        help="a bucket of fewer queries is flagged (default: %(default)s)",
    )
    group.add_argument(
        "--control",
        metavar="MODEL",
        help="which of the runs knows no position; the others are compared with it",
    )
