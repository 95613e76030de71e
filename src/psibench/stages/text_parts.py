"""Stage ``text_parts``: documents and queries of one domain, in parts that are translated whole."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from psibench.errors import InputError
from psibench.models.counting import token_counter
from psibench.stages.tables import derived
from psibench.tables import read_table, write_table
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.tables.translation_schemas import TEXT_PARTS
from psibench.text.lengths import TokenCounter
from psibench.text.parts import split_parts

Row = tuple[str, str, str, str, int, int, str, str]


def run_text_parts(
    *,
    corpus: str | Path,
    queries: str | Path,
    length_tokenizer: str,
    max_part_tokens: int,
    output: str | Path,
) -> None:
    """Write the parts of a domain's documents, then its queries, each of these whole."""
    params = {"length_tokenizer": length_tokenizer, "max_part_tokens": max_part_tokens}
    parts = text_parts(
        read_table(corpus, CORPUS),
        read_table(queries, QUERIES),
        max_tokens=max_part_tokens,
        count_tokens=token_counter(length_tokenizer),
    )
    source = derived("text_parts", (corpus, queries), params=params)
    write_table(parts, output, TEXT_PARTS, provenance=source)


def text_parts(
    corpus: pl.DataFrame, queries: pl.DataFrame, *, max_tokens: int, count_tokens: TokenCounter
) -> pl.DataFrame:
    """Cut documents of more than ``max_tokens`` tokens; see `split_parts`.

    The corpus says how long its documents are: only those that are too long are counted again.

    Returns
    -------
    TEXT_PARTS rows: documents in their order, then queries in theirs.

    Raises
    ------
    InputError
        If a query's positive is not in the corpus.
    """
    positives = queries.select("_id", doc_id="pos_corpus_id")
    odd = positives.join(corpus.select(doc_id="_id"), on="doc_id", how="anti")
    if odd.height:
        query_id, doc_id = odd.row(0)
        raise InputError(
            f"query {query_id!r}: its positive {doc_id!r} is not in the corpus ({odd.height} such "
            "queries). Make both tables again from the same source."
        )
    rows = [
        *_document_rows(corpus, max_tokens, count_tokens),
        *(
            (f"q:{query_id}:0", doc_id, query_id, "query", 0, 1, text, "")
            for query_id, text, doc_id in queries.select("_id", "text", "pos_corpus_id").iter_rows()
        ),
    ]
    empty = pl.DataFrame(pl.from_arrow(TEXT_PARTS.schema.empty_table()))
    return pl.DataFrame(rows, schema=empty.schema, orient="row")


def _document_rows(
    corpus: pl.DataFrame, max_tokens: int, count_tokens: TokenCounter
) -> Iterator[Row]:
    for doc_id, text, n_tokens in corpus.select("_id", "text", "token_length").iter_rows():
        if n_tokens <= max_tokens:
            yield (f"d:{doc_id}:0", doc_id, doc_id, "document", 0, 1, text, "")
            continue
        parts = split_parts(text, max_tokens=max_tokens, count_tokens=count_tokens)
        for number, part in enumerate(parts):
            part_id, piece = f"d:{doc_id}:{number}", text[part.start : part.end]
            row = (part_id, doc_id, doc_id, "document", number, len(parts), piece, part.separator)
            yield row
