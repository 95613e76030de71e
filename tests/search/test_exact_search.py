import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from psibench.errors import InputError
from psibench.search.exact import InnerProduct, search_blocks, search_vectors
from psibench.search.vectors import ArrayVectors, Groups, Vectors

BLOCKS = [1, 4 * 3, 20_000, 256 * 1024 * 1024]


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def reference(queries, documents, offsets, k, groups=None):
    """All products in float64, best vector of each document, sorted by score then place."""
    products = (queries[:, None, :].astype(np.float64) * documents[None]).sum(axis=2)
    spans = list(zip(offsets[:-1], offsets[1:], strict=True))
    scores = [products[:, a:b].max(axis=1) if b > a else np.zeros(len(queries)) for a, b in spans]
    scores = np.stack(scores, axis=1).astype(np.float32)
    if groups is not None:
        of_query, of_document = (
            np.repeat(np.arange(len(each) - 1), np.diff(each))
            for each in (groups.queries, groups.documents)
        )
        scores[of_query[:, None] != of_document] = -np.inf
    places = np.broadcast_to(np.arange(len(spans)), scores.shape)
    order = np.lexsort((places, -scores), axis=1)[:, :k]
    scores = np.take_along_axis(scores, order, axis=1)
    return np.where(np.isneginf(scores), -1, order), scores


class Shuffled:
    """A corpus that gives its documents in a mixed order, in blocks of its own."""

    def __init__(self, documents, offsets, *, seed=0, most=40):
        self.whole, self.n_documents = Vectors(documents, offsets), len(offsets) - 1
        self.rng, self.most = np.random.default_rng(seed), most
        self.asked = []

    def blocks(self, block_bytes):
        self.asked.append(block_bytes)
        left = self.rng.permutation(self.n_documents)
        while len(left):
            numbers, left = np.split(left, [int(self.rng.integers(1, self.most + 1))])
            yield numbers, self.whole.take(numbers)


def check(queries, documents, offsets, k, block_bytes, groups=None):
    places, scores = reference(queries, documents, offsets, k, groups)
    for source in (ArrayVectors(documents, offsets), Shuffled(documents, offsets, seed=k)):
        best = search_vectors(queries, source, k=k, block_bytes=block_bytes, groups=groups)
        width = best.documents.shape[1]
        assert width == min(k, max(np.diff(groups.documents)) if groups else len(offsets) - 1)
        np.testing.assert_array_equal(best.documents, places[:, :width])
        np.testing.assert_array_equal(best.scores, scores[:, :width])
        assert (best.documents.dtype, best.scores.dtype) == (np.int64, np.float32)


def data(seed: int, *, n_queries=17, n_documents=301, dim=24, duplicates=0.0, windows=1):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, windows + 1, n_documents)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    documents = unit(rng.standard_normal((offsets[-1], dim)))
    copies = rng.random(offsets[-1]) < duplicates
    documents[copies] = documents[rng.integers(0, 5, copies.sum())]
    return unit(rng.standard_normal((n_queries, dim))), documents, offsets


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("block_bytes", BLOCKS)
@pytest.mark.parametrize("k", [1, 10, 301, 1000])
@pytest.mark.parametrize("duplicates", [0.0, 0.9])
def test_search_equals_the_full_matrix_sorted(block_bytes, k, duplicates):
    check(*data(1, duplicates=duplicates), k, block_bytes)


@pytest.mark.parametrize("block_bytes", BLOCKS)
@pytest.mark.parametrize("duplicates", [0.0, 0.9])
def test_best_window_of_a_document_counts(block_bytes, duplicates):
    check(*data(2, windows=6, duplicates=duplicates), 10, block_bytes)


@pytest.mark.parametrize("block_bytes", BLOCKS)
def test_hundreds_of_equal_documents_at_the_last_place_keep_the_smallest_ids(block_bytes):
    # Odd sizes: products of equal vectors at the end of a block are not always equal in float32.
    queries, documents, offsets = data(3, n_documents=997, dim=37)
    documents[5::2] = documents[3]
    check(queries, documents, offsets, 10, block_bytes)


