"""Equal but for rounding: vectors and PSI tables."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from psibench.models.protocols import VECTOR_BOUND

PRINTED = 3
"""Decimals of `psibench show`."""


def assert_vectors_close(
    found: np.ndarray | Sequence[np.ndarray],
    expected: np.ndarray | Sequence[np.ndarray],
    *,
    dtype: str = "float32",
) -> None:
    """See that two encodings of the same texts differ by rounding only.

    ``found`` and ``expected`` are (n, dim) arrays, or one such array per text; ``dtype`` is the
    number format that they were computed in, whose ``VECTOR_BOUND`` counts.
    """
    bound = VECTOR_BOUND[dtype]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=bound, equal_nan=False)


def assert_psi_tables_close(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    """See that PSI tables have the same rows and columns, and numbers to the printed decimals.

    What is not a decimal number (names, counts, buckets) is equal.
    """
    assert_frame_equal(found, expected, rel_tol=0, abs_tol=0.5 * 10.0**-PRINTED)
