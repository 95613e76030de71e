"""Exact search: the k best documents of each query, over all documents, block by block.

faiss (on a GPU: torch) finds the best of a block and `MARGIN` more. A product of matrices adds up
in an order of its own, so that equal vectors may get unequal scores: these candidates are scored
again one by one in float64, and ranked by that: score descending, number ascending. Blocks,
threads and devices change a ranking only where scores differ by no more than float32 rounds. Where
more than `MARGIN` documents of a block tie with its k-th (copies of one text, say), which of them
are kept is the product's choice; those kept are ranked by number.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from psibench.errors import InputError
from psibench.search.ranking import BestDocuments, DocumentVectors, TopK
from psibench.store.vectors import Vectors, cuts

if TYPE_CHECKING:
    import torch

BLOCK_BYTES = 256 * 1024 * 1024
MARGIN = 8
QUERY_VECTORS = 2048
"""Vectors of queries that are multiplied at once; with k they bound the memory of candidates."""
CPU_SCORES = 4 * 1024 * 1024
"""Scores of all threads that a CPU computes at once: more would leave its last cache."""
EXACT_VECTORS = 1024
"""Vectors of documents that are widened to float64 at once."""


def search_vectors(
    queries: np.ndarray | Vectors,
    source: np.ndarray | DocumentVectors,
    *,
    k: int,
    block_bytes: int = BLOCK_BYTES,
    device: str = "cpu",
    mean: bool = False,
) -> TopK:
    """Find the ``k`` documents of largest score for each query.

    A score is the sum over the query's vectors of the largest inner product of each with a vector
    of the document: MaxSim (Khattab and Zaharia, SIGIR 2020), or MaxP where a query has one vector
    (Dai and Callan, SIGIR 2019). A query or document without vectors scores 0.

    Parameters
    ----------
    queries
        (n_queries, dim) float32, or the vectors of the queries' tokens.
    source
        Documents, numbered as `TopK` says, or (n_documents, dim) float32; read once.
    k
        Documents to keep; fewer where the corpus is smaller.
    block_bytes
        Memory of a block: half of it for vectors, a quarter at most for scores. Beside it are each
        query's best documents, the candidates of `QUERY_VECTORS` queries, and for each thread the
        vectors of one query's candidates in float64.
    device
        cpu, or cuda for the blocks.
    mean
        Divide scores by the number of the query's vectors.

    Returns
    -------
    TopK with (n_queries, min(k, n_documents)) scores and documents.

    Raises
    ------
    InputError
        If a vector holds a number that is not finite.
    """
    asked = Vectors.one_each(queries) if isinstance(queries, np.ndarray) else queries
    source = Vectors.one_each(source) if isinstance(source, np.ndarray) else source
    best, rounding = BestDocuments(k, len(asked.counts), source.n_documents), _rounding(asked)
    if not (best.k and len(asked.counts)):
        return best.top_k()
    # Without torch, whose import takes longer than most searches.
    by_faiss = device == "cpu" and asked.is_single and source.is_single
    with _one_thread_each(with_torch=not by_faiss) as (pool, n_threads):
        room = block_bytes // 16
        room = (min(room, CPU_SCORES) if device == "cpu" else room) // n_threads
        for numbers, block in source.blocks(block_bytes // 2):
            values = block.values if by_faiss else on_device(block.values, device)
            error = rounding * _norms(block.values, "a document").max(initial=0)
            search = partial(_merge_block, best, asked, block, values, numbers, error, room)
            at_once = min(QUERY_VECTORS // n_threads, -(-len(asked.values) // n_threads))
            if not by_faiss:
                at_once = min(at_once, room // len(numbers))
            edges = pairwise(cuts(asked.offsets, max(1, at_once)))
            list(pool.map(search, (slice(first, last) for first, last in edges)))
    found = best.top_k()
    if mean:
        found.scores /= np.maximum(1, asked.counts)[:, None].astype(np.float32)
    return found


def _rounding(queries: Vectors) -> np.ndarray:
    """Bound how far float32 scores of documents of norm 1 lie from exact ones, (n_queries,).

    A product's bound is dim * eps * |query| * |document|, in whatever order it is summed (Higham,
    Accuracy and Stability of Numerical Algorithms, section 3.1); a maximum moves no further than
    what it is taken of; the sum over a query's vectors adds up theirs, and its own rounding.
    """
    summed = np.cumsum([0.0, *_norms(queries.values, "a query")])
    terms = queries.values.shape[1] + queries.counts + 2
    bound: np.ndarray = terms * np.finfo(np.float32).eps * np.diff(summed[queries.offsets])
    return bound


def _norms(values: np.ndarray, whose: str) -> np.ndarray:
    norms: np.ndarray = np.sqrt(np.vecdot(values, values))
    if not np.isfinite(norms).all():
        raise InputError(
            f"a vector of {whose} is not finite (it holds nan, inf or numbers near 1e19); "
            "encode again, with dtype bfloat16 or float32"
        )
    return norms


def _merge_block(
    best: BestDocuments,
    queries: Vectors,
    block: Vectors,
    values: "np.ndarray | torch.Tensor",
    numbers: np.ndarray,
    error: np.ndarray,
    room: int,
    rows: slice,
) -> None:
    """Merge a block's candidates, but those below the k-th best by more than rounding explains."""
    asked, n = queries.part(rows), min(best.k + MARGIN, len(numbers))
    scores, texts = _candidates(asked, block, values, n, room)
    known = np.concatenate([best.scores(rows), scores], axis=1)
    lowest = np.partition(known, -best.k)[:, -best.k] - 2 * error[rows]
    is_near = scores >= lowest[:, None]
    texts = np.where(is_near, texts, -1)
    if queries.is_single:
        exact = _dot_products(asked.values, block, texts)
    else:
        exact = _exact_max_sim(asked, block, texts)
    best.merge(rows, np.where(is_near, exact, -np.inf).astype(np.float32), numbers[texts])


