"""Windows that wait for a batch: one queue per shape, longest first."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from psibench.models.shapes import padded_length


@dataclass(frozen=True)
class Window:
    """One window of the text in place ``text``, the ``number``-th of it."""

    text: int
    number: int
    ids: np.ndarray
    content: np.ndarray


@dataclass(frozen=True)
class Batch:
    """Windows padded to one length."""

    length: int
    windows: tuple[Window, ...]


class Bins:
    """Collect windows by padded length and hand them out in batches.

    Windows that fill their length do not share a batch with those that do not: where nothing is
    padded, attention runs without a mask, which is faster.

    Parameters
    ----------
    tokens_per_batch
        Padded tokens in a batch; a longer window makes a batch of its own.
    longest
        Most tokens the model takes.
    """

    def __init__(self, tokens_per_batch: int, longest: int | None = None) -> None:
        self.tokens_per_batch, self._longest = tokens_per_batch, longest
        self._bins: dict[tuple[int, bool], deque[Window]] = {}

    def put(self, window: Window) -> bool:
        """Let a window wait; returns whether its batch is full now."""
        length, queue = self._queue(window)
        queue.append(window)
        return len(queue) >= self._rows(length)

    def put_back(self, windows: tuple[Window, ...]) -> None:
        """Let the windows of a batch that failed wait again, before all others."""
        for window in reversed(windows):
            self._queue(window)[1].appendleft(window)

    def full(self) -> Iterator[Batch]:
        """Take out batches that are full, the longest windows first."""
        return self._take(at_least=None)

    def rest(self) -> Iterator[Batch]:
        """Take out everything, the longest windows first."""
        return self._take(at_least=1)

    def _rows(self, length: int) -> int:
        return max(1, self.tokens_per_batch // length)

    def _queue(self, window: Window) -> tuple[int, deque[Window]]:
        n_tokens = len(window.ids)
        length = padded_length(n_tokens, self._longest)
        return length, self._bins.setdefault((length, n_tokens == length), deque())

    def _take(self, at_least: int | None) -> Iterator[Batch]:
        """Take batches out; the size is looked up each time, as it may shrink meanwhile."""
        while True:
            for shape in sorted(self._bins, reverse=True):
                rows = self._rows(shape[0])
                queue = self._bins[shape]
                if len(queue) >= (at_least or rows):
                    taken = min(rows, len(queue))
                    yield Batch(shape[0], tuple(queue.popleft() for _ in range(taken)))
                    break
            else:
                return
