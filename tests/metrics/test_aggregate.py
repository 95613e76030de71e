from math import log2
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from threadpoolctl import threadpool_info, threadpool_limits

from psibench.config.sections import Uncertainty
from psibench.errors import InputError
from psibench.metrics.aggregate import (
    Evaluated,
    RowLabels,
    _order_in_document,
    benjamini_hochberg,
    holm,
    result_tables,
)
from psibench.metrics.query_scores import query_scores
from psibench.tables import conform
from psibench.tables.ranking import rank_documents
from psibench.tables.schemas import COMPARISONS, QUERY_SCORES

LABELS = RowLabels("bench", "eng-Latn", "eng-Latn")
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
    # The last one's class is declared.
    assert table["target_position"].to_list() == ["beginning", "middle", "middle"]
    assert table["length_bucket"].to_list() == ["Q1", "Q2", None]
    assert table["ndcg@10"].to_list() == [1.0, 1 / log2(3), 0.0]
    conform(table.with_columns(model=pl.lit("m")), QUERY_SCORES, where="scores")


def test_queries_without_a_positive_are_refused():
    with pytest.raises(InputError, match=r"without a positive in the qrels: 'q3'"):
        scores(qrels=QRELS.head(2))


def test_queries_of_the_qrels_that_nobody_asked_are_refused():
    with pytest.raises(InputError, match=r"that are not among the queries: 'q3' \(1 in all\)"):
        scores(queries=QUERIES.head(2))


@pytest.mark.parametrize(
    ("span", "several"),
    [
        pytest.param([5, 5], None, id="empty"),
        pytest.param([-1, 4], None, id="negative"),
        pytest.param([None, 3], None, id="no start"),
        pytest.param(None, None, id="neither spans nor class"),
        pytest.param([0, 10], [[0, 10]], id="one span and several"),
    ],
)
def test_evidence_that_is_not_known_in_one_way_is_refused(span, several):
    odd = QUERIES.with_columns(
        pos_char_span=pl.Series([span] * 3, dtype=pl.List(pl.Int64)),
        pos_char_spans=pl.Series([several] * 3, dtype=pl.List(pl.List(pl.Int64))),
        target_position=pl.lit(None, pl.String),
    )
    with pytest.raises(InputError, match="query 'q1' has the span"):
        scores(queries=odd)


SEVERAL = QUERIES.with_columns(
    # q1: both thirds of [0, 34) and [90, 100); q2: both in the middle; q3: only by class.
    pos_char_span=pl.lit(None, pl.List(pl.Int64)),
    pos_char_spans=pl.Series([[[0, 34], [90, 100]], [[40, 44], [50, 66]], None]),
    target_position=pl.Series([None, None, "end"]),
)


def test_several_spans_have_their_common_third_or_are_mixed():
    table = scores(queries=SEVERAL)
    assert table["target_position"].to_list() == ["mixed", "middle", "end"]
    assert table["target_positions"].to_list() == ["beginning, end", "middle", "end"]
    for name in ("span_start_char", "span_mid_char", "relative_position"):
        assert table[name].to_list() == [None, None, None]  # q3 has no span


@pytest.mark.parametrize(
    ("ends", "visible"),
    [
        # q1: 34 + 0 of 44 characters; q2: 4 + 10 of 20; q3: where its evidence is, nobody knows.
        pytest.param([90, 60, 99], [34 / 44, 0.7, None], id="a part"),
        pytest.param([100, 100, 100], [1.0, 1.0, 1.0], id="the whole document"),
        pytest.param(None, [1.0, 1.0, 1.0], id="no limit"),
    ],
)
def test_visible_share_covers_all_characters_of_several_spans(ends, visible):
    read = ends and pl.DataFrame({"query_id": ["q1", "q2", "q3"], "visible_char_end": ends})
    assert scores(queries=SEVERAL, visible_char_end=read)["visible"].to_list() == visible


