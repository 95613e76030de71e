import polars as pl
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from psibench.errors import InputError
from psibench.tables import conform
from psibench.tables.ranking import rank_documents
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
    # With one relevant document, the reciprocal rank shows where trec_eval ranks it.
    judged = pytrec_eval.RelevanceEvaluator({one: {one: 1} for one in ids}, {"recip_rank"})
    for read in (given_scores, written):
        found = judged.evaluate(dict.fromkeys(ids, read))
        assert [round(1 / found[one]["recip_rank"]) for one in run["doc_id"]] == run[
            "rank"
        ].to_list()


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (scored(("q", None, 1.0)), "every row needs two ids and a number"),
        (scored().drop("score"), r"f.run lacks the columns \['score'\]"),
        (scored().cast({"score": pl.Boolean}), "score in f.run is Boolean; allowed: numbers"),
    ],
)
def test_what_is_no_run_is_refused(frame, message):
    with pytest.raises(InputError, match=message):
        rank_documents(frame, source="f.run")
