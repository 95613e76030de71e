import numpy as np
import pytest

from psibench.metrics.psi import position_sensitivity_index, psi_of_columns


@pytest.mark.parametrize(
    ("bucket_means", "expected"),
    [
        pytest.param([0.8, 0.6, 0.4], 0.5, id="worst is half of best"),
        pytest.param([0.4, 0.8], 0.5, id="order of buckets is irrelevant"),
        pytest.param([0.3, 0.3, 0.3], 0.0, id="equal means"),
        pytest.param([0.3, 0.0], 1.0, id="a true zero in one bucket"),
        pytest.param([0.8, np.nan, 0.2], 0.75, id="an empty bucket is left out"),
        pytest.param([0.1 + 0.2, 0.3], 0.0, id="rounding is not an effect"),
        pytest.param([4.0, 3.0], 0.25, id="metrics above 1 are allowed"),
    ],
)
def test_psi_is_the_relative_drop_from_best_to_worst(bucket_means, expected):
    assert position_sensitivity_index(bucket_means) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    "bucket_means",
    [
        pytest.param([], id="no bucket"),
        pytest.param([0.5], id="one bucket"),
        pytest.param([0.5, np.nan], id="one bucket with queries"),
        pytest.param([np.nan, np.nan], id="only empty buckets"),
        pytest.param([0.0, 0.0], id="nothing found anywhere"),
    ],
)
def test_psi_is_undefined_and_not_zero(bucket_means):
    assert position_sensitivity_index(bucket_means) is None


def test_columns_are_separate_rows_of_a_psi_table():
    # Columns: (.8, .4) -> .5; (.3, .3) -> 0; (.5, -.1) counts as (.5, 0) -> 1.
    table = np.array([[0.8, 0.3, 0.5], [0.4, 0.3, -0.1]])
    assert psi_of_columns(table).tolist() == [0.5, 0.0, 1.0]
