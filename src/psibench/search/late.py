"""Exact late interaction: sum over query tokens of the best document token (ColBERT)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from psibench.search.exact import BLOCK_BYTES, inner_products, on_device, search_blocks
from psibench.search.ranking import TopK
from psibench.search.vectors import DocumentVectors, Groups, Vectors

if TYPE_CHECKING:
    import torch


def search_token_vectors(
    queries: Vectors,
    source: DocumentVectors,
    *,
    k: int,
    block_bytes: int = BLOCK_BYTES,
    device: str = "cpu",
    mean: bool = False,
    groups: Groups | None = None,
) -> TopK:
    """Score every document for every query by MaxSim and keep the best ``k``.

    Score = sum over query tokens of the largest inner product with a document token (Khattab and
    Zaharia, SIGIR 2020). A query or document without tokens scores 0.

    Parameters
    ----------
    queries
        Vectors of the queries' tokens.
    mean
        Divide by the number of query tokens.
    device
        cpu, or cuda for the blocks.
    source, k, block_bytes, groups
        As for `psibench.search.exact.search_blocks`.
    """
    similarity = MaxSim(queries, device)
    best = search_blocks(similarity, source, k=k, block_bytes=block_bytes, groups=groups)
    if mean:
        best.scores /= np.maximum(1, queries.counts)[:, None].astype(np.float32)
    return best


class MaxSim:
    """The sum over a query's tokens of the best token of a document, 0 without tokens."""

    def __init__(self, queries: Vectors, device: str) -> None:
        self.queries, self.device = queries, device
        self._on_device = on_device(queries.values, device)

    def block_scores(
        self, rows: slice, block: Vectors, values: "torch.Tensor", room: int
    ) -> Iterator["torch.Tensor"]:
        """See `psibench.search.exact.Similarity`."""
        import torch

        start, stop = (int(self.queries.offsets[row]) for row in (rows.start, rows.stop))
        asked = self._on_device[start:stop]
        n_rows, counts = rows.stop - rows.start, self.queries.counts[rows]
        query = on_device(np.repeat(np.arange(n_rows), counts), self.device)
        memory = np.empty(0, np.float32)
        step = max(1, room // n_rows)
        for first in range(0, len(block.counts), step):
            part = slice(first, first + step)
            scores = torch.zeros((len(block.counts[part]), n_rows), device=self.device)
            for texts, places in _like_lengths(block, part, room // max(1, len(asked))):
                n_products = places.size * len(asked)
                if n_products > len(memory):
                    memory = np.empty(n_products, np.float32)
                products = inner_products(values[places.reshape(-1)], asked, memory)
                best = products.view(*places.shape, len(asked)).amax(dim=1)
                summed = torch.zeros((len(texts), n_rows), device=self.device)
                scores[texts - first] = summed.index_add_(1, query, best)
            yield scores

    def pair_scores(self, rows: np.ndarray, block: Vectors, texts: np.ndarray) -> np.ndarray:
        """See `psibench.search.exact.Similarity`.

        Each pair is one product of matrices in float64, whose shape the pair alone decides: what
        is computed beside it changes nothing.
        """
        scores = np.zeros(len(rows), dtype=np.float32)
        order = np.argsort(texts, kind="stable")
        order = order[(block.counts[texts[order]] > 0) & (self.queries.counts[rows[order]] > 0)]
        document, text = np.empty(0), -1
        for pair in order:
            if texts[pair] != text:
                text = texts[pair]
                document = _tokens(block, text).T
            scores[pair] = (_tokens(self.queries, rows[pair]) @ document).max(axis=1).sum()
        return scores


def _like_lengths(
    block: Vectors, part: slice, room: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Cut texts with tokens into runs of like length: (texts, (n_texts, length) places of tokens).

    A text shorter than the longest of its run is padded by its own last token, which changes no
    maximum. A run, padded, has at most ``room`` tokens, and one text at least.
    """
    counts, first_text = block.counts[part], part.start
    order = np.argsort(-counts, kind="stable")
    first, n_filled = 0, int(np.count_nonzero(counts))
    while first < n_filled:
        length = counts[order[first]]
        run = order[first : min(n_filled, first + max(1, int(room // length)))]
        inside = np.minimum(np.arange(length), counts[run][:, None] - 1)
        yield run + first_text, block.offsets[run + first_text][:, None] + inside
        first += len(run)


def _tokens(vectors: Vectors, text: int) -> np.ndarray:
    """Return the token vectors of one text, (n_tokens, dim) float64."""
    first, last = vectors.offsets[text], vectors.offsets[text + 1]
    return vectors.values[first:last].astype(np.float64)
