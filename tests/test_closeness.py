"""What tests take for equal but for rounding, and what they say of what is not."""

import numpy as np
import polars as pl
import pytest
from closeness import assert_psi_tables_close, assert_rankings_close, assert_vectors_close

RUN = pl.DataFrame(
    {
        "query_id": ["q"] * 3,
        "doc_id": ["a", "b", "c"],
        "rank": [1, 2, 3],
        "score": [0.9, 0.5000001, 0.5],
    }
)
TABLE = pl.DataFrame({"model": ["m", "n"], "psi": [0.25, None], "n_queries": [7, 8]})


def test_vectors_may_differ_by_the_bound_of_their_format():
    one = np.zeros((2, 3), np.float32)
    other = one.copy()
    other[1, 2] = 9e-7
    assert_vectors_close(other, one)
    assert_vectors_close([other[:1], other[1:]], [one[:1], one[1:]])
    other[1, 2] = 2e-3
    assert_vectors_close(other, one, dtype="bfloat16")
    with pytest.raises(AssertionError, match=r"difference 0\.002 at \(1, 2\).*1 of 2 vectors"):
        assert_vectors_close(other, one)


@pytest.mark.parametrize(
    "found", [np.full((2, 3), np.nan), np.zeros((3, 3)), [np.zeros((1, 3)), np.zeros((2, 3))]]
)
def test_vectors_that_are_missing_or_no_numbers_are_not_close(found):
    expected = np.zeros((2, 3)) if isinstance(found, np.ndarray) else [np.zeros((1, 3))] * 2
    with pytest.raises(AssertionError, match=r"shape|inf"):
        assert_vectors_close(found, expected)


def test_near_ties_may_change_places():
    turned = RUN.with_columns(doc_id=pl.Series(["a", "c", "b"]))
    assert_rankings_close(turned, RUN)
    replaced = RUN.with_columns(doc_id=pl.Series(["a", "b", "d"]))  # d may be as good as c
    assert_rankings_close(replaced, RUN)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"doc_id": ["b", "a", "c"]}, "rank 1: 'b', expected 'a'; their scores are 0.4 apart"),
        ({"doc_id": ["d", "b", "c"]}, "rank 1: 'd', expected 'a'"),
        ({"score": [0.9, 0.50001, 0.5]}, "rank 2: score 0.50001.*9.9e-06 apart, more than 1e-06"),
        ({"query_id": ["q", "q", "r"]}, "queries of one run only"),
    ],
    ids=["order", "document", "score", "query"],
)
def test_other_rankings_are_not_close(changed, message):
    with pytest.raises(AssertionError, match=message):
        assert_rankings_close(
            RUN.with_columns(**{k: pl.Series(v) for k, v in changed.items()}), RUN
        )


def test_tables_may_differ_beyond_the_printed_decimals():
    assert_psi_tables_close(TABLE.with_columns(psi=pl.Series([0.2503, None])), TABLE)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"psi": [0.2506, None]}, "column 'psi': 1 of 2 rows differ, row 0 first: 0.2506, exp"),
        ({"psi": [0.25, 0.0]}, "row 1 first: 0.0, expected None"),
        ({"model": ["m", "k"]}, "column 'model'.*'k', expected 'n'"),
        ({"n_queries": [7, 9]}, "column 'n_queries'"),
    ],
    ids=["number", "null", "name", "count"],
)
def test_other_tables_are_not_close(changed, message):
    changed = TABLE.with_columns(**{k: pl.Series(v) for k, v in changed.items()})
    with pytest.raises(AssertionError, match=message):
        assert_psi_tables_close(changed, TABLE)
    with pytest.raises(AssertionError, match="1 rows, expected 2"):
        assert_psi_tables_close(TABLE.head(1), TABLE)
