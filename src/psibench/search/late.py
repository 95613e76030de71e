"""Exact late interaction: sum over query tokens of the best document token (ColBERT)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from psibench.search.device import full_precision, put, score_bytes, wait
from psibench.search.max_sim import exact_max_sim, rounding_of
from psibench.search.rescore import rescore
from psibench.search.rough import longest_norm
from psibench.search.threads import crew_for
from psibench.search.topk import BestKeys, TopK
from psibench.search.vectors import DocumentVectors, Groups, Vectors, pairings

if TYPE_CHECKING:
    import torch

MAX_VECTORS = 8192  # document tokens multiplied at once
SPARE = 32  # documents kept beyond k, so that rounding in the blocks seldom asks for a second look


def search_token_vectors(
    queries: Vectors,
    source: DocumentVectors,
    *,
    k: int,
    block_bytes: int = 256 * 1024 * 1024,
    device: str = "cpu",
    mean: bool = False,
    groups: Groups | None = None,
) -> TopK:
    """Score every document for every query by MaxSim and keep the best ``k``.

    Score = sum over query tokens of the largest inner product with a document token (Khattab and
    Zaharia, SIGIR 2020). A query or document without tokens scores 0. As in `search_vectors`,
    float32 products find candidates, which are read again and scored pair by pair in float64;
    where their rounding could have kept a document out, all within its reach are candidates. So
    documents and scores do not depend on the blocks, their order or the device.

    Parameters
    ----------
    queries
        Vectors of the queries' tokens.
    source
        Token vectors of the documents, numbered in the order of their ids; read once, then those
        that are candidates, then, for queries with near ties, once more.
    block_bytes
        Memory of a block: a quarter each for vectors, their padded copy, and token scores.
    device
        cpu, or cuda for the blocks.
    mean
        Divide by the number of query tokens.
    groups
        Which queries search which documents; all search all when None.

    Returns
    -------
    TopK with (n_queries, min(k, documents of the largest group)) scores and documents.
    """
    n_queries = len(queries.offsets) - 1
    groups = groups or Groups.of_sizes([n_queries], [source.n_documents])
    most = int(groups.documents_of_query.max(initial=0))
    kept, width = min(k, most), min(k + SPARE, most)
    if not kept:
        return TopK.empty(n_queries, 0)
    with full_precision():
        rough = RoughMaxSim(queries, source, block_bytes, device)
        keys = BestKeys(n_queries, width, device)
        rough.search(groups, lambda some: keys.add(some.rows, some.scores, some.documents))
        found = keys.result()
        score = partial(exact_max_sim, queries)
        exact = rescore(score, source, found.documents, block_bytes=block_bytes // 4)
        best = TopK(exact, found.documents).best(kept)
        if width < most:
            reach = best.scores[:, -1] - 2 * rounding_of(queries, float(rough.longest))
            is_cut = groups.documents_of_query > width
            unsure = np.flatnonzero(is_cut & (found.scores[:, -1] >= reach))
            _search_again(best, unsure, reach, rough, groups)
    if mean:
        best.scores /= np.maximum(1, queries.counts)[:, None].astype(np.float32)
    return best


def _search_again(
    best: TopK, unsure: np.ndarray, reach: np.ndarray, rough: "RoughMaxSim", groups: Groups
) -> None:
    """Take for the ``unsure`` queries every document whose block score is at or above ``reach``."""
    if not len(unsure):
        return
    asked = rough.queries.take(unsure)
    lowest = put(reach[unsure].astype(np.float32)[:, None], rough.device)
    some = Groups(np.searchsorted(unsure, groups.queries), groups.documents)
    keys = BestKeys(len(unsure), best.scores.shape[1])
    again = RoughMaxSim(asked, rough.source, rough.block_bytes, rough.device)

    def take(scored: ScoredTexts) -> None:
        reached = (scored.scores >= lowest[scored.rows]).nonzero(as_tuple=True)
        row, place = (found.cpu().numpy() for found in reached)
        documents = scored.documents[reached[1]].cpu().numpy()
        row, text = row + scored.rows.start, scored.texts[place]
        keys.add_pairs(row, exact_max_sim(asked, scored.vectors, row, text), documents)

    again.search(some, take)
    found = keys.result()
    best.scores[unsure], best.documents[unsure] = found.scores, found.documents


@dataclass(frozen=True)
class ScoredTexts:
    """Scores of some queries with some texts of a block.

    Attributes
    ----------
    rows
        The queries.
    scores
        (n_rows, n_texts) float32 on the device.
    documents
        (n_texts,) int64 on the device, the texts' numbers in the corpus.
    texts
        (n_texts,) int64, which of the block's texts these are.
    vectors
        Those of the whole block.
    """

    rows: slice
    scores: "torch.Tensor"
    documents: "torch.Tensor"
    texts: np.ndarray
    vectors: Vectors


@dataclass
class RoughMaxSim:
    """MaxSim of queries with documents, products in float32, on a device.

    Attributes
    ----------
    longest
        () float32, the largest norm of a document's token so far.
    """

    queries: Vectors
    source: DocumentVectors
    block_bytes: int
    device: str

    def __post_init__(self) -> None:
        import torch

        self.longest = torch.zeros((), device=self.device)

    def search(self, groups: Groups, take: Callable[[ScoredTexts], None]) -> None:
        """Hand the scores of queries with the documents of their group to ``take``.

        On a CPU threads call it at the same time, each for queries of its own.
        """
        quarter, device = self.block_bytes // 4, self.device
        tokens = put(self.queries.values, device)
        with crew_for(device) as crew:
            room = max(1, score_bytes(device, self.block_bytes) // crew.n_threads)
            for rows, numbers, vectors in pairings(self.source, groups, quarter):
                wait(device)
                values = put(vectors.values, device)
                self.longest = self.longest.maximum(longest_norm(values))
                n_tokens = int(self.queries.counts[rows].max())
                for texts, places in _padded(vectors, quarter):
                    padded = values[put(places, device)] if places.size else None
                    found = (put(numbers[texts], device), texts, vectors)
                    work = partial(self._score, take, tokens, padded, found, room)
                    crew.each(work, rows, places.size * n_tokens)

    def _score(
        self,
        take: Callable[[ScoredTexts], None],
        tokens: "torch.Tensor",
        padded: "torch.Tensor | None",
        found: "tuple[torch.Tensor, np.ndarray, Vectors]",
        room: int,
        rows: slice,
    ) -> None:
        """Score a run of texts, (n_texts, length, dim), for some queries."""
        n_vectors = 1 if padded is None else max(1, padded.shape[0] * padded.shape[1])
        for asked in _query_runs(self.queries.offsets, rows, n_vectors, room):
            ends = self.queries.offsets[asked.start : asked.stop + 1]
            take(ScoredTexts(asked, _max_sim(tokens, ends, padded, len(found[1])), *found))


def _max_sim(
    tokens: "torch.Tensor", offsets: np.ndarray, padded: "torch.Tensor | None", n_documents: int
) -> "torch.Tensor":
    """Score documents (n_documents, length, dim) for queries; (n_queries, n_documents) float32."""
    import torch

    n_queries, device = len(offsets) - 1, str(tokens.device)
    asked = tokens[int(offsets[0]) : int(offsets[-1])]
    if padded is None or not len(asked):
        return torch.zeros((n_queries, n_documents), device=device)
    products = padded.flatten(0, 1) @ asked.T
    best = products.view(n_documents, -1, len(asked)).amax(dim=1).double()
    summed = torch.nn.functional.pad(best.cumsum(dim=1), (1, 0)).T  # (n_tokens + 1, n_documents)
    ends = put(offsets - offsets[0], device)
    return (summed[ends[1:]] - summed[ends[:-1]]).float()


def _padded(vectors: Vectors, room: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Cut documents into runs of like length: (texts, (n_texts, length) places of their vectors).

    A document shorter than the longest of its run is padded by its own last vector, which changes
    no maximum. Documents without vectors make a run of length 0. A run, padded, takes at most the
    room given, and one document at least.
    """
    counts = vectors.counts
    order = np.argsort(-counts, kind="stable")
    budget = min(MAX_VECTORS, room // (4 * max(1, vectors.values.shape[1])))
    first, n_filled = 0, int(np.count_nonzero(counts))
    while first < n_filled:
        length = counts[order[first]]
        texts = order[first : min(n_filled, first + max(1, int(budget // length)))]
        inside = np.minimum(np.arange(length), counts[texts][:, None] - 1)
        yield texts, vectors.offsets[texts][:, None] + inside
        first += len(texts)
    if first < len(order):
        yield order[first:], np.empty((len(order) - first, 0), dtype=np.int64)


def _query_runs(offsets: np.ndarray, rows: slice, n_vectors: int, room: int) -> Iterator[slice]:
    """Cut queries into runs whose token scores stay within the room, at least one query each."""
    budget = max(1, room // (4 * n_vectors))
    first = rows.start
    while first < rows.stop:
        last = int(np.searchsorted(offsets, offsets[first] + budget, side="right")) - 1
        last = min(rows.stop, max(first + 1, last))
        yield slice(first, last)
        first = last
