import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psibench.search.topk import TopK, top_k_of_row


def reference(scores: np.ndarray, k: int) -> np.ndarray:
    """Sort the whole row: score descending, then place ascending."""
    return np.lexsort((np.arange(len(scores)), -scores))[:k]


@pytest.mark.parametrize(
    ("scores", "k", "expected"),
    [
        ([0.1, 0.9, 0.5], 2, [1, 2]),
        ([0.5, 0.9, 0.5, 0.5], 3, [1, 0, 2]),
        ([1, 1, 1, 1], 2, [0, 1]),
        ([0.0, -0.0, 0.0], 2, [0, 1]),
        ([3, 1], 9, [0, 1]),
        ([7], 1, [0]),
        ([], 3, []),
    ],
)
def test_row_gives_the_largest_first_and_ties_by_place(scores, k, expected):
    assert top_k_of_row(np.array(scores, dtype=np.float32), k).tolist() == expected


few_values = st.sampled_from([-1.0, -0.0, 0.0, 0.25, 0.5, 1.0])  # many ties


@given(scores=st.lists(few_values, min_size=1, max_size=60), k=st.integers(1, 70))
def test_row_equals_a_full_sort(scores, k):
    row = np.array(scores, dtype=np.float32)
    assert top_k_of_row(row, k).tolist() == reference(row, k).tolist()


@given(data=st.data(), k=st.integers(1, 12))
def test_blocks_merge_to_the_sort_of_the_whole(data, k):
    n_queries, n_documents = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 20))
    values = data.draw(
        st.lists(few_values, min_size=n_queries * n_documents, max_size=n_queries * n_documents)
    )
    scores = np.array(values, dtype=np.float32).reshape(n_queries, n_documents)
    width, rows = data.draw(st.integers(1, 21)), data.draw(st.integers(1, 6))
    best = TopK(n_queries, k)
    for first in range(0, n_documents, width):
        for row in range(0, n_queries, rows):
            block = np.ascontiguousarray(scores[row : row + rows, first : first + width])
            best.add(block, first_document=first, first_query=row)
    expected = np.array([reference(row, k) for row in scores])
    np.testing.assert_array_equal(best.documents, expected)
    np.testing.assert_array_equal(best.scores, np.take_along_axis(scores, expected, axis=1))


def test_fewer_documents_than_k_leave_no_unused_places():
    # Two blocks of queries over the same three documents: three places, not six.
    best = TopK(4, 10)
    for row in (0, 2):
        best.add(np.ones((2, 3), np.float32), first_document=0, first_query=row)
    assert best.documents.tolist() == [[0, 1, 2]] * 4


def test_nothing_added_gives_no_columns():
    assert TopK(3, 10).documents.shape == (3, 0)
