import polars as pl

from psibench.metrics.buckets import bucket_scheme
from psibench.metrics.query_scores import evidence_positions
from psibench.metrics.statistics import bucket_counts, position_histogram


def queries(*spans) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "_id": [f"q{i}" for i in range(len(spans))],
            "text": ["a b"] * len(spans),
            "pos_corpus_id": ["d"] * len(spans),
            "pos_char_span": [list(span) for span in spans],
            "pos_char_length": [100] * len(spans),
            "pos_token_length": [9] * len(spans),
            "target_position": pl.Series([None] * len(spans), dtype=pl.String),
        }
    )


def test_relative_bins_are_right_closed_like_the_buckets():
    # Middles of 100 characters: 5 is the right edge of the first bin, 10 of the second, 6 above 5.
    positions = evidence_positions(queries((0, 1), (4, 6), (5, 7), (9, 11), (99, 100)))
    bins = position_histogram(positions).filter(pl.col("unit") == "relative")
    counted = bucket_counts(positions, [bucket_scheme("relative-20")])
    assert bins.get_column("n_queries").to_list() == [2, 2, *[0] * 17, 1]
    assert bins.get_column("n_queries").to_list() == [*counted.values()]
    assert (bins.row(0)[1:3], bins.row(19)[1:3]) == ((0.0, 0.05), (0.95, 1.0))


def test_evidence_without_a_single_span_is_counted_separately():
    asked = queries((0, 1), (50, 51), (0, 0)).with_columns(
        pos_char_span=pl.Series([[0, 1], None, None]),
        pos_char_spans=pl.Series([None, [[0, 4], [90, 99]], None]),
        target_position=pl.Series([None, None, "end"]),
    )
    positions = evidence_positions(asked)
    held = {"thirds": [1, 0, 1], "thirds-every-tag": [2, 0, 2]}
    for scheme, expected in held.items():
        # Then n_queries_mixed and n_queries_without_span.
        counts = bucket_counts(positions, [bucket_scheme(scheme)])
        assert list(counts.values()) == [*expected, 1, 2]
    both = bucket_counts(positions, [bucket_scheme("thirds-every-tag"), bucket_scheme("thirds")])
    assert list(both.values()) == [2, 0, 2, 1, 2]  # of the first, as Myopic's table 2 counts
    assert position_histogram(positions)["n_queries"].sum() == 2  # one query per unit
    assert position_histogram(positions[1:]).is_empty()
