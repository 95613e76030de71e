import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from psibench.errors import InputError
from psibench.search.exact import search_vectors
from psibench.store.vectors import Vectors

BLOCKS = [1, 4 * 3, 20_000, 256 * 1024 * 1024]


def unit(rng, counts, dim=24):
    """Random vectors of length 1, so many of each text."""
    rows = rng.standard_normal((sum(counts), dim))
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return Vectors(rows.astype(np.float32), np.cumsum([0, *counts]))


def full_matrix(queries, documents):
    """The sum over a query's vectors of the best product in float64."""
    scores = np.zeros((len(queries.counts), len(documents.counts)))
    for q, d in np.ndindex(scores.shape):
        one, other = (
            each.values[each.offsets[i] : each.offsets[i + 1]].astype(np.float64)
            for each, i in ((queries, q), (documents, d))
        )
        if len(one) and len(other):
            scores[q, d] = (one @ other.T).max(axis=1).sum()
    return scores


class Shuffled:
    """A corpus that yields its documents in random order and blocks."""

    def __init__(self, documents, *, seed=0, most=40):
        self.whole, self.n_documents = documents, len(documents.counts)
        self.is_single = documents.is_single
        self.rng, self.most = np.random.default_rng(seed), most

    def blocks(self, block_bytes):
        left = self.rng.permutation(self.n_documents)
        while len(left):
            numbers, left = np.split(left, [int(self.rng.integers(1, self.most + 1))])
            yield numbers, self.whole.take(numbers)


def check(queries, documents, k, block_bytes):
    """Scores equal the full matrix, best first; ties are in order of numbers."""
    scores = full_matrix(queries, documents)
    expected = -np.sort(-scores, axis=1)[:, :k]
    for source in (documents, Shuffled(documents, seed=k)):
        best = search_vectors(queries, source, k=k, block_bytes=block_bytes)
        assert (best.documents.dtype, best.scores.dtype) == (np.int64, np.float32)
        np.testing.assert_allclose(best.scores, expected, rtol=1e-5, atol=2e-6)
        own = np.take_along_axis(scores, best.documents, axis=1)
        np.testing.assert_allclose(own, expected, atol=2e-6)
        for found, of_row in zip(best.documents, best.scores, strict=True):
            assert len(set(found)) == len(found)
            np.testing.assert_array_equal(np.lexsort((found, -of_row)), range(len(found)))


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("block_bytes", BLOCKS)
@pytest.mark.parametrize(
    ("asked", "most", "k"), [(1, 1, 10), (1, 1, 1000), (1, 6, 10), (12, 19, 1), (12, 19, 100)]
)
def test_search_equals_the_full_matrix_sorted(block_bytes, asked, most, k):
    """Single vectors, the best window of a document, the best token for each of the query's."""
    rng = np.random.default_rng(1)
    queries = unit(rng, rng.integers(asked > 1, asked + 1, 17))
    check(queries, unit(rng, rng.integers(most > 1, most + 1, 301)), k, block_bytes)


@settings(deadline=None, max_examples=100)
@given(draw=st.data())
def test_any_small_search_equals_the_full_matrix(draw):
    # Whole numbers: ties are everywhere. Texts have up to 3 vectors.
    dim, rng = draw.draw(st.integers(1, 3)), np.random.default_rng(draw.draw(st.integers(0, 1000)))
    n_queries, n_documents = draw.draw(st.integers(1, 8)), draw.draw(st.integers(1, 60))
    most = draw.draw(st.integers(1, 3))
    queries, documents = (
        Vectors(rng.integers(-1, 2, (sum(counts), dim)).astype(np.float32), np.cumsum([0, *counts]))
        for counts in (
            rng.integers(most > 1, most, n_queries, endpoint=True),
            rng.integers(0, 4, n_documents),
        )
    )
    k, block_bytes = draw.draw(st.integers(1, 60)), draw.draw(st.integers(1, 2000))
    check(queries, documents, k, block_bytes)