def made(rows: list[tuple[int, float]], **columns) -> pl.DataFrame:
    """Query scores from (span start, nDCG) rows, in documents of 1,000 characters."""
    n = len(rows)
    columns = {
        **{"domain": "law", "length_bucket": None, "visible": 1.0, "pos_visible": 1.0},
        **{"document_id": [f"d{i // 2:03d}" for i in range(n)]},
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


def tables(*frames: pl.DataFrame | Evaluated, **changes):
    """Result tables of models m0, m1, ... with these scores."""
    given = {"labels": LABELS, "metrics": METRICS, "schemes": ["squad"]} | changes
    models = [
        frame if isinstance(frame, Evaluated) else Evaluated(f"m{number}", "dense", frame)
        for number, frame in enumerate(frames)
    ]
    return result_tables(models, **given)


def psi(frame: pl.DataFrame, **changes) -> pl.DataFrame:
    return tables(frame, **changes).psi


def buckets(frame: pl.DataFrame, **changes) -> pl.DataFrame:
    return tables(frame, **changes).buckets


def test_rows_hold_both_means_and_every_bucket_null_where_empty():
    found = tables(made([(10, 0.8), (100, 0.6), (250, 0.35)]))
    table = found.buckets.filter(evidence="all")
    assert table["n_queries"].to_list() == [2, 1, 1, 0, 0, 0]
    assert table["mean"].to_list() == pytest.approx([0.7, 0.6, 0.35, None, None, None])
    assert table.select("bucket_low", "bucket_high").row(5) == (500.0, 3120.0)
    row = found.psi.row(0, named=True)
    assert (row["n_queries"], row["n_buckets"], row["domain"]) == (3, 3, "all")
    assert (row["mean"], row["mean_of_buckets"]) == pytest.approx((1.75 / 3, 1.65 / 3))


def test_queries_without_a_score_are_left_out():
    frame = many(40).with_columns(
        pl.when(pl.col("query_id") < "q120").then("ndcg@10").alias("span-recall@1")
    )
    given = {"metrics": [*METRICS, "span-recall@1"], "control": "m1"}
    found = tables(frame, frame, **given)
    rows = found.psi.filter(model="m0", evidence="all").select("metric", "n_queries", "mean")
    assert rows.rows() == [
        ("ndcg@10", 240, pytest.approx(frame["ndcg@10"].mean())),
        ("span-recall@1", 120, pytest.approx(frame["ndcg@10"].head(120).mean())),
    ]
    held = found.buckets.filter(model="m0", evidence="all", metric="span-recall@1")
    assert held["n_queries"].to_list() == [20] * 6
    assert found.comparisons["n_queries"].to_list() == [240, 120]


def test_length_buckets_get_rows_when_two_hold_queries():
    frame = made([(10, 1.0), (20, 0.5), (30, 0.2)], length_bucket=["Q4", "Q1", None])
    assert psi(frame)["length_bucket"].unique(maintain_order=True).to_list() == ["all", "Q1", "Q4"]
    assert psi(frame, length_buckets=False)["length_bucket"].unique().to_list() == ["all"]
    one = made([(10, 1.0), (20, 0.5)], length_bucket="Q2")
    assert psi(one)["length_bucket"].unique().to_list() == ["all"]


def many(n_documents: int = 80, drop: float = 0.0, seed: int = 0, **columns) -> pl.DataFrame:
    """Six queries a document over the buckets of squad; the last bucket loses a share of scores."""
    rng = np.random.default_rng(seed)
    starts = np.tile([50, 150, 250, 350, 450, 700], n_documents)
    found = rng.random(starts.size) < 0.7 * (1 - drop * (starts > 400))
    rows = list(zip(starts.tolist(), found.astype(float).tolist(), strict=True))
    return made(rows, document_id=[f"d{i // 6:03d}" for i in range(len(rows))], **columns)


def test_figures_depend_on_no_order_and_no_name():
    frame = many(drop=0.5)
    first = psi(frame)
    mixed = psi(frame.sample(fraction=1.0, shuffle=True, seed=1))
    assert_frame_equal(first, mixed, rel_tol=1e-9, abs_tol=1e-12)
    other = tables(Evaluated("another", "sparse", frame)).psi
    assert first.drop("model", "kind").equals(other.drop("model", "kind"))


def test_models_of_other_queries_are_refused():
    with pytest.raises(
        InputError, match=r"'m1' and the first .* different queries .474 and 480 rows"
    ):
        tables(many(), many(79))


@pytest.mark.parametrize(
    ("adjusted", "expected"),
    [
        # Sorted .01 .02 .04 times 3, 2, 1: .03 .04 .04; a missing one does not count.
        (holm, [0.04, np.nan, 0.03, 0.04]),
        # Times 3/1, 3/2, 3/3: .03 .03 .04, each the least from itself on.
        (benjamini_hochberg, [0.04, np.nan, 0.03, 0.03]),
    ],
)
def test_adjusted_p_values_by_hand(adjusted, expected):
    np.testing.assert_allclose(adjusted(np.array([0.04, np.nan, 0.01, 0.02])), expected)


def test_p_values_of_domains_are_adjusted_separately():
    models = [many(drop=0.1 * k, seed=k, domain=["law", "art"] * 240) for k in range(4)]
    table = tables(*models, domains=True).psi.filter(evidence="all")
    for is_of_all, adjusted in ((True, holm), (False, benjamini_hochberg)):
        own = table.filter((pl.col("domain") == "all") == is_of_all)
        assert own["p_adjusted"].to_list() == adjusted(own["p_position"].to_numpy()).tolist()


def test_all_models_except_the_control_are_compared_with_it():
    table = tables(many(seed=1), many(drop=0.9, seed=2), control="m0").psi.filter(evidence="all")
    assert ["position_blind" in flags for flags in table["flags"]] == [True, False]
    assert table["control"].to_list() == [None, "m0"]
    assert table["p_control"][0] is None
    assert table["p_control_adjusted"][1] < 0.001


def test_copies_within_a_cluster_do_not_change_a_comparison():
    def copied(frame: pl.DataFrame, *, cluster: bool) -> pl.DataFrame:
        own = pl.col("document_id") if cluster else pl.lit(None, pl.String)
        ids = ("query_id", "document_id")
        return pl.concat(
            frame.with_columns(pl.format("{}-{}", name, pl.lit(k)) for name in ids).with_columns(
                cluster=frame.select(own).to_series() if cluster else own
            )
            for k in range(3)
        )

    seen = (many()["span_start_char"] < 400).cast(pl.Float64).to_list()
    pair = many(drop=0.1), many(drop=0.4, seed=1, visible=seen, pos_visible=0.5)

    def compared(*frames: pl.DataFrame) -> dict[str, Any]:
        return tables(*frames, windows=[("m0", "m1")]).comparisons.row(0, named=True)

    once = compared(*pair)
    clusters, documents = (compared(*(copied(f, cluster=c) for f in pair)) for c in (True, False))
    for name in ("p_difference", "p_hit", "p_miss", "p_cut_gain", "cut_gain_low", "difference_low"):
        assert clusters[name] == pytest.approx(once[name]), name
        assert documents[name] != pytest.approx(once[name], rel=1e-3), name


@pytest.mark.parametrize("n_lost", [0, 12])
def test_two_input_lengths_score_short_documents_alike(n_lost):
    # Every other document is whole in the shorter input, which scores there as the longer one. Two
    # documents' queries may have no score.
    whole = [float(i // 6 % 2) for i in range(480)]
    has_score = pl.col("query_id") >= f"q{n_lost:03d}"
    frame = many().with_columns(pl.when(has_score).then("ndcg@10").alias("ndcg@10"))
    shorter = many(visible=whole, pos_visible=whole)
    shorter = shorter.with_columns(frame["ndcg@10"] * pl.Series(whole))
    found = tables(frame, shorter, windows=[("m0", "m1")]).comparisons
    conform(found, COMPARISONS, where="x")
    (row,) = found.rows(named=True)
    gain = frame.filter(pl.Series(whole) == 0)["ndcg@10"].mean()
    assert (row["model"], row["other"], row["relation"]) == ("m0", "m1", "shorter_input")
    assert (row["n_cut"], row["cut_gain"]) == (240 - n_lost / 2, pytest.approx(gain))
    assert row["cut_gain_low"] < gain < row["cut_gain_high"]
    assert row["uncut_gain"] == 0
    assert row["uncut_gain_low"] == -row["uncut_gain_high"] < 0


def test_small_buckets_count_and_are_flagged():
    # One query in the last bucket, which scores 0: PSI 1 over both buckets, not null over one.
    frame = made([(10, 1.0)] * 30 + [(700, 0.0)])
    row = psi(frame, settings=Uncertainty(min_bucket_size=5)).row(0, named=True)
    assert (row["n_buckets"], row["smallest_bucket"], row["psi"]) == (2, 1, 1.0)
    assert "small_buckets" in row["flags"]
    assert "small_buckets" not in psi(frame, settings=Uncertainty(min_bucket_size=1))["flags"][0]
    assert (row["n_documents"], row["psi_low"], row["psi_high"]) == (16, None, None)


NO_SPAN = {
    **dict.fromkeys(("span_start_char", "span_mid_char", "relative_position"), None),
    **{"visible": None, "pos_visible": 0.5},
}


def test_mixed_evidence_has_a_separate_row_and_no_third():
    # Two thirds hold one query each (1.0, 0.5); a third query, of both, scores 0.3.
    target = ["beginning", "end", "mixed"]
    frame = made([(10, 1.0), (700, 0.5), (20, 0.3)], target_position=target)
    found = psi(frame, schemes=["thirds"])
    columns = ("evidence", "n_queries", "n_buckets", "mean", "psi")
    assert found.select(columns).filter(pl.col("evidence") != "whole").rows() == [
        ("all", 3, 2, pytest.approx(0.6), 0.5),
        ("visible", 3, 2, pytest.approx(0.6), 0.5),
        ("mixed", 1, 0, 0.3, None),
    ]
    assert ["unplaced" in row for row in found["flags"]] == [True] * 4
    held = buckets(frame, schemes=["thirds"]).filter(evidence="all")["n_queries"].to_list()
    assert held == [1, 0, 1]
    assert "unplaced" not in psi(frame, schemes=["squad"]).item(0, "flags")


def test_unknown_evidence_counts_in_means_but_has_no_bucket():
    # A document that is read in part: the visible part of evidence without a position is unknown.
    frame = made(
        [(10, 1.0), (700, 0.5), (20, 0.3)], target_position=["beginning", "end", "unknown"]
    )
    is_lost = pl.col("target_position") == "unknown"
    frame = frame.with_columns(
        pl.when(is_lost).then(pl.lit(value)).otherwise(name).alias(name)
        for name, value in NO_SPAN.items()
    )
    table = psi(frame, schemes=["thirds"])
    columns = ("evidence", "n_queries", "n_buckets", "mean", "psi")
    assert table.select(columns).filter(pl.col("evidence") != "whole").rows() == [
        ("all", 3, 2, pytest.approx(0.6), 0.5),
        # Without it the other queries' evidence would have no row.
        ("visible", 2, 2, pytest.approx(0.75), 0.5),
    ]
    assert "unplaced" in table.item(0, "flags")
    assert table.item(0, "seen") == 1.0  # of the two that are known to be somewhere
    for scheme in ("thirds", "relative-20"):
        held = buckets(frame, schemes=[scheme]).filter(evidence="all")
        assert held["n_queries"].sum() == 2


def test_evidence_known_by_class_has_no_visible_rows():
    many_classes = ["beginning", "middle", "end"] * 160
    frame = many().with_columns(target_position=pl.Series(many_classes))
    by_class = frame.with_columns(pl.lit(v).alias(name) for name, v in NO_SPAN.items())
    plain = psi(frame, schemes=["thirds"]).filter(evidence="all")
    found = psi(by_class, schemes=["thirds"])
    assert found["evidence"].to_list() == ["all", "whole"]
    row = found.filter(evidence="all")
    for name in ("seen", "truncation", "truncation_low", "truncation_high", "p_truncation"):
        assert row[name].to_list() == [None]
    assert row["flags"].to_list() == ["given_unknown"]
    same = ["psi", "psi_same", "psi_low", "psi_high", "mean", "test", "p_shape", "n_documents"]
    assert row.select(same).equals(plain.select(same))


def test_documents_with_one_position_are_compared_between_documents():
    # Of 2,040 documents 40 hold both thirds: no test between documents either, of unknown lengths.
    def frame(seed: int) -> pl.DataFrame:
        scores = np.random.default_rng(seed).random(2080)
        starts = [10, 700] * 1040
        held = [f"d{i // 2 if i < 80 else i:04d}" for i in range(2080)]
        rows = list(zip(starts, scores.tolist(), strict=True))
        return made(rows, document_id=held).with_columns(pos_char_length=None)

    found = tables(frame(1), frame(2), schemes=["thirds"], pairs=[("m0", "m1")])
    assert found.psi.filter(evidence="all")["test"].to_list() == [None, None]
    row = found.comparisons.filter(evidence="all").row(0, named=True)
    assert (row["p_profile"], row["p_hit"], row["p_miss"]) == (None, None, None)
    assert row["p_difference"] is not None


def test_between_documents_of_unknown_length_nothing_is_tested():
    frame = many().with_columns(document_id=pl.col("query_id"), pos_char_length=None)
    row = psi(frame, schemes=["thirds"]).filter(evidence="all").row(0, named=True)
    assert (row["test"], row["p_shape"], row["length_imbalance"]) == (None, None, None)
    assert row["flags"] == "between_documents, no_lengths"
    assert row["psi"] is not None


def test_queries_are_ordered_by_span_or_by_their_thirds_middle():
    # Of 600 characters the thirds' middles are 100, 300 and 500; mixed evidence counts as 300.
    classes = ["beginning", "middle", "end", "mixed", "end"]
    frame = pl.DataFrame({"target_position": classes, "pos_char_length": 600}).with_columns(
        span_mid_char=pl.Series([None] * 4 + [450.5], dtype=pl.Float64)
    )
    order = frame.select(_order_in_document()).to_series()
    assert order.to_list() == pytest.approx([100, 300, 500, 300, 450.5])


def test_views_of_equal_size_have_separate_estimates():
    # The first query's span runs over its text: the positive is whole, the span is not visible;
    # of the last one's positive, a part was read, and the span whole.
    frame = made(
        [(10, 0.8), (250, 0.4), (350, 0.1)], visible=[0.9, 1, 1], pos_visible=[1.0, 1.0, 0.7]
    )
    table = psi(frame)
    assert table.select("evidence", "n_queries", "psi").rows() == [
        ("all", 3, pytest.approx(0.875)),
        ("visible", 2, pytest.approx(0.75)),
        ("whole", 2, pytest.approx(0.5)),
    ]


def test_a_given_pair_is_compared_where_both_models_have_scores():
    found = tables(many(drop=0.0), many(drop=0.6), pairs=[("m0", "m1"), ("m0", "gone")])
    (row,) = found.comparisons.rows(named=True)
    assert (row["model"], row["other"], row["relation"]) == ("m0", "m1", "given")
    assert row["psi_difference_high"] < 0 < row["difference_low"]


def test_blas_uses_one_thread_for_the_tables():
    seen = []

    def blas_threads():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    def no_models():
        seen.append(blas_threads())
        yield from ()

    with threadpool_limits(2, user_api="blas"):
        with pytest.raises(InputError, match="no model"):
            result_tables(no_models(), labels=LABELS, metrics=METRICS)
        assert blas_threads() == {2}
    assert seen == [{1}]
