"""Columns of translated queries: the translated text, and where the evidence stands in it."""

import logging
from pathlib import Path
from typing import Literal

import polars as pl

from psibench.build.translation.relocation import quoted_spans, relocate_by_sentences
from psibench.errors import InputError
from psibench.tables import read_table
from psibench.tables.translation_schemas import RELOCATED

Method = Literal["sentences", "quote"]

logger = logging.getLogger("psibench")


def translated_queries(
    queries: pl.DataFrame, items: pl.DataFrame, corpus: pl.DataFrame
) -> pl.DataFrame:
    """Put the translated text into queries; everything else stays the original's."""
    texts = items.filter(pl.col("kind") == "query").select("_id", "text")
    sizes = corpus.select(pos_corpus_id="_id", pos_translated_char_length="char_length")
    columns = [*queries.columns, "pos_translated_char_length"]
    joined = queries.drop("text").join(texts, on="_id", how="left", maintain_order="left")
    return joined.join(sizes, on="pos_corpus_id", how="left", maintain_order="left").select(columns)


def located_columns(
    queries: pl.DataFrame,
    source: pl.DataFrame,
    corpus: pl.DataFrame,
    method: Method,
    relocations: str | Path | None,
) -> pl.DataFrame:
    """Make the columns that say where evidence stands in the translation, and how it was found."""
    if method == "quote":
        if relocations is None:
            raise InputError("relocate is quote, and no table of quoted spans is given")
        lengths = dict(corpus.select("_id", "char_length").iter_rows())
        found = quoted_spans(queries, read_table(relocations, RELOCATED), lengths)
    else:
        texts = dict(source.select("_id", "text").iter_rows())
        found = relocate_by_sentences(
            queries, texts, dict(corpus.select("_id", "text").iter_rows())
        )
    is_found = pl.col("span").is_not_null()
    counts = found.filter(~is_found).group_by("reason", maintain_order=True).len("n").iter_rows()
    logger.info(
        "evidence of %d of %d queries located (%s)%s",
        found.select(is_found.sum()).item(),
        found.height,
        method,
        "".join(f"; {n} {reason}" for reason, n in counts),
    )
    return found.select(
        located_char_span="span",
        located_by=pl.when(is_found).then(pl.lit(method)),
        not_located="reason",
    )