def _candidates(
    queries: Vectors, block: Vectors, values: "np.ndarray | torch.Tensor", n: int, room: int
) -> tuple[np.ndarray, np.ndarray]:
    """Find the ``n`` best texts of a block for each query: float32 scores and int64 texts."""
    on_cpu = isinstance(values, np.ndarray) or values.device.type == "cpu"
    if on_cpu and n == len(block.counts):  # scored exactly at once: no product first saves time
        shape = len(queries.counts), n
        return np.full(shape, np.inf, np.float32), np.broadcast_to(np.arange(n), shape)
    if isinstance(values, np.ndarray):
        import faiss

        return faiss.knn(queries.values, values, n, metric=faiss.METRIC_INNER_PRODUCT)
    top = _max_sim(queries, block, values, room).topk(n, sorted=False)
    return top.values.cpu().numpy(), top.indices.cpu().numpy()


def _dot_products(queries: np.ndarray, block: Vectors, texts: np.ndarray) -> np.ndarray:
    """Score some texts for queries of one vector, (n_queries, n); 0 where the text is -1.

    A product of two float32 is exact in float64, and pairs are summed each by itself, in an order
    that their length alone decides.
    """
    scores, asked = np.zeros(texts.shape), queries.astype(np.float64)
    wide = np.empty((texts.shape[1] * int(block.counts.max(initial=0)), queries.shape[1]))
    for row, filled in enumerate((texts >= 0) & (block.counts[texts] > 0)):
        found = block.take(texts[row, filled])
        if not len(found.values):
            continue
        document = wide[: len(found.values)]  # memory that is used again
        document[:] = found.values
        products = np.vecdot(document, asked[row])
        if not block.is_single:
            products = np.maximum.reduceat(products, found.offsets[:-1])
        scores[row, filled] = products
    return scores


