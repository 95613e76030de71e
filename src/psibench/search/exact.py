"""Exact search by inner product, in blocks; documents may have several vectors (MaxP)."""

from collections.abc import Iterator

import numpy as np

from psibench.search.topk import TopK, top_k_of_row

RESCORE_BYTES = 64 * 1024 * 1024
MAX_QUERY_ROWS = 4096
SPARE = 32  # documents kept beyond k, so that rounding in the blocks seldom asks for a second look


def search_vectors(
    queries: np.ndarray,
    documents: np.ndarray,
    offsets: np.ndarray,
    *,
    k: int,
    block_bytes: int = 256 * 1024 * 1024,
) -> TopK:
    """Find the ``k`` documents of largest inner product with each query, exhaustively.

    A document's score is the largest over its vectors (MaxP; Dai and Callan, SIGIR 2019). Blocks
    of float32 products find the candidates; the candidates are scored once more, one by one with
    products and sums in float64. Where the rounding of the blocks could have kept out a document
    (many near ties at place ``k``), every document within its reach becomes a candidate. So
    neither the scores nor the documents found depend on the blocks, and equal vectors have equal
    scores.

    Parameters
    ----------
    queries
        (n_queries, dim) float32.
    documents
        (n_vectors, dim) float32, in the order of the documents' ids.
    offsets
        (n_documents + 1,) int64: document ``i`` has ``documents[offsets[i]:offsets[i + 1]]``, at
        least one vector.
    k
        Documents to keep; fewer where the corpus is smaller.
    block_bytes
        Memory of one block of scores.

    Returns
    -------
    TopK with (n_queries, min(k, n_documents)) scores and documents; no columns without documents.
    """
    n_queries, n_documents = len(queries), len(offsets) - 1
    best = TopK(n_queries, k)
    if n_queries == 0 or n_documents == 0:
        return best
    rough = TopK(n_queries, k + SPARE)
    for first, row, scores in _blocks_of_scores(queries, documents, offsets, block_bytes):
        rough.add(scores, first_document=first, first_query=row)
    n_rough = rough.documents.shape[1]
    exact = _exact_scores(
        queries, documents, offsets, np.repeat(np.arange(n_queries), n_rough), rough.documents
    ).reshape(n_queries, n_rough)
    kept = min(k, n_documents)
    order = np.lexsort((rough.documents, -exact), axis=1)[:, :kept]
    best.scores = np.take_along_axis(exact, order, axis=1)
    best.documents = np.take_along_axis(rough.documents, order, axis=1)
    if n_rough < n_documents:
        reach = best.scores[:, -1] - 2 * _rounding(queries, documents)
        unsure = np.flatnonzero(rough.scores[:, -1] >= reach)
        _search_again(best, unsure, reach, queries, documents, offsets, block_bytes)
    return best


def _blocks_of_scores(
    queries: np.ndarray, documents: np.ndarray, offsets: np.ndarray, block_bytes: int
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield (first document, first query, (n_block_queries, n_block_documents) float32 scores)."""
    query_rows, blocks = _plan(len(queries), offsets, block_bytes)
    for first, last in blocks:
        vectors = documents[offsets[first] : offsets[last]]
        starts = offsets[first:last] - offsets[first]
        for row in range(0, len(queries), query_rows):
            scores = _inner_products(queries[row : row + query_rows], vectors)
            if len(vectors) != last - first:
                scores = np.maximum.reduceat(scores, starts, axis=1)
            yield first, row, scores


def _plan(
    n_queries: int, offsets: np.ndarray, block_bytes: int
) -> tuple[int, list[tuple[int, int]]]:
    """Choose queries per block, and runs of documents whose products stay within the memory.

    A document with more vectors than fit makes a block of its own.
    """
    budget = max(1, block_bytes // 4)
    query_rows = max(1, min(n_queries, MAX_QUERY_ROWS, budget // int(np.diff(offsets).max())))
    blocks = []
    first, n_documents = 0, len(offsets) - 1
    while first < n_documents:
        room = offsets[first] + budget // query_rows
        last = max(first + 1, int(np.searchsorted(offsets, room, side="right")) - 1)
        blocks.append((first, last))
        first = last
    return query_rows, blocks


def _inner_products(queries: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    import torch

    return (torch.from_numpy(queries) @ torch.from_numpy(vectors).T).numpy()


def _rounding(queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Bound how far a float32 block score may lie from the exact one, per query.

    dim * eps * |query| * |document| holds for sums in any order (Higham, Accuracy and Stability
    of Numerical Algorithms, section 3.1).
    """
    longest = max(
        float(np.linalg.norm(documents[start : start + 65536], axis=1).max())
        for start in range(0, len(documents), 65536)
    )
    eps = float(np.finfo(np.float32).eps)
    return (queries.shape[1] + 2) * eps * longest * np.linalg.norm(queries, axis=1)


def _exact_scores(
    queries: np.ndarray,
    documents: np.ndarray,
    offsets: np.ndarray,
    rows: np.ndarray,
    found: np.ndarray,
) -> np.ndarray:
    """Score pairs (``rows[i]``, ``found[i]``) in float64; returns (n_pairs,) float32."""
    found = found.reshape(-1)
    counts = offsets[found + 1] - offsets[found]
    ends = np.cumsum(counts)
    room = max(1, RESCORE_BYTES // (8 * max(1, queries.shape[1])))
    scores = np.empty(len(found), dtype=np.float32)
    first = 0
    while first < len(found):
        done = ends[first] - counts[first]
        last = max(first + 1, int(np.searchsorted(ends, done + room, side="right")))
        starts = ends[first:last] - counts[first:last] - done
        inside = np.arange(ends[last - 1] - done) - np.repeat(starts, counts[first:last])
        places = np.repeat(offsets[found[first:last]], counts[first:last]) + inside
        products = documents[places].astype(np.float64)
        products *= queries[np.repeat(rows[first:last], counts[first:last])]
        scores[first:last] = np.maximum.reduceat(products.sum(axis=1), starts)
        first = last
    return scores


def _search_again(
    best: TopK,
    unsure: np.ndarray,
    reach: np.ndarray,
    queries: np.ndarray,
    documents: np.ndarray,
    offsets: np.ndarray,
    block_bytes: int,
) -> None:
    """Take for the ``unsure`` queries every document whose block score is at or above ``reach``."""
    candidates: list[list[np.ndarray]] = [[] for _ in unsure]
    asked = queries[unsure]
    if len(unsure):
        for first, start, scores in _blocks_of_scores(asked, documents, offsets, block_bytes):
            for place, row in enumerate(scores, start=start):
                candidates[place].append(first + np.flatnonzero(row >= reach[unsure[place]]))
    for place, query in enumerate(unsure):
        found = np.concatenate(candidates[place])
        rows = np.full(len(found), query)
        exact = _exact_scores(queries, documents, offsets, rows, found)
        order = top_k_of_row(exact, best.scores.shape[1])
        best.scores[query], best.documents[query] = exact[order], found[order]
