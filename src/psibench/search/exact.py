"""Exact search by inner product, in blocks; documents may have several vectors (MaxP)."""

from functools import partial

import numpy as np

from psibench.search.candidates import candidates_on
from psibench.search.device import full_precision, put, score_bytes
from psibench.search.rescore import exact_scores, rescore
from psibench.search.rough import RoughScores, Scored
from psibench.search.topk import BestKeys, TopK
from psibench.search.vectors import DocumentVectors, Groups

BLOCK_BYTES = 256 * 1024 * 1024
SPARE = 16  # documents kept beyond k, so that rounding in the blocks seldom asks for a second look


def search_vectors(
    queries: np.ndarray,
    source: DocumentVectors,
    *,
    k: int,
    block_bytes: int = BLOCK_BYTES,
    device: str = "cpu",
    groups: Groups | None = None,
) -> TopK:
    """Find the ``k`` documents of largest inner product with each query, exhaustively.

    A document's score is the largest over its vectors (MaxP; Dai and Callan, SIGIR 2019); one
    without vectors scores 0. Blocks of float32 products find the candidates; the candidates are
    read again and scored one by one with products and sums in float64. Where the rounding of the
    blocks could have kept out a document (many near ties at place ``k``), every document within
    its reach becomes a candidate. So neither the scores nor the documents found depend on the
    blocks, their order or the device, and equal vectors have equal scores.

    Parameters
    ----------
    queries
        (n_queries, dim) float32.
    source
        Documents, numbered in the order of their ids; read once, then those that are candidates,
        then, for queries with near ties, once more.
    k
        Documents to keep; fewer where the corpus is smaller.
    block_bytes
        Memory of a block: half of it for vectors, a quarter or less for scores. Beyond it the
        search needs some 60 bytes for each of ``k + SPARE`` documents of each query, however
        large the corpus is.
    device
        cpu, or cuda for the blocks.
    groups
        Which queries search which documents; all search all when None.

    Returns
    -------
    TopK with (n_queries, min(k, documents of the largest group)) scores and documents.
    """
    groups = groups or Groups.of_sizes([len(queries)], [source.n_documents])
    kept = _width(k, groups)
    if not kept:
        return TopK.empty(len(queries), 0)
    with full_precision():
        rough = RoughScores(queries, device, score_bytes(device, block_bytes))
        candidates = candidates_on(device, len(queries), _width(k + SPARE, groups))
        rough.search(
            source,
            groups,
            block_bytes // 2,
            lambda found: candidates.add(found.rows, found.scores, found.documents),
        )
        found = candidates.result()
        rounding = _rounding(queries, float(rough.longest))
        best = _rescored(queries, source, found, kept, rounding, block_bytes)
        if found.scores.shape[1] < groups.documents_of_query.max():
            is_cut = groups.documents_of_query > found.scores.shape[1]
            reach = best.scores[:, -1] - 2 * rounding
            unsure = np.flatnonzero(is_cut & (found.scores[:, -1] >= reach))
            _search_again(best, unsure, reach, queries, source, groups, device, block_bytes)
    return best


def _width(k: int, groups: Groups) -> int:
    """Return how many documents a query may get at most; 0 where there is nothing to search."""
    return min(k, int(groups.documents_of_query.max(initial=0)))


def _rounding(queries: np.ndarray, longest: float) -> np.ndarray:
    """Bound how far a float32 block score may lie from the exact one, per query.

    dim * eps * |query| * |document| holds for sums in any order (Higham, Accuracy and Stability
    of Numerical Algorithms, section 3.1).
    """
    eps = float(np.finfo(np.float32).eps)
    norms: np.ndarray = np.linalg.norm(queries, axis=1)
    return (queries.shape[1] + 2) * eps * longest * norms


def _rescored(
    queries: np.ndarray,
    source: DocumentVectors,
    found: TopK,
    kept: int,
    rounding: np.ndarray,
    block_bytes: int,
) -> TopK:
    """Score candidates exactly and keep the best, leaving out those too low to be among them."""
    lowest = found.scores[:, kept - 1] - 2 * rounding
    documents = np.where(found.scores >= lowest[:, None], found.documents, -1)
    score = partial(exact_scores, queries)
    scores = rescore(score, source, documents, block_bytes=block_bytes // 2)
    return TopK(scores, documents).best(kept)


def _search_again(
    best: TopK,
    unsure: np.ndarray,
    reach: np.ndarray,
    queries: np.ndarray,
    source: DocumentVectors,
    groups: Groups,
    device: str,
    block_bytes: int,
) -> None:
    """Take for the ``unsure`` queries every document whose block score is at or above ``reach``."""
    if not len(unsure):
        return
    asked, lowest = queries[unsure], put(reach[unsure].astype(np.float32)[:, None], device)
    some = Groups(np.searchsorted(unsure, groups.queries), groups.documents)
    again = BestKeys(len(unsure), best.scores.shape[1])
    # A candidate needs some ten times the memory of its score.
    rough = RoughScores(asked, device, score_bytes(device, block_bytes) // 8)

    def take(scored: Scored) -> None:
        row, place = (scored.scores >= lowest[scored.rows]).nonzero(as_tuple=True)
        documents = scored.documents[place].cpu().numpy()
        row, text = row.cpu().numpy() + scored.rows.start, place.cpu().numpy() + scored.texts.start
        again.add_pairs(row, exact_scores(asked, scored.vectors, row, text), documents)

    rough.search(source, some, block_bytes // 2, take)
    found = again.result()
    best.scores[unsure], best.documents[unsure] = found.scores, found.documents
