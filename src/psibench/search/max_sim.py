"""MaxSim of single pairs in float64, and how far float32 may be from it."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from psibench.search.threads import one_blas_thread
from psibench.search.vectors import Vectors


def exact_max_sim(
    queries: Vectors, documents: Vectors, rows: np.ndarray, texts: np.ndarray
) -> np.ndarray:
    """Score pairs (query ``rows[i]``, document ``texts[i]``); (n_pairs,) float32.

    Each pair is one product of matrices in float64, whose shape the pair alone decides: what
    is computed beside it changes nothing. Without tokens on either side the score is 0.
    """
    import torch

    scores = np.zeros(len(rows), dtype=np.float32)
    order = np.argsort(texts, kind="stable")
    order = order[(documents.counts[texts[order]] > 0) & (queries.counts[rows[order]] > 0)]
    edges = np.flatnonzero(np.diff(texts[order], prepend=-1))

    def score(pairs: np.ndarray) -> None:
        if not len(pairs):
            return
        document = _wide(documents, texts[pairs[0]]).T
        for pair in pairs:
            scores[pair] = (_wide(queries, rows[pair]) @ document).max(axis=1).sum()

    with one_blas_thread(), ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(score, np.split(order, edges[1:])))
    return scores


def rounding_of(queries: Vectors, longest: float) -> np.ndarray:
    """Bound how far a float32 block score may lie from the exact one, (n_queries,) float64.

    Each token's product is as far as `exact` says; a maximum moves no further than what it is
    taken of; the sum adds up the tokens'. One more eps is for the sum's own rounding.
    """
    eps = float(np.finfo(np.float32).eps)
    norms = np.linalg.norm(queries.values.astype(np.float64), axis=1)
    summed = np.concatenate([[0.0], np.cumsum(norms)])[queries.offsets]
    return (queries.values.shape[1] + 3) * eps * longest * np.diff(summed)


def _wide(vectors: Vectors, text: int) -> np.ndarray:
    """Return the tokens of one text, (n_tokens, dim) float64."""
    first, last = vectors.offsets[text], vectors.offsets[text + 1]
    return vectors.values[first:last].astype(np.float64)
