"""What a judge is shown, as PAIRS, and what it said, as the rules read it.

A pair without text (an empty part of a document) is shown to nobody; the rules see a null for it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import polars as pl

from psibench.build.rules.frames import as_table, require_columns, require_unique
from psibench.build.verification import part_text
from psibench.errors import InputError
from psibench.tables.build_schemas import GRADES, PAIRS
from psibench.tables.verify_schemas import JUDGE_GRADES

PairRow = tuple[str, str, str, str, str, str]
"""One pair, in the columns of PAIRS."""

Found = TypeVar("Found")


def part_pairs(
    candidates: pl.DataFrame, documents: pl.DataFrame, wanted: pl.DataFrame
) -> pl.DataFrame:
    """Make the PAIRS of candidates with parts of their own documents; leave out those without text.

    Parameters
    ----------
    candidates
        CANDIDATES rows.
    documents
        ``_id`` and ``text``, their documents among them.
    wanted
        ``query_id`` and ``part`` of the pairs, in their order.

    Raises
    ------
    InputError
        If a query or its document is not there, or a pair is wanted twice.
    """
    return _with_text(_part_rows(candidates, documents, wanted))


def document_pairs(
    pairs: pl.DataFrame, queries: pl.DataFrame, corpus: pl.DataFrame
) -> pl.DataFrame:
    """Make the PAIRS of queries with whole documents; leave out those without text.

    Parameters
    ----------
    pairs
        ``query_id`` and ``doc_id``, in their order.
    queries, corpus
        ``_id`` and ``text``.

    Raises
    ------
    InputError
        If a query or document is not there, or a pair is given twice.
    """
    require_unique(pairs, ("query_id", "doc_id"), "pairs")
    questions, texts = _texts(queries, "queries"), _texts(corpus, "corpus")
    rows = []
    for query_id, doc_id in pairs.select("query_id", "doc_id").iter_rows():
        shown = _find(questions, query_id, "query"), _find(texts, doc_id, "document")
        rows.append((f"{query_id}--{doc_id}", query_id, doc_id, "document", *shown))
    return _with_text(rows)


def all_parts(candidates: pl.DataFrame, parts: Sequence[str]) -> pl.DataFrame:
    """List ``query_id`` and ``part``: every part of every candidate, in order of both."""
    each = pl.lit(list(parts), dtype=pl.List(pl.String))
    return candidates.select(query_id="_id").with_columns(part=each).explode("part")


def judge_grades(graded: pl.DataFrame, judge: str) -> pl.DataFrame:
    """Turn the GRADES of a language model, from whatever task, into JUDGE_GRADES rows.

    Parameters
    ----------
    judge
        Id of the language model.
    """
    columns = [name for name in GRADES.column_names if name != "_id"]
    require_columns(graded, columns, "grades")
    return as_table(
        JUDGE_GRADES, graded.select(columns).with_columns(judge=pl.lit(judge)).to_dict()
    )


def textless_grades(
    candidates: pl.DataFrame, documents: pl.DataFrame, *, parts: Sequence[str], judge: str
) -> pl.DataFrame:
    """Make a JUDGE_GRADES row, its grade null, of every part that `part_pairs` leaves out."""
    rows = _part_rows(candidates, documents, all_parts(candidates, parts))
    without = _frame(row for row in rows if not _has_text(row))
    return judge_grades(without.with_columns(grade=pl.lit(None, pl.Int32)), judge)


def _part_rows(
    candidates: pl.DataFrame, documents: pl.DataFrame, wanted: pl.DataFrame
) -> Iterator[PairRow]:
    """Yield every pair wanted, with or without text."""
    require_unique(wanted, ("query_id", "part"), "pairs wanted")
    texts = _texts(documents, "documents")
    columns = ("_id", "text", "pos_corpus_id", "pos_char_span")
    asked = {row[0]: row[1:] for row in candidates.select(columns).iter_rows()}
    for query_id, part in wanted.select("query_id", "part").iter_rows():
        query, doc_id, span = _find(asked, query_id, "candidate")
        text = part_text(_find(texts, doc_id, "document"), span, part)
        yield f"{query_id}--{part}", query_id, doc_id, part, query, text


def _texts(frame: pl.DataFrame, what: str) -> dict[str, str]:
    require_unique(frame, ("_id",), what)
    return dict(frame.select("_id", "text").iter_rows())


def _find(known: Mapping[str, Found], name: str, what: str) -> Found:
    if name not in known:
        raise InputError(
            f"pairs: {what} {name!r} is not in its table ({len(known)} rows); the tables are of "
            "different samples. Make them again from the same one."
        )
    return known[name]


def _has_text(row: PairRow) -> bool:
    return bool(row[4].strip() and row[5].strip())


def _with_text(rows: Iterable[PairRow]) -> pl.DataFrame:
    return _frame(row for row in rows if _has_text(row))


def _frame(rows: Iterable[PairRow]) -> pl.DataFrame:
    schema = dict.fromkeys(PAIRS.column_names, pl.String)
    return pl.DataFrame(list(rows), schema=schema, orient="row")
