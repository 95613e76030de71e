import numpy as np
import polars as pl
import pytest
from pydantic import TypeAdapter, ValidationError

from psibench.errors import InputError
from psibench.generate.base import LengthBuckets
from psibench.metrics.buckets import assign, bucket_scheme, edges_of, length_bucket, relative_bin


def pairs(frame: pl.DataFrame, name: str) -> list[tuple[int, int]]:
    found = assign(frame, bucket_scheme(name))
    return list(zip(found.query_index.tolist(), found.bucket_index.tolist(), strict=True))


def test_squad_ranges_include_both_ends():
    # 0 | 100 in two | 101 | 500 in two | 3120 | 3121 in none
    expected = [(0, 0), (1, 0), (1, 1), (2, 1), (3, 4), (3, 5), (4, 5)]
    starts = pl.DataFrame({"span_start_char": [0, 100, 101, 500, 3120, 3121]})
    assert pairs(starts, "squad") == expected


def test_thirds_follow_the_target_position():
    frame = pl.DataFrame({"target_position": ["end", "beginning", "middle", "end"]})
    assert pairs(frame, "thirds") == [(0, 2), (1, 0), (2, 1), (3, 2)]
    edges = [(bucket.low, bucket.high) for bucket in bucket_scheme("thirds").buckets]
    assert edges == [(0, 1 / 3), (1 / 3, 2 / 3), (2 / 3, 1)]  # as bucket tables have them


def test_relative_bins_are_right_closed_and_the_first_includes_zero():
    # A middle beyond the document is in the last one.
    frame = pl.DataFrame({"span_mid_char": [0.0, 5.0, 5.5, 10.0, 99.5, 120.0]})
    found = pairs(frame.with_columns(pos_char_length=100), "relative-20")
    assert found == [(0, 0), (1, 0), (2, 1), (3, 1), (4, 19), (5, 19)]


@pytest.mark.parametrize("n_bins", [3, 7, 10, 20, 49])
def test_no_edge_is_rounded_across(n_bins):
    # mid = edge * length exactly: bin number edge - 1, whatever floating point makes of edge / n.
    edges = np.arange(1, n_bins + 1)
    for length in (n_bins, 3 * n_bins, 1001 * n_bins):
        middles = edges * (length // n_bins)
        found = relative_bin(2 * middles, np.full(n_bins, length), n_bins=n_bins)
        assert found.tolist() == (edges - 1).tolist()


def test_relative_20_has_twenty_equal_bins():
    scheme = bucket_scheme("relative-20")
    assert (len(scheme.buckets), scheme.labels[0]) == (20, "0.00-0.05")
    assert (scheme.buckets[19].low, scheme.buckets[19].high) == (0.95, 1.0)


def test_a_thousand_relative_bins_are_allowed():
    assert len(bucket_scheme("relative-1000").buckets) == 1000


@pytest.mark.parametrize("name", ["quarters", "relative-0", "relative-1001", "relative-", ""])
def test_unknown_schemes_are_refused(name):
    with pytest.raises(InputError, match="squad, thirds, thirds-every-tag, relative-N"):
        bucket_scheme(name)


def test_length_buckets_are_right_closed_and_null_stays_null():
    tokens = pl.DataFrame({"n": [1, 512, 513, 1024, 1025, 1536, 1537, None]})
    found = tokens.select(length_bucket(pl.col("n"))).to_series().to_list()
    assert found == [*"Q1 Q1 Q2 Q2 Q3 Q3 Q4".split(), None]


def test_other_length_edges_name_buckets_by_their_tokens():
    tokens = pl.DataFrame({"n": [1, 2048, 2049, 8192, 8193, 32768, None]})
    found = tokens.select(length_bucket(pl.col("n"), (2048, 8192))).to_series().to_list()
    names = ["L1 1-2048"] * 2 + ["L2 2049-8192"] * 2 + ["L3 above 8192"] * 2
    assert found == [*names, None]
    assert sorted(set(names)) == list(dict.fromkeys(names))  # tables sort by name


@pytest.mark.parametrize("edges", [[], [0, 5], [5, 5], [8, 4], list(range(1, 10)), [2**40]])
def test_unordered_or_too_many_edges_are_refused(edges):
    with pytest.raises(InputError, match="edges of length buckets"):
        edges_of(edges)
    with pytest.raises(ValidationError, match="edges of length buckets"):
        TypeAdapter(LengthBuckets).validate_python(edges)


@pytest.mark.parametrize("setting", [True, False, [2048, 8192]])
def test_length_buckets_of_a_config_are_a_switch_or_edges(setting):
    assert TypeAdapter(LengthBuckets).validate_python(setting) == setting
