"""Exact search with learned sparse vectors: inner product over the terms that two texts share.

The stored vectors of a text are its terms. Each term is a row of three numbers: its number in two
digits, and its weight. Both digits are integers below 2,048, which float16 represents exactly, so a
vocabulary may have up to two million terms.
"""

from typing import TYPE_CHECKING

import numpy as np

from psibench.search.exact import SEARCH_BLOCK_BYTES
from psibench.search.ranking import BestDocuments, DocumentVectors, TopK
from psibench.store.vectors import TERM_BASE, Vectors

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SCORE_BYTES = 32
"""Memory of a score: in float64, in float32, and as a sort key."""


def as_matrix(vectors: Vectors, n_terms: int) -> "csr_array":
    """Return the weights of texts as a (n_texts, n_terms) float64 sparse matrix.

    Terms beyond the last column are dropped.
    """
    from scipy.sparse import csr_array

    values = vectors.values.reshape(-1, 3)
    terms = (values[:, 0] * TERM_BASE + values[:, 1]).astype(np.int64)
    weights = np.where(terms < n_terms, values[:, 2], 0.0).astype(np.float64)
    inside = np.minimum(terms, n_terms - 1)
    return csr_array((weights, inside, vectors.offsets), shape=(len(vectors.counts), n_terms))


def search_sparse_vectors(
    queries: Vectors,
    source: DocumentVectors,
    *,
    k: int,
    block_bytes: int = SEARCH_BLOCK_BYTES,
) -> TopK:
    """Find the ``k`` documents with the largest inner product with each query.

    Only documents that share a term with the query are ranked. Products are summed in float64 in
    the order of the query's terms, so that results do not depend on blocks.

    Parameters
    ----------
    queries
        Terms as returned by `as_rows`.
    source, k, block_bytes
        As for `psibench.search.exact.search_vectors`.
    """
    n_queries = len(queries.counts)
    best = BestDocuments(k, n_queries, source.n_documents)
    if best.k and len(queries.values):
        highest = queries.values[:, 0] * TERM_BASE + queries.values[:, 1]
        weights = as_matrix(queries, int(highest.max()) + 1)
        for numbers, block in source.blocks(block_bytes // 2):
            documents = as_matrix(block, weights.shape[1]).T.tocsr()
            step = max(1, block_bytes // 4 // (SCORE_BYTES * len(numbers)))
            for first in range(0, n_queries, step):
                some = slice(first, min(first + step, n_queries))
                scores = (weights[some] @ documents).toarray().astype(np.float32)
                scores[scores <= 0] = -np.inf
                best.merge(some, scores, numbers)
    return best.top_k()
