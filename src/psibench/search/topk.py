"""Keep the best documents per query over blocks of scores, ties by document order."""

import numpy as np


def top_k_of_row(scores: np.ndarray, k: int) -> np.ndarray:
    """Indices of the ``k`` largest scores of one row, best first, ties by smaller index.

    Parameters
    ----------
    scores
        (n_documents,) numbers, no NaN.

    Returns
    -------
    (min(k, n_documents),) int64.
    """
    if k < len(scores):
        threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
        candidates = np.flatnonzero(scores >= threshold)
    else:
        candidates = np.arange(len(scores))
    order = np.argsort(-scores[candidates], kind="stable")
    return candidates[order][:k]


class TopK:
    """The best ``k`` documents of each query so far.

    Documents are numbered in the order of their ids; blocks come in that order, so that among
    equal scores the smaller number, and with it the smaller id, wins.

    Attributes
    ----------
    scores, documents
        (n_queries, n_kept) float32 and int64; unused places hold -inf and -1.
    """

    def __init__(self, n_queries: int, k: int) -> None:
        self.k = k
        self.scores = np.full((n_queries, 0), -np.inf, dtype=np.float32)
        self.documents = np.full((n_queries, 0), -1, dtype=np.int64)

    def add(self, block: np.ndarray, *, first_document: int, first_query: int = 0) -> None:
        """Merge a block of scores (n_block_queries, n_block_documents)."""
        import torch

        rows = slice(first_query, first_query + len(block))
        width = min(self.k, first_document + block.shape[1])
        self._widen(width)
        kept = min(self.k, block.shape[1])
        values, places = (t.numpy() for t in torch.topk(torch.from_numpy(block), kept, dim=1))
        tied = np.flatnonzero((block >= values[:, -1:]).sum(axis=1) > kept)
        for row in tied:
            places[row] = top_k_of_row(block[row], kept)
            values[row] = block[row, places[row]]
        scores = np.concatenate([self.scores[rows], values], axis=1)
        documents = np.concatenate([self.documents[rows], places + first_document], axis=1)
        best = np.lexsort((documents, -scores), axis=1)[:, :width]
        self.scores[rows] = np.take_along_axis(scores, best, axis=1)
        self.documents[rows] = np.take_along_axis(documents, best, axis=1)

    def _widen(self, width: int) -> None:
        extra = width - self.scores.shape[1]
        if extra > 0:
            self.scores = np.pad(self.scores, ((0, 0), (0, extra)), constant_values=-np.inf)
            self.documents = np.pad(self.documents, ((0, 0), (0, extra)), constant_values=-1)
