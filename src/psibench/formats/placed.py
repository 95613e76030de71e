"""A corpus and queries with spans in its texts, as commands read them: `probe`, `chunks`."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from psibench.errors import InputError
from psibench.formats.beir import DOCUMENT_ID_NAMES, read_query_file, read_texts
from psibench.formats.checks import check_queries
from psibench.formats.tabular import read_typed_columns
from psibench.metrics.query_scores import SEVERAL_SPANS
from psibench.sources.documents import read_document_files

RECORDS = (".jsonl", ".jsonl.gz", ".parquet")


def read_unchanged_documents(path: Path, *, text_column: str) -> pl.DataFrame:
    """Return _id, text and title (null if there is none) of the documents.

    One file of records: the texts are unchanged, because spans count from their first character.
    Other files: the reader strips white space at the ends.

    Raises InputError if an id occurs twice, or no document has text.
    """
    if path.is_file() and path.name.endswith(RECORDS):
        columns = {"_id": pl.String, text_column: pl.String}
        found = read_typed_columns(
            path, columns, further={"title": pl.String}, also={"_id": DOCUMENT_ID_NAMES}
        ).rename({text_column: "text"})
        found = found.filter(pl.col("text").str.strip_chars() != "")
        if (twice := found.filter(pl.col("_id").is_duplicated())).height:
            raise InputError(
                f"{path}: the id {twice['_id'][0]!r} occurs more than once; ids must be unique"
            )
        if found.is_empty():
            raise InputError(f"{path}: every document is empty; expected text")
    else:
        found = read_document_files([path], text_column=text_column)
    title = "title" if "title" in found.columns else pl.lit(None, pl.String).alias("title")
    return found.select("_id", "text", title)


def read_placed_queries(path: Path, documents: pl.DataFrame, *, corpus: Path) -> pl.DataFrame:
    """Return queries in the columns of QUERY_SCHEMA, with ``text``.

    ``pos_char_length`` comes from the documents.

    Raises InputError if a query has no text or no evidence, its document is not in the corpus or
    ends before its evidence, or it states another length: its positions are in another text.
    """
    queries = read_query_file(path, has_corpus=True)
    texts = read_texts([path], queries["_id"]).select("_id", "text")
    queries = queries.join(texts, on="_id", how="left", maintain_order="left")
    lengths = documents.select(pos_corpus_id="_id", length=pl.col("text").str.len_chars())
    joined = queries.join(lengths, on="pos_corpus_id", how="left", maintain_order="left")
    for query in joined.filter(pl.col("pos_corpus_id").is_null()).get_column("_id").head(1):
        raise InputError(
            f"{path}: query {query!r} has no pos_corpus_id; give the id of the document with its "
            f"evidence, one of {corpus}"
        )
    stated, length = pl.col("pos_char_length"), pl.col("length")
    _refuse(joined.filter(length.is_null()), path, corpus, "is not there")
    several = pl.col(SEVERAL_SPANS).list.eval(pl.element().list.get(1)).list.max()
    last = pl.max_horizontal(pl.col("pos_char_span").list.get(1), several)
    without = joined.filter(last.is_null())
    _refuse(without, path, corpus, "is there; the query needs pos_char_span or pos_char_spans")
    for odd in (joined.filter(last > length), joined.filter(stated != length)):
        why = "has {length} characters: the span belongs to another version"
        _refuse(odd, path, corpus, why)
    filled = joined["length"].cast(queries.schema["pos_char_length"])
    queries = queries.with_columns(pos_char_length=filled)
    check_queries(queries.drop("text"), source=str(path))
    return queries


def without_outer_space(queries: pl.DataFrame, texts: Mapping[str, str]) -> pl.DataFrame:
    """Return queries whose spans neither begin nor end with white space, unless they are blank.

    ``texts`` are the documents by id. Splitters strip white space, so a chunk would not contain a
    span that begins with it.
    """

    def trimmed(doc_id: str, span: list[int]) -> list[int]:
        text = texts[doc_id][slice(*span)]
        blank = len(text) - len(text.lstrip())
        return [span[0] + blank, span[0] + len(text.rstrip())] if text.strip() else span

    single, several = [], []
    columns = ("pos_corpus_id", "pos_char_span", SEVERAL_SPANS)
    for doc_id, span, spans in queries.select(columns).iter_rows():
        single.append(span and trimmed(doc_id, span))
        several.append(spans and [trimmed(doc_id, one) for one in spans])
    kinds = queries.schema
    return queries.with_columns(
        pl.Series("pos_char_span", single, dtype=kinds["pos_char_span"]),
        pl.Series(SEVERAL_SPANS, several, dtype=kinds[SEVERAL_SPANS]),
    )


def _refuse(odd: pl.DataFrame, path: Path, corpus: Path, why: str) -> None:
    """Raise InputError about the first of some queries, if there is one."""
    for row in odd.head(1).iter_rows(named=True):
        stated = row["pos_char_length"]
        size = "" if stated is None else f" of {stated} characters"
        span = row["pos_char_span"] or row[SEVERAL_SPANS]
        raise InputError(
            f"{path}: query {row['_id']!r} has the span {span} in the document "
            f"{row['pos_corpus_id']!r}{size}, which in {corpus} "
            f"{why.format(length=row['length'])} ({odd.height} such queries). "
            "Use the corpus for which the spans were made, as .jsonl or .parquet: texts of a "
            "folder are read without white space at their ends"
        )