@pytest.mark.parametrize("block_bytes", BLOCKS)
def test_scores_closer_than_the_rounding_of_a_block_are_told_apart(block_bytes):
    # A product near 1e6 that cancels hides all but the differences above 1/16 in float32.
    rng = np.random.default_rng(5)
    queries = np.concatenate([np.full((7, 1), 1000), rng.integers(-9, 10, (7, 6))], axis=1)
    queries = np.concatenate([queries, -queries[:, :1]], axis=1).astype(np.float32)
    large, small = rng.integers(1000, 1100, (2000, 1)), rng.integers(-9, 10, (2000, 6)) / 1024
    documents = np.concatenate([large, small, large], axis=1).astype(np.float32)
    check(queries, documents, np.arange(2001), 5, block_bytes)


@settings(deadline=None, max_examples=100)
@given(draw=st.data())
def test_any_small_search_equals_the_full_matrix(draw):
    # Whole numbers: every product is exact, ties are everywhere. Documents have up to 3 vectors.
    dim, rng = draw.draw(st.integers(1, 3)), np.random.default_rng(draw.draw(st.integers(0, 1000)))
    sizes = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30)), min_size=1, max_size=4)
    n_queries, n_documents = zip(*draw.draw(sizes), strict=True)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 4, sum(n_documents)))])
    queries = rng.integers(-1, 2, (sum(n_queries), dim)).astype(np.float32)
    documents = rng.integers(-1, 2, (offsets[-1], dim)).astype(np.float32)
    k, block_bytes = draw.draw(st.integers(1, 60)), draw.draw(st.integers(1, 2000))
    if sum(n_queries) and sum(n_documents):
        groups = Groups.of_sizes(list(n_queries), list(n_documents))
        if groups.documents_of_query.max() == max(n_documents):
            check(queries, documents, offsets, k, block_bytes, groups)


@pytest.mark.parametrize(("n_queries", "n_documents"), [(1, 1), (1, 50), (9, 1), (5000, 3)])
def test_single_documents_and_queries(n_queries, n_documents):
    check(*data(6, n_queries=n_queries, n_documents=n_documents, dim=8), 10, 2**20)


@pytest.mark.parametrize(("n_queries", "n_documents"), [(0, 3), (3, 0), (0, 0)])
def test_nothing_to_search_gives_nothing(n_queries, n_documents):
    best = search_vectors(
        np.zeros((n_queries, 4), np.float32),
        ArrayVectors(np.zeros((n_documents, 4 if n_documents else 0), np.float32)),
        k=5,
    )
    assert best.documents.shape == (n_queries, 0)


def test_document_without_vectors_scores_zero():
    queries = np.array([[1, 0]], dtype=np.float32)
    documents = np.array([[-1, 0], [-0.5, 1], [-0.6, 0.8], [0.5, 0]], dtype=np.float32)
    source = ArrayVectors(documents, np.array([0, 0, 2, 3, 3, 4]))
    best = search_vectors(queries, source, k=5)
    assert best.documents.tolist() == [[4, 0, 3, 1, 2]]
    np.testing.assert_array_equal(best.scores, np.float32([[0.5, 0, 0, -0.5, -0.6]]))


def test_documents_that_all_have_no_vectors_score_zero_in_the_order_of_ids():
    source = ArrayVectors(np.empty((0, 0), np.float32), np.zeros(4, np.int64))
    best = search_vectors(np.ones((2, 5), np.float32), source, k=2)
    assert best.documents.tolist() == [[0, 1], [0, 1]]
    assert best.scores.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("duplicates", [0.0, 0.95])
def test_groups_search_documents_of_their_own(duplicates):
    groups = Groups.of_sizes([5, 0, 8, 4, 0], [200, 50, 3, 0, 48])
    check(*data(11, windows=3, duplicates=duplicates), 10, 9000, groups)


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("side", ["query", "document"])
def test_vectors_that_are_not_finite_are_refused(side, number):
    queries, documents, _offsets = data(12)
    (queries if side == "query" else documents)[3, 5] = number
    with pytest.raises(InputError, match=f"a vector of a {side} is not finite"):
        search_vectors(queries, ArrayVectors(documents), k=5)


class Watched(InnerProduct):
    """Notes how many scores it computes at once, for which queries, by how many threads."""

    def __init__(self, queries, *, wait_for: int = 1):
        super().__init__(queries, "cpu")
        self.sizes, self.rows = [], []
        self.threads, self.precisions = set(), set()
        self.n_pairs = 0
        self.meet = threading.Barrier(wait_for)  # all at the same time, or it breaks

    def block_scores(self, rows, block, values, room):
        self.meet.wait(60)
        self.rows.append((rows.start, rows.stop))
        used = threadpool_info()
        self.threads |= {each["num_threads"] for each in used if each["user_api"] == "blas"}
        self.threads.add(torch.get_num_threads())
        self.precisions.add(torch.get_float32_matmul_precision())
        for scores in super().block_scores(rows, block, values, room):
            self.sizes.append(scores.numel())
            yield scores

    def pair_scores(self, rows, block, texts):
        self.n_pairs = max(self.n_pairs, len(rows))
        return super().pair_scores(rows, block, texts)


