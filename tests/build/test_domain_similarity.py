import numpy as np
import pytest

from psibench.metrics.similarity import cosine_matrix, domain_means, similarity_rows


def test_a_document_counts_once_however_many_vectors_it_has():
    vectors = np.array([[1.0, 0.0], [0.0, 2.0], [4.0, 0.0], [3.0, 3.0]], np.float32)
    # domain 0: one document of vectors 0 to 2 with mean (5/3, 2/3), one of none; domain 1: (3, 3)
    first = (vectors, np.array([3, 0, 1]), np.array([0, 0, 1]))
    second = (np.array([[1.0, 0.0]], np.float32), np.array([1]), np.array([0]))
    means = domain_means([first, second], 2)
    assert means[0] == pytest.approx([(5 / 3 + 1) / 2, 1 / 3])
    assert means[1].tolist() == [3.0, 3.0]


def test_cosines_are_of_the_means_and_undefined_without_documents():
    vectors = np.array([[2.0, 0.0], [1.0, 1.0]], np.float32)
    cosines = cosine_matrix(domain_means([(vectors, np.array([1, 1]), np.array([0, 1]))], 3))
    assert cosines[0, 1] == cosines[1, 0] == pytest.approx(0.5**0.5)
    rows = similarity_rows(["a", "b", "c"], cosines)
    assert rows.height == 9
    assert rows.filter(domain_a="a", domain_b="a")["cosine"].to_list() == [1.0]
    assert rows.filter(domain_b="c")["cosine"].to_list() == [None] * 3
    assert np.isnan(cosine_matrix(domain_means([], 2))).all()
