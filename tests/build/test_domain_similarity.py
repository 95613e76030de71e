import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psibench.metrics.similarity import DomainMeans, cosine_matrix, similarity_rows


def test_a_document_counts_once_however_many_vectors_it_has():
    means = DomainMeans(2)
    vectors = np.array([[1.0, 0.0], [0.0, 2.0], [4.0, 0.0], [3.0, 3.0]], np.float32)
    # domain 0: one document of vectors 0 to 2 with mean (5/3, 2/3), one of none; domain 1: (3, 3)
    means.add(vectors, np.array([3, 0, 1]), np.array([0, 0, 1]))
    means.add(np.array([[1.0, 0.0]], np.float32), np.array([1]), np.array([0]))
    assert means.means[0] == pytest.approx([(5 / 3 + 1) / 2, 1 / 3])
    assert means.means[1].tolist() == [3.0, 3.0]


def test_cosines_are_of_the_means_and_undefined_without_documents():
    means = DomainMeans(3)
    means.add(np.array([[2.0, 0.0], [1.0, 1.0]], np.float32), np.array([1, 1]), np.array([0, 1]))
    cosines = cosine_matrix(means.means)
    assert cosines[0, 1] == cosines[1, 0] == pytest.approx(0.5**0.5)
    rows = similarity_rows(["a", "b", "c"], cosines)
    assert rows.height == 9
    assert rows.filter(domain_a="a", domain_b="a")["cosine"].to_list() == [1.0]
    assert rows.filter(domain_b="c")["cosine"].to_list() == [None] * 3


def test_nothing_added_gives_undefined_cosines():
    assert np.isnan(cosine_matrix(DomainMeans(2).means)).all()


@given(st.lists(st.integers(1, 3), min_size=1, max_size=12), st.integers(1, 11), st.integers())
def test_means_do_not_depend_on_the_blocks(counts, cut, seed):
    rng = np.random.default_rng(abs(seed))
    counts, cut = np.array(counts), min(cut, len(counts))
    vectors = rng.standard_normal((counts.sum(), 3)).astype(np.float32)
    domains = rng.integers(0, 2, len(counts))
    whole, parts = DomainMeans(2), DomainMeans(2)
    whole.add(vectors, counts, domains)
    n_first = counts[:cut].sum()
    parts.add(vectors[:n_first], counts[:cut], domains[:cut])
    parts.add(vectors[n_first:], counts[cut:], domains[cut:])
    assert np.allclose(whole.means, parts.means, equal_nan=True)
