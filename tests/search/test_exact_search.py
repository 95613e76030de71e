import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from psibench.search import candidates, exact, rescore, rough
from psibench.search.exact import search_vectors
from psibench.search.rough import plan
from psibench.search.vectors import ArrayVectors, Groups, Vectors

BLOCKS = [1, 4 * 3, 1000, 256 * 1024 * 1024]


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def reference(queries, documents, offsets, k):
    """Full matrix in float64, best vector of each document, sorted by score then place."""
    products = (queries[:, None, :].astype(np.float64) * documents[None]).sum(axis=2)
    spans = list(zip(offsets[:-1], offsets[1:], strict=True))
    scores = np.stack([products[:, a:b].max(axis=1) for a, b in spans], axis=1).astype(np.float32)
    places = np.broadcast_to(np.arange(len(spans)), scores.shape)
    order = np.lexsort((places, -scores), axis=1)[:, :k]
    return order, np.take_along_axis(scores, order, axis=1)


class Shuffled:
    """A corpus that gives its documents in another order every time, in blocks of its own."""

    def __init__(self, documents, offsets, *, seed=0, most=40):
        self.whole = Vectors(documents, offsets)
        self.n_documents = len(offsets) - 1
        self.rng, self.most = np.random.default_rng(seed), most
        self.asked = []

    def blocks(self, block_bytes, documents=None):
        self.asked.append(documents)
        wanted = np.arange(self.n_documents) if documents is None else documents
        left = self.rng.permutation(wanted)
        while len(left):
            numbers, left = np.split(left, [int(self.rng.integers(1, self.most + 1))])
            yield numbers, self.whole.take(numbers)


def check(queries, documents, offsets, k, block_bytes):
    best = search_vectors(queries, ArrayVectors(documents, offsets), k=k, block_bytes=block_bytes)
    assert_best(best, queries, documents, offsets, k)
    source = Shuffled(documents, offsets, seed=k)
    best = search_vectors(queries, source, k=k, block_bytes=block_bytes)
    assert_best(best, queries, documents, offsets, k)


def assert_best(best, queries, documents, offsets, k):
    places, scores = reference(queries, documents, offsets, k)
    np.testing.assert_array_equal(best.documents, places)
    np.testing.assert_array_equal(best.scores, scores)
    assert (best.documents.dtype, best.scores.dtype) == (np.int64, np.float32)


def data(seed: int, *, n_queries=17, n_documents=301, dim=24, duplicates=0.0, windows=1):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, windows + 1, n_documents)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    documents = unit(rng.standard_normal((offsets[-1], dim)))
    copies = rng.random(offsets[-1]) < duplicates
    documents[copies] = documents[rng.integers(0, 5, copies.sum())]
    return unit(rng.standard_normal((n_queries, dim))), documents, offsets


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
    # Far more ties than the search keeps in spare; odd sizes, so that blocks end in odd places.
    queries, documents, offsets = data(3, n_documents=997, dim=37)
    documents[5::2] = documents[3]
    check(queries, documents, offsets, 10, block_bytes)


@pytest.mark.parametrize("block_bytes", BLOCKS)
def test_documents_all_equal_come_in_the_order_of_their_ids(block_bytes):
    queries, documents, _offsets = data(4)
    documents[:] = documents[0]
    best = search_vectors(queries, ArrayVectors(documents), k=7, block_bytes=block_bytes)
    assert best.documents.tolist() == [list(range(7))] * 17
    assert (best.scores == best.scores[:, :1]).all()


def test_rounding_of_the_blocks_cannot_keep_a_better_document_out(monkeypatch):
    # Blocks that round to one hundredth: all differences within a hundredth are lost in them.
    true_products = rough.inner_products
    monkeypatch.setattr(rough, "inner_products", lambda *a: true_products(*a).round(decimals=2))
    monkeypatch.setattr(exact, "_rounding", lambda q, longest: np.full(len(q), 0.0051))
    check(*data(5, n_documents=2000), 5, 10_000)


@pytest.mark.parametrize(("n_queries", "n_documents"), [(1, 1), (1, 50), (9, 1), (5000, 3)])
def test_single_documents_and_queries(n_queries, n_documents):
    check(*data(6, n_queries=n_queries, n_documents=n_documents, dim=8), 10, 2**20)


