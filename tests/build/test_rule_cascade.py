import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rule_tables import (
    decision_rows,
    examples,
)

from psibench.build.rules.cascade import remove_documents
from psibench.build.rules.drops import dropped_rows, kept_items
from psibench.errors import InputError
from psibench.tables import conform
from psibench.tables.dropped import DROPPED_SCHEMA
from psibench.tables.verify_schemas import DECISIONS


def ids_frame(names):
    return pl.DataFrame({"_id": list(names)}, schema={"_id": pl.String})


def qrels_frame(rows):
    schema = {"query-id": pl.String, "corpus-id": pl.String, "score": pl.Int32}
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def decided_frame(rows):
    """Make what the cascade reads of PAIR_DECISIONS: query, document, is_positive, score."""
    schema = dict.fromkeys(("query_id", "doc_id"), pl.String)
    schema |= {"is_positive": pl.Boolean, "score": pl.Float64}
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def test_a_removed_document_takes_the_queries_whose_positive_it_was_with_it():
    built = remove_documents(
        ids_frame(["d3", "d1", "d2", "d4"]),
        ids_frame(["q4", "q1", "q2", "q3"]),
        qrels_frame([("q1", "d1", 1), ("q2", "d2", 1), ("q3", "d3", 1), ("q4", "d4", 1)]),
        decided_frame(
            [
                ("q1", "d2", True, 0.25),  # d2 goes, q2 with it
                ("q3", "d2", True, 0.5),  # found again, further above
                ("q1", "d3", False, -0.5),  # not positive: stays
                ("q1", "gone", True, 0.9),  # not in this corpus
            ]
        ),
    )
    assert built.corpus.get_column("_id").to_list() == ["d3", "d1", "d4"]
    assert built.queries.get_column("_id").to_list() == ["q4", "q1", "q3"]
    assert built.qrels.rows() == [("q1", "d1", 1), ("q3", "d3", 1), ("q4", "d4", 1)]
    documents = decision_rows(built.document_decisions)
    assert documents == {
        "d3": (True, "", None, None),
        "d1": (True, "", None, None),
        "d2": (False, "false_negative", 0.5, "q3"),
        "d4": (True, "", None, None),
    }
    assert decision_rows(built.query_decisions)["q2"] == (False, "positive_removed", 0.5, "d2")
    for made in (built.document_decisions, built.query_decisions):
        conform(made, DECISIONS, where="made")


def test_two_copies_of_one_answer_remove_each_other():
    # Each is above the other's positive under one reranker; order must not decide who survives.
    built = remove_documents(
        ids_frame(["d1", "d2"]),
        ids_frame(["q1", "q2"]),
        qrels_frame([("q1", "d1", 1), ("q2", "d2", 1)]),
        decided_frame([("q1", "d2", True, 0.1), ("q2", "d1", True, 0.1)]),
    )
    assert (built.corpus.height, built.queries.height, built.qrels.height) == (0, 0, 0)


def test_a_query_with_several_positives_goes_with_one_of_them():
    built = remove_documents(
        ids_frame(["d1", "d2", "d3"]),
        ids_frame(["q1", "q2"]),
        qrels_frame([("q1", "d1", 1), ("q1", "d2", 1), ("q2", "d3", 1), ("q2", "d2", 0)]),
        decided_frame([("q2", "d2", True, 0.25)]),
    )
    assert built.queries.get_column("_id").to_list() == ["q2"]
    # No qrel names a document or a query that is not there any more, whatever its grade.
    assert built.qrels.rows() == [("q2", "d3", 1)]


def test_nothing_found_changes_nothing():
    corpus, queries = ids_frame(["d1"]), ids_frame(["q1"])
    qrels = qrels_frame([("q1", "d1", 1)])
    built = remove_documents(corpus, queries, qrels, decided_frame([]))
    assert built.corpus.equals(corpus)
    assert built.queries.equals(queries)
    assert built.qrels.equals(qrels)
    assert built.query_decisions.get_column("kept").to_list() == [True]


