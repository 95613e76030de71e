"""Lengths of texts in characters, words and tokens."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import polars as pl

from psibench.text.passages import PAGES

_T = TypeVar("_T")
TokenCounter = Callable[[Sequence[str]], np.ndarray]

MOST_TEXT_CHARS = 2**31 - 1
"""Lengths and offsets in a text are 32-bit numbers."""
PART_CHARS = 1_000_000
"""Characters per call of a tokenizer, which needs some hundred bytes per token."""


def count_words(texts: Sequence[str]) -> np.ndarray:
    """Count the pieces of each text split on one space, the papers' word count: (n_texts,) int32.

    ``"a b"`` counts 3 and the empty text 1, as with Python's ``split(" ")``.
    """
    return np.fromiter((text.count(" ") + 1 for text in texts), dtype=np.int32, count=len(texts))


def count_whitespace_tokens(texts: Sequence[str]) -> np.ndarray:
    """Count the pieces of each text split on runs of white space, (n_texts,) int32."""
    return np.fromiter((len(text.split()) for text in texts), dtype=np.int32, count=len(texts))


def with_lengths(documents: pl.DataFrame, *, count_tokens: TokenCounter) -> pl.DataFrame:
    """Return a corpus: ``_id``, ``text``, the three length columns, and page starts if present.

    ``count_tokens``: texts -> (n_texts,) token counts, without special tokens.
    """
    texts = documents.get_column("text").to_list()
    return documents.select(
        "_id",
        "text",
        pl.col("text").str.len_chars().cast(pl.Int32).alias("char_length"),
        pl.Series("word_count", count_words(texts), dtype=pl.Int32),
        pl.Series("token_length", count_tokens(texts), dtype=pl.Int32),
        PAGES,
    )


def count_in_parts(count: TokenCounter) -> TokenCounter:
    """Return a counter that passes ``PART_CHARS`` characters at once, or one longer text."""

    def measure(texts: Sequence[str]) -> np.ndarray:
        parts = [count(part) for part in in_blocks(texts, len, PART_CHARS)]
        return np.concatenate([np.zeros(0, dtype=np.int32), *parts])

    return measure


def in_blocks(
    items: Iterable[_T], n_chars: Callable[[_T], int], most_chars: int
) -> Iterator[list[_T]]:
    """Yield lists of consecutive items with at most ``most_chars``, or one longer item."""
    block, total = list[_T](), 0
    for item in items:
        size = n_chars(item)
        if block and total + size > most_chars:
            yield block
            block, total = [], 0
        block.append(item)
        total += size
    if block:
        yield block