@pytest.mark.parametrize("chunk_bytes", [1, 1000])
def test_scores_do_not_depend_on_the_memory_of_rescoring(monkeypatch, chunk_bytes):
    monkeypatch.setattr(rescore, "CHUNK_BYTES", chunk_bytes)
    check(*data(7, windows=4, duplicates=0.5), 10, 10_000)


@pytest.mark.parametrize("pairs_of_one", [1, 10**9])
@pytest.mark.parametrize("windows", [1, 4])
def test_pairs_are_scored_query_by_query_or_together_with_one_result(
    monkeypatch, pairs_of_one, windows
):
    monkeypatch.setattr(rescore, "PAIRS_OF_ONE", pairs_of_one)
    check(*data(13, windows=windows, duplicates=0.5), 10, 10_000)


def test_scores_of_a_query_do_not_depend_on_the_other_queries():
    queries, documents, _offsets = data(8, duplicates=0.3)
    together = search_vectors(queries, ArrayVectors(documents), k=10)
    for row in range(len(queries)):
        alone = search_vectors(queries[row : row + 1], ArrayVectors(documents), k=10)
        np.testing.assert_array_equal(alone.documents[0], together.documents[row])
        np.testing.assert_array_equal(alone.scores[0], together.scores[row])


@pytest.mark.parametrize(("n_queries", "n_documents"), [(0, 3), (3, 0), (0, 0)])
def test_nothing_to_search_gives_nothing(n_queries, n_documents):
    best = search_vectors(
        np.zeros((n_queries, 4), np.float32),
        ArrayVectors(np.zeros((n_documents, 4 if n_documents else 0), np.float32)),
        k=5,
    )
    assert best.documents.shape == (n_queries, 0)


@settings(deadline=None, max_examples=60)
@given(draw=st.data())
def test_any_small_search_equals_the_full_matrix(draw):
    # Whole numbers: every product is exact, ties are everywhere.
    dim, n_queries = draw.draw(st.integers(1, 3)), draw.draw(st.integers(1, 4))
    counts = draw.draw(st.lists(st.integers(1, 3), min_size=1, max_size=50))
    rng = np.random.default_rng(draw.draw(st.integers(0, 1000)))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    queries = rng.integers(-1, 2, (n_queries, dim)).astype(np.float32)
    documents = rng.integers(-1, 2, (offsets[-1], dim)).astype(np.float32)
    k, block_bytes = draw.draw(st.integers(1, 60)), draw.draw(st.integers(1, 500))
    check(queries, documents, offsets, k, block_bytes)


@pytest.mark.parametrize("block_bytes", [4, 100, 10_000, 10**9])
@pytest.mark.parametrize("n_queries", [1, 7, 10_000])
def test_blocks_cover_the_documents_within_the_memory(block_bytes, n_queries):
    # One document of 300 vectors among many of one to three.
    counts = np.array([1, 3, 300, 2] + [1, 2, 3] * 100)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    query_rows, blocks = plan(n_queries, offsets, block_bytes)
    assert 1 <= query_rows <= n_queries
    assert [first for first, _ in blocks] == [0, *(last for _, last in blocks[:-1])]
    assert blocks[-1][1] == len(counts)
    for first, last in blocks:
        size = 4 * query_rows * (offsets[last] - offsets[first])
        assert size <= block_bytes or (last == first + 1 and query_rows == 1)


def test_a_large_corpus_is_cut_into_blocks_of_the_stated_memory():
    query_rows, blocks = plan(9000, np.arange(1_000_001), 32 * 1024 * 1024)
    # 32 MiB of float32 for 2,048 queries: 4,096 documents at a time.
    assert query_rows == 2048
    assert blocks[:2] == [(0, 4096), (4096, 8192)]


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")  # each thread sorts for queries of its own
def test_all_are_sorted_or_few_are_looked_at_with_one_result(monkeypatch):
    # A GPU sorts every block of scores; a CPU only looks at what is above a query's last.
    queries, documents, offsets = data(9, n_documents=3000, duplicates=0.1)
    documents = documents[np.argsort(documents @ queries[0])]  # the first query's best come last
    sorted_of = []
    sort = candidates.Candidates._sort
    monkeypatch.setattr(
        candidates.Candidates, "_sort", lambda *a: sorted_of.append(len(a[1])) or sort(*a)
    )
    check(queries, documents, offsets, 10, 40_000)
    assert len(queries) in sorted_of
    assert min(sorted_of) < len(queries)
    monkeypatch.setattr(
        exact, "candidates_on", lambda device, *size: candidates.SortedCandidates(*size, device)
    )
    monkeypatch.setattr(
        rough.RoughScores, "_multiply", lambda self, q, d: rough.inner_products(q, d)
    )
    check(queries, documents, offsets, 10, 40_000)


