import numpy as np
import pytest

from psibench.search.late import (
    SCORE_DECIMALS,
    _blocks,
    _query_blocks,
    search_token_vectors,
)

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
    return np.round(sums, SCORE_DECIMALS).astype(np.float32)


def search(queries, query_offsets, documents, offsets, *, k, block_bytes=2**28, lengths=None):
    blocks = []

    def load(first, last):
        blocks.append((first, last))
        part = documents[offsets[first] : offsets[last]]
        # The store gives (0, 0) where none of the texts has a vector.
        part = part if len(part) else np.empty((0, 0), np.float32)
        return part, offsets[first : last + 1] - offsets[first]

    lengths = np.diff(offsets) if lengths is None else lengths
    best = search_token_vectors(queries, query_offsets, lengths, load, k=k, block_bytes=block_bytes)
    return best, blocks


def check(queries, query_offsets, documents, offsets, *, k, block_bytes):
    best, _ = search(queries, query_offsets, documents, offsets, k=k, block_bytes=block_bytes)
    scores = reference(queries, query_offsets, documents, offsets)
    places = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    order = np.lexsort((places, -scores), axis=1)[:, :k]
    np.testing.assert_array_equal(best.documents, order)
    np.testing.assert_allclose(best.scores, np.take_along_axis(scores, order, axis=1), atol=1e-6)


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
    best, _ = search(queries, np.array([0, 2]), documents, np.array([0, 2]), k=5)
    assert best.documents.tolist() == [[0]]
    assert best.scores[0, 0] == pytest.approx(1.8)


def test_document_of_negative_products_is_below_an_empty_one():
    # Padding must not lift the maximum to 0, as a zero vector would.
    queries = np.array([[1, 0]], dtype=np.float32)
    documents = np.array([[-1, 0], [-0.6, 0.8], [-0.8, 0.6]], dtype=np.float32)
    best, _ = search(queries, np.array([0, 1]), documents, np.array([0, 1, 1, 3]), k=3)
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
    best, _ = search(*queries, np.concatenate(pieces), offsets, k=40, block_bytes=block_bytes)
    for row in range(3):
        evens = list(range(0, 40, 2))
        odds = list(range(1, 40, 2))
        assert best.documents[row].tolist() in (evens + odds, odds + evens)


@pytest.mark.parametrize("block_bytes", BLOCKS)
def test_blocks_do_not_change_the_scores(block_bytes):
    rng = np.random.default_rng(3)
    queries, documents = ragged(rng, [4, 30, 1]), ragged(rng, rng.integers(0, 30, 50))
    whole, _ = search(*queries, *documents, k=50)
    cut, _ = search(*queries, *documents, k=50, block_bytes=block_bytes)
    np.testing.assert_array_equal(cut.documents, whole.documents)
    np.testing.assert_array_equal(cut.scores, whole.scores)


def test_corpus_of_empty_documents_scores_zero_in_the_order_of_ids():
    queries = ragged(np.random.default_rng(4), [2, 3])
    best, _ = search(*queries, np.empty((0, 8), np.float32), np.zeros(4, np.int64), k=2)
    assert best.documents.tolist() == [[0, 1], [0, 1]]
    assert best.scores.tolist() == [[0, 0], [0, 0]]


def test_queries_that_are_all_empty_score_zero():
    documents = ragged(np.random.default_rng(5), [2, 3])
    best, _ = search(np.empty((0, 0), np.float32), np.zeros(3, np.int64), *documents, k=1)
    assert best.documents.tolist() == [[0], [0]]
    assert best.scores.tolist() == [[0], [0]]


@pytest.mark.parametrize(("n_queries", "n_documents"), [(0, 2), (2, 0), (0, 0)])
def test_nothing_to_search_gives_nothing(n_queries, n_documents):
    rng = np.random.default_rng(6)
    best, _ = search(*ragged(rng, [2] * n_queries), *ragged(rng, [3] * n_documents), k=5)
    assert best.documents.shape == (n_queries, 0)


def test_each_document_is_loaded_once_in_blocks_within_the_memory():
    rng = np.random.default_rng(7)
    documents = ragged(rng, rng.integers(1, 30, 200))
    _, blocks = search(*ragged(rng, [3]), *documents, k=5, block_bytes=100_000)
    assert [first for first, _ in blocks] == [0, *(last for _, last in blocks[:-1])]
    assert blocks[-1][1] == 200
    lengths = np.diff(documents[1])
    for first, last in blocks:
        # Padded float32 vectors of 8 dimensions take at most a quarter of the block.
        assert lengths[first:last].max() * (last - first) * 8 * 4 <= 25_000


@pytest.mark.parametrize("block_bytes", [1, 1000, 10**6])
def test_query_blocks_keep_the_token_scores_within_the_memory(block_bytes):
    counts = [3, 0, 0, 50, 1, 2, 0]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    blocks = list(_query_blocks(offsets, (4, 5), block_bytes))
    assert [first for first, _ in blocks] == list(np.cumsum([0, *(n for _, n in blocks)]))[:-1]
    assert sum(n for _, n in blocks) == 7
    for first, count in blocks:
        size = 4 * 4 * 5 * (offsets[first + count] - offsets[first])
        assert size <= block_bytes or count == 1


def test_document_longer_than_a_block_stands_alone():
    assert list(_blocks(np.array([1, 1000, 1]), 8, 4 * 4 * 8 * 10)) == [(0, 1), (1, 2), (2, 3)]


def test_lengths_may_count_tokens_that_have_no_vectors():
    # The encodings table counts special tokens, the store does not keep them.
    rng = np.random.default_rng(8)
    queries, documents = ragged(rng, [4]), ragged(rng, [3, 0, 5])
    more, _ = search(*queries, *documents, k=3, lengths=np.diff(documents[1]) + 2)
    exactly, _ = search(*queries, *documents, k=3)
    np.testing.assert_array_equal(more.scores, exactly.scores)
