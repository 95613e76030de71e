"""What every recipe returns."""

from dataclasses import dataclass

import polars as pl

from psibench.text.lengths import TokenCounter, with_lengths


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
