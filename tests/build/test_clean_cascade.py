"""Joining of parts, and unusual lengths."""

import polars as pl
import pytest

from psibench.translate.clean import (
    Outliers,
    unusual_lengths,
)
from psibench.translate.translate import join_items, pieces_of


def corpus(lengths):
    ids = [f"d{i}" for i in range(len(lengths))]
    return pl.DataFrame({"_id": ids, "token_length": pl.Series(lengths, dtype=pl.Int32)})


@pytest.mark.parametrize(
    ("lengths", "low", "high", "expected"),
    [
        # 2 4 4 6 6 8: Q1 = 4, Q3 = 6, IQR = 2
        ([2, 4, 4, 6, 6, 8], 0.5, 1.0, [("d0", "too_short", "outside [3, 8] tokens", 2.0)]),
        # 10 20 30 40: Q1 a quarter of the way from 10 + 20 * .75: 17.5, Q3 = 32.5, IQR = 15
        ([10, 20, 30, 40], 0.4, 0.5, [("d0", "too_short", "outside [11.5, 40] tokens", 10.0)]),
        ([], 3.0, 1.5, []),
    ],
)
def test_only_lengths_outside_the_bounds_are_listed(lengths, low, high, expected):
    found = unusual_lengths(corpus(lengths), corpus([]), Outliers(low=low, high=high))
    assert found.rows() == [("document", *row) for row in expected]


def test_length_ratio_is_tokens_per_source_token():
    source = corpus([10, 100, 0, 7, 10, 10]).reverse()  # d3 has no translation
    made = corpus([10, 300, 4, 7, 20, 20]).filter(pl.col("_id") != "d3")
    # ratios 1, 3, 4, 2, 2: Q1 = 2, Q3 = 3, IQR = 1
    found = unusual_lengths(made, source, Outliers(of="ratio", low=0.5, high=0.5))
    assert found.rows() == [
        ("document", "d0", "too_short", "outside [1.5, 3.5] of the source's tokens", 1.0),
        ("document", "d2", "too_long", "outside [1.5, 3.5] of the source's tokens", 4.0),
    ]


@pytest.mark.parametrize(
    ("language", "texts", "whole", "joins"),
    [
        ("spa-Latn", ["tres.", "cuatro."], "tres. cuatro.", [6]),
        ("cmn-Hans", ["三。", "四。"], "三。四。", [2]),
    ],
)
def test_parts_are_joined_with_a_space_if_needed(language, texts, whole, joins):
    ids = ["d:b:0", "d:b:1"]
    facts = {"doc_id": "b", "item_id": "b", "kind": "document", "text": "三。", "separator": ""}
    parts = pl.DataFrame({"_id": ids, "number": [0, 1]}).with_columns(
        **{k: pl.lit(v) for k, v in facts.items()}
    )
    made = pl.DataFrame({"_id": ids, "text": texts})
    joined, _ = join_items(parts, made, language=language, clean=lambda text, _: (None, text))
    assert joined.select("text", "joins").rows() == [(whole, joins)]
    assert "".join(pieces_of(whole, joins)) == whole
