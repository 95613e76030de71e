from dataclasses import replace
from math import log2

import numpy as np
import polars as pl
import pytest

from psibench.errors import InputError
from psibench.metrics.aggregate import (
    RowLabels,
    UncertaintySettings,
    bucket_scores,
    psi_table,
    result_tables,
)
from psibench.metrics.bucket_statistics import bucket_statistics
from psibench.metrics.buckets import assign, bucket_scheme
from psibench.metrics.query_scores import query_scores
from psibench.metrics.slices import row_seed, slices
from psibench.metrics.uncertainty import estimate_psi
from psibench.search.ranking import rank_documents
from psibench.tables import conform
from psibench.tables.schemas import BUCKET_SCORES, PSI_TABLE, QUERY_SCORES

LABELS = RowLabels("bench", "eng-Latn", "eng-Latn", "model", "dense")
FAST = UncertaintySettings(n_bootstrap=50, n_permutations=50, min_bucket_size=1)
METRICS = ["ndcg@10"]

QUERIES = pl.DataFrame(
    {
        "_id": ["q1", "q2", "q3"],
        "pos_corpus_id": ["d1", "d2", "d3"],
        "pos_char_span": [[0, 10], [40, 60], [90, 100]],
        "pos_char_length": [100, 100, 100],
        "pos_token_length": [20, 600, None],
        "target_position": [None, None, "middle"],
    }
)
QRELS = pl.DataFrame({"query-id": ["q1", "q2", "q3"], "corpus-id": ["d1", "d2", "d3"], "score": 1})
RUN = rank_documents(
    pl.DataFrame({"query_id": ["q1", "q2", "q2"], "doc_id": ["d1", "d9", "d2"], "score": [3, 2, 1]})
)


def scores(**changes) -> pl.DataFrame:
    given = {"run": RUN, "queries": QUERIES, "qrels": QRELS, "domain": "law", "metrics": METRICS}
    given |= changes
    return query_scores(given.pop("run"), given.pop("queries"), given.pop("qrels"), **given)


def test_query_scores_say_where_the_evidence_is():
    table = scores()
    assert table.select("query_id", "domain", "span_start_char", "span_mid_char").rows() == [
        ("q1", "law", 0, 5.0),
        ("q2", "law", 40, 50.0),
        ("q3", "law", 90, 95.0),
    ]
    assert table["relative_position"].to_list() == [0.05, 0.5, 0.95]
    assert table["length_bucket"].to_list() == ["Q1", "Q2", None]
    assert table["ndcg@10"].to_list() == [1.0, 1 / log2(3), 0.0]
    conform(table, QUERY_SCORES, where="scores")


def test_a_declared_target_position_wins_over_the_middle():
    assert scores()["target_position"].to_list() == ["beginning", "middle", "middle"]


def test_visible_is_the_share_of_the_span_inside_the_input():
    ends = pl.DataFrame({"_id": ["d1", "d2", "d3"], "visible_char_end": [10, 45, 80]})
    assert scores(visible_char_end=ends)["visible"].to_list() == [1.0, 0.25, 0.0]


def test_pos_visible_is_the_share_of_the_positive_inside_the_input():
    ends = pl.DataFrame({"_id": ["d1", "d2", "d3"], "visible_char_end": [10, 45, 100]})
    assert scores(visible_char_end=ends)["pos_visible"].to_list() == [0.1, 0.45, 1.0]


def test_without_truncation_everything_is_visible():
    assert scores()["visible"].to_list() == [1.0, 1.0, 1.0]
    assert scores()["pos_visible"].to_list() == [1.0, 1.0, 1.0]


def test_whole_rows_count_only_queries_of_positives_that_were_not_cut():
    frame = made([(10, 0.8), (250, 0.4), (350, 0.1)], pos_visible=[1.0, 0.6, 1.0])
    table = psi_table(frame, labels=LABELS, metrics=METRICS, schemes=["squad"], settings=FAST)
    by_view = {row["evidence"]: row for row in table.iter_rows(named=True)}
    assert by_view["whole"]["n_queries"] == 2
    assert by_view["whole"]["mean"] == pytest.approx(0.45)
    assert by_view["visible"]["n_queries"] == 3


def test_a_positive_without_a_visible_end_is_refused():
    ends = pl.DataFrame({"_id": ["d1"], "visible_char_end": [10]})
    with pytest.raises(InputError, match=r"'d2', 'd3' \(2 in all\)"):
        scores(visible_char_end=ends)


def test_queries_without_a_positive_are_refused():
    with pytest.raises(InputError, match=r"without a positive in the qrels: 'q3'"):
        scores(qrels=QRELS.head(2))


def test_qrels_of_unknown_queries_are_refused():
    with pytest.raises(InputError, match=r"not among the queries: 'q3'"):
        scores(queries=QUERIES.head(2))


@pytest.mark.parametrize("span", [[5, 5], [-1, 4], [None, 3]])
def test_an_empty_or_negative_span_is_refused(span):
    bad = QUERIES.with_columns(pos_char_span=pl.Series([[0, 1], [0, 1], span]))
    with pytest.raises(InputError, match="query 'q3' has the span"):
        scores(queries=bad)


