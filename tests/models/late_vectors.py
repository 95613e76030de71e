"""Token vectors of texts, and the search's scores of them."""

import numpy as np

from psibench.search.exact import search_vectors
from psibench.store.vectors import Vectors


def maxsim(query: np.ndarray, text: np.ndarray) -> float:
    """Score by the formula: the sum over query vectors of the best product with a text's."""
    return float(np.einsum("id,jd->ij", query, text).max(axis=1).sum())


def maxsim_search(
    asked: list[np.ndarray], read: list[np.ndarray], *, mean: bool = False
) -> np.ndarray:
    """Scores of all documents by the search, (n_queries, n_documents)."""
    queries = Vectors(np.concatenate(asked), _offsets(asked))
    source = Vectors(np.concatenate(read), _offsets(read))
    best = search_vectors(queries, source, k=len(read), mean=mean)
    scores = np.empty((len(asked), len(read)))
    np.put_along_axis(scores, best.documents, best.scores, axis=1)
    return scores


def _offsets(vectors: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(each) for each in vectors])])
