"""What tasks share that judge rows of a table: each row comes out again, judged or null."""

import polars as pl

from psibench.errors import InputError
from psibench.llm.tasks import DOCUMENTS_TABLE, Tables


def refuse_unknown_documents(tables: Tables, name: str) -> None:
    """Refuse a table with rows about no document: nobody was asked about these.

    Raises
    ------
    InputError
        If there is such a row.
    """
    documents = tables[DOCUMENTS_TABLE].select(doc_id="_id")
    odd = tables[name].join(documents, on="doc_id", how="anti", maintain_order="left")
    if odd.height:
        row_id, doc_id = odd.select("_id", "doc_id").row(0)
        raise InputError(
            f"{name}: {row_id!r} belongs to document {doc_id!r}, which is not in "
            f"{DOCUMENTS_TABLE} ({odd.height} such rows); nobody was asked about it. Make both "
            "tables again from the same documents."
        )


def with_judgements(rows: pl.DataFrame, judgements: pl.DataFrame, *, table: str) -> pl.DataFrame:
    """Add judgements (``_id`` and what was judged) to the rows of ``table``; null without one.

    Raises
    ------
    InputError
        If a judgement is about no row.
    """
    odd = judgements.join(rows, on="_id", how="anti", maintain_order="left")
    if odd.height:
        raise InputError(
            f"reply about {odd.item(0, '_id')}, which is no row of {table} ({odd.height} such "
            "replies); the outcomes are of another table. Ask again."
        )
    return rows.join(judgements, on="_id", how="left", maintain_order="left", validate="1:1")