def test_spans_of_fixed_size_are_read():
    fixed = QUERIES.with_columns(pl.col("pos_char_span").cast(pl.Array(pl.Int32, 2)))
    assert scores(queries=fixed).equals(scores())


def test_query_scores_do_not_depend_on_the_order_of_queries():
    assert scores(queries=QUERIES.reverse(), qrels=QRELS.reverse()).equals(scores())


def made(rows: list[tuple[int, float]], **columns) -> pl.DataFrame:
    """Query scores from (span start, nDCG) rows, in documents of 1,000 characters."""
    n = len(rows)
    columns = {
        **{"domain": "law", "length_bucket": None, "visible": 1.0, "pos_visible": 1.0},
        **columns,
    }
    frame = pl.DataFrame(
        {
            "query_id": [f"q{i:03d}" for i in range(n)],
            "span_start_char": pl.Series([s for s, _ in rows], dtype=pl.Int32),
            "span_mid_char": [float(s) for s, _ in rows],
            "pos_char_length": pl.Series([1000] * n, dtype=pl.Int32),
            "relative_position": [s / 1000 for s, _ in rows],
            "target_position": ["beginning" if s < 333 else "end" for s, _ in rows],
            "ndcg@10": [score for _, score in rows],
        }
    )
    added = [
        pl.Series(name, value if isinstance(value, list) else [value] * n)
        for name, value in columns.items()
    ]
    return frame.with_columns(added).cast({"length_bucket": pl.String})


def psi(frame: pl.DataFrame, **changes) -> pl.DataFrame:
    given = {"labels": LABELS, "metrics": METRICS, "schemes": ["squad"], "settings": FAST}
    return psi_table(frame, **(given | changes))


def buckets(frame: pl.DataFrame, **changes) -> pl.DataFrame:
    given = {"labels": LABELS, "metrics": METRICS, "schemes": ["squad"], "settings": FAST}
    return bucket_scores(frame, **(given | changes))


def test_psi_row_has_both_means_and_the_buckets_by_label():
    # Buckets 0-100: (0.8 + 0.6) / 2 = 0.7; 200-300: 0.35. PSI = 1 - 0.35 / 0.7.
    row = psi(made([(10, 0.8), (20, 0.6), (250, 0.35)])).row(0, named=True)
    assert row["n_queries"] == 3
    assert row["n_buckets"] == 2
    assert row["mean"] == pytest.approx(1.75 / 3)
    assert row["mean_of_buckets"] == pytest.approx(0.525)
    assert row["psi"] == pytest.approx(0.5)
    assert (row["best_bucket"], row["worst_bucket"]) == ("0-100", "200-300")
    assert (row["benchmark"], row["kind"], row["domain"]) == ("bench", "dense", "all")


def test_bucket_rows_hold_every_bucket_and_null_means_where_empty():
    table = buckets(made([(10, 0.8), (100, 0.6), (250, 0.3)])).filter(pl.col("evidence") == "all")
    assert table["n_queries"].to_list() == [2, 1, 1, 0, 0, 0]
    assert table["mean"].to_list() == pytest.approx([0.7, 0.6, 0.3, None, None, None])
    assert table["bucket"].to_list()[0] == "0-100"
    assert table.select("bucket_low", "bucket_high").row(5) == (500.0, 3120.0)


@pytest.mark.parametrize(
    "rows", [[(10, 0.0), (250, 0.0)], [(10, 0.5), (20, 0.5)], []], ids=["zeros", "one", "empty"]
)
def test_an_undefined_psi_is_null_never_zero(rows):
    table = psi(made(rows).cast({"ndcg@10": pl.Float64, "span_mid_char": pl.Float64}))
    for name in ("psi", "psi_low", "psi_p", "psi_corrected", "best_bucket"):
        assert table[name].to_list() == [None, None, None]


def test_visible_rows_count_only_wholly_visible_evidence():
    frame = made([(10, 0.8), (250, 0.4), (350, 0.1)], visible=[1.0, 1.0, 0.99])
    table = psi(frame)
    assert table.select("evidence", "n_queries", "psi").rows() == [
        ("all", 3, pytest.approx(0.875)),
        ("visible", 2, pytest.approx(0.5)),
        ("whole", 3, pytest.approx(0.875)),
    ]


def test_visible_rows_are_there_when_equal_and_carry_the_same_figures():
    frame = made([(10 * i, (i % 7) / 7) for i in range(40)])
    for table in (psi(frame), buckets(frame)):
        views = table.partition_by("evidence", include_key=False)
        assert len(views) == 3
        assert views[0].equals(views[1])
        assert views[0].equals(views[2])


def test_length_buckets_get_rows_when_two_hold_queries():
    frame = made([(10, 1.0), (20, 0.5), (30, 0.2)], length_bucket=["Q4", "Q1", None])
    assert psi(frame)["length_bucket"].unique(maintain_order=True).to_list() == ["all", "Q1", "Q4"]
    assert psi(frame, length_buckets=False)["length_bucket"].unique().to_list() == ["all"]


