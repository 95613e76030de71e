"""Exact search: the k best documents of each query, over all documents, block by block.

A block of documents is multiplied with many queries at once in float32. A product of matrices adds
up in an order of its own, so that equal vectors may get unequal scores; all documents that its
rounding leaves possible are therefore scored again one by one in float64, while the block is in
memory, and ranked by that: score descending, number ascending. So neither the documents nor their
scores depend on blocks, threads or device.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from psibench.errors import InputError
from psibench.search.ranking import TopK
from psibench.search.vectors import DocumentVectors, Groups, Vectors, cuts, ragged_ranges

if TYPE_CHECKING:
    import torch

BLOCK_BYTES = 256 * 1024 * 1024
QUERY_VECTORS = 512
"""Vectors of queries that are multiplied at once. Twice as many are 3 % faster, and twice as much
is held of their candidates."""
CPU_SCORES = 4 * 1024 * 1024
"""Scores of all threads that are computed at once: more would leave a CPU's last cache."""
MAXIMA = 2
"""Maxima of groups of documents, times k, that bound the k-th best score from below."""
EXACT_VECTORS = 256
"""Vectors of documents that are widened to float64 at once: what a core's own cache holds."""


def search_vectors(
    queries: np.ndarray,
    source: DocumentVectors,
    *,
    k: int,
    block_bytes: int = BLOCK_BYTES,
    device: str = "cpu",
    groups: Groups | None = None,
) -> TopK:
    """Find the ``k`` documents of largest inner product with each query.

    A document's score is the largest over its vectors (MaxP; Dai and Callan, SIGIR 2019); one
    without vectors scores 0.

    Parameters
    ----------
    queries
        (n_queries, dim) float32.
    device
        cpu, or cuda for the blocks.
    source, k, block_bytes, groups
        As for `search_blocks`.
    """
    similarity = InnerProduct(queries, device)
    return search_blocks(similarity, source, k=k, block_bytes=block_bytes, groups=groups)


class Similarity(Protocol):
    """How queries score documents: `InnerProduct`, or `psibench.search.late.MaxSim`.

    A score is the sum over a query's vectors of the largest inner product of each with a vector of
    the document; 0 for a document without vectors.
    """

    queries: Vectors
    device: str

    def block_scores(
        self, rows: slice, block: Vectors, values: "torch.Tensor", room: int
    ) -> Iterator["torch.Tensor"]:
        """Yield (n, n_rows) float32 scores of the next ``n`` texts of a block with some queries.

        Parameters
        ----------
        values
            The block's vectors, on the device.
        room
            Inner products that may be computed at once; those of a text more where needed.
        """

    def pair_scores(self, rows: np.ndarray, block: Vectors, texts: np.ndarray) -> np.ndarray:
        """Score pairs (query ``rows[i]``, text ``texts[i]``) in float64; (n_pairs,) float32.

        A pair's score does not depend on the other pairs.
        """


