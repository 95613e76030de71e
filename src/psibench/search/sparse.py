"""Exact search with learned sparse vectors: inner product over the terms that two texts share.

A text's vectors, as they are stored, are its terms: one row of three numbers for each, the term's
number in two parts and its weight. Both parts are whole numbers below 2,048, which float16 holds
exactly; a vocabulary has up to two million terms.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from psibench.search.exact import BLOCK_BYTES, group_blocks
from psibench.search.ranking import TopK, top_k_of_row
from psibench.search.vectors import DocumentVectors, Groups, Vectors

if TYPE_CHECKING:
    from scipy.sparse import csr_array

PART = 1024
"""A term's number is ``PART * high + low``."""


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


def as_matrix(vectors: Vectors, n_terms: int) -> "csr_array":
    """Return the weights of texts as a (n_texts, n_terms) float64 sparse matrix.

    Terms beyond the last column are left out.
    """
    from scipy.sparse import csr_array

    values = vectors.values.reshape(-1, 3)
    terms = (values[:, 0] * PART + values[:, 1]).astype(np.int64)
    weights = np.where(terms < n_terms, values[:, 2], 0.0).astype(np.float64)
    inside = np.minimum(terms, n_terms - 1)
    return csr_array((weights, inside, vectors.offsets), shape=(len(vectors.counts), n_terms))


def search_sparse_vectors(
    queries: Vectors,
    source: DocumentVectors,
    *,
    k: int,
    block_bytes: int = BLOCK_BYTES,
    groups: Groups | None = None,
) -> TopK:
    """Find the ``k`` documents of largest inner product with each query.

    Only documents that share a term with the query are ranked. Products are summed in float64 in
    the order of the query's terms, so that neither the documents nor their scores depend on blocks.

    Parameters
    ----------
    queries
        Terms as of `as_rows`.
    source, k, block_bytes, groups
        As for `psibench.search.exact.search_blocks`.
    """
    n_queries = len(queries.offsets) - 1
    groups = groups or Groups.of_sizes([n_queries], [source.n_documents])
    best = TopK.empty(n_queries, min(k, int(groups.documents_of_query.max(initial=0))))
    if not best.scores.size or not len(queries.values):
        return best
    highest = queries.values[:, 0] * PART + queries.values[:, 1]
    asked = as_matrix(queries, int(highest.max()) + 1)
    for rows, numbers, block in group_blocks(source, groups, block_bytes // 2):
        if not len(block.values):
            continue
        order = np.argsort(numbers, kind="stable")
        documents = as_matrix(block.take(order), asked.shape[1]).T.tocsr()
        step = max(1, block_bytes // 4 // (8 * len(numbers)))
        for first in range(rows.start, rows.stop, step):
            some = range(first, min(first + step, rows.stop))
            scores = (asked[some.start : some.stop] @ documents).toarray().astype(np.float32)
            _merge(best, some, scores, numbers[order])
    return best


def _merge(best: TopK, rows: Sequence[int], scores: np.ndarray, numbers: np.ndarray) -> None:
    """Merge the scores of a block's documents, in the order of their numbers, into the best."""
    for row, of_query in zip(rows, scores, strict=True):
        found = np.flatnonzero(of_query > 0)
        held = best.documents[row] >= 0
        documents = np.concatenate([best.documents[row][held], numbers[found]])
        values = np.concatenate([best.scores[row][held], of_query[found]])
        order = np.argsort(documents, kind="stable")
        kept = order[top_k_of_row(values[order], best.scores.shape[1])]
        best.documents[row, : len(kept)] = documents[kept]
        best.scores[row, : len(kept)] = values[kept]
