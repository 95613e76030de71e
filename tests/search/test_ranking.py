import numpy as np
import polars as pl
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from psibench.errors import InputError
from psibench.search.ranking import RUN_DTYPES, rank_documents, repeated_pairs, top_k_of_row
from psibench.tables import conform
from psibench.tables.schemas import RUN


def scored(*rows: tuple[str, str, float]) -> pl.DataFrame:
    schema = {"query_id": pl.String, "doc_id": pl.String, "score": pl.Float64}
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def test_orders_by_score_then_by_doc_id_the_last_first():
    run = rank_documents(
        scored(("q2", "d9", 0.1), ("q1", "db", 0.5), ("q1", "dc", 0.9), ("q1", "da", 0.5))
    )
    assert run.rows() == [
        ("q1", "dc", 1, pytest.approx(0.9)),
        ("q1", "db", 2, 0.5),
        ("q1", "da", 3, 0.5),
        ("q2", "d9", 1, pytest.approx(0.1)),
    ]
    conform(run, RUN, where="run")


def test_ids_compare_by_code_point_also_beyond_the_basic_plane():
    # U+FFFD sorts before U+1F600 by code point; UTF-16 units would turn them round.
    run = rank_documents(scored(("问", "\U0001f600", 1), ("问", "\ufffd", 1), ("问", "文", 1)))
    assert run["doc_id"].to_list() == ["\U0001f600", "\ufffd", "文"]


def test_scores_that_differ_below_float32_are_ties():
    run = rank_documents(scored(("q", "b", 1.0), ("q", "a", 1.0 + 1e-12)))
    assert run["doc_id"].to_list() == ["b", "a"]


def test_negative_zero_ties_with_zero():
    run = rank_documents(scored(("q", "b", 0.0), ("q", "a", -0.0), ("q", "c", -0.0)))
    assert run["doc_id"].to_list() == ["c", "b", "a"]


IDS = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=3
)  # ids are bytes to trec_eval: any script, and both sides of the surrogates


@given(
    ids=st.lists(IDS, min_size=1, max_size=12, unique=True),
    scores=st.lists(
        st.sampled_from([-1.0, -0.0, 0.0, 1.0, 1.0 + 1e-12, 0.1, 0.1 + 1e-9]),
        min_size=12,
        max_size=12,
    ),
)
def test_trec_eval_reads_a_run_in_the_order_it_was_written(ids, scores):
    given_scores = dict(zip(ids, scores, strict=False))
    run = rank_documents(scored(*(("q", *pair) for pair in given_scores.items())))
    written = dict(run.select("doc_id", "score").rows())
    # Asked for each document alone, its reciprocal rank is where trec_eval puts it.
    judged = pytrec_eval.RelevanceEvaluator({one: {one: 1} for one in ids}, {"recip_rank"})
    for read in (given_scores, written):
        found = judged.evaluate(dict.fromkeys(ids, read))
        assert [round(1 / found[one]["recip_rank"]) for one in run["doc_id"]] == run[
            "rank"
        ].to_list()


def test_minus_infinity_is_a_lowest_score():
    run = rank_documents(scored(("q", "a", float("-inf")), ("q", "b", -1e30)))
    assert run["doc_id"].to_list() == ["b", "a"]


def test_top_k_keeps_the_first_of_every_query():
    run = rank_documents(scored(("q1", "a", 1), ("q1", "b", 2), ("q2", "c", 1)), top_k=1)
    assert run.select("query_id", "doc_id").rows() == [("q1", "b"), ("q2", "c")]


def test_empty_input_gives_an_empty_run_with_the_columns():
    assert dict(rank_documents(scored()).schema) == RUN_DTYPES


@pytest.mark.parametrize("seed", range(5))
def test_order_of_rows_has_no_influence(seed):
    frame = scored(*((f"q{i % 7}", f"d{i}", (i * 37 % 5) / 5) for i in range(200)))
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=seed)
    assert rank_documents(shuffled).equals(rank_documents(frame))


def test_ranking_a_ranked_run_changes_nothing():
    run = rank_documents(scored(*((f"q{i % 7}", f"d{i}", (i * 37 % 5) / 7) for i in range(200))))
    assert rank_documents(run).equals(run)


def test_shards_ranked_apart_and_merged_are_the_whole():
    frame = scored(*((f"q{i % 6}", f"d{i}", (i * 37 % 5) / 5) for i in range(60)))
    in_first = pl.col("query_id") < "q3"
    parts = [rank_documents(frame.filter(in_first)), rank_documents(frame.filter(~in_first))]
    assert pl.concat(parts).equals(rank_documents(frame))


def test_nan_is_refused_with_query_and_document():
    with pytest.raises(InputError, match=r"'q7', document 'd3' the score nan"):
        rank_documents(scored(("q1", "d1", 1.0), ("q7", "d3", float("nan"))))


@pytest.mark.parametrize("row", [("q", "d", None), (None, "d", 1.0), ("q", None, 1.0)])
def test_nulls_are_refused(row):
    with pytest.raises(InputError, match="every row needs two ids and a number"):
        rank_documents(scored(row))


def test_a_pair_given_twice_is_refused_even_with_other_scores():
    with pytest.raises(InputError, match=r"f.run scores document 'd1' 2 times for query 'q1'"):
        rank_documents(scored(("q1", "d1", 1), ("q1", "d2", 2), ("q1", "d1", 3)), source="f.run")


@pytest.mark.parametrize("top_k", [0, -1])
def test_top_k_below_one_is_refused(top_k):
    with pytest.raises(InputError, match="top_k"):
        rank_documents(scored(), top_k=top_k)


def test_a_missing_column_is_named():
    with pytest.raises(InputError, match=r"lacks the columns \['score'\]"):
        rank_documents(pl.DataFrame({"query_id": ["q"], "doc_id": ["d"]}))


def test_swapped_ids_are_not_a_repeated_pair():
    frame = scored(("a", "b", 1), ("b", "a", 1), ("a", "a", 1), ("b", "b", 1))
    assert repeated_pairs(frame, query="query_id", doc="doc_id").is_empty()


@pytest.mark.parametrize(
    ("scores", "k", "expected"),
    [
        ([0.1, 0.9, 0.5], 2, [1, 2]),
        ([0.5, 0.9, 0.5, 0.5], 3, [1, 0, 2]),
        ([1, 1, 1, 1], 2, [0, 1]),
        ([0.0, -0.0, 0.0], 2, [0, 1]),
        ([3, 1], 9, [0, 1]),
        ([7], 1, [0]),
        ([], 3, []),
    ],
)
def test_row_gives_the_largest_first_and_ties_by_place(scores, k, expected):
    assert top_k_of_row(np.array(scores, dtype=np.float32), k).tolist() == expected


few_values = st.sampled_from([-1.0, -0.0, 0.0, 0.25, 0.5, 1.0])  # many ties


@given(scores=st.lists(few_values, min_size=1, max_size=60), k=st.integers(1, 70))
def test_row_equals_a_full_sort(scores, k):
    row = np.array(scores, dtype=np.float32)
    expected = np.lexsort((np.arange(len(row)), -row))[:k]
    assert top_k_of_row(row, k).tolist() == expected.tolist()