def search_blocks(
    similarity: Similarity,
    source: DocumentVectors,
    *,
    k: int,
    block_bytes: int,
    groups: Groups | None = None,
) -> TopK:
    """Find the best ``k`` documents of each query.

    Parameters
    ----------
    source
        Documents, numbered as `TopK` says; read once.
    k
        Documents to keep; fewer where the corpus is smaller.
    block_bytes
        Memory of a block: half of it for vectors, a quarter at most for scores. Beside it,
        each query's best documents are in memory, and those of a block that may be among them.
    groups
        Which queries search which documents; all search all when None.

    Returns
    -------
    TopK with (n_queries, min(k, documents of the largest group)) scores and documents.

    Raises
    ------
    InputError
        If a vector holds a number that is not finite.
    """
    n_queries = len(similarity.queries.offsets) - 1
    groups = groups or Groups.of_sizes([n_queries], [source.n_documents])
    best = TopK.empty(n_queries, min(k, int(groups.documents_of_query.max(initial=0))))
    if not best.scores.size:
        return best
    rounding = _rounding(similarity.queries)
    with _one_thread_each() as (pool, n_threads):
        room = max(1, block_bytes // 16)
        if similarity.device == "cpu":
            room = max(1, min(room, CPU_SCORES) // n_threads)
        for rows, numbers, block in group_blocks(source, groups, block_bytes // 2):
            values = on_device(block.values, similarity.device)
            error = rounding * _longest(values)
            search = partial(_search_rows, best, similarity, numbers, block, values, error, room)
            offsets = similarity.queries.offsets[rows.start : rows.stop + 1]
            share = -(-int(offsets[-1] - offsets[0]) // n_threads)
            edges = pairwise(cuts(offsets, max(1, min(QUERY_VECTORS, share))))
            list(pool.map(search, (slice(rows.start + a, rows.start + b) for a, b in edges)))
    return best


def group_blocks(
    source: DocumentVectors, groups: Groups, block_bytes: int
) -> Iterator[tuple[slice, np.ndarray, Vectors]]:
    """Yield blocks of documents with the queries that search them: (queries, numbers, vectors).

    The corpus is read once, whatever the number of groups.
    """
    for numbers, vectors in source.blocks(block_bytes):
        group = np.searchsorted(groups.documents, numbers, side="right") - 1
        for found in np.unique(group):
            rows = slice(int(groups.queries[found]), int(groups.queries[found + 1]))
            inside = np.flatnonzero(group == found)
            if rows.start == rows.stop:
                continue
            is_whole = len(inside) == len(numbers)
            yield rows, numbers[inside], vectors if is_whole else vectors.take(inside)


def _rounding(queries: Vectors) -> np.ndarray:
    """Bound how far block scores of documents of norm 1 lie from exact ones, (n_queries,) float64.

    A product's bound is dim * eps * |query| * |document|, in whatever order it is summed (Higham,
    Accuracy and Stability of Numerical Algorithms, section 3.1); a maximum moves no further than
    what it is taken of; the sum over a query's vectors adds up theirs, and its own rounding.
    """
    norms = np.linalg.norm(queries.values.astype(np.float64), axis=1)
    _refuse_not_finite(norms, "a query")
    summed = np.concatenate([[0.0], np.cumsum(norms)])
    terms = queries.values.shape[1] + queries.counts + 2
    bound: np.ndarray = terms * np.finfo(np.float32).eps * np.diff(summed[queries.offsets])
    return bound


def _longest(values: "torch.Tensor") -> float:
    """Return the largest norm of a row, 0 without rows."""
    import torch

    longest = float(torch.linalg.vector_norm(values, dim=1).amax()) if values.numel() else 0.0
    _refuse_not_finite(longest, "a document")
    return longest


def _refuse_not_finite(norms: np.ndarray | float, whose: str) -> None:
    if not np.isfinite(norms).all():
        raise InputError(
            f"a vector of {whose} is not finite (it holds nan, inf or numbers near 1e38); "
            "encode again, with dtype bfloat16 or float32"
        )


def _search_rows(
    best: TopK,
    similarity: Similarity,
    numbers: np.ndarray,
    block: Vectors,
    values: "torch.Tensor",
    error: np.ndarray,
    room: int,
    rows: slice,
) -> None:
    """Merge what a block has into the best of some queries.

    The smallest of k scores of different documents bounds the k-th best from below. A document
    further below it than both of their roundings is not among the best; all others are candidates.
    """
    import torch

    k = best.scores.shape[1]
    lowest = on_device(best.scores[rows], similarity.device)
    slack = on_device(2 * error[rows].astype(np.float32), similarity.device)
    candidates: list[list[np.ndarray]] = []
    first = n_pending = 0
    for scores in similarity.block_scores(rows, block, values, room):
        lowest = _largest(torch.cat([lowest, _group_maxima(scores, MAXIMA * k).T], dim=1), k)
        reach = lowest.amin(dim=1) - slack
        place, query, score = _at_least(scores, reach)
        candidates.append([place + first, query, score])
        first, n_pending = first + len(scores), n_pending + len(query)
        if n_pending > room or first == len(numbers):
            text, row, score = (np.concatenate(column) for column in zip(*candidates, strict=True))
            near = np.flatnonzero(score >= reach.cpu().numpy()[row])
            near = near[np.argsort(row[near].astype(np.min_scalar_type(len(reach))), kind="stable")]
            row, text = row[near], text[near]
            exact = similarity.pair_scores(row + rows.start, block, text)
            _merge(best, rows, row, exact, numbers[text])
            candidates, n_pending = [], 0


def _group_maxima(scores: "torch.Tensor", n_groups: int) -> "torch.Tensor":
    """Return the largest scores (``n_groups`` or a few more, n_rows) of groups of documents.

    Much cheaper to look through than all scores. The last few documents may be in no group.
    """
    n_documents, n_rows = scores.shape
    size = n_documents // n_groups
    if size < 2:
        return scores
    width = n_documents // size
    return scores[: size * width].view(size, width, n_rows).amax(dim=0)


def _largest(values: "torch.Tensor", k: int) -> "torch.Tensor":
    """Return the k largest values of each row, in any order.

    On a CPU numpy's selection takes a sixth of the time of torch's.
    """
    import torch

    if values.device.type != "cpu":
        return values.topk(k, sorted=False).values
    return torch.from_numpy(np.partition(values.numpy(), values.shape[1] - k)[:, -k:])


def _at_least(
    scores: "torch.Tensor", reach: "torch.Tensor"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the scores (n, n_rows) of at least ``reach`` (n_rows,): texts, rows and values.

    In order of texts, then rows. On a CPU numpy takes a third of the time of torch.
    """
    if scores.device.type != "cpu":
        there = (scores >= reach).nonzero(as_tuple=True)
        text, row, found = (x.cpu().numpy() for x in (*there, scores[there]))
        return text, row, found
    text, row = np.divmod(np.flatnonzero(scores.numpy() >= reach.numpy()), scores.shape[1])
    return text, row, scores.numpy()[text, row]


def _merge(
    best: TopK, rows: slice, query: np.ndarray, scores: np.ndarray, documents: np.ndarray
) -> None:
    """Merge scored pairs, ``query`` counted from the first of the rows, into the best."""
    kept, held = TopK(best.scores[rows], best.documents[rows]), best.documents[rows] >= 0
    query = np.concatenate([held.nonzero()[0], query])
    scores = np.concatenate([kept.scores[held], scores])
    documents = np.concatenate([kept.documents[held], documents])
    order = np.argsort(_rank_keys(scores, documents))
    order = order[np.argsort(query[order].astype(np.min_scalar_type(len(held))), kind="stable")]
    query = query[order]
    rank = np.arange(len(query)) - np.searchsorted(query, query)
    first = rank < kept.scores.shape[1]
    kept.scores[query[first], rank[first]] = scores[order][first]
    kept.documents[query[first], rank[first]] = documents[order][first]


def _rank_keys(scores: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Number pairs (n,) as they rank: score (finite float32) descending, document ascending.

    One number (uint64) sorts several times as fast as two columns. The bits of a float are ordered
    as its value is, but for the sign: those of a negative one run the other way. A document's
    number has 32 bits.
    """
    bits = (scores + np.float32(0)).view(np.uint32)  # no -0.0, which would come after 0.0
    descending = np.where(bits >> 31, bits, ~bits & np.uint32(0x7FFFFFFF))
    return descending.astype(np.uint64) << np.uint64(32) | documents.astype(np.uint64)


class InnerProduct:
    """The largest inner product of a query with a document's vectors, 0 for one without."""

    def __init__(self, queries: np.ndarray, device: str) -> None:
        self.queries, self.device = Vectors(queries, np.arange(len(queries) + 1)), device
        self._on_device = on_device(queries, device)

    def block_scores(
        self, rows: slice, block: Vectors, values: "torch.Tensor", room: int
    ) -> Iterator["torch.Tensor"]:
        """See `Similarity`."""
        asked = self._on_device[rows]
        memory = np.empty(0, np.float32)
        for first, last in pairwise(cuts(block.offsets, max(1, room // len(asked)))):
            part = values[block.offsets[first] : block.offsets[last]]
            if len(asked) * len(part) > len(memory):
                memory = np.empty(len(asked) * len(part), np.float32)
            scores = inner_products(part, asked, memory)
            yield scores if block.is_single else _best_vector(scores, block.counts[first:last])

    def pair_scores(self, rows: np.ndarray, block: Vectors, texts: np.ndarray) -> np.ndarray:
        """See `Similarity`.

        A product of two float32 is exact in float64, and a row of them is summed by BLAS in an
        order that its length alone decides.
        """
        scores = np.zeros(len(rows), dtype=np.float32)
        filled = np.flatnonzero(block.counts[texts])
        if not len(filled):
            return scores
        counts = block.counts[texts[filled]]
        places = ragged_ranges(block.offsets[texts[filled]], counts)
        asked, which = np.unique(rows[filled], return_inverse=True)
        queries = self.queries.values[asked].astype(np.float64)
        which = np.repeat(which.astype(np.int32), counts)
        products = np.empty(len(places), np.float32)
        narrow = np.empty((EXACT_VECTORS, block.values.shape[1]), np.float32)
        document, query = np.empty(narrow.shape), np.empty(narrow.shape)
        for first in range(0, len(places), EXACT_VECTORS):  # in memory that is used again
            some = slice(first, min(first + EXACT_VECTORS, len(places)))
            n = some.stop - first
            block.values.take(places[some], axis=0, out=narrow[:n], mode="clip")
            queries.take(which[some], axis=0, out=query[:n], mode="clip")
            document[:n] = narrow[:n]
            products[some] = np.vecdot(document[:n], query[:n])
        scores[filled] = np.maximum.reduceat(products, np.cumsum(counts) - counts)
        return scores


def _best_vector(scores: "torch.Tensor", counts: np.ndarray) -> "torch.Tensor":
    """Reduce scores (n_vectors, n_queries) to the largest of each document, 0 for one without."""
    import torch

    device = str(scores.device)
    owner = on_device(np.repeat(np.arange(len(counts)), counts), device)
    best = torch.full((len(counts), scores.shape[1]), -torch.inf, device=scores.device)
    best.scatter_reduce_(0, owner[:, None].expand_as(scores), scores, "amax")
    best[on_device(counts == 0, device)] = 0.0
    return best


def inner_products(
    vectors: "torch.Tensor", queries: "torch.Tensor", memory: np.ndarray
) -> "torch.Tensor":
    """Return (n_vectors, n_queries) float32; on a CPU in ``memory``, which is used again.

    There numpy multiplies: its OpenBLAS was a sixth faster than torch's MKL on AMD, and a tenth
    faster with the queries as columns.
    """
    import torch

    if not len(vectors) or not len(queries):  # no dimension where no text has a vector
        return queries.new_empty((len(vectors), len(queries)))
    if queries.device.type != "cpu":
        return vectors @ queries.T
    out = memory[: len(vectors) * len(queries)].reshape(len(vectors), len(queries))
    return torch.from_numpy(np.matmul(vectors.numpy(), queries.numpy().T, out=out))


def on_device(array: np.ndarray, device: str) -> "torch.Tensor":
    """Bring an array to the device; a view of it on a CPU."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


@contextmanager
def _one_thread_each() -> Iterator[tuple[ThreadPoolExecutor, int]]:
    """Start as many threads as torch uses; each computes alone, for queries of its own.

    A product that several threads share makes all but one of them wait (and spin) through what
    follows it, and calls of several threads at once would be more threads than cores. float32
    means float32 (no TF32) meanwhile.
    """
    import torch
    from threadpoolctl import threadpool_limits

    n_threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("highest")
    try:
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_threads) as pool:
            yield pool, n_threads
    finally:
        torch.set_num_threads(n_threads)
        torch.set_float32_matmul_precision(precision)
