"""Exact search: the k best documents of each query, over all documents, block by block.

faiss (on a GPU: torch) finds the best k of a block and `MARGIN` more. Matrix products sum in
varying orders, so that equal vectors may get unequal scores. Candidates whose scores differ by no
more than the error of float32 are therefore scored again, one by one in float64; if the corpus has
several blocks, all candidates are. They are ranked by score descending, number ascending. Blocks,
threads and devices change a ranking only between scores that differ by no more than float32
rounding. If more than `MARGIN` documents of a block tie with its k-th (e.g. copies of one text),
the matrix product decides which of them are candidates; the candidates are ranked by number.
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

SEARCH_BLOCK_BYTES = 256 * 1024 * 1024
MARGIN = 8
QUERY_VECTORS = 2048
"""Query vectors that are multiplied at once; with k they bound the memory for candidates."""
CPU_SCORES = 4 * 1024 * 1024
"""Scores that all threads of a CPU compute at once; more would not fit into its last cache."""
EXACT_VECTORS = 1024
"""Document vectors that are converted to float64 at once."""


def search_vectors(
    queries: np.ndarray | Vectors,
    source: np.ndarray | DocumentVectors,
    *,
    k: int,
    block_bytes: int = SEARCH_BLOCK_BYTES,
    device: str = "cpu",
    mean: bool = False,
) -> TopK:
    """Find the ``k`` documents with the largest scores for each query.

    A score is the sum over the query's vectors of the largest inner product with a vector of the
    document: MaxSim (Khattab and Zaharia, SIGIR 2020), or MaxP if a query has one vector (Dai and
    Callan, SIGIR 2019). A query or document without vectors scores 0.

    Parameters
    ----------
    queries
        (n_queries, dim) float32, or the vectors of the queries' tokens.
    source
        Documents, numbered as in `TopK`, or (n_documents, dim) float32; read once.
    k
        Number of documents to return; fewer if the corpus is smaller.
    block_bytes
        Memory of a block: half of it for vectors, at most a quarter for scores. More memory is
        needed for each query's best documents, the candidates of `QUERY_VECTORS` queries, and for
        each thread the vectors of one query's candidates in float64.
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
        If a vector has a number that is not finite.
    """
    queries = Vectors.one_each(queries) if isinstance(queries, np.ndarray) else queries
    source = Vectors.one_each(source) if isinstance(source, np.ndarray) else source
    best, rounding = BestDocuments(k, len(queries.counts), source.n_documents), _rounding(queries)
    if not (best.k and len(queries.counts)):
        return best.top_k()
    # faiss, because importing torch takes longer than most searches.
    by_faiss = device == "cpu" and queries.is_single and source.is_single
    with _one_thread_each(with_torch=not by_faiss) as (pool, n_threads):
        n_scores = block_bytes // 16
        n_scores = (min(n_scores, CPU_SCORES) if device == "cpu" else n_scores) // n_threads
        for numbers, block in source.blocks(block_bytes // 2):
            values = block.values if by_faiss else on_device(block.values, device)
            error = rounding * _norms(block.values, "a document").max(initial=0)
            search = partial(_merge_block, best, queries, block, values, numbers, error, n_scores)
            at_once = min(QUERY_VECTORS // n_threads, -(-len(queries.values) // n_threads))
            if not by_faiss:
                at_once = min(at_once, n_scores // len(numbers))
            edges = pairwise(cuts(queries.offsets, max(1, at_once)))
            list(pool.map(search, (slice(first, last) for first, last in edges)))
    top = best.top_k()
    if mean:
        top.scores /= np.maximum(1, queries.counts)[:, None].astype(np.float32)
    return top


def _rounding(queries: Vectors) -> np.ndarray:
    """Bound the error of float32 scores of documents with norm 1, (n_queries,).

    The error of a product is at most dim * u * |query| * |document|, in any order of summation,
    with u = eps / 2 for rounding to nearest (Higham, Accuracy and Stability of Numerical
    Algorithms, section 3.1). A maximum's error is at most the largest error of its arguments. A sum
    over the query's vectors adds their errors and its rounding.
    """
    summed = np.cumsum([0.0, *_norms(queries.values, "a query")])
    terms = queries.values.shape[1] + queries.counts + 2
    bound: np.ndarray = terms * np.finfo(np.float32).eps / 2 * np.diff(summed[queries.offsets])
    return bound


def _norms(values: np.ndarray, whose: str) -> np.ndarray:
    norms: np.ndarray = np.sqrt(np.vecdot(values, values))
    if not np.isfinite(norms).all():
        raise InputError(
            f"a vector of {whose} is not finite (it has nan, inf or numbers near 1e19); encode "
            "again with dtype bfloat16 or float32"
        )
    return norms


def _merge_block(
    best: BestDocuments,
    queries: Vectors,
    block: Vectors,
    values: "np.ndarray | torch.Tensor",
    numbers: np.ndarray,
    error: np.ndarray,
    n_scores: int,
    rows: slice,
) -> None:
    """Merge a block's candidates, unless they cannot be among the k best despite rounding."""
    some, n = queries.part(rows), min(best.k + MARGIN, len(numbers))
    scores, texts = _candidates(some, block, values, n, n_scores)
    known = np.concatenate([best.scores(rows), scores], axis=1)
    lowest = np.partition(known, -best.k)[:, -best.k] - 2 * error[rows]
    is_near = scores >= lowest[:, None]
    is_whole = len(numbers) == best.n_documents
    is_unsure = is_near & _have_close_scores(scores, error[rows]) if is_whole else is_near
    wanted = np.where(is_unsure, texts, -1)
    if queries.is_single:
        exact = _dot_products(some.values, block, wanted)
    else:
        exact = _exact_max_sim(some, block, wanted)
    exact = np.where(is_unsure, exact, np.where(is_near, scores, -np.inf))
    best.merge(rows, exact.astype(np.float32), numbers[texts])


