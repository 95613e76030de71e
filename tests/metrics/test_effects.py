"""What truncated evidence costs, and ratios of sums, with documents as units."""

import numpy as np
import pytest

from psibench.metrics.effects import clustered_effect, truncation_effect


def test_no_cost_of_truncation_is_uncertain_without_misses():
    documents, cut = np.repeat(np.arange(40), 2), np.tile([False, True], 40)
    found = truncation_effect(np.ones(80), documents, np.zeros(80, int), cut, level=0.95)
    most = 1 - 0.025 ** (1 / 40)
    assert (found.value, found.low, found.high) == pytest.approx((0, -most, most))


def test_what_truncation_costs_is_the_coefficient_of_least_squares():
    rng = np.random.default_rng(0)
    documents = np.sort(rng.integers(0, 60, 300))
    buckets = rng.integers(0, 4, 300)
    cut, scores = rng.random(300) < 0.2 * (1 + buckets), rng.random(300)
    design = np.column_stack([cut, np.eye(60)[documents], np.eye(4)[buckets]])
    (of_cut, *_), *_ = np.linalg.lstsq(design.astype(float), scores)
    found = truncation_effect(scores, documents, buckets, cut, level=0.95)
    assert found.value == pytest.approx(of_cut)


@pytest.mark.parametrize(
    "cut_of",
    [
        pytest.param(lambda d, b: b == 1, id="the bucket determines the cut"),
        pytest.param(lambda d, b: d % 2 == 1, id="the document determines the cut"),
        pytest.param(lambda d, b: True, id="everything is cut"),
        pytest.param(lambda d, b: False, id="nothing is cut"),
    ],
)
def test_truncation_is_not_told_where_it_cannot_be_told_apart(cut_of):
    rows = [(d, b) for d in range(50) for b in (0, 1)]
    documents, buckets = np.array(rows).T
    cut = np.array([cut_of(d, b) for d, b in rows])
    scores = np.random.default_rng(1).random(len(rows))
    assert truncation_effect(scores, documents, buckets, cut, level=0.95) is None


def test_few_unlike_units_widen_the_interval_by_their_mean():
    # 40 documents of two queries: four have the sum 1, so the mean 1/2, the others 0. The
    # share above 0 is 4 of 40, with Clopper and Pearson's bound 23.664 %, times the size 1/2.
    sums = np.array([1.0] * 4 + [0.0] * 36)
    found = clustered_effect(sums, np.full(40, 2.0), level=0.95, limit=1.0)
    assert found.value == pytest.approx(0.05)
    assert found.high == pytest.approx(0.23664 / 2, abs=1e-5)