names = st.integers(0, 5)


@examples
@given(
    positives=st.lists(
        st.tuples(names, names, st.integers(0, 1)), max_size=12, unique_by=lambda r: r[:2]
    ),
    found=st.lists(
        st.tuples(names, names, st.booleans(), st.sampled_from([0.25, 0.5])),
        max_size=12,
        unique_by=lambda r: r[:2],
    ),
    seed=st.randoms(use_true_random=False),
)
def test_the_cascade_equals_plain_sets_in_any_order(positives, found, seed):
    qrels = [(f"q{q}", f"d{d}", grade) for q, d, grade in positives]
    decided = [(f"q{q}", f"d{d}", hit, score) for q, d, hit, score in found]
    corpus, queries = [f"d{i}" for i in range(5)], [f"q{i}" for i in range(6)]
    gone = {d for _, d, hit, _ in decided if hit} & set(corpus)
    dropped = {q for q, d, grade in qrels if grade > 0 and d in gone}

    built = remove_documents(
        ids_frame(corpus), ids_frame(queries), qrels_frame(qrels), decided_frame(decided)
    )
    assert built.corpus.get_column("_id").to_list() == [d for d in corpus if d not in gone]
    assert built.queries.get_column("_id").to_list() == [q for q in queries if q not in dropped]
    left = [row for row in qrels if row[0] not in dropped and row[1] not in gone]
    assert built.qrels.rows() == left
    for decisions, items, out in (
        (built.document_decisions, corpus, gone),
        (built.query_decisions, queries, dropped),
    ):
        kept = dict(decisions.select("item_id", "kept").iter_rows())
        assert kept == {item: item not in out for item in items}

    seed.shuffle(decided)
    again = remove_documents(
        ids_frame(corpus), ids_frame(queries), qrels_frame(qrels), decided_frame(decided)
    )
    assert again.document_decisions.equals(built.document_decisions)
    assert again.query_decisions.equals(built.query_decisions)


def test_a_document_that_occurs_twice_is_refused():
    with pytest.raises(InputError, match="corpus: _id repeated in 2 rows"):
        remove_documents(ids_frame(["d", "d"]), ids_frame([]), qrels_frame([]), decided_frame([]))


DECIDED = pl.DataFrame(
    {
        "rule": ["r"] * 3,
        "item_id": ["q2", "q1", "q3"],
        "kept": [False, True, False],
        "reason": ["low", "", "no_target"],
        "score": [0.25, 0.5, None],
        "decided_by": ["a", "a", None],
    },
    schema_overrides={"score": pl.Float64},
)


def test_dropped_rows_say_what_was_lost_where_and_why():
    items = ids_frame(["q1", "q2", "q3"]).with_columns(
        doc_id=pl.Series(["d1", "d2", "d2"], dtype=pl.String),
        target_position=pl.Series(["end", "middle", None], dtype=pl.String),
        char_length=pl.Series([10, 20, 30], dtype=pl.Int32),
    )
    dropped = dropped_rows(DECIDED, items, stage="agreement", unit="questions")
    assert dict(dropped.schema) == DROPPED_SCHEMA
    assert dropped.rows() == [
        ("agreement", "questions", "q2", "d2", "low", "by a", 0.25, "middle", 20),
        ("agreement", "questions", "q3", "d2", "no_target", None, None, None, 30),
    ]
    ids = ids_frame(["q1", "q2", "q3"])
    bare = dropped_rows(DECIDED, ids, stage="agreement", unit="questions")
    assert dict(bare.schema) == DROPPED_SCHEMA
    assert bare["unit"].to_list() == ["questions"] * 2
    assert bare["doc_id"].null_count() == 2
    assert kept_items(items, DECIDED).get_column("_id").to_list() == ["q1"]
    assert dropped.height + kept_items(items, DECIDED).height == items.height
