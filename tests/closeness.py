"""Equal but for rounding: vectors and PSI tables, and a failure that says by how much."""

from collections.abc import Sequence

import numpy as np
import polars as pl

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

    Parameters
    ----------
    found, expected
        (n, dim) arrays, or one such array per text.
    dtype
        Number format that they were computed in: its ``VECTOR_BOUND`` counts.
    """
    if not isinstance(found, np.ndarray) or not isinstance(expected, np.ndarray):
        sizes = [[each.shape for each in vectors] for vectors in (found, expected)]
        assert sizes[0] == sizes[1], f"shapes differ: {sizes[0]}, expected {sizes[1]}"
        if not len(found):
            return
        found, expected = np.concatenate(list(found)), np.concatenate(list(expected))
    assert found.shape == expected.shape, f"shape {found.shape}, expected {expected.shape}"
    if not found.size:
        return
    bound = VECTOR_BOUND[dtype]
    apart = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    apart[np.isnan(apart)] = np.inf
    place = np.unravel_index(apart.argmax(), apart.shape)
    rows = apart.reshape(len(apart), -1).max(axis=1)
    assert apart[place] <= bound, (
        f"largest difference {apart[place]:.3g} at {tuple(map(int, place))}: {found[place]!r}, "
        f"expected {expected[place]!r}; {int((rows > bound).sum())} of {len(rows)} vectors differ "
        f"by more than {bound:g}, the bound of {dtype}"
    )


def assert_psi_tables_close(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    """See that PSI tables have the same rows and columns, and numbers to the printed decimals.

    What is not a decimal number (names, counts, buckets) is equal.
    """
    assert found.schema == expected.schema, f"columns {found.schema}, expected {expected.schema}"
    assert found.height == expected.height, f"{found.height} rows, expected {expected.height}"
    half = 0.5 * 10.0**-PRINTED
    for name, dtype in expected.schema.items():
        mine, theirs = found.get_column(name), expected.get_column(name)
        if not dtype.is_float():
            apart = mine.ne_missing(theirs)
        else:
            apart = ((mine - theirs).abs() > half).fill_null(False) | (
                mine.is_null() != theirs.is_null()
            )
        rows = apart.arg_true().to_list()
        assert not rows, (
            f"column {name!r}: {len(rows)} of {found.height} rows differ, row {rows[0]} first: "
            f"{mine[rows[0]]!r}, expected {theirs[rows[0]]!r}; the row is "
            f"{expected.row(rows[0], named=True)}"
        )
