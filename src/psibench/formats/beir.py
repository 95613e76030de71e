"""Queries with the positions of their evidence, qrels and documents, as in BEIR and PosIR.

PosIR's Parquet queries have span columns; BEIR's JSON Lines may have them as fields or inside
`metadata`. Instead of one span, a query may have several spans or only a class, as in FineWeb-PosQ.
Queries without any of these cannot be put in buckets and are refused. Documents have `_id`, `text`,
and in BEIR's layout a `title`.
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
    read_scored_pairs,
    read_typed_columns,
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
    "its positive document, characters from 0; if several, pos_char_spans) and pos_char_length "
    "(characters in that document), or target_position (beginning, middle, end or mixed); "
    "optional: pos_corpus_id (that document; else the positive of the highest grade), "
    "pos_token_length, positions (every third with evidence), domain, cluster (the article or "
    "site that the document belongs to)"
)

QUERY_ID_NAMES = ("query_id", "query-id", "qid", "q_id", "id")
DOCUMENT_ID_NAMES = ("doc_id", "docno", "corpus-id", "id")
"""Other names of `_id`, as in runs and qrels."""

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
"""Columns of qrels, with BEIR's names -> the names in ranx, PyTerrier and ir-measures."""
QRELS_FIELDS = ("query-id", "0", "corpus-id", "score")
"""Fields of a line of TREC qrels."""


def read_query_file(path: Path, *, has_corpus: bool = False) -> pl.DataFrame:
    """Read queries with their evidence, in file order, in the columns of `QUERY_SCHEMA`.

    Optional columns that the file lacks are null; ``pos_char_length`` is optional if the caller has
    the corpus, whose documents have their length. If a query has `positions` but no
    `target_position`, that becomes its position, or mixed if it has several. Spans are not checked
    here; see `psibench.formats.checks`.

    Raises InputError if the format is unknown, or a column is missing or has another type.
    """
    further = {name: kind for name, kind in QUERY_SCHEMA.items() if name != "_id"}
    also = {"_id": QUERY_ID_NAMES}
    queries = read_typed_columns(path, {"_id": TEXT}, further=further, also=also, hint=NEEDED)
    given = [*queries.columns, *(["pos_char_length"] if has_corpus else [])]
    if missing := _missing(given):
        present = ", ".join(queries.columns)
        raise InputError(f"{path}: missing columns {missing}; found {present}; {NEEDED}")
    absent = {name: kind for name, kind in further.items() if name not in queries.columns}
    queries = queries.with_columns(pl.lit(None, kind).alias(n) for n, kind in absent.items())
    queries = queries.select(list(QUERY_SCHEMA))
    unplaced = pl.all_horizontal(pl.col(n).is_null() for n in (*BY_SPAN, "target_position"))
    return queries.with_columns(
        target_position=pl.when(unplaced)
        .then(class_of(pl.col("positions")))
        .otherwise("target_position")
    )


def _missing(columns: Collection[str]) -> str:
    """Return the columns that queries lack for buckets; empty if they have all."""
    is_placed = any(name in columns for name in (*BY_SPAN, *BY_CLASS))
    needed = ["_id"] + (["pos_char_span"] if not is_placed else [])
    if not any(name in columns for name in BY_CLASS):
        needed.append("pos_char_length")
    return ", ".join(name for name in needed if name not in columns)


def read_qrels(path: Path) -> pl.DataFrame:
    """Read qrels: query-id, corpus-id (String), score (Int64), in file order.

    A .tsv without a header is read as TREC qrels: MS MARCO's have four columns, separated by tabs.

    Raises InputError if the format is unknown or a grade is not a whole number.
    """
    chosen = choose_format(path, QRELS_FORMATS)
    if chosen == "tsv" and is_headerless(path, QRELS_FIELDS):
        chosen = "trec"
    if chosen == "json":
        content = read_json(path)
        if not isinstance(content, dict):
            raise InputError(
                f"{path}: found a {type(content).__name__}; expected {{query id: {{document id: "
                "grade}}"
            )
        frame = nested_pairs(content, list(QRELS_COLUMNS), str(path))
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


# --- Texts of documents


def read_texts(paths: Sequence[Path], ids: pl.Series) -> pl.DataFrame:
    """Read the documents with these ids: (n_ids, 3) `_id`, `text` and `title`, which may be null.

    Raises InputError if a file has an unknown format or lacks a column, a document has no text or
    several, or no file has it.
    """
    frames = []
    for path in paths:
        also = {"_id": DOCUMENT_ID_NAMES}
        columns = {"_id": TEXT, "text": TEXT}
        every = read_typed_columns(path, columns, further={"title": TEXT}, also=also)
        if "title" not in every.columns:
            every = every.with_columns(title=pl.lit(None, TEXT))
        frames.append(every.filter(pl.col("_id").is_in(ids.implode())))
    texts = pl.concat(frames).unique(maintain_order=True)
    files = ", ".join(str(path) for path in paths)
    known = texts.get_column("_id")
    for problem, odd in (
        ("documents with two texts:", known.filter(known.is_duplicated()).unique()),
        ("documents without a text:", known.filter(texts.get_column("text").is_null())),
        ("no text of the positives", ids.filter(~ids.is_in(known.implode())).unique()),
    ):
        if len(odd):
            raise InputError(f"{files}: {problem} {name_some(odd)}")
    return texts
