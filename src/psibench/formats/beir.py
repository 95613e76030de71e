"""Queries with evidence spans and qrels, in the layouts of BEIR and PosIR.

PosIR's Parquet queries carry the span columns; BEIR's JSON Lines may carry them as fields or
inside `metadata`. Queries without them cannot be put in buckets and are refused.
"""

from pathlib import Path
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.formats.suffixes import choose_format
from psibench.formats.tabular import (
    NUMBER,
    SPAN,
    TEXT,
    read_parquet,
    read_scored_pairs,
    typed_column,
)
from psibench.formats.text import read_records
from psibench.formats.trec import read_trec_qrels
from psibench.reading import identifier, shown

REQUIRED = ("_id", "pos_char_span", "pos_char_length")
OPTIONAL = ("pos_corpus_id", "pos_token_length", "target_position", "domain")
QUERY_SCHEMA: dict[str, Any] = {
    "_id": TEXT,
    "pos_corpus_id": TEXT,
    "pos_char_span": SPAN,
    "pos_char_length": NUMBER,
    "pos_token_length": NUMBER,
    "target_position": TEXT,
    "domain": TEXT,
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
MOST_GRADE = 1_000
"""Grades are gains of nDCG; a larger number is an id or a score in the wrong column."""
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
    return _queries_of_parquet(path) if chosen == "parquet" else _queries_of_jsonl(path)


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
    whole = grade.is_finite() & (grade == grade.round()) & (grade.abs() <= MOST_GRADE)
    odd = frame.filter(~whole.fill_null(value=False))
    if not odd.is_empty():
        query_id, doc_id, score = odd.select(QRELS_COLUMNS).row(0)
        raise InputError(
            f"{path}: query {query_id!r}, document {doc_id!r} has the grade {score}; "
            f"expected a whole number of at most {MOST_GRADE}"
        )
    return frame.select("query-id", "corpus-id", pl.col("score").cast(pl.Int64))


def _queries_of_parquet(path: Path) -> pl.DataFrame:
    frame = read_parquet(path, REQUIRED, optional=OPTIONAL, hint=NEEDED)
    absent = [name for name in OPTIONAL if name not in frame.columns]
    frame = frame.with_columns(pl.lit(None).alias(name) for name in absent)
    ids = ("_id", "pos_corpus_id")
    return frame.select(
        typed_column(frame, name, kind, path, is_id=name in ids)
        for name, kind in QUERY_SCHEMA.items()
    )


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
        raise InputError(f"{where}: pos_char_span is {shown(span)}; expected [start, end]")
    for name in ("pos_char_length", "pos_token_length"):
        if known.get(name) is not None and not _is_whole(known[name]):
            raise InputError(f"{where}: {name} is {shown(known[name])}; expected a whole number")
    names = ("_id", "pos_corpus_id", "target_position", "domain")
    own, positive, target, domain = (
        None if known.get(name) is None else identifier(known[name], where=where, column=name)
        for name in names
    )
    lengths = (known["pos_char_length"], known.get("pos_token_length"))
    return (own, positive, span, *lengths, target, domain)


def _is_whole(value: Any) -> bool:
    """Say whether a value is a whole number that a table holds."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