@pytest.mark.parametrize("n_kept", [1, 5, 40])
@pytest.mark.parametrize("kind", [candidates.Candidates, candidates.SortedCandidates])
def test_candidates_are_the_largest_scores_whatever_comes_when(n_kept, kind):
    import torch

    rng = np.random.default_rng(n_kept)
    scores = np.cumsum(rng.standard_normal((6, 4000)), axis=1).astype(np.float32)  # rising, falling
    collected = kind(6, n_kept)
    first = 0
    while first < 4000:
        last = first + int(rng.integers(1, 300))
        for rows in (slice(0, 4), slice(4, 6)):
            block = torch.from_numpy(scores[rows, first:last].copy())
            collected.add(rows, block, torch.arange(first, min(last, 4000)))
        first = last
    found = collected.result()
    np.testing.assert_array_equal(found.scores, -np.sort(-scores, axis=1)[:, :n_kept])
    np.testing.assert_array_equal(np.take_along_axis(scores, found.documents, axis=1), found.scores)


def test_document_without_vectors_scores_zero():
    queries = np.array([[1, 0]], dtype=np.float32)
    documents = np.array([[-1, 0], [-0.5, 1], [-0.6, 0.8], [0.5, 0]], dtype=np.float32)
    source = ArrayVectors(documents, np.array([0, 0, 2, 3, 3, 4]))
    best = search_vectors(queries, source, k=5)
    assert best.documents.tolist() == [[4, 0, 3, 1, 2]]
    np.testing.assert_array_equal(best.scores, np.float32([[0.5, 0, 0, -0.5, -0.6]]))


def test_only_documents_that_are_candidates_are_read_again():
    queries, documents, offsets = data(10, n_queries=2, n_documents=1000)
    source = Shuffled(documents, offsets)
    search_vectors(queries, source, k=5)
    everything, candidates = source.asked
    assert everything is None
    assert len(candidates) <= 2 * (5 + exact.SPARE)
    assert candidates.tolist() == sorted(set(candidates.tolist()))


@pytest.mark.parametrize("duplicates", [0.0, 0.95])
def test_groups_search_documents_of_their_own(duplicates):
    queries, documents, offsets = data(11, windows=3, duplicates=duplicates)
    groups = Groups.of_sizes([5, 0, 8, 4, 0], [200, 50, 3, 0, 48])
    source = Shuffled(documents, offsets, most=120)
    best = search_vectors(queries, source, k=10, block_bytes=9000, groups=groups)
    assert best.documents.shape == (17, 10)
    for group in range(5):
        rows = slice(*groups.queries[group : group + 2])
        first, last = groups.documents[group : group + 2]
        own = Vectors(documents, offsets).take(np.arange(first, last))
        if last == first:
            assert (best.documents[rows] == -1).all()
            assert np.isneginf(best.scores[rows]).all()
            continue
        places, scores = reference(queries[rows], own.values, own.offsets, 10)
        kept = min(10, last - first)
        np.testing.assert_array_equal(best.documents[rows, :kept], places + first)
        np.testing.assert_array_equal(best.scores[rows, :kept], scores)
        assert (best.documents[rows, kept:] == -1).all()


def test_matrices_are_multiplied_without_tensor_floats(monkeypatch):
    import torch

    true_products, seen = rough.inner_products, []

    def products(*args):
        seen.append(torch.get_float32_matmul_precision())
        return true_products(*args)

    monkeypatch.setattr(rough, "inner_products", products)
    torch.set_float32_matmul_precision("medium")
    try:
        check(*data(12), 3, 10_000)
        assert set(seen) == {"highest"}
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
