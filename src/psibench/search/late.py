"""Exact late interaction: sum over query tokens of the best document token (ColBERT)."""

from collections.abc import Callable, Iterator

import numpy as np

from psibench.search.topk import TopK

SCORE_DECIMALS = 4

BlockLoader = Callable[[int, int], tuple[np.ndarray, np.ndarray]]


def search_token_vectors(
    queries: np.ndarray,
    query_offsets: np.ndarray,
    document_lengths: np.ndarray,
    load: BlockLoader,
    *,
    k: int,
    block_bytes: int = 256 * 1024 * 1024,
) -> TopK:
    """Score every document for every query by MaxSim and keep the best ``k``.

    Score = sum over query tokens of the largest inner product with a document token (Khattab and
    Zaharia, SIGIR 2020). A query or document without tokens scores 0. Products run in float32,
    sums in float64; scores are rounded to ``SCORE_DECIMALS``, far above the rounding of the
    products and far below any difference that matters, so that the same document gets the same
    score in whatever block it stands.

    Parameters
    ----------
    queries, query_offsets
        (n_query_tokens, dim) float32 and (n_queries + 1,) int64.
    document_lengths
        (n_documents,) tokens per document, in the order of the documents' ids.
    load
        ``load(first, last)`` gives ``(values, offsets)`` of a block of documents; one block at a
        time is in memory.
    block_bytes
        Memory of one block of token scores.
    """
    n_queries = len(query_offsets) - 1
    best = TopK(n_queries, k)
    if n_queries == 0:
        return best
    for first, last in _blocks(document_lengths, queries.shape[1], block_bytes):
        padded, empty = _pad(*load(first, last), dim=max(1, queries.shape[1]))
        for row, rows in _query_blocks(query_offsets, padded.shape[:2], block_bytes):
            tokens = queries[query_offsets[row] : query_offsets[row + rows]]
            starts = query_offsets[row : row + rows + 1] - query_offsets[row]
            scores = _max_sim(tokens, starts, padded)
            scores[:, empty] = 0.0
            best.add(scores, first_document=first, first_query=row)
    return best


def _max_sim(tokens: np.ndarray, starts: np.ndarray, padded: np.ndarray) -> np.ndarray:
    """Score (n_documents, length, dim) against query tokens; returns (n_queries, n_documents)."""
    import torch

    n_documents, length, dim = padded.shape
    flat = torch.from_numpy(padded.reshape(-1, dim))
    asked = torch.from_numpy(tokens.reshape(-1, dim))
    products = (flat @ asked.T).view(n_documents, length, len(tokens))
    best = products.amax(dim=1).double().numpy()  # (n_documents, n_tokens)
    cumulative = np.concatenate([np.zeros((n_documents, 1)), np.cumsum(best, axis=1)], axis=1)
    sums = cumulative[:, starts[1:]] - cumulative[:, starts[:-1]]
    return np.ascontiguousarray(np.round(sums.T, SCORE_DECIMALS).astype(np.float32))


def _pad(values: np.ndarray, offsets: np.ndarray, *, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Pad documents to the longest by repeating their last token, which changes no maximum.

    Returns (n_documents, length, dim) float32, and which documents are empty.
    """
    counts = np.diff(offsets)
    empty = counts == 0
    if empty.all():
        return np.zeros((len(counts), 1, dim), dtype=np.float32), empty
    inside = np.minimum(np.arange(counts.max()), np.maximum(counts, 1)[:, None] - 1)
    places = np.minimum(offsets[:-1, None] + inside, len(values) - 1)
    return values[places], empty


def _blocks(lengths: np.ndarray, dim: int, block_bytes: int) -> Iterator[tuple[int, int]]:
    """Cut documents into runs whose padded vectors stay within a quarter of the block."""
    budget = max(1, block_bytes // 4 // (4 * max(1, dim)))
    first, longest = 0, 1
    for index, length in enumerate(lengths):
        longest = max(longest, int(length))
        if index > first and longest * (index + 1 - first) > budget:
            yield first, index
            first, longest = index, max(1, int(length))
    if len(lengths):
        yield first, len(lengths)


def _query_blocks(
    offsets: np.ndarray, document_shape: tuple[int, ...], block_bytes: int
) -> Iterator[tuple[int, int]]:
    """Cut queries into runs whose token scores stay within the block: (first, count)."""
    budget = max(1, block_bytes // (4 * document_shape[0] * document_shape[1]))
    first, n_queries = 0, len(offsets) - 1
    while first < n_queries:
        last = int(np.searchsorted(offsets, offsets[first] + budget, side="right")) - 1
        last = min(n_queries, max(first + 1, last))
        yield first, last - first
        first = last
