"""What every recipe returns."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from psibench.text.lengths import TokenCounter, with_lengths

DROPPED_SCHEMA = {
    "stage": pl.String,
    "item_id": pl.String,
    "reason": pl.String,
    "detail": pl.String,
    "score": pl.Float64,
    "target_position": pl.String,
    "char_length": pl.Int32,
}


@dataclass(frozen=True)
class Build:
    """A benchmark's tables: CORPUS, QUERIES and QRELS rows, and what was dropped, with reasons.

    ``dropped`` has the ATTRITION columns less ``language`` and ``domain``, which the recipe does
    not know.
    """

    corpus: pl.DataFrame
    queries: pl.DataFrame
    qrels: pl.DataFrame
    dropped: pl.DataFrame


def dropped_frame(rows: Sequence[tuple[object, ...]] = ()) -> pl.DataFrame:
    """Make a frame of dropped items from rows in the order of ``DROPPED_SCHEMA``."""
    return pl.DataFrame(rows, schema=DROPPED_SCHEMA, orient="row")


def complete_build(
    documents: pl.DataFrame,
    queries: pl.DataFrame,
    qrels: pl.DataFrame,
    dropped: pl.DataFrame,
    *,
    count_tokens: TokenCounter,
) -> Build:
    """Add the length columns to the corpus and to the queries' positives.

    ``queries`` may hold further columns; they come after the declared ones.
    """
    corpus = with_lengths(documents, count_tokens=count_tokens)
    lengths = corpus.select(
        pl.col("_id").alias("pos_corpus_id"),
        pl.col("char_length").alias("pos_char_length"),
        pl.col("token_length").alias("pos_token_length"),
    )
    joined = queries.join(lengths, on="pos_corpus_id", how="left", maintain_order="left")
    declared = ["_id", "text", "pos_corpus_id", "pos_char_span", "pos_char_length"]
    declared += ["pos_token_length", "target_position"]
    return Build(corpus, joined.select(*declared, pl.exclude(declared)), qrels, dropped)
