"""Equal but for rounding: vectors, rankings and PSI tables, and a failure that says by how much."""

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


def assert_rankings_close(
    found: pl.DataFrame, expected: pl.DataFrame, *, bound: float = VECTOR_BOUND["float32"]
) -> None:
    """See that two runs have the same documents in the same order, near ties aside.

    Scores of one document differ by at most ``bound``. So two documents may change places, or one
    take the other's at the end, if their scores are within twice that of each other.

    Parameters
    ----------
    found, expected
        Columns query_id, doc_id, rank and score.
    """
    runs = [_ranked(run) for run in (found, expected)]
    assert runs[0].keys() == runs[1].keys(), (
        f"queries of one run only: {sorted(runs[0].keys() ^ runs[1].keys())[:5]}"
    )
    for query in runs[1]:
        (documents, scores), (others, wanted) = (run[query] for run in runs)
        assert len(documents) == len(others), (
            f"query {query!r}: {len(documents)} documents, expected {len(others)}"
        )
        known = dict(zip(others, wanted, strict=True))
        for place, (document, score) in enumerate(zip(documents, scores, strict=True)):
            apart = abs(score - wanted[place])
            assert apart <= bound, (
                f"query {query!r}, rank {place + 1}: score {score!r}, expected {wanted[place]!r}: "
                f"{apart:.3g} apart, more than {bound:g}"
            )
            own = known.get(document, wanted[-1])  # out of it: as good as the last at most
            apart = abs(own - wanted[place])
            assert apart <= 2 * bound, (
                f"query {query!r}, rank {place + 1}: {document!r}, expected {others[place]!r}; "
                f"their scores are {apart:.3g} apart, more than {2 * bound:g}"
            )


def _ranked(run: pl.DataFrame) -> dict[str, tuple[list[str], list[float]]]:
    groups = run.sort("query_id", "rank").group_by("query_id", maintain_order=True)
    return {
        str(query): (own["doc_id"].to_list(), own["score"].to_list()) for (query,), own in groups
    }


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
