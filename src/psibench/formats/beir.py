"""Queries with the place of their evidence, qrels and documents, in the layouts of BEIR and PosIR.

PosIR's Parquet queries carry the span columns; BEIR's JSON Lines may carry them as fields or
inside `metadata`. Evidence may also be several spans, or known by class alone, as FineWeb-PosQ's
is. Queries with none of these cannot be put in buckets and are refused. Documents have `_id`,
`text`, and in BEIR's layout a `title`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.formats.tabular import (
    NUMBER,
    QRELS_FIELDS,
    SPAN,
    SPANS,
    TEXT,
    TEXTS,
    choose_format,
    is_headerless,
    nested_pairs,
    read_parquet,
    read_scored_pairs,
    read_trec_qrels,
    typed_column,
)
from psibench.formats.text import read_json, read_records
from psibench.metrics.buckets import class_of
from psibench.metrics.query_scores import SEVERAL_SPANS, name_some
from psibench.reading import identifier, shown, utf8

QUERY_SCHEMA: dict[str, Any] = {
    "_id": TEXT,
    "pos_corpus_id": TEXT,
    "pos_char_span": SPAN,
    "pos_char_length": NUMBER,
    "pos_token_length": NUMBER,
    "target_position": TEXT,
    "domain": TEXT,
    "positions": TEXTS,
    SEVERAL_SPANS: SPANS,
}
BY_SPAN = ("pos_char_span", SEVERAL_SPANS)
BY_CLASS = ("target_position", "positions")
NEEDED = (
    "position buckets need, for every query: _id, pos_char_span ([start, end) of the evidence in "
    "its positive document, characters from 0; several: pos_char_spans) and pos_char_length "
    "(characters in that document), or target_position (beginning, middle, end or mixed); "
    "optional: pos_corpus_id (that document; else the positive of the highest grade), "
    "pos_token_length, positions (every third that holds evidence), domain"
)

QUERIES_FORMATS = {"parquet": (".parquet",), "jsonl": (".jsonl", ".jsonl.gz")}
QRELS_FORMATS: dict[str, tuple[str, ...]] = {
    "parquet": (".parquet", ".parq"),
    "tsv": (".tsv", ".tsv.gz"),
    "csv": (".csv", ".csv.gz"),
    "jsonl": (".jsonl", ".jsonl.gz"),
    "json": (".json", ".json.gz"),
    "trec": (".trec", ".qrels", ".qrel", ".txt", ".trec.gz", ".qrels.gz", ".qrel.gz", ".txt.gz"),
}
MOST_GRADE = 1_000
"""Grades are gains of nDCG; a larger number is an id or a score in the wrong column."""
QRELS_COLUMNS: dict[str, tuple[str, ...]] = {
    "query-id": ("query_id", "q_id", "qid"),
    "corpus-id": ("doc_id", "docno"),
    "score": ("label", "relevance"),
}
"""Of qrels: BEIR's names, and those of ranx, PyTerrier and ir-measures."""


def read_queries(path: Path, *, queries_format: str | None = None) -> pl.DataFrame:
    """Read queries with their evidence.

    Returns
    -------
    (n_queries, 9) frame in the columns of `QUERY_SCHEMA`, in file order; optional columns the
    file lacks are null. A query of `positions` without a `target_position` has the one of them,
    mixed if there are several. Spans are not checked here, see `psibench.formats.checks`.

    Raises
    ------
    InputError
        If the format is unknown, or a column is missing or of another type.
    """
    chosen = choose_format(path, queries_format, QUERIES_FORMATS, option="--queries-format")
    if chosen == "parquet":
        found = _of_parquet(path, QUERY_SCHEMA, ["_id"], hint=NEEDED, lacking=_missing)
    else:
        rows = [_query_of(record, f"{path}, line {line}") for line, record in read_records(path)]
        found = pl.DataFrame(rows, schema=QUERY_SCHEMA, orient="row")
    unplaced = pl.all_horizontal(pl.col(n).is_null() for n in (*BY_SPAN, "target_position"))
    return found.with_columns(
        target_position=pl.when(unplaced)
        .then(class_of(pl.col("positions")))
        .otherwise("target_position")
    )


def read_qrels(path: Path, *, qrels_format: str | None = None) -> pl.DataFrame:
    """Read qrels: query-id, corpus-id (String), score (Int64), in file order.

    A .tsv without a header is read as TREC qrels: MS MARCO's have four columns between tabs.

    Raises InputError on an unknown format or a grade that is not a whole number.
    """
    chosen = choose_format(path, qrels_format, QRELS_FORMATS, option="--qrels-format")
    if chosen == "tsv" and qrels_format is None and is_headerless(path, QRELS_FIELDS):
        chosen = "trec"
    if chosen == "trec":
        frame = read_trec_qrels(path)
    elif chosen == "json":
        found = read_json(path)
        if not isinstance(found, dict):
            raise InputError(
                f"{path}: {type(found).__name__}; expected {{query id: {{document id: grade}}}}"
            )
        frame = nested_pairs(found, list(QRELS_COLUMNS), str(path))
    else:
        frame = read_scored_pairs(path, chosen, QRELS_COLUMNS)
    grade = pl.col("score").cast(pl.Float64)
    whole = grade.is_finite() & (grade == grade.round()) & (grade.abs() <= MOST_GRADE)
    odd = frame.filter(~whole.fill_null(value=False))
    if not odd.is_empty():
        query_id, doc_id, score = odd.select(list(QRELS_COLUMNS)).row(0)
        raise InputError(
            f"{path}: query {query_id!r}, document {doc_id!r} has the grade {score}; "
            f"expected a whole number of at most {MOST_GRADE}"
        )
    return frame.select("query-id", "corpus-id", pl.col("score").cast(pl.Int64))


