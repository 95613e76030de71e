import tracemalloc

import numpy as np
import pytest
import torch

from psibench.search.late import MaxSim, search_token_vectors
from psibench.search.vectors import ArrayVectors, Groups, Vectors

BLOCKS = [1, 3000, 100_000, 256 * 1024 * 1024]


def ragged(rng, counts, dim=8):
    rows = rng.standard_normal((sum(counts), dim))
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return rows.astype(np.float32), np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def reference(queries, query_offsets, documents, offsets) -> np.ndarray:
    """Pad both sides, mask with -inf before the maximum and with 0 before the sum."""
    n_queries, n_documents = len(query_offsets) - 1, len(offsets) - 1
    longest = [int(np.diff(o).max(initial=1)) or 1 for o in (query_offsets, offsets)]
    products = np.full((n_queries, n_documents, *longest), -np.inf)
    for q in range(n_queries):
        a = queries[query_offsets[q] : query_offsets[q + 1]].astype(np.float64)
        for d in range(n_documents):
            b = documents[offsets[d] : offsets[d + 1]].astype(np.float64)
            products[q, d, : len(a), : len(b)] = a @ b.T
    best = products.max(axis=3)
    sums = np.where(np.isneginf(best), 0.0, best).sum(axis=2)
    return sums.astype(np.float32)


class Shuffled:
    """A corpus that gives its documents in a mixed order, in blocks of its own."""

    def __init__(self, documents, offsets, seed):
        self.whole, self.n_documents, self.seed = (
            Vectors(documents, offsets),
            len(offsets) - 1,
            seed,
        )

    def blocks(self, block_bytes):
        rng = np.random.default_rng(self.seed)
        left = rng.permutation(self.n_documents)
        while len(left):
            numbers, left = np.split(left, [int(rng.integers(1, 30))])
            yield numbers, self.whole.take(numbers)


def search(queries, query_offsets, documents, offsets, *, seed=None, **options):
    # The store gives (0, 0) where none of the texts has a vector.
    documents = documents if len(documents) else np.empty((0, 0), np.float32)
    source = ArrayVectors(documents, offsets)
    if seed is not None:
        source = Shuffled(documents, offsets, seed)
    return search_token_vectors(Vectors(queries, query_offsets), source, **options)


def check(queries, query_offsets, documents, offsets, *, k, block_bytes):
    scores = reference(queries, query_offsets, documents, offsets)
    places = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    order = np.lexsort((places, -scores), axis=1)[:, :k]
    for seed in (None, 1, 2):
        best = search(
            queries, query_offsets, documents, offsets, k=k, block_bytes=block_bytes, seed=seed
        )
        np.testing.assert_array_equal(best.documents, order)
        np.testing.assert_allclose(
            best.scores, np.take_along_axis(scores, order, axis=1), atol=1e-6
        )


@pytest.mark.parametrize("block_bytes", BLOCKS)
@pytest.mark.parametrize("k", [1, 10, 100])
def test_search_equals_the_masked_reference_on_ragged_inputs(block_bytes, k):
    rng = np.random.default_rng(1)
    queries = ragged(rng, [3, 0, 7, 1, 12, 0])
    documents = ragged(rng, [0, *rng.integers(0, 20, 60), 0, 0])
    check(*queries, *documents, k=k, block_bytes=block_bytes)


def test_score_worked_out_by_hand():
    # Query tokens (1, 0) and (0, 1); document tokens (0.6, 0.8) and (1, 0): 1 + 0.8.
    queries = np.eye(2, dtype=np.float32)
    documents = np.array([[0.6, 0.8], [1, 0]], dtype=np.float32)
    best = search(queries, np.array([0, 2]), documents, np.array([0, 2]), k=5)
    assert best.documents.tolist() == [[0]]
    assert best.scores[0, 0] == pytest.approx(1.8)


def test_document_of_negative_products_is_below_an_empty_one():
    # Padding must not lift the maximum to 0, as a zero vector would.
    queries = np.array([[1, 0]], dtype=np.float32)
    documents = np.array([[-1, 0], [-0.6, 0.8], [-0.8, 0.6]], dtype=np.float32)
    best = search(queries, np.array([0, 1]), documents, np.array([0, 1, 1, 3]), k=3)
    assert best.documents.tolist() == [[1, 2, 0]]
    np.testing.assert_allclose(best.scores, [[0.0, -0.6, -1.0]], atol=1e-7)


@pytest.mark.parametrize("block_bytes", BLOCKS)
def test_equal_documents_tie_by_id_in_whatever_blocks_they_stand(block_bytes):
    rng = np.random.default_rng(2)
    queries = ragged(rng, [5, 9, 2], dim=24)
    one, _ = ragged(rng, [7], dim=24)
    other, _ = ragged(rng, [11], dim=24)
    pieces = [one, other] * 20
    offsets = np.concatenate([[0], np.cumsum([len(p) for p in pieces])])
    best = search(*queries, np.concatenate(pieces), offsets, k=40, block_bytes=block_bytes)
    for row in range(3):
        evens = list(range(0, 40, 2))
        odds = list(range(1, 40, 2))
        assert best.documents[row].tolist() in (evens + odds, odds + evens)


@pytest.mark.parametrize("block_bytes", BLOCKS)
def test_blocks_do_not_change_the_scores(block_bytes):
    rng = np.random.default_rng(3)
    queries, documents = ragged(rng, [4, 30, 1]), ragged(rng, rng.integers(0, 30, 50))
    whole = search(*queries, *documents, k=50)
    cut = search(*queries, *documents, k=50, block_bytes=block_bytes)
    np.testing.assert_array_equal(cut.documents, whole.documents)
    np.testing.assert_array_equal(cut.scores, whole.scores)