@pytest.mark.parametrize("block_bytes", BLOCKS)
@pytest.mark.parametrize(("asked", "windows"), [(1, 1), (1, 3), (5, 7)])
def test_equal_documents_tie_by_number_across_blocks(block_bytes, asked, windows):
    # Each of 60 texts five times. Odd sizes: products of equal vectors are not always equal.
    rng = np.random.default_rng(4)
    queries, texts = unit(rng, [asked] * 9, 37), unit(rng, rng.integers(1, windows + 1, 60), 37)
    copy_of = rng.permutation(np.arange(300) % 60)
    documents = texts.take(copy_of)
    alone = full_matrix(queries, texts)
    assert np.diff(np.sort(alone, axis=1)).min() > 1e-6
    expected = np.lexsort((np.broadcast_to(np.arange(300), (9, 300)), -alone[:, copy_of]), axis=1)
    for source in (documents, Shuffled(documents)):
        best = search_vectors(queries, source, k=31, block_bytes=block_bytes)
        np.testing.assert_array_equal(best.documents, expected[:, :31])


def test_score_worked_out_by_hand():
    # Query tokens (1, 0) and (0, 1); document tokens (0.6, 0.8) and (1, 0): 1 + 0.8.
    queries = Vectors(np.eye(2, dtype=np.float32), np.array([0, 2]))
    documents = Vectors(np.array([[0.6, 0.8], [1, 0]], np.float32), np.array([0, 2]))
    for mean, score in ((False, 1.8), (True, 0.9)):
        best = search_vectors(queries, documents, k=5, mean=mean)
        assert best.documents.tolist() == [[0]]
        assert best.scores[0, 0] == pytest.approx(score)


@pytest.mark.parametrize("n_tokens", [1, 2])
def test_document_without_vectors_scores_zero(n_tokens):
    # Padding must not lift the maximum of negative products to 0.
    queries = Vectors(np.tile(np.float32([[1, 0]]), (n_tokens, 1)), np.array([0, n_tokens]))
    documents = np.array([[-1, 0], [-0.5, 1], [-0.6, 0.8], [0.5, 0]], dtype=np.float32)
    best = search_vectors(queries, Vectors(documents, np.array([0, 0, 2, 3, 3, 4])), k=5)
    assert best.documents.tolist() == [[4, 0, 3, 1, 2]]
    np.testing.assert_array_equal(best.scores, n_tokens * np.float32([[0.5, 0, 0, -0.5, -0.6]]))


@pytest.mark.parametrize(("n_queries", "n_documents"), [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("tokens", [1, 3])
def test_nothing_to_search_gives_nothing(n_queries, n_documents, tokens):
    rng = np.random.default_rng(7)
    documents = unit(rng, [tokens] * n_documents)
    best = search_vectors(unit(rng, [tokens] * n_queries), documents, k=5)
    assert best.documents.shape == (n_queries, n_documents)


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("side", ["query", "document"])
def test_vectors_that_are_not_finite_are_refused(four_threads, side, number):
    queries, documents = (unit(np.random.default_rng(9), [1] * 20).values for _ in range(2))
    (queries if side == "query" else documents)[3, 5] = number
    with pytest.raises(InputError, match=f"a vector of a {side} is not finite"):
        search_vectors(queries, documents, k=5)
    assert torch.get_num_threads() == 4


@pytest.mark.parametrize("tokens", [1, 3])
def test_number_of_threads_changes_no_ranking(four_threads, tokens):
    rng = np.random.default_rng(11)
    check(unit(rng, [tokens] * 22), unit(rng, rng.integers(1, 3, 300)), 10, 9000)


@pytest.mark.parametrize(("tokens", "n_documents"), [(20, 500), (2, 20_000)])
def test_products_and_scores_stay_within_the_memory(four_threads, tokens, n_documents):
    # All products of the queries' tokens with the documents' would be 80 and 320 MB.
    rng = np.random.default_rng(12)
    queries, documents = unit(rng, [tokens] * (2000 // tokens)), unit(rng, [tokens] * n_documents)
    tracemalloc.start()
    search_vectors(queries, documents, k=3, block_bytes=2**20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * 2**20


def test_search_of_single_vectors_does_not_import_torch():
    code = (
        "import sys; import numpy as np; from psibench.search.exact import search_vectors; "
        "found = search_vectors(*np.eye(3, dtype=np.float32)[None].repeat(2, 0), k=1); "
        "assert found.documents.tolist() == [[0], [1], [2]]; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("tokens", [1, 5])
def test_gpu_returns_the_same_documents(tokens):
    rng = np.random.default_rng(13)
    queries, documents = unit(rng, [tokens] * 17), unit(rng, rng.integers(1, 3, 5000))
    found = [search_vectors(queries, documents, k=10, device=device) for device in ("cpu", "cuda")]
    np.testing.assert_array_equal(found[0].documents, found[1].documents)
    np.testing.assert_allclose(found[0].scores, found[1].scores, atol=1e-6)