def test_a_single_length_bucket_gets_no_row_of_its_own():
    frame = made([(10, 1.0), (20, 0.5)], length_bucket="Q2")
    assert psi(frame)["length_bucket"].unique().to_list() == ["all"]


def test_domains_get_rows_on_request():
    frame = made([(10, 1.0), (20, 0.5)], domain=["law", "art"])
    assert [piece.domain for piece in slices(frame, length_buckets=True, domains=True)] == [
        "all",
        "art",
        "law",
    ]


def test_every_scheme_and_metric_has_a_row():
    frame = made([(10, 1.0), (700, 0.5)]).with_columns((pl.col("ndcg@10") / 2).alias("mrr@10"))
    table = psi(frame, metrics=["ndcg@10", "mrr@10"], schemes=["squad", "thirds", "relative-20"])
    assert table.height == 3 * 2 * 3
    conform(table, PSI_TABLE, where="psi")


def test_bucket_table_fits_its_schema():
    frame = made([(10, 1.0), (700, 0.5)])
    conform(buckets(frame, schemes=["squad", "thirds"]), BUCKET_SCORES, where="buckets")


def test_another_model_has_the_same_psi_but_its_own_resamples():
    frame = made([(13 * i % 600, (i * 37 % 11) / 11) for i in range(200)])
    first = psi(frame)
    again = psi(frame.reverse())
    other = psi(frame, labels=replace(LABELS, model="other"))
    assert first.equals(again)
    assert first["psi"].to_list() == other["psi"].to_list()
    assert first["psi_null_mean"].to_list() != other["psi_null_mean"].to_list()


def test_adding_schemes_or_metrics_moves_no_other_row():
    frame = made([(13 * i % 600, (i * 37 % 11) / 11) for i in range(200)]).with_columns(
        pl.col("ndcg@10").alias("mrr@10")
    )
    alone = psi(frame)
    more = psi(frame, metrics=["mrr@10", "ndcg@10"], schemes=["thirds", "squad"])
    kept = more.filter((pl.col("metric") == "ndcg@10") & (pl.col("buckets") == "squad"))
    assert kept.equals(alone)


def test_seeds_differ_by_label_and_are_stable():
    assert row_seed(42, "a", "b") == row_seed(42, "a", "b")
    assert len({row_seed(42, "a", "b"), row_seed(42, "ab", ""), row_seed(43, "a", "b")}) == 3


def test_a_metric_without_scores_is_refused():
    with pytest.raises(InputError, match=r"no scores for the metrics \['mrr@10'\]"):
        psi(made([(10, 1.0)]), metrics=["mrr@10"])


def test_threads_decide_no_figure():
    rows = [(13 * i % 600, (i * 37 % 11) / 11) for i in range(200)]
    frame = made(rows, domain=["law", "art"] * 100, visible=[1.0, 1.0, 1.0, 0.5] * 50)
    given = {"labels": LABELS, "metrics": METRICS, "domains": True, "settings": FAST}
    one, two = (result_tables(frame, threads=n, **given) for n in (1, 2))
    assert one.psi.height == 3 * 3 * 3
    assert one.psi.equals(two.psi)
    assert one.buckets.equals(two.buckets)


def test_both_tables_at_once_are_those_made_one_by_one():
    # A bucket of three queries is too small for PSI, but has its mean and interval.
    frame = made([(10 + i % 40, (i % 7) / 7) for i in range(80)] + [(250, 0.4)] * 3)
    settings = replace(FAST, min_bucket_size=10)
    both = result_tables(frame, labels=LABELS, metrics=METRICS, settings=settings)
    members = assign(frame, bucket_scheme("squad"))
    seed = row_seed(
        42, "bench", "squad", "eng-Latn", "all", "dense", "all", "ndcg@10", "model", "eng-Latn"
    )
    options = {"n_buckets": 6, "n_bootstrap": 50, "seed": seed}
    data = (frame["ndcg@10"].to_numpy(), members.query_index, members.bucket_index)
    apart = estimate_psi(*data, n_permutations=50, min_bucket_size=10, **options)
    row = both.psi.filter(pl.col("buckets") == "squad").row(0, named=True)
    assert (row["n_buckets"], row["psi"], row["psi_p"]) == (1, apart.psi, apart.psi_p)
    means = bucket_statistics(*data, **options)
    found = both.buckets.filter(pl.col("buckets") == "squad").head(6)
    assert found["high"].drop_nulls().to_list() == means.high[~np.isnan(means.high)].tolist()


def test_views_of_one_size_but_other_queries_have_figures_of_their_own():
    # The first query's span runs over its text: the positive is whole, the span is not visible.
    frame = made(
        [(10, 0.8), (250, 0.4), (350, 0.1)], visible=[0.9, 1, 1], pos_visible=[1.0, 1.0, 0.7]
    )
    table = psi(frame)
    assert table.select("evidence", "n_queries", "psi").rows() == [
        ("all", 3, pytest.approx(0.875)),
        ("visible", 2, pytest.approx(0.75)),
        ("whole", 2, pytest.approx(0.5)),
    ]