@pytest.mark.parametrize("block_bytes", [1, 1000, 100_000])
def test_scores_take_a_quarter_of_the_memory_and_vectors_half(four_threads, block_bytes):
    queries, documents, offsets = data(7, n_queries=20)
    source, watched = Shuffled(documents, offsets, most=301), Watched(queries)
    search_blocks(watched, source, k=3, block_bytes=block_bytes)
    assert source.asked == [block_bytes // 2]
    # Four threads; one document's scores with a thread's five queries at least.
    assert 4 * 4 * max(watched.sizes) <= max(4 * 4 * 5, block_bytes // 4)


def test_few_documents_but_the_best_are_scored_twice():
    queries, documents, _offsets = data(14, n_documents=3000)
    watched, source = Watched(queries[:1]), ArrayVectors(documents)
    search_blocks(watched, source, k=10, block_bytes=2**20)
    assert 10 <= watched.n_pairs <= 15


def test_equal_documents_are_scored_within_the_memory():
    # All 16,000 pairs are candidates, in steps of 1,000 scores.
    queries, documents, _offsets = data(15, n_queries=8, n_documents=2000)
    documents[:] = documents[0]
    watched, source = Watched(queries), Shuffled(documents, np.arange(2001), most=2000)
    n_threads = torch.get_num_threads()
    search_blocks(watched, source, k=3, block_bytes=16 * 1000 * n_threads)
    assert max(watched.sizes) <= 1000
    assert watched.n_pairs <= 2000


def test_queries_are_shared_out_to_threads_that_compute_alone(four_threads):
    queries, documents, _offsets = data(8, n_queries=22)
    before, watched = threadpool_info(), Watched(queries, wait_for=4)
    source = ArrayVectors(documents)
    search_blocks(watched, source, k=3, block_bytes=2**20)
    assert sorted(watched.rows) == [(0, 6), (6, 12), (12, 18), (18, 22)]
    assert watched.threads == {1}
    assert (torch.get_num_threads(), threadpool_info()) == (4, before)


def test_an_error_of_a_thread_is_raised_and_the_threads_come_back(four_threads):
    queries, documents, _offsets = data(8)
    watched, source, before = Watched(queries), ArrayVectors(documents), threadpool_info()
    watched.meet.abort()
    with pytest.raises(threading.BrokenBarrierError):
        search_blocks(watched, source, k=3, block_bytes=2**20)
    assert (torch.get_num_threads(), threadpool_info()) == (4, before)


@pytest.mark.parametrize("block_bytes", [1000, 100_000])
def test_neither_threads_nor_other_queries_change_a_score(four_threads, block_bytes):
    queries, documents, offsets = data(9, n_documents=900, duplicates=0.3, windows=2)
    source = ArrayVectors(documents, offsets)
    together = search_vectors(queries, source, k=10, block_bytes=block_bytes)
    torch.set_num_threads(1)
    for row in range(len(queries)):
        alone = search_vectors(queries[row : row + 1], source, k=10)
        np.testing.assert_array_equal(alone.documents[0], together.documents[row])
        np.testing.assert_array_equal(alone.scores[0], together.scores[row])


def test_matrices_are_multiplied_without_tensor_floats():
    queries, documents, _offsets = data(10)
    watched, source = Watched(queries), ArrayVectors(documents)
    torch.set_float32_matmul_precision("medium")
    try:
        search_blocks(watched, source, k=3, block_bytes=2**20)
        assert watched.precisions == {"highest"}
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("duplicates", [0.0, 0.9])
def test_a_gpu_finds_the_same(duplicates):
    queries, documents, offsets = data(13, n_documents=5000, windows=2, duplicates=duplicates)
    source = ArrayVectors(documents, offsets)
    found = [search_vectors(queries, source, k=10, device=device) for device in ("cpu", "cuda")]
    np.testing.assert_array_equal(found[0].documents, found[1].documents)
    np.testing.assert_array_equal(found[0].scores, found[1].scores)
