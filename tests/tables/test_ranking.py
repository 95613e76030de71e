import numpy as np
import polars as pl
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from psibench.errors import InputError
from psibench.tables import conform, ranking
from psibench.tables.ranking import may_be_among, rank_documents
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


def test_nan_scores_are_refused():
    with pytest.raises(InputError, match="document 'd' the score nan"):
        rank_documents(scored(("q", "a", 1.0), ("q", "d", float("nan"))))


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(ranking, "ROWS_AT_ONCE", 4)


@pytest.mark.parametrize("order", ["ranked", "by query", "queries reversed", "shuffled"])
@pytest.mark.parametrize("n_values", [1, 3, 100])
def test_blocks_of_rows_change_no_ranking(small_blocks, order, n_values):
    rng = np.random.default_rng(n_values)
    rows = [
        (query, f"{letter}{number}", float(rng.integers(n_values)) - 1 + 1e-9 * number)
        for query in ("z", "\U0001f600", "\ue000", "é", "a", "")
        for letter in "aé\ue000\U0001f600"
        for number in range(rng.integers(4))
    ]
    # Code points, like bytes; scores as float32, where the differences of 1e-9 are ties, but at 0.
    expected = sorted(rows, key=lambda row: row[1], reverse=True)
    expected.sort(key=lambda row: (row[0], -np.float32(row[2])))
    given = {
        "ranked": expected,
        "by query": sorted(rows),
        "queries reversed": sorted(expected, key=lambda row: row[0], reverse=True),
        "shuffled": [rows[i] for i in rng.permutation(len(rows))],
    }[order]
    pieces = pl.concat([scored(*given[:7]), scored(*given[7:])], rechunk=False)
    run = rank_documents(pieces)
    assert run.select("query_id", "doc_id").rows() == [row[:2] for row in expected]
    ranks = [sum(row[0] == one[0] for row in expected[: i + 1]) for i, one in enumerate(expected)]
    assert run["rank"].to_list() == ranks


@pytest.mark.parametrize("place", range(9))
def test_repeated_pair_is_refused_in_any_block(small_blocks, place):
    # Documents repeat between queries; the same pair has two scores. A query has more than a block.
    rows = [(query, f"d{i}", -float(i)) for query in ("a", "b", "c") for i in range(9)]
    assert rank_documents(scored(*rows)).height == 27
    again = ("b", f"d{place}", -20.0)
    with pytest.raises(InputError, match=f"document 'd{place}' 2 times for query 'b' \\(1 such"):
        rank_documents(scored(*rows, again))


@pytest.mark.parametrize("n_wanted", [0, 1, 5000])
def test_prefilter_of_keys_never_drops_a_wanted_key(n_wanted):
    keys = pl.Series(np.arange(100_000)).hash(3)
    passes = may_be_among(keys[:n_wanted])(keys)
    assert passes[:n_wanted].all()
    assert passes[n_wanted:].mean() < 1 / 12
