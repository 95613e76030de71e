"""Lengths of documents in a sample's unit, measured in little memory."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np

from psibench.models.counting import WORDS, token_counter
from psibench.text.lengths import TokenCounter, count_words

Measure = Callable[[Sequence[str]], np.ndarray]

PART_CHARS = 1_000_000
"""So much text goes to a tokenizer at once: it holds some hundred bytes per token meanwhile."""
SPACE = re.compile(r"\s")


def length_measure(
    unit: Literal["chars", "words", "tokens"], length_tokenizer: str = WORDS
) -> Measure:
    """Return texts -> (n_texts,) int32 lengths in a unit.

    Parameters
    ----------
    unit
        ``chars``; ``words``: the pieces split on one space; ``tokens``: those of
        ``length_tokenizer``, special tokens left out.
    length_tokenizer
        As for `token_counter`; not looked at for other units.

    Raises
    ------
    InputError
        If the tokenizer cannot be loaded.
    """
    if unit == "chars":
        return lambda texts: np.fromiter(map(len, texts), dtype=np.int32, count=len(texts))
    return count_words if unit == "words" else in_parts(token_counter(length_tokenizer))


def in_parts(count: TokenCounter) -> Measure:
    """Return a counter that hands on at most ``PART_CHARS`` characters at once.

    A text above that is counted in parts cut before white space, and the counts are added.
    """

    def measure(texts: Sequence[str]) -> np.ndarray:
        lengths = np.zeros(len(texts), dtype=np.int32)
        for start, end in _groups(texts):
            pieces = [part for text in texts[start:end] for part in _parts(text)]
            if len(pieces) > end - start:  # one long text
                lengths[start] = sum(int(count([piece])[0]) for piece in pieces)
            else:
                lengths[start:end] = count(pieces)
        return lengths

    return measure


def _groups(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield [start, end) of neighbours of at most PART_CHARS together; a longer one is alone."""
    start = n_chars = 0
    for place, text in enumerate(texts):
        if place > start and n_chars + len(text) > PART_CHARS:
            yield start, place
            start, n_chars = place, 0
        n_chars += len(text)
    if len(texts) > start:
        yield start, len(texts)


def _parts(text: str) -> Iterator[str]:
    """Cut a text before the first white space at or after every PART_CHARS characters."""
    start = 0
    while len(text) - start > PART_CHARS:
        found = SPACE.search(text, start + PART_CHARS)
        if found is None:
            break
        yield text[start : found.start()]
        start = found.start()
    yield text[start:]
