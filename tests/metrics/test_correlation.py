import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from psibench.metrics.correlation import correlate_rows, spearman

FEW_VALUES = st.integers(0, 5).map(lambda value: value / 7)  # so that ties are common


@pytest.mark.parametrize(
    ("x", "y", "value", "p"),
    [
        # Two of the 6 orders of three values are monotone and have a coefficient of +-1.
        pytest.param([1, 2, 3], [5, 6, 9], 1.0, 2 / 6, id="rising"),
        pytest.param([1, 2, 3], [9, 6, 5], -1.0, 2 / 6, id="falling"),
        pytest.param([1, 2, np.nan, 3], [5, 6, 0, 9], 1.0, 2 / 6, id="a missing score"),
        # Ranks 1.5 1.5 3 against 1 2 3: sqrt(3) / 2. All orders but 1 3 2 and 3 1 2 are as far
        # from 0: of 1 2 3, 2 1 3, 2 3 1 and 3 2 1 the last rank is 3 or 1.
        pytest.param([0, 0, 1], [4, 5, 6], 3**0.5 / 2, 4 / 6, id="a tie"),
    ],
)
def test_spearman_of_three_pairs_counts_all_orders(x, y, value, p):
    found = spearman(x, y)
    assert (found.value, found.p, found.n) == (pytest.approx(value), pytest.approx(p), 3)


@pytest.mark.parametrize(
    ("x", "y", "n"),
    [
        pytest.param([], [], 0, id="nothing"),
        pytest.param([1, 2], [1, 2], 2, id="two pairs"),
        pytest.param([1, 2, 3], [0.3, 0.3, 0.1 + 0.2], 3, id="equal but for rounding"),
        pytest.param([1, 2, 3], [np.nan, 1, 2], 2, id="two pairs and a missing score"),
    ],
)
def test_an_undefined_correlation_is_none(x, y, n):
    found = spearman(x, y)
    assert (found.value, found.p, found.n) == (None, None, n)


@given(st.lists(FEW_VALUES, min_size=3, max_size=12))
def test_rows_have_the_coefficients_of_scipy(values):
    y = np.array(values)
    x = np.arange(len(y)) / 3
    found = correlate_rows(x[None], y[None])
    assert found["slope"][0] == pytest.approx(scipy.stats.linregress(x, y).slope, abs=1e-9)
    three = [found["pearson"][0], found["spearman"][0], found["kendall"][0], found["kendall_p"][0]]
    if np.ptp(y) == 0:
        assert np.isnan(three).all()
        return
    tau = scipy.stats.kendalltau(x, y)
    expected = [scipy.stats.pearsonr(x, y)[0], scipy.stats.spearmanr(x, y)[0], *tau]
    assert three == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n", [4, 20, 33, 34, 60])
def test_tau_without_ties_has_the_p_value_of_scipy(n):
    y = np.random.default_rng(n).random((3, n)) + np.arange(n) / n
    x = np.tile(np.arange(n), (3, 1)).astype(float)
    found = correlate_rows(x, y)
    expected = [scipy.stats.kendalltau(*pair).pvalue for pair in zip(x, y, strict=True)]
    np.testing.assert_allclose(found["kendall_p"], expected, rtol=1e-9)
