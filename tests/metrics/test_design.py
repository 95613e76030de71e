"""The smallest PSI a design finds: a textbook sample size, and the test itself on such data."""

import numpy as np
import pytest

from psibench.metrics.comparison import compare_profiles
from psibench.metrics.design import evenly_spread, smallest_psi, smallest_psi_text
from psibench.metrics.inference import DocumentTable, document_table, within_documents


def table_of(counts: np.ndarray, units: np.ndarray | None = None) -> DocumentTable:
    """Queries by document and bucket, whatever they score."""
    return DocumentTable(counts, counts, np.arange(counts.shape[1]), 0.0, 1.0, units)


def test_two_buckets_by_hand():
    # Noncentrality for .8 at .05 / 1.5: 10.73. 400 documents of two queries: sum of squares of
    # c = 0, 1 about 1/2 is 200. Loss sqrt(10.73 * .66 * .25 * .8 / 200) = .0841, of .5 + .0841 / 2.
    found = smallest_psi(table_of(np.ones((400, 2))), mean=0.5)
    assert found == pytest.approx(0.0841 / (0.5 + 0.0841 / 2), rel=0.02)


def test_varying_cluster_slopes_limit_the_smallest_psi():
    # 20 clusters of 50,000 queries: only the slopes' error is left, .1 of the mean / sqrt(20). F(2,
    # 18) needs a noncentrality of 13.5: loss .1 sqrt(13.5 / 20) = .082 of the mean, of 1 + .041.
    table = table_of(np.ones((20, 2)) * 25_000, units=np.arange(20))
    many = table_of(np.ones((40, 2)) * 12_500, units=np.arange(40) // 2)
    assert smallest_psi(table, slope_sd=0.1) is None  # 20 documents
    assert smallest_psi(many, slope_sd=0.1) == pytest.approx(0.082 / 1.041, rel=0.03)
    assert smallest_psi(many, slope_sd=0.0) < 0.03


def test_a_weaker_control_needs_a_larger_psi():
    table = table_of(np.ones((400, 3)))
    alone, *beyond = (smallest_psi(table, control_mean=mean) for mean in (None, 0.5, 0.4, 0.3))
    assert alone < beyond[0] < beyond[1] < beyond[2]


def test_no_psi_that_the_mean_allows_is_found():
    # The best place finds all at most: with a mean of .97 the last of three loses .06 at most.
    assert smallest_psi(table_of(np.ones((40, 3))), mean=0.97, control_mean=0.7) is None


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


@pytest.mark.parametrize("control_mean", [None, 0.45])
def test_what_is_planned_with_is_found_about_as_often(control_mean):
    psi = smallest_psi(
        table_of(np.ones((400, 3))), mean=0.6, correlation=0.0, control_mean=control_mean
    )
    rng = np.random.default_rng(1)
    documents, buckets = np.repeat(np.arange(400), 3), np.tile(np.arange(3), 400)
    expected = 0.6 / (1 - psi / 2) * (1 - psi * buckets / 2)
    index = np.arange(1200)

    def draw(means):  # variance .66 mean (1 - mean), like nDCG@10's
        weight = 1 / 0.66 - 1
        return rng.beta(means * weight, (1 - means) * weight)

    found = 0
    for _ in range(150):
        scores = draw(expected)
        table = document_table(scores, documents, index, buckets, n_buckets=3)
        p = [within_documents(table).p]
        if control_mean is not None:
            control = draw(np.full(1200, control_mean))
            placed = (documents, index, buckets, np.ones(1200), np.ones(1200))
            p.append(compare_profiles(scores, control, *placed).p)
        found += max(p) <= 0.05
    assert 0.7 < found / 150 < 0.92


def test_the_text_has_the_psi_and_its_assumptions():
    said = smallest_psi_text(table_of(np.ones((400, 3))))
    psi = smallest_psi(table_of(np.ones((400, 3))), control_mean=0.45)
    assert f"; for a PSI of {psi:.2f} the verdict is “sensitive to position” in about 8" in said
    assert "mean 0.6" in said
    assert "control of mean 0.45" in said
    assert "slopes" not in said
    clusters = table_of(np.ones((400, 3)), units=np.arange(400) // 20)
    assert "clusters' slopes vary by 0.05 of the mean" in smallest_psi_text(clusters)


def test_queries_are_dealt_evenly_to_documents_and_buckets():
    assert evenly_spread(7, 3).counts.tolist() == [[1, 1, 1], [0, 1, 1], [1, 0, 1]]
    assert evenly_spread(6, 3, n_held=1).counts.tolist() == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]
    left = evenly_spread(300, 200, n_candidates=600).counts
    assert left.sum() == 300
    assert left.max() == 1  # a candidate at most in each third
    assert len(set(left.sum(axis=1))) == 3  # one, two or three of a document are left