def _have_close_scores(scores: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return where another score of the row could be the same despite rounding, (n_rows, n) bool.

    ``error`` bounds the error of each row's scores, (n_rows,). An unknown score, inf, is close.
    """
    order = np.argsort(-scores, axis=1)
    ranked = np.take_along_axis(scores, order, axis=1)
    with np.errstate(invalid="ignore"):  # inf - inf
        is_next_close = ~(ranked[:, :-1] - ranked[:, 1:] > 2 * error[:, None])
    close = np.zeros(scores.shape, bool)
    close[:, :-1] |= is_next_close
    close[:, 1:] |= is_next_close
    found = np.empty_like(close)
    np.put_along_axis(found, order, close, axis=1)
    return found | np.isinf(scores)


def _candidates(
    queries: Vectors, block: Vectors, values: "np.ndarray | torch.Tensor", n: int, n_scores: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores (float32) and numbers (int64) of a block's ``n`` best texts per query."""
    on_cpu = isinstance(values, np.ndarray) or values.device.type == "cpu"
    if on_cpu and n == len(block.counts):  # all texts are candidates, whatever their scores
        shape = len(queries.counts), n
        return np.full(shape, np.inf, np.float32), np.broadcast_to(np.arange(n), shape)
    if isinstance(values, np.ndarray):
        import faiss

        return faiss.knn(queries.values, values, n, metric=faiss.METRIC_INNER_PRODUCT)
    top = _max_sim(queries, block, values, n_scores).topk(n, sorted=False)
    return top.values.cpu().numpy(), top.indices.cpu().numpy()


def _dot_products(queries: np.ndarray, block: Vectors, texts: np.ndarray) -> np.ndarray:
    """Score some texts for queries with one vector, (n_queries, n); 0 if the text is -1.

    A product of two float32 numbers is exact in float64, and each pair is summed separately, in an
    order that depends on the dimensions only.
    """
    scores, exact = np.zeros(texts.shape), queries.astype(np.float64)
    wide = np.empty((texts.shape[1] * int(block.counts.max(initial=0)), queries.shape[1]))
    for row, filled in enumerate((texts >= 0) & (block.counts[texts] > 0)):
        wanted = block.take(texts[row, filled])
        if not len(wanted.values):
            continue
        document = wide[: len(wanted.values)]  # the same memory for all queries
        document[:] = wanted.values
        products = np.vecdot(document, exact[row])
        if not block.is_single:
            products = np.maximum.reduceat(products, wanted.offsets[:-1])
        scores[row, filled] = products
    return scores


def _exact_max_sim(queries: Vectors, block: Vectors, texts: np.ndarray) -> np.ndarray:
    """Score some texts for each query in float64, (n_queries, n); 0 if the text is -1."""
    scores, wanted = np.zeros(texts.shape), texts >= 0
    queries = Vectors(queries.values.astype(np.float64), queries.offsets)
    if texts.shape[1] == len(block.counts) and wanted.all():  # all texts for all queries
        values, n_scores = on_device(block.values, "cpu"), EXACT_VECTORS * len(queries.values)
        whole = _max_sim(queries, block, values, n_scores).numpy()
        return np.take_along_axis(whole, texts, axis=1)
    for row in np.flatnonzero(wanted.any(axis=1)):
        some = block.take(texts[row, wanted[row]])
        values, n_scores = on_device(some.values, "cpu"), EXACT_VECTORS * queries.counts[row]
        query = queries.part(slice(row, row + 1))
        scores[row, wanted[row]] = _max_sim(query, some, values, n_scores)
    return scores


def _max_sim(
    queries: Vectors, block: Vectors, values: "torch.Tensor", n_scores: int
) -> "torch.Tensor":
    """Score all texts of a block, (n_queries, n_texts), in the precision of the queries.

    ``n_scores`` products are in memory at once, or more if a single text needs more.
    """
    import torch

    device = str(values.device)
    query_values = on_device(queries.values, device)
    query = on_device(np.repeat(np.arange(len(queries.counts)), queries.counts), device)
    columns = []
    for first, last in pairwise(cuts(block.offsets, n_scores // max(1, len(query_values)))):
        some = values[block.offsets[first] : block.offsets[last]].to(query_values.dtype)
        counts = block.counts[first:last]
        products = _products(some, query_values)
        largest = products
        if not block.is_single:
            text = on_device(np.repeat(np.arange(len(counts)), counts), device)[:, None]
            largest = products.new_full((len(counts), len(query_values)), -torch.inf)
            largest.scatter_reduce_(0, text.expand_as(products), products, "amax")
            largest[on_device(counts == 0, device)] = 0
        if not queries.is_single:
            summed = products.new_zeros((len(counts), len(queries.counts)))
            largest = summed.index_add_(1, query, largest)
        columns.append(largest)
    return torch.cat(columns).T


def _products(vectors: "torch.Tensor", queries: "torch.Tensor") -> "torch.Tensor":
    """Multiply; on a CPU with numpy, whose OpenBLAS takes three quarters of MKL's time on AMD."""
    import torch

    if not len(vectors) or not len(queries):  # the dimension is unknown if no text has a vector
        return queries.new_empty((len(vectors), len(queries)))
    if queries.device.type != "cpu":
        return vectors @ queries.T
    return torch.from_numpy(vectors.numpy() @ queries.numpy().T)


def on_device(array: np.ndarray, device: str) -> "torch.Tensor":
    """Return an array as a tensor on the device; on a CPU, both share memory."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


@contextmanager
def _one_thread_each(*, with_torch: bool) -> Iterator[tuple[ThreadPoolExecutor, int]]:
    """Start as many threads as faiss or torch would use; each computes for other queries.

    Threads that share a matrix product wait for each other after every step. On cores with other
    processes this takes several times as long.
    """
    import faiss
    from threadpoolctl import threadpool_limits

    # faiss 1.15 uses BLAS, which is seven times as fast, only for 300 or more queries.
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
