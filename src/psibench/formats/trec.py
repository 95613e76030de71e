"""TREC run files (6 columns) and TREC qrels (4 columns), plain or gzipped."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from psibench.errors import InputError
from psibench.formats.text import read_lines
from psibench.reading import number

RUN_FIELDS = ("query id", "Q0", "document id", "rank", "score", "run name")
QRELS_FIELDS = ("query id", "0", "document id", "grade")


def read_trec_run(path: Path) -> pl.DataFrame:
    """Read a TREC run: columns query_id, doc_id, rank (String), score (Float64), in file order.

    As in trec_eval, the order is that of the scores; the rank is text and may be anything.
    """
    queries, docs, ranks, scores = [], [], [], []
    for line, fields in _rows(path, RUN_FIELDS):
        queries.append(fields[0])
        docs.append(fields[2])
        ranks.append(fields[3])
        scores.append(number(fields[4], where=f"{path}, line {line}", column="score"))
    schema = {"query_id": pl.String, "doc_id": pl.String, "rank": pl.String, "score": pl.Float64}
    columns = {"query_id": queries, "doc_id": docs, "rank": ranks, "score": scores}
    return pl.DataFrame(columns, schema=schema)


def read_trec_qrels(path: Path) -> pl.DataFrame:
    """Read TREC qrels: columns query-id, corpus-id (String) and score (Float64), in file order."""
    queries, docs, grades = [], [], []
    for line, fields in _rows(path, QRELS_FIELDS):
        queries.append(fields[0])
        docs.append(fields[2])
        grades.append(number(fields[3], where=f"{path}, line {line}", column="grade"))
    schema = {"query-id": pl.String, "corpus-id": pl.String, "score": pl.Float64}
    return pl.DataFrame({"query-id": queries, "corpus-id": docs, "score": grades}, schema=schema)


def _rows(path: Path, expected: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of every line that is not blank, split on spaces and tabs."""
    for line, text in read_lines(path):
        fields = text.replace("\t", " ").split(" ")
        fields = [field for field in fields if field]
        if not fields:
            continue
        if len(fields) != len(expected):
            raise InputError(
                f"{path}, line {line}: {len(fields)} columns, expected {len(expected)} "
                f"({', '.join(expected)}) between spaces or tabs"
            )
        yield line, fields
