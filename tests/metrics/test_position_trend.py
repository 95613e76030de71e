import polars as pl
import pytest

from psibench.metrics.buckets import bucket_scheme
from psibench.metrics.summaries import position_trend
from psibench.tables import conform
from psibench.tables.schemas import BUCKET_SCORES

FIGURES = ("slope", "pearson", "spearman", "kendall", "kendall_p")


def rows(means, *, scheme="thirds", **labels) -> pl.DataFrame:
    """Bucket scores of one row of the PSI table."""
    buckets = bucket_scheme(scheme).buckets
    given = {
        **{"benchmark": "b", "query_lang": "eng-Latn", "corpus_lang": "eng-Latn", "domain": "all"},
        **{"length_bucket": "all", "model": "m", "metric": "ndcg@10", "evidence": "all"},
        **labels,
    }
    frame = pl.DataFrame(
        {
            "bucket": [bucket.label for bucket in buckets],
            "bucket_low": [float(bucket.low) for bucket in buckets],
            "bucket_high": [float(bucket.high) for bucket in buckets],
            "n_queries": [40] * len(buckets),
            "mean": pl.Series(means, dtype=pl.Float64),
            **dict.fromkeys(("low", "high", "same_mean", "same_low", "same_high")),
            "buckets": scheme,
            "queries_by": "people",
        }
    ).with_columns(pl.lit(value).alias(name) for name, value in given.items())
    return pl.from_arrow(conform(frame, BUCKET_SCORES, where="test"))


def trend(frame: pl.DataFrame) -> dict:
    return position_trend(frame).row(0, named=True)


def test_trend_over_thirds_by_hand():
    # Centres 1/6, 1/2, 5/6; means .9, .5, .6. Slope = (.6 - .9) / (2/3) = -.45. Deviations of the
    # means 7/30, -5/30, -2/30: r = -.3 / (sqrt(2) * sqrt(78) / 30) = -9 / sqrt(156).
    # Ranks 1 2 3 against 3 1 2: Spearman -.5; one of three pairs agrees: tau -1/3. Of 6 orders 4
    # have |tau| = 1/3 and 2 have 1: p = 1.
    row = trend(rows([0.9, 0.5, 0.6]))
    assert row["n_buckets"] == 3
    assert [row[name] for name in FIGURES] == pytest.approx(
        [-0.45, -9 / 156**0.5, -0.5, -1 / 3, 1.0]
    )
    assert row["queries_by"] == "people"


@pytest.mark.parametrize(
    ("means", "n_buckets", "slope"),
    [
        pytest.param([0.9, None, 0.6], 2, None, id="one without queries"),
        pytest.param([None, None, None], 0, None, id="no queries"),
        pytest.param([0.3, 0.1 + 0.2, 0.3], 3, 0, id="equal but for rounding"),
    ],
)
def test_few_buckets_or_equal_means_have_no_correlation(means, n_buckets, slope):
    row = trend(rows(means))
    assert row["n_buckets"] == n_buckets
    assert [row[name] for name in FIGURES] == [slope, None, None, None, None]


def test_trends_keep_the_order_of_the_buckets_table():
    parts = [
        rows([0.1, 0.2, 0.3], model="b"),
        rows([0.1, None, 0.3], model="a"),
        rows([i / 20 for i in range(20)], scheme="relative-20", model="a"),
        rows([0.3, 0.2, 0.1], model="a", domain="law", evidence="whole"),
    ]
    table = position_trend(pl.concat(parts))
    assert table.select("model", "domain", "buckets", "evidence", "n_buckets").rows() == [
        ("b", "all", "thirds", "all", 3),
        ("a", "all", "thirds", "all", 2),
        ("a", "all", "relative-20", "all", 20),
        ("a", "law", "thirds", "whole", 3),
    ]
    assert table["spearman"].to_list() == [1, None, 1, -1]


def test_blocks_give_the_same_figures(monkeypatch):
    frame = pl.concat(rows([0.1 * i, 0.3, 0.7 - 0.1 * i], model=f"m{i}") for i in range(5))
    whole = position_trend(frame)
    monkeypatch.setattr("psibench.metrics.summaries.PAIRS_AT_ONCE", 2 * 9)
    assert position_trend(frame).equals(whole)
