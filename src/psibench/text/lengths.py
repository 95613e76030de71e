"""Lengths of texts in characters, words and tokens."""

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

TokenCounter = Callable[[Sequence[str]], np.ndarray]


def count_words(texts: Sequence[str]) -> np.ndarray:
    """Count the pieces of each text split on one space: the papers' word count.

    Returns
    -------
    (n_texts,) int32. ``"a  b"`` counts 3, the empty text 1, as Python's ``split(" ")`` does.
    """
    return np.fromiter((text.count(" ") + 1 for text in texts), dtype=np.int32, count=len(texts))


def count_whitespace_tokens(texts: Sequence[str]) -> np.ndarray:
    """Count the pieces of each text split on runs of white space, (n_texts,) int32."""
    return np.fromiter((len(text.split()) for text in texts), dtype=np.int32, count=len(texts))


def with_lengths(documents: pl.DataFrame, *, count_tokens: TokenCounter) -> pl.DataFrame:
    """Turn a frame with ``_id`` and ``text`` into a corpus: adds its three length columns.

    Parameters
    ----------
    count_tokens
        texts -> (n_texts,) token counts, special tokens left out.
    """
    texts = documents.get_column("text").to_list()
    return documents.select(
        "_id",
        "text",
        pl.col("text").str.len_chars().cast(pl.Int32).alias("char_length"),
        pl.Series("word_count", count_words(texts), dtype=pl.Int32),
        pl.Series("token_length", count_tokens(texts), dtype=pl.Int32),
    )
