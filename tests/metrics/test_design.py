"""The smallest PSI a design finds: a textbook sample size, and the test itself on such data."""

import numpy as np
import pytest

from psibench.metrics.design import evenly_spread, smallest_psi
from psibench.metrics.inference import DocumentTable, document_table, within_documents


def table_of(counts: np.ndarray) -> DocumentTable:
    """Queries by document and bucket, whatever they score."""
    return DocumentTable(counts, counts, np.arange(counts.shape[1]), 0.0, 1.0)


def test_two_buckets_by_hand():
    # Noncentrality for .8 at .05 / 1.5: 10.73. 400 documents of two queries: sum of squares of
    # c = 0, 1 about 1/2 is 200. Loss sqrt(10.73 * .85 * .25 * .8 / 200) = .0955, of .5 + .0955 / 2.
    found = smallest_psi(table_of(np.ones((400, 2))), mean=0.5)
    assert found == pytest.approx(0.0955 / (0.5 + 0.0955 / 2), rel=0.01)


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param(np.eye(3)[np.arange(300) % 3] * 4, id="one bucket a document"),
        pytest.param(np.ones((40, 1)), id="one bucket"),
        pytest.param(np.ones((29, 3)), id="29 documents"),
    ],
)
def test_a_design_that_finds_nothing_says_so(counts):
    assert smallest_psi(table_of(counts)) is None


def test_the_headline_test_finds_it_about_as_often():
    counts = np.ones((400, 3))
    psi = smallest_psi(table_of(counts), mean=0.6, correlation=0.0)
    rng = np.random.default_rng(1)
    documents, buckets = np.repeat(np.arange(400), 3), np.tile(np.arange(3), 400)
    levels = 0.6 / (1 - psi / 2) * (1 - psi * buckets / 2)
    found = 0
    for _ in range(150):
        scores = np.where(rng.random(1200) < levels, 1.0, 0.0)
        table = document_table(scores, documents, np.arange(1200), buckets, n_buckets=3)
        found += within_documents(table).p <= 0.05
    assert 0.6 < found / 150 < 0.95


def test_queries_are_dealt_out_to_documents_and_those_of_one_to_its_buckets():
    assert evenly_spread(7, 3).counts.tolist() == [[1, 1, 1], [0, 1, 1], [1, 0, 1]]
    assert evenly_spread(6, 3, n_held=1).counts.tolist() == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]
    left = evenly_spread(300, 200, n_candidates=600).counts
    assert left.sum() == 300
    assert left.max() == 1  # a candidate at most in each third
    assert len(set(left.sum(axis=1))) == 3  # one, two or three of a document are left
