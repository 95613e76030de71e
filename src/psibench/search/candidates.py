"""The candidates of each query while the blocks of rough scores come."""

from typing import TYPE_CHECKING

import numpy as np

from psibench.search.topk import TopK

if TYPE_CHECKING:
    import torch

ROOM = 3  # times as many places as are kept: fewer choices, each of more
FIRST_SHARE = 4  # of the first documents, four times as many as are kept are sorted


def candidates_on(device: str, n_queries: int, n_kept: int) -> "SortedCandidates | Candidates":
    """Return what collects the ``n_kept`` documents of largest rough score of each query."""
    if device == "cpu":
        return Candidates(n_queries, n_kept)
    return SortedCandidates(n_queries, n_kept, device)


class SortedCandidates:
    """The ``n_kept`` documents of largest rough score per query, ties as they come.

    Every block is sorted, which a GPU does at once.
    """

    def __init__(self, n_queries: int, n_kept: int, device: str = "cpu") -> None:
        import torch

        self._scores = torch.full((n_queries, n_kept), -torch.inf, device=device)
        self._documents = torch.full((n_queries, n_kept), -1, dtype=torch.int64, device=device)

    def add(self, rows: slice, scores: "torch.Tensor", documents: "torch.Tensor") -> None:
        """Merge scores (n_rows, n_documents) of ``documents`` (n_documents,)."""
        import torch

        n_kept = self._scores.shape[1]
        values, places = scores.topk(min(n_kept, scores.shape[1]), dim=1, sorted=False)
        both = torch.cat([self._scores[rows], values], dim=1)
        numbers = torch.cat([self._documents[rows], documents[places]], dim=1)
        values, places = both.topk(n_kept, dim=1, sorted=False)
        self._scores[rows], self._documents[rows] = values, numbers.gather(1, places)

    def result(self) -> TopK:
        """Return (n_queries, n_kept) scores and documents, best first; -inf, -1 where unused."""
        scores, places = self._scores.sort(dim=1, descending=True)
        documents = self._documents.gather(1, places)
        return TopK(scores.cpu().numpy(), documents.cpu().numpy())


class Candidates:
    """The same on a CPU, where choosing the best costs far more than comparing.

    What is above the last of a query's best goes behind them as it comes; they are chosen anew,
    for that query alone, when there is no more room. Of the first documents only a few are
    sorted, and each piece after them is as long as what came before it, so that the last of a
    query's best is soon high.
    """

    def __init__(self, n_queries: int, n_kept: int) -> None:
        self._n_kept = n_kept
        self._scores = np.full((n_queries, ROOM * n_kept), -np.inf, dtype=np.float32)
        self._documents = np.full((n_queries, ROOM * n_kept), -1, dtype=np.int64)
        self._filled = np.zeros(n_queries, dtype=np.int64)
        self._seen = np.zeros(n_queries, dtype=np.int64)
        self._lowest = np.full((n_queries, 1), -np.inf, dtype=np.float32)

    def add(self, rows: slice, scores: "torch.Tensor", documents: "torch.Tensor") -> None:
        """Merge scores (n_rows, n_documents) of ``documents`` (n_documents,).

        Several threads may, each for rows of its own.
        """
        block, numbers = scores.numpy(), documents.numpy()
        first, width = 0, block.shape[1]
        while first < width and rows.start < rows.stop:
            seen = int(self._seen[rows].min())
            last = min(width, first + max(FIRST_SHARE * self._n_kept, seen))
            self._append(rows, block[:, first:last], numbers[first:last])
            self._seen[rows] += last - first
            first = last

    def result(self) -> TopK:
        """Return (n_queries, n_kept) scores and documents, best first; -inf, -1 where unused."""
        best = _largest(self._scores, self._n_kept)
        scores = np.take_along_axis(self._scores, best, axis=1)
        order = np.argsort(-scores, axis=1)
        documents = np.take_along_axis(self._documents, np.take_along_axis(best, order, 1), 1)
        return TopK(np.take_along_axis(scores, order, axis=1), documents)

    def _append(self, rows: slice, block: np.ndarray, numbers: np.ndarray) -> None:
        """Put what may be among the best behind them."""
        above = block > self._lowest[rows]
        flat = np.flatnonzero(above)
        counts = np.diff(np.searchsorted(flat, np.arange(len(block) + 1) * block.shape[1]))
        room = self._scores.shape[1] - self._n_kept
        many = np.flatnonzero(counts > room)
        if len(many):
            self._sort(
                many + rows.start, block if len(many) == len(block) else block[many], numbers
            )
            above[many], counts[many] = False, 0
            flat = np.flatnonzero(above)
        full = np.flatnonzero(self._filled[rows] + counts > self._scores.shape[1])
        if len(full):
            full += rows.start
            self._choose(full, self._scores[full], self._documents[full])
        at = np.repeat(np.arange(len(block)), counts)
        places = flat - at * block.shape[1]
        ends = np.cumsum(counts)
        column = np.arange(len(at)) + (self._filled[rows] - ends + counts)[at]
        self._scores[rows][at, column] = block[at, places]
        self._documents[rows][at, column] = numbers[places]
        self._filled[rows] += counts

    def _sort(self, queries: np.ndarray, block: np.ndarray, numbers: np.ndarray) -> None:
        """Merge a piece in which too much is above the last of these queries' best."""
        places = _largest(block, self._n_kept)
        values = np.take_along_axis(block, places, axis=1)
        values = np.concatenate([self._scores[queries], values], axis=1)
        documents = np.concatenate([self._documents[queries], numbers[places]], axis=1)
        self._choose(queries, values, documents)

    def _choose(self, queries: np.ndarray, values: np.ndarray, documents: np.ndarray) -> None:
        """Make the best of these all that the queries have."""
        n_kept = self._n_kept
        places = _largest(values, n_kept)
        values = np.take_along_axis(values, places, axis=1)
        self._scores[queries, :n_kept], self._scores[queries, n_kept:] = values, -np.inf
        self._documents[queries, :n_kept] = np.take_along_axis(documents, places, axis=1)
        self._documents[queries, n_kept:] = -1
        self._lowest[queries, 0] = values.min(axis=1)
        self._filled[queries] = n_kept


def _largest(scores: np.ndarray, n: int) -> np.ndarray:
    """Return the places of the ``n`` largest of each row (all where fewer), in any order."""
    import torch

    values = torch.from_numpy(np.ascontiguousarray(scores))
    return values.topk(min(n, scores.shape[1]), dim=1, sorted=False).indices.numpy()
