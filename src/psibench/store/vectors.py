"""Vectors of several texts: of each one, of its windows or tokens, or the terms of a sparse one."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np


@dataclass(frozen=True)
class Vectors:
    """Vectors of several texts; in memory, a corpus (`DocumentVectors`).

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
        """Return those of texts with one vector each, (n_texts, dim)."""
        return cls(values, np.arange(len(values) + 1))

    @cached_property
    def counts(self) -> np.ndarray:
        """Vectors of each text, (n_texts,) int64."""
        return np.diff(self.offsets)

    @cached_property
    def is_single(self) -> bool:
        """Whether each text has exactly one vector."""
        return len(self.values) == len(self.offsets) - 1 and bool(np.all(self.counts == 1))

    def take(self, texts: np.ndarray) -> "Vectors":
        """Copy the vectors of some texts, in the order given."""
        if self.is_single:
            return Vectors.one_each(self.values[texts])
        counts = self.counts[texts]
        places = ragged_ranges(self.offsets[:-1][texts], counts)
        return Vectors(self.values[places], np.concatenate([[0], np.cumsum(counts)]))

    def part(self, texts: slice) -> "Vectors":
        """Return the vectors of consecutive texts, as views."""
        offsets = self.offsets[texts.start : texts.stop + 1]
        return Vectors(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])

    @property
    def n_documents(self) -> int:
        """Texts, where they are a corpus."""
        return len(self.counts)

    def blocks(self, block_bytes: int) -> Iterator[tuple[np.ndarray, "Vectors"]]:
        """Yield texts in their order, as views; see `DocumentVectors`."""
        room = max(1, block_bytes // (4 * max(1, self.values.shape[1])))
        for first, last in pairwise(cuts(self.offsets, room)):
            yield np.arange(first, last), self.part(slice(first, last))


def ragged_ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return ``starts[i], ..., starts[i] + counts[i] - 1`` for every i, one after the other."""
    before = np.cumsum(counts) - counts
    return np.arange(counts.sum()) + np.repeat(starts - before, counts)


def cuts(offsets: np.ndarray, room: int) -> list[int]:
    """Cut texts into runs of at most ``room`` vectors, at least one text each.

    Returns
    -------
    Where the runs begin, and after them the number of texts; [0] for no texts.
    """
    found = [0]
    while found[-1] < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[found[-1]] + room, side="right")) - 1
        found.append(max(found[-1] + 1, last))
    return found


PART = 1024
"""A term's number is ``PART * high + low``: whole numbers that float16 holds exactly."""


def as_rows(weights: np.ndarray) -> list[np.ndarray]:
    """Return the terms of each text whose weight is above 0.

    Parameters
    ----------
    weights
        (n_texts, n_terms) float32.

    Returns
    -------
    (n_found, 3) float32 arrays of high part, low part and weight, by ascending term.
    """
    found = []
    for row in weights:
        terms = np.flatnonzero(row > 0)
        high, low = np.divmod(terms, PART)
        found.append(np.column_stack([high, low, row[terms]]).astype(np.float32))
    return found