def _exact_max_sim(queries: Vectors, block: Vectors, texts: np.ndarray) -> np.ndarray:
    """Score some texts for each query in float64, (n_queries, n); 0 where the text is -1."""
    scores, wanted = np.zeros(texts.shape), texts >= 0
    queries = Vectors(queries.values.astype(np.float64), queries.offsets)
    if texts.shape[1] == len(block.counts) and wanted.all():  # at once
        values, room = on_device(block.values, "cpu"), EXACT_VECTORS * len(queries.values)
        return np.take_along_axis(_max_sim(queries, block, values, room).numpy(), texts, axis=1)
    for row in np.flatnonzero(wanted.any(axis=1)):
        found = block.take(texts[row, wanted[row]])
        values = on_device(found.values, "cpu")
        room = EXACT_VECTORS * queries.counts[row]
        scores[row, wanted[row]] = _max_sim(queries.part(slice(row, row + 1)), found, values, room)
    return scores


def _max_sim(queries: Vectors, block: Vectors, values: "torch.Tensor", room: int) -> "torch.Tensor":
    """Score all texts of a block, (n_queries, n_texts), in the precision of the queries.

    ``room`` products are in memory at once; those of a text more where needed.
    """
    import torch

    device = str(values.device)
    asked = on_device(queries.values, device)
    query = on_device(np.repeat(np.arange(len(queries.counts)), queries.counts), device)
    parts = []
    for first, last in pairwise(cuts(block.offsets, room // max(1, len(asked)))):
        some = values[block.offsets[first] : block.offsets[last]].to(asked.dtype)
        counts = block.counts[first:last]
        products = _products(some, asked)
        largest = products
        if not block.is_single:
            text = on_device(np.repeat(np.arange(len(counts)), counts), device)[:, None]
            largest = products.new_full((len(counts), len(asked)), -torch.inf)
            largest.scatter_reduce_(0, text.expand_as(products), products, "amax")
            largest[on_device(counts == 0, device)] = 0
        if not queries.is_single:
            summed = products.new_zeros((len(counts), len(queries.counts)))
            largest = summed.index_add_(1, query, largest)
        parts.append(largest)
    return torch.cat(parts).T


def _products(vectors: "torch.Tensor", queries: "torch.Tensor") -> "torch.Tensor":
    """Multiply; on a CPU by numpy, whose OpenBLAS takes three quarters of MKL's time on AMD."""
    import torch

    if not len(vectors) or not len(queries):  # no dimension where no text has a vector
        return queries.new_empty((len(vectors), len(queries)))
    if queries.device.type != "cpu":
        return vectors @ queries.T
    return torch.from_numpy(vectors.numpy() @ queries.numpy().T)


def on_device(array: np.ndarray, device: str) -> "torch.Tensor":
    """Bring an array to the device; a view of it on a CPU."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


@contextmanager
def _one_thread_each(*, with_torch: bool) -> Iterator[tuple[ThreadPoolExecutor, int]]:
    """Start as many threads as faiss or torch uses; each computes alone, for queries of its own.

    Threads that share a product wait for each other (and spin) after every step: on cores that
    others use, too, that takes several times as long.
    """
    import faiss
    from threadpoolctl import threadpool_limits

    # Always BLAS, which faiss 1.15 leaves to 300 queries and more: it is seven times as fast.
    faiss.cvar.distance_compute_blas_threshold = 1
    n_threads = faiss.omp_get_max_threads()
    with ExitStack() as stack:
        if with_torch:
            import torch

            n_threads = torch.get_num_threads()
            torch.set_num_threads(1)
            stack.callback(torch.set_num_threads, n_threads)
        stack.enter_context(threadpool_limits(1, user_api="blas"))
        pool = ThreadPoolExecutor(n_threads, "search", faiss.omp_set_num_threads, (1,))
        yield stack.enter_context(pool), n_threads
