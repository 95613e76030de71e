import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psibench.search import exact
from psibench.search.exact import _plan, search_vectors

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


def check(queries, documents, offsets, k, block_bytes):
    best = search_vectors(queries, documents, offsets, k=k, block_bytes=block_bytes)
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
    queries, documents, offsets = data(4)
    documents[:] = documents[0]
    best = search_vectors(queries, documents, offsets, k=7, block_bytes=block_bytes)
    assert best.documents.tolist() == [list(range(7))] * 17
    assert (best.scores == best.scores[:, :1]).all()


def test_rounding_of_the_blocks_cannot_keep_a_better_document_out(monkeypatch):
    # Blocks that round to one hundredth: all differences within a hundredth are lost in them.
    true_products = exact._inner_products
    monkeypatch.setattr(exact, "_inner_products", lambda q, d: np.round(true_products(q, d), 2))
    monkeypatch.setattr(exact, "_rounding", lambda q, d: np.full(len(q), 0.0051))
    check(*data(5, n_documents=2000), 5, 10_000)


@pytest.mark.parametrize(("n_queries", "n_documents"), [(1, 1), (1, 50), (9, 1), (5000, 3)])
def test_single_documents_and_queries(n_queries, n_documents):
    check(*data(6, n_queries=n_queries, n_documents=n_documents, dim=8), 10, 2**20)


@pytest.mark.parametrize("rescore_bytes", [1, 1000])
def test_scores_do_not_depend_on_the_memory_of_rescoring(monkeypatch, rescore_bytes):
    monkeypatch.setattr(exact, "RESCORE_BYTES", rescore_bytes)
    check(*data(7, windows=4, duplicates=0.5), 10, 10_000)


def test_scores_of_a_query_do_not_depend_on_the_other_queries():
    queries, documents, offsets = data(8, duplicates=0.3)
    together = search_vectors(queries, documents, offsets, k=10)
    for row in range(len(queries)):
        alone = search_vectors(queries[row : row + 1], documents, offsets, k=10)
        np.testing.assert_array_equal(alone.documents[0], together.documents[row])
        np.testing.assert_array_equal(alone.scores[0], together.scores[row])


@pytest.mark.parametrize(("n_queries", "n_documents"), [(0, 3), (3, 0), (0, 0)])
def test_nothing_to_search_gives_nothing(n_queries, n_documents):
    best = search_vectors(
        np.zeros((n_queries, 4), np.float32),
        np.zeros((n_documents, 4 if n_documents else 0), np.float32),
        np.arange(n_documents + 1),
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
    query_rows, blocks = _plan(n_queries, offsets, block_bytes)
    assert 1 <= query_rows <= n_queries
    assert [first for first, _ in blocks] == [0, *(last for _, last in blocks[:-1])]
    assert blocks[-1][1] == len(counts)
    for first, last in blocks:
        size = 4 * query_rows * (offsets[last] - offsets[first])
        assert size <= block_bytes or (last == first + 1 and query_rows == 1)


def test_a_large_corpus_is_cut_into_blocks_of_the_stated_memory():
    query_rows, blocks = _plan(2048, np.arange(1_000_001), 256 * 1024 * 1024)
    # 256 MiB of float32 for 2,048 queries: 32,768 documents at a time.
    assert query_rows == 2048
    assert blocks[:2] == [(0, 32_768), (32_768, 65_536)]
