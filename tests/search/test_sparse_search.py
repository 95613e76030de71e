"""Search with learned sparse vectors is the product of the two matrices, whatever the blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psibench.search.sparse import as_matrix, search_sparse_vectors
from psibench.store.vectors import Vectors, as_rows

N_TERMS = 3000  # more than the 2,048 that one float16 counts to


def stored(weights):
    """Vectors as the store gives them."""
    rows = as_rows(np.asarray(weights, dtype=np.float32))
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in rows])])
    return Vectors(np.concatenate([*rows, np.empty((0, 3), np.float32)]), offsets)


def random_weights(seed, n_texts):
    """Integer weights, mostly 0, so that scores tie."""
    made = np.random.default_rng(seed)
    weights = made.integers(1, 4, (n_texts, N_TERMS)) * (made.random((n_texts, N_TERMS)) < 0.005)
    return weights.astype(np.float32)


def test_terms_survive_the_store_in_either_format():
    weights = np.zeros((2, N_TERMS), np.float32)
    weights[0, [0, 1023, 1024, 2999]] = [1, 0.5, 2, 0.25]
    rows = as_rows(weights)
    assert rows[0].tolist() == [[0, 0, 1], [0, 1023, 0.5], [1, 0, 2], [2, 951, 0.25]]
    assert rows[1].shape == (0, 3)
    for kept in (rows[0], rows[0].astype(np.float16).astype(np.float32)):
        matrix = as_matrix(Vectors(kept, np.array([0, 4])), N_TERMS)
        np.testing.assert_array_equal(matrix.toarray(), weights[:1])


def expected(queries, documents, k):
    """The best documents of a query that share a term with it, by score and number."""
    scores = queries.astype(np.float64) @ documents.astype(np.float64).T
    best = [sorted((-one, d) for d, one in enumerate(row) if one > 0)[:k] for row in scores]
    return [[(d, -score) for score, d in row] for row in best]


@given(seed=st.integers(0, 10_000), block_bytes=st.sampled_from([1, 2_000, 1 << 20]))
def test_best_documents_do_not_depend_on_blocks(seed, block_bytes):
    queries, documents = random_weights(seed, 7), random_weights(seed + 1, 40)
    documents[5] = documents[6] = documents[30]  # ties
    source = stored(documents)
    best = search_sparse_vectors(stored(queries), source, k=4, block_bytes=block_bytes)
    found = [
        [(d, score) for d, score in zip(*row, strict=True) if d >= 0]
        for row in zip(best.documents, best.scores, strict=True)
    ]
    assert found == expected(queries, documents, 4)


def test_documents_without_a_shared_term_are_not_ranked():
    queries, documents = np.zeros((2, 8)), np.zeros((3, 8))
    queries[0, 2], documents[0, 2], documents[1, 3] = 1, 2, 5
    best = search_sparse_vectors(stored(queries), stored(documents), k=3)
    assert best.documents.tolist() == [[0, -1, -1], [-1, -1, -1]]
    assert best.scores[0, 0] == pytest.approx(2)
