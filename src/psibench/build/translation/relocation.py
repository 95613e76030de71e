"""Evidence found again in translated positives, for all queries of a language and domain."""

from collections.abc import Mapping

import numpy as np
import polars as pl

from psibench.build.translation.location import align_texts, locate_span
from psibench.errors import InputError

SPAN_TYPE = pl.Array(pl.Int32, 2)
LOCATED_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "_id": pl.String,
    "span": SPAN_TYPE,
    "reason": pl.String,
}


def relocate_by_sentences(
    queries: pl.DataFrame, sources: Mapping[str, str], translations: Mapping[str, str]
) -> pl.DataFrame:
    """Find the translated sentences that align with those of each query's evidence.

    How much longer translations are is taken from all documents: the median of their ratios.

    Parameters
    ----------
    queries
        ``_id, pos_corpus_id, pos_char_span``.
    sources, translations
        Document id -> text; a translation for every query's positive.

    Returns
    -------
    frame of ``_id, span, reason`` in order of the queries.
    """
    ratio = length_ratio(sources, translations)
    aligned = {
        doc_id: align_texts(sources[doc_id], translations[doc_id], ratio=ratio)
        for doc_id in queries.get_column("pos_corpus_id").unique(maintain_order=True)
    }
    rows = []
    for query_id, doc_id, span in queries.select(
        "_id", "pos_corpus_id", "pos_char_span"
    ).iter_rows():
        found = locate_span(aligned[doc_id], (span[0], span[1]))
        rows.append((query_id, found.span and list(found.span), found.reason))
    return pl.DataFrame(rows, schema=LOCATED_SCHEMA, orient="row")


def length_ratio(sources: Mapping[str, str], translations: Mapping[str, str]) -> float:
    """Compute the median of characters per character of the original; 1 of no documents."""
    ratios = [len(text) / len(sources[doc_id]) for doc_id, text in translations.items() if text]
    return float(np.median(ratios)) if ratios else 1.0


def quoted_spans(
    queries: pl.DataFrame, relocated: pl.DataFrame, lengths: Mapping[str, int]
) -> pl.DataFrame:
    """Give every query the span that a language model quoted.

    Parameters
    ----------
    queries
        ``_id, pos_corpus_id``.
    relocated
        RELOCATED rows; a query without one was not answered for.
    lengths
        Document id -> characters of its translation.

    Returns
    -------
    frame of ``_id, span, reason`` in order of the queries.

    Raises
    ------
    InputError
        If a span does not lie in the query's translated positive.
    """
    joined = queries.select("_id", "pos_corpus_id").join(
        relocated.select("_id", "span", "reason"), on="_id", how="left", maintain_order="left"
    )
    for query_id, doc_id, span in joined.select("_id", "pos_corpus_id", "span").iter_rows():
        if span is not None and not 0 <= span[0] < span[1] <= lengths[doc_id]:
            raise InputError(
                f"query {query_id!r}: located at [{span[0]}, {span[1]}) of a translation of "
                f"{lengths[doc_id]} characters; make the relocations anew from these translations"
            )
    return joined.select(
        "_id", pl.col("span").cast(SPAN_TYPE), pl.col("reason").fill_null("no_usable_reply")
    )
