"""Which documents may be among the best of a query: float32 products, block by block."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from psibench.search.device import put, wait
from psibench.search.threads import crew_for
from psibench.search.vectors import DocumentVectors, Groups, Vectors, pairings

if TYPE_CHECKING:
    import torch

MAX_QUERY_ROWS = 2048


@dataclass(frozen=True)
class Scored:
    """Scores of some queries with some documents of a block.

    Attributes
    ----------
    rows
        The queries.
    scores
        (n_rows, n_documents) float32 on the device; overwritten by the next ones.
    documents
        (n_documents,) int64 on the device, their numbers in the corpus.
    texts
        Which of the block's texts these documents are.
    vectors
        Those of the whole block.
    """

    rows: slice
    scores: "torch.Tensor"
    documents: "torch.Tensor"
    texts: slice
    vectors: Vectors


class RoughScores:
    """Inner products of queries with all documents of a corpus, block by block, on a device.

    Attributes
    ----------
    longest
        () float32, the largest norm of a document's vector so far.
    """

    def __init__(self, queries: np.ndarray, device: str, room: int) -> None:
        import torch

        self.device = device
        self.queries = put(queries, device)
        self.longest = torch.zeros((), device=device)
        self._room = room
        self._memory = threading.local()

    def search(
        self,
        source: DocumentVectors,
        groups: Groups,
        block_bytes: int,
        take: Callable[[Scored], None],
    ) -> None:
        """Hand the scores of queries with the documents of their group to ``take``.

        Scores are those of a document's best vector, 0 for a document without vectors; they take
        at most the room given, and those of one query with one document at least. On a CPU
        threads call ``take`` at the same time, each for queries of its own.
        """
        with crew_for(self.device) as crew:
            room = max(1, self._room // crew.n_threads)
            for rows, numbers, vectors in pairings(source, groups, block_bytes):
                wait(self.device)
                values, documents = put(vectors.values, self.device), put(numbers, self.device)
                self.longest = self.longest.maximum(longest_norm(values))
                work = partial(self._score, take, values, documents, vectors, room)
                crew.each(work, rows, len(vectors.values))

    def _score(
        self,
        take: Callable[[Scored], None],
        values: "torch.Tensor",
        documents: "torch.Tensor",
        vectors: Vectors,
        room: int,
        rows: slice,
    ) -> None:
        """Score a block for some queries."""
        for asked, texts, scores in self._of_block(rows, values, vectors, room):
            take(Scored(asked, scores, documents[texts], texts, vectors))

    def _of_block(
        self, rows: slice, values: "torch.Tensor", vectors: Vectors, room: int
    ) -> Iterator[tuple[slice, slice, "torch.Tensor"]]:
        """Yield (queries, texts of the block, their scores)."""
        query_rows, blocks = plan(rows.stop - rows.start, vectors.offsets, room)
        is_single = vectors.is_single
        for first, last in blocks:
            part = values[vectors.offsets[first] : vectors.offsets[last]]
            for row in range(rows.start, rows.stop, query_rows):
                asked = slice(row, min(rows.stop, row + query_rows))
                scores = self._multiply(self.queries[asked], part)
                if not is_single:
                    scores = _best_vector(scores, vectors.counts[first:last])
                yield asked, slice(first, last), scores

    def _multiply(self, queries: "torch.Tensor", vectors: "torch.Tensor") -> "torch.Tensor":
        """Return (n_queries, n_vectors) float32; on a CPU in memory that a thread uses again."""
        if self.device != "cpu":
            return inner_products(queries, vectors)
        size = len(queries) * len(vectors)
        memory = getattr(self._memory, "products", None)
        if memory is None or len(memory) < size:
            memory = self._memory.products = np.empty(size, dtype=np.float32)
        out = memory[:size].reshape(len(queries), len(vectors))
        return inner_products(queries, vectors, out)


def plan(n_queries: int, offsets: np.ndarray, room: int) -> tuple[int, list[tuple[int, int]]]:
    """Choose queries per step, and runs of documents whose scores stay within the room.

    A document with more vectors than fit makes a run of its own.
    """
    budget = max(1, room // 4)
    largest = max(1, int(np.diff(offsets).max()))
    query_rows = max(1, min(n_queries, MAX_QUERY_ROWS, budget // largest))
    blocks = []
    first, n_documents = 0, len(offsets) - 1
    while first < n_documents:
        most = offsets[first] + budget // query_rows
        last = max(first + 1, int(np.searchsorted(offsets, most, side="right")) - 1)
        blocks.append((first, last))
        first = last
    return query_rows, blocks


def inner_products(
    queries: "torch.Tensor", vectors: "torch.Tensor", out: np.ndarray | None = None
) -> "torch.Tensor":
    """Return (n_queries, n_vectors) float32; with ``out``, computed by numpy into it."""
    import torch

    if out is None:
        return queries @ vectors.T
    return torch.from_numpy(np.matmul(queries.numpy(), vectors.numpy().T, out=out))


def longest_norm(values: "torch.Tensor") -> "torch.Tensor":
    """Return the largest norm of a row, () float32; 0 without rows."""
    import torch

    if not values.numel():
        return torch.zeros((), device=values.device)
    return torch.linalg.vector_norm(values, dim=1).amax()


def _best_vector(scores: "torch.Tensor", counts: np.ndarray) -> "torch.Tensor":
    """Reduce scores (n_queries, n_vectors) to the largest of each document, 0 for one without."""
    import torch

    owner = put(np.repeat(np.arange(len(counts)), counts), str(scores.device))
    best = torch.full((len(scores), len(counts)), -torch.inf, device=scores.device)
    best.scatter_reduce_(1, owner.expand(len(scores), -1), scores, "amax")
    best[:, put(counts == 0, str(scores.device))] = 0.0
    return best
