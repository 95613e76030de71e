"""Queries with evidence spans and qrels, in the layouts of BEIR and PosIR.

PosIR's Parquet queries carry the span columns; BEIR's JSON Lines may carry them as fields or
inside `metadata`. Queries without them cannot be put in buckets and are refused.
"""

from pathlib import Path
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.formats.suffixes import choose_format
from psibench.formats.tabular import read_parquet, read_scored_pairs
from psibench.formats.text import read_records
from psibench.formats.trec import read_trec_qrels

REQUIRED = ("_id", "pos_char_span", "pos_char_length")
OPTIONAL = ("pos_corpus_id", "pos_token_length", "target_position", "domain")
SPAN = pl.List(pl.Int64)
QUERY_SCHEMA: dict[str, Any] = {
    "_id": pl.String,
    "pos_corpus_id": pl.String,
    "pos_char_span": SPAN,
    "pos_char_length": pl.Int64,
    "pos_token_length": pl.Int64,
    "target_position": pl.String,
    "domain": pl.String,
}
NEEDED = (
    "position buckets need, for every query: _id, pos_char_span ([start, end) of the evidence in "
    "its positive document, characters from 0) and pos_char_length (characters in that document); "
    "optional: pos_corpus_id (that document; else the positive of the highest grade), "
    "pos_token_length, target_position, domain"
)

QUERIES_FORMATS = {"parquet": (".parquet",), "jsonl": (".jsonl", ".jsonl.gz")}
QRELS_FORMATS = {
    "parquet": (".parquet",),
    "tsv": (".tsv", ".tsv.gz"),
    "csv": (".csv", ".csv.gz"),
    "jsonl": (".jsonl", ".jsonl.gz"),
    "trec": (".trec", ".qrels", ".qrel", ".txt", ".trec.gz", ".qrels.gz", ".qrel.gz", ".txt.gz"),
}
QRELS_COLUMNS = ("query-id", "corpus-id", "score")


def read_queries(path: Path, *, queries_format: str | None = None) -> pl.DataFrame:
    """Read queries with their evidence.

    Returns
    -------
    (n_queries, 7) frame in the columns of `QUERY_SCHEMA`, in file order; optional columns the
    file lacks are null. Spans are not checked here, see `psibench.formats.checks`.

    Raises
    ------
    InputError
        If the format is unknown, or a column is missing or of another type.
    """
    chosen = choose_format(path, queries_format, QUERIES_FORMATS, option="--queries-format")
    frame = _queries_of_parquet(path) if chosen == "parquet" else _queries_of_jsonl(path)
    try:
        return frame.select(pl.col(name).cast(kind) for name, kind in QUERY_SCHEMA.items())
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path}: {error}; {NEEDED}") from error


def read_qrels(path: Path, *, qrels_format: str | None = None) -> pl.DataFrame:
    """Read qrels: query-id, corpus-id (String), score (Int64), in file order.

    Raises InputError on an unknown format or a grade that is not a whole number.
    """
    chosen = choose_format(path, qrels_format, QRELS_FORMATS, option="--qrels-format")
    if chosen == "trec":
        frame = read_trec_qrels(path)
    else:
        frame = read_scored_pairs(path, chosen, QRELS_COLUMNS)
    grade = pl.col("score").cast(pl.Float64)
    odd = frame.filter((~grade.is_finite() | (grade != grade.round())).fill_null(value=True))
    if not odd.is_empty():
        query_id, doc_id, score = odd.select(QRELS_COLUMNS).row(0)
        raise InputError(
            f"{path}: query {query_id!r}, document {doc_id!r} has the grade {score}; "
            "expected a whole number"
        )
    return frame.select("query-id", "corpus-id", pl.col("score").cast(pl.Int64))


def _queries_of_parquet(path: Path) -> pl.DataFrame:
    frame = read_parquet(path, REQUIRED, optional=OPTIONAL, hint=NEEDED)
    absent = [name for name in OPTIONAL if name not in frame.columns]
    return frame.with_columns(pl.lit(None).alias(name) for name in absent)


def _queries_of_jsonl(path: Path) -> pl.DataFrame:
    rows = [_query_of(record, f"{path}, line {line}") for line, record in read_records(path)]
    return pl.DataFrame(rows, schema=QUERY_SCHEMA, orient="row")


def _query_of(record: dict[str, Any], where: str) -> tuple[Any, ...]:
    metadata = record.get("metadata")
    known = {**metadata, **record} if isinstance(metadata, dict) else record
    missing = [name for name in REQUIRED if known.get(name) is None]
    if missing:
        found = ", ".join(known) or "none"
        raise InputError(f"{where}: missing {', '.join(missing)}; found {found}; {NEEDED}")
    span = known["pos_char_span"]
    if not (isinstance(span, list) and len(span) == 2 and all(map(_is_whole, span))):
        raise InputError(f"{where}: pos_char_span is {span!r}; expected [start, end]")
    for name in ("pos_char_length", "pos_token_length"):
        if known.get(name) is not None and not _is_whole(known[name]):
            raise InputError(f"{where}: {name} is {known[name]!r}; expected a whole number")
    texts = (known.get(name) for name in ("pos_corpus_id", "target_position", "domain"))
    positive, target, domain = (None if text is None else str(text) for text in texts)
    lengths = (known["pos_char_length"], known.get("pos_token_length"))
    return (str(known["_id"]), positive, span, *lengths, target, domain)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
