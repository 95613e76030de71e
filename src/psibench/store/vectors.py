"""Vectors of several texts: of texts, their windows or tokens, or the terms of sparse ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np


@dataclass(frozen=True)
class Vectors:
    """Vectors of several texts, in memory; they can serve as a corpus (`DocumentVectors`).

    Attributes
    ----------
    values
        (n_vectors, dim) float32.
    offsets
        (n_texts + 1,) int64: text ``i`` has ``values[offsets[i]:offsets[i + 1]]``.
    """

    values: np.ndarray
    offsets: np.ndarray

    @classmethod
    def one_each(cls, values: np.ndarray) -> "Vectors":
        """Return the vectors of texts with one vector each, (n_texts, dim)."""
        return cls(values, np.arange(len(values) + 1))

    @cached_property
    def counts(self) -> np.ndarray:
        """Number of vectors of each text, (n_texts,) int64."""
        return np.diff(self.offsets)

    @cached_property
    def is_single(self) -> bool:
        """Whether each text has exactly one vector."""
        return len(self.values) == len(self.offsets) - 1 and bool(np.all(self.counts == 1))

    def take(self, texts: np.ndarray) -> "Vectors":
        """Copy the vectors of some texts, in the given order."""
        if self.is_single:
            return Vectors.one_each(self.values[texts])
        counts = self.counts[texts]
        rows = ragged_ranges(self.offsets[:-1][texts], counts)
        return Vectors(self.values[rows], np.concatenate([[0], np.cumsum(counts)]))

    def part(self, texts: slice) -> "Vectors":
        """Return the vectors of consecutive texts, as views."""
        offsets = self.offsets[texts.start : texts.stop + 1]
        return Vectors(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])

    @property
    def n_documents(self) -> int:
        """Number of texts, as a corpus."""
        return len(self.counts)

    def blocks(self, block_bytes: int) -> Iterator[tuple[np.ndarray, "Vectors"]]:
        """Yield texts in their order, as views; see `DocumentVectors`."""
        n_vectors = max(1, block_bytes // (4 * max(1, self.values.shape[1])))
        for first, last in pairwise(cuts(self.offsets, n_vectors)):
            yield np.arange(first, last), self.part(slice(first, last))


def ragged_ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Concatenate the ranges ``starts[i], ..., starts[i] + counts[i] - 1``."""
    before = np.cumsum(counts) - counts
    return np.arange(counts.sum()) + np.repeat(starts - before, counts)


def cuts(offsets: np.ndarray, n_vectors: int) -> list[int]:
    """Cut texts into runs of at most ``n_vectors`` vectors, but at least one text each.

    Returns
    -------
    The first text of each run, then the number of texts; [0] if there are no texts.
    """
    edges = [0]
    while edges[-1] < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[edges[-1]] + n_vectors, side="right")) - 1
        edges.append(max(edges[-1] + 1, last))
    return edges


TERM_BASE = 1024
"""A term's number is ``TERM_BASE * high + low``; float16 represents both digits exactly."""


def as_rows(weights: np.ndarray) -> list[np.ndarray]:
    """Return the terms of each text with a weight above 0.

    Parameters
    ----------
    weights
        (n_texts, n_terms) float32.

    Returns
    -------
    (n_terms, 3) float32 arrays of high digit, low digit and weight, by ascending term.
    """
    found = [(np.flatnonzero(row > 0), row) for row in weights]
    return [term_rows(terms, row[terms]) for terms, row in found]


def term_rows(terms: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the rows of a text's terms, given in ascending order, as ``as_rows``."""
    high, low = np.divmod(terms, TERM_BASE)
    return np.column_stack([high, low, weights]).astype(np.float32)