def test_corpus_of_empty_documents_scores_zero_in_the_order_of_ids():
    queries = ragged(np.random.default_rng(4), [2, 3])
    best = search(*queries, np.empty((0, 8), np.float32), np.zeros(4, np.int64), k=2)
    assert best.documents.tolist() == [[0, 1], [0, 1]]
    assert best.scores.tolist() == [[0, 0], [0, 0]]


def test_queries_that_are_all_empty_score_zero():
    documents = ragged(np.random.default_rng(5), [2, 3])
    best = search(np.empty((0, 0), np.float32), np.zeros(3, np.int64), *documents, k=1)
    assert best.documents.tolist() == [[0], [0]]
    assert best.scores.tolist() == [[0], [0]]


@pytest.mark.parametrize(("n_queries", "n_documents"), [(0, 2), (2, 0), (0, 0)])
def test_nothing_to_search_gives_nothing(n_queries, n_documents):
    rng = np.random.default_rng(6)
    best = search(*ragged(rng, [2] * n_queries), *ragged(rng, [3] * n_documents), k=5)
    assert best.documents.shape == (n_queries, 0)


def test_mean_divides_by_the_tokens_of_the_query():
    queries = ragged(np.random.default_rng(9), [3, 0, 7, 1])
    documents = ragged(np.random.default_rng(10), [4, 9, 0])
    total, mean = search(*queries, *documents, k=3), search(*queries, *documents, k=3, mean=True)
    np.testing.assert_array_equal(mean.documents, total.documents)
    tokens = np.array([[3], [1], [7], [1]])
    np.testing.assert_allclose(mean.scores, total.scores / tokens, rtol=1e-6)
    assert mean.scores[1].tolist() == [0, 0, 0]
    assert 0 < mean.scores[0, 0] < 1


def test_groups_search_documents_of_their_own():
    queries = ragged(np.random.default_rng(11), [3, 0, 7, 2, 4])
    documents = ragged(np.random.default_rng(12), [4, 9, 0, 5, 5, 1, 8])
    groups = Groups.of_sizes([2, 0, 3], [4, 1, 2])
    best = search(*queries, *documents, k=3, groups=groups, seed=5)
    scores = reference(*queries, *documents)
    for row, (first, last) in enumerate([(0, 4), (0, 4), (5, 7), (5, 7), (5, 7)]):
        own = scores[row, first:last]
        order = np.lexsort((np.arange(len(own)), -own))[:3]
        kept = len(order)
        assert best.documents[row].tolist() == (order + first).tolist() + [-1] * (3 - kept)
        np.testing.assert_allclose(best.scores[row, :kept], own[order], atol=1e-6)


@pytest.mark.parametrize("block_bytes", BLOCKS)
def test_hundreds_of_equal_documents_at_the_last_place_keep_the_smallest_ids(block_bytes):
    # Far more ties than the search keeps in spare.
    queries = ragged(np.random.default_rng(14), [5, 9, 2])
    values, offsets = ragged(np.random.default_rng(15), [3] * 200)
    values.reshape(200, 3, 8)[5::2] = values[9:12]
    check(*queries, values, offsets, k=10, block_bytes=block_bytes)


def test_mean_makes_no_ties():
    # Sums 1e-4 apart, which a mean over 32 tokens rounded to four decimals would not tell apart.
    queries = np.tile(np.eye(1, 4, dtype=np.float32), (32, 1))
    documents = np.zeros((3, 4), np.float32)
    documents[:, 0] = [0.5, 0.5 + 1e-5, 0.5 - 1e-5]
    best = search(queries, np.array([0, 32]), documents, np.arange(4), k=3, mean=True)
    assert best.documents.tolist() == [[1, 0, 2]]
    assert len(set(best.scores[0].tolist())) == 3
    np.testing.assert_allclose(best.scores[0], documents[[1, 0, 2], 0], rtol=1e-6)


@pytest.mark.parametrize("block_bytes", BLOCKS)
def test_scores_closer_than_the_rounding_of_a_block_are_told_apart(block_bytes):
    # As for one vector a text: a product near 1e6 that cancels, and small differences.
    rng = np.random.default_rng(16)
    query_offsets, offsets = np.array([0, 3, 5, 12]), np.cumsum([0, *rng.integers(0, 4, 300)])
    asked = rng.integers(-9, 10, (12, 6))
    queries = np.concatenate([np.full((12, 1), 1000), asked, np.full((12, 1), -1000)], axis=1)
    large = rng.integers(1000, 1100, (offsets[-1], 1))
    small = rng.integers(-9, 10, (offsets[-1], 6)) / 1024
    documents = np.concatenate([large, small, large], axis=1)
    sides = [np.float32(queries), query_offsets, np.float32(documents), offsets]
    check(*sides, k=5, block_bytes=block_bytes)


def test_products_stay_within_the_memory():
    # All products of 2,000 query tokens with 15,000 document tokens would be 120 MB.
    queries = ragged(np.random.default_rng(17), [20] * 100)
    documents = ragged(np.random.default_rng(18), [30] * 500)
    tracemalloc.start()
    search(*queries, *documents, k=3, block_bytes=2**20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * 2**20


def test_scores_of_short_documents_stay_within_the_memory():
    rng = np.random.default_rng(19)
    similarity, block = (
        MaxSim(Vectors(*ragged(rng, [1] * 50)), "cpu"),
        Vectors(*ragged(rng, [1] * 999)),
    )
    scores = similarity.block_scores(slice(0, 50), block, torch.from_numpy(block.values), 5000)
    assert [each.shape for each in scores] == [(100, 50)] * 9 + [(99, 50)]