def _of_parquet(
    path: Path,
    schema: Mapping[str, Any],
    needed: Sequence[str],
    *,
    hint: str = "",
    lacking: Callable[[Collection[str]], str] | None = None,
) -> pl.DataFrame:
    """Read the columns of a schema; those that are not needed are null where there are none.

    ``lacking`` says what else the columns found lack, if anything.
    """
    optional = [name for name in schema if name not in needed]
    frame = read_parquet(path, needed, optional=optional, hint=hint)
    if lacking and (missing := lacking(frame.columns)):
        found = ", ".join(frame.columns)
        raise InputError(f"{path}: missing columns {missing}; found {found}; {hint}")
    absent = [name for name in optional if name not in frame.columns]
    frame = frame.with_columns(pl.lit(None).alias(name) for name in absent)
    ids = ("_id", "pos_corpus_id")
    return frame.select(
        typed_column(frame, name, kind, path, is_id=name in ids) for name, kind in schema.items()
    )


def _query_of(record: dict[str, Any], where: str) -> tuple[Any, ...]:
    metadata = record.get("metadata")
    known = {**metadata, **record} if isinstance(metadata, dict) else record
    known = {name: value for name, value in known.items() if value is not None}
    if missing := _missing(known):
        found = ", ".join(known) or "none"
        raise InputError(f"{where}: missing {missing}; found {found}; {NEEDED}")
    span, spans = (known.get(name) for name in BY_SPAN)
    if span is not None and not _is_span(span):
        raise InputError(f"{where}: pos_char_span is {shown(span)}; expected [start, end]")
    if spans is not None and not (isinstance(spans, list) and all(map(_is_span, spans))):
        raise InputError(f"{where}: pos_char_spans is {shown(spans)}; expected [[start, end], ...]")
    tags = known.get("positions")
    if tags is not None and not (isinstance(tags, list) and all(isinstance(t, str) for t in tags)):
        raise InputError(f"{where}: positions is {shown(tags)}; expected a list of texts")
    for name in ("pos_char_length", "pos_token_length"):
        if known.get(name) is not None and not _is_whole(known[name]):
            raise InputError(f"{where}: {name} is {shown(known[name])}; expected a whole number")
    names = ("_id", "pos_corpus_id", "target_position", "domain")
    own, positive, target, domain = (
        None if known.get(name) is None else identifier(known[name], where=where, column=name)
        for name in names
    )
    lengths = (known.get("pos_char_length"), known.get("pos_token_length"))
    return (own, positive, span, *lengths, target, domain, tags, spans)


def _missing(found: Collection[str]) -> str:
    """Say what queries lack to be put in buckets; empty if nothing."""
    is_placed = any(name in found for name in (*BY_SPAN, *BY_CLASS))
    needed = ["_id"] + (["pos_char_span"] if not is_placed else [])
    if not any(name in found for name in BY_CLASS):
        needed.append("pos_char_length")
    return ", ".join(name for name in needed if name not in found)


def _is_span(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_whole, value))


def _is_whole(value: Any) -> bool:
    """Say whether a value is a whole number that a table holds."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


# --- texts of documents

CORPUS_FORMATS = {"parquet": (".parquet",), "jsonl": (".jsonl", ".jsonl.gz")}
_SCHEMA = {"_id": TEXT, "text": TEXT, "title": TEXT}


def read_texts(paths: Sequence[Path], ids: pl.Series) -> pl.DataFrame:
    """Read some documents of a corpus in one or more files.

    Parameters
    ----------
    ids
        Of the documents wanted.

    Returns
    -------
    (n_ids, 3) frame of `_id`, `text` and `title`; a document without title has null.

    Raises
    ------
    InputError
        If a file is of no known format or lacks a column, a document has no text or several, or is
        in none of the files.
    """
    frames = []
    for path in paths:
        chosen = choose_format(path, None, CORPUS_FORMATS, option="a suffix")
        if chosen == "parquet":
            every = _of_parquet(path, _SCHEMA, ("_id", "text"))
            frames.append(every.filter(pl.col("_id").is_in(ids.implode())))
        else:
            frames.append(_documents_of_jsonl(path, set(ids.to_list())))
    found = pl.concat(frames).unique(maintain_order=True)
    named = ", ".join(str(path) for path in paths)
    own = found.get_column("_id")
    for problem, odd in (
        ("documents with two texts", own.filter(own.is_duplicated()).unique()),
        ("documents without a text", own.filter(found.get_column("text").is_null())),
        ("no text of the positives", ids.filter(~ids.is_in(own.implode())).unique()),
    ):
        if len(odd):
            raise InputError(f"{named}: {problem} {name_some(odd)}")
    return found


def _documents_of_jsonl(path: Path, wanted: set[str]) -> pl.DataFrame:
    rows = []
    for line, record in read_records(path):
        missing = [name for name in ("_id", "text") if name not in record]
        if missing:
            raise InputError(
                f"{path}, line {line}: missing {', '.join(missing)}; found "
                f"{', '.join(record) or 'nothing'}"
            )
        where = f"{path}, line {line}"
        if identifier(record["_id"], where=where, column="_id") in wanted:
            rows.append({"_id": str(record["_id"]), **_texts(record, where)})
    return pl.DataFrame(rows, schema=_SCHEMA)


def _texts(record: dict[str, Any], where: str) -> dict[str, str | None]:
    """Return text and title; null where there is none."""
    found: dict[str, str | None] = {}
    for name in ("text", "title"):
        value = record.get(name)
        if not isinstance(value, str | None):
            raise InputError(f"{where}: {name} is {shown(value)}; expected text")
        found[name] = None if value is None else utf8(value, where=where, column=name)
    return found
