"""Thirds of the evidence in the grid of chunk settings."""

import polars as pl

from psibench.metrics.chunking import thirds_of_evidence
from psibench.metrics.query_scores import evidence_positions


def test_thirds_are_those_of_the_bucket_scheme_also_at_their_edges():
    # Middles 1 to 899 of 900 characters: 300 and 600 are edges.
    rows = [
        {"_id": f"q{middle}", "pos_corpus_id": "d", "pos_char_span": [middle - 1, middle + 1]}
        | {"pos_char_length": 900}
        for middle in range(1, 900)
    ]
    queries = pl.DataFrame(rows).with_columns(
        target_position=pl.lit(None, pl.String), pos_token_length=200
    )
    found = thirds_of_evidence(queries)
    expected = evidence_positions(queries).select("query_id", third="target_position")
    assert found.rows() == expected.rows()
    at = dict(found.iter_rows())
    assert [at[f"q{middle}"] for middle in (300, 301, 600, 601)] == [
        "beginning",
        "middle",
        "middle",
        "end",
    ]
