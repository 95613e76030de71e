"""Queries with the place of their evidence, qrels and documents, in the layouts of BEIR and PosIR.

PosIR's Parquet queries carry the span columns; BEIR's JSON Lines may carry them as fields or
inside `metadata`. Evidence may also be several spans, or known by class alone, as FineWeb-PosQ's
is. Queries with none of these cannot be put in buckets and are refused. Documents have `_id`,
`text`, and in BEIR's layout a `title`.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.formats.tabular import (
    NUMBER,
    SPAN,
    SPANS,
    TEXT,
    TEXTS,
    choose_format,
    is_headerless,
    nested_pairs,
    read_columns,
    read_scored_pairs,
)
from psibench.lines import read_json
from psibench.metrics.buckets import class_of
from psibench.metrics.query_scores import CLUSTER, SEVERAL_SPANS, name_some

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
    CLUSTER: TEXT,
}
BY_SPAN = ("pos_char_span", SEVERAL_SPANS)
BY_CLASS = ("target_position", "positions")
NEEDED = (
    "position buckets need, for every query: _id, pos_char_span ([start, end) of the evidence in "
    "its positive document, characters from 0; several: pos_char_spans) and pos_char_length "
    "(characters in that document), or target_position (beginning, middle, end or mixed); "
    "optional: pos_corpus_id (that document; else the positive of the highest grade), "
    "pos_token_length, positions (every third that holds evidence), domain, cluster (what that "
    "document is part of, as an article or a site)"
)

QUERY_IDS = ("query_id", "query-id", "qid", "q_id", "id")
DOCUMENT_IDS = ("doc_id", "docno", "corpus-id", "id")
"""Other names of `_id`: those of runs and qrels."""

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
QRELS_FIELDS = ("query-id", "0", "corpus-id", "score")
"""Of a line of TREC's."""


def read_queries(path: Path) -> pl.DataFrame:
    """Read queries with their evidence: (n_queries, 9) in the columns of `QUERY_SCHEMA`.

    In file order; optional columns the file lacks are null. A query of `positions` without a
    `target_position` has the one of them, mixed if there are several. Spans are not checked here,
    see `psibench.formats.checks`.

    Raises InputError if the format is unknown, or a column is missing or of another type.
    """
    further = {name: kind for name, kind in QUERY_SCHEMA.items() if name != "_id"}
    also = {"_id": QUERY_IDS}
    found = read_columns(path, {"_id": TEXT}, further=further, also=also, hint=NEEDED)
    if missing := _missing(found.columns):
        there = ", ".join(found.columns)
        raise InputError(f"{path}: missing columns {missing}; found {there}; {NEEDED}")
    absent = {name: kind for name, kind in further.items() if name not in found.columns}
    found = found.with_columns(pl.lit(None, kind).alias(n) for n, kind in absent.items())
    found = found.select(list(QUERY_SCHEMA))
    unplaced = pl.all_horizontal(pl.col(n).is_null() for n in (*BY_SPAN, "target_position"))
    return found.with_columns(
        target_position=pl.when(unplaced)
        .then(class_of(pl.col("positions")))
        .otherwise("target_position")
    )


def _missing(found: Collection[str]) -> str:
    """Say what queries lack to be put in buckets; empty if nothing."""
    is_placed = any(name in found for name in (*BY_SPAN, *BY_CLASS))
    needed = ["_id"] + (["pos_char_span"] if not is_placed else [])
    if not any(name in found for name in BY_CLASS):
        needed.append("pos_char_length")
    return ", ".join(name for name in needed if name not in found)


def read_qrels(path: Path) -> pl.DataFrame:
    """Read qrels: query-id, corpus-id (String), score (Int64), in file order.

    A .tsv without a header is read as TREC qrels: MS MARCO's have four columns between tabs.

    Raises InputError on an unknown format or a grade that is not a whole number.
    """
    chosen = choose_format(path, QRELS_FORMATS)
    if chosen == "tsv" and is_headerless(path, QRELS_FIELDS):
        chosen = "trec"
    if chosen == "json":
        found = read_json(path)
        if not isinstance(found, dict):
            raise InputError(
                f"{path}: {type(found).__name__}; expected {{query id: {{document id: grade}}}}"
            )
        frame = nested_pairs(found, list(QRELS_COLUMNS), str(path))
    else:
        frame = read_scored_pairs(path, chosen, QRELS_COLUMNS, headerless={"trec": QRELS_FIELDS})
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


# --- texts of documents


def read_texts(paths: Sequence[Path], ids: pl.Series) -> pl.DataFrame:
    """Read the documents of these ids: (n_ids, 3) `_id`, `text` and `title`, null without one.

    Raises InputError if a file is of no known format or lacks a column, a document has no text or
    several, or is in none of the files.
    """
    frames = []
    for path in paths:
        also = {"_id": DOCUMENT_IDS}
        columns = {"_id": TEXT, "text": TEXT}
        every = read_columns(path, columns, further={"title": TEXT}, also=also)
        if "title" not in every.columns:
            every = every.with_columns(title=pl.lit(None, TEXT))
        frames.append(every.filter(pl.col("_id").is_in(ids.implode())))
    found = pl.concat(frames).unique(maintain_order=True)
    named = ", ".join(str(path) for path in paths)
    known = found.get_column("_id")
    for problem, odd in (
        ("documents with two texts", known.filter(known.is_duplicated()).unique()),
        ("documents without a text", known.filter(found.get_column("text").is_null())),
        ("no text of the positives", ids.filter(~ids.is_in(known.implode())).unique()),
    ):
        if len(odd):
            raise InputError(f"{named}: {problem} {name_some(odd)}")
    return found
