"""False negatives by PosIR's protocol: documents above the positive go, with their queries."""

import pytest
from fake_reranker import PairReranker
from negatives_chain import NegativesChain

from psibench.errors import InputError
from psibench.filters.negatives import PosirNegatives

SECTION = PosirNegatives(protocol="posir", recall={"model": "bm25"}, rerankers=["a", "b"])
QUERIES = {"q1": "d1", "q2": "d2", "q3": "d3", "q4": "d4"}
RECALL = [
    *(("q1", "d1"), ("q1", "d2"), ("q1", "d5")),
    *(("q2", "d2"), ("q2", "d1")),
    *(("q3", "d3"), ("q3", "d5")),
    ("q4", "d4"),  # only its positive, so nothing is compared with it
]
# d2 is above q1's positive under a, d5 above q3's under b; d5 is as high as q1's under both.
A = {
    **{("q1", "d1"): 0.5, ("q1", "d2"): 0.75, ("q1", "d5"): 0.5},
    **{("q2", "d2"): 0.75, ("q2", "d1"): 0.25},
    **{("q3", "d3"): 0.5, ("q3", "d5"): 0.5},
}
B = {
    **{("q1", "d1"): 0.5, ("q1", "d2"): 0.25, ("q1", "d5"): 0.5},
    **{("q2", "d2"): 0.5, ("q2", "d1"): 0.25},
    **{("q3", "d3"): 0.5, ("q3", "d5"): 0.75},
}


def benchmark(folder, section=SECTION, **more) -> NegativesChain:
    tables = {"documents": ["d5", "d1", "d2", "d3", "d4"], "queries": QUERIES, "recall": RECALL}
    return NegativesChain(folder, section, **(tables | more))


def panel(a=A, b=B) -> tuple[PairReranker, PairReranker]:
    return PairReranker("a", a), PairReranker("b", b)


def whole(folder, section=SECTION) -> NegativesChain:
    chain = benchmark(folder, section)
    scores = chain.score(*panel())
    chain.decide(scores)
    chain.remove(scores)
    return chain


def test_positives_are_scored_before_what_is_compared_with_them(tmp_path):
    chain, (a, b) = benchmark(tmp_path), panel()
    chain.score(a, b)
    keys = ("query_id", "doc_id")
    assert chain.read("scores-a", "pair_scores").select(keys).rows() == [
        ("q1", "d1"), ("q2", "d2"), ("q3", "d3"),
        ("q1", "d2"), ("q1", "d5"), ("q2", "d1"), ("q3", "d5"),
    ]  # fmt: skip
    # d2 is above q1's positive under a already.
    assert chain.read("scores-b", "pair_scores").select(keys).rows() == [
        ("q1", "d1"), ("q2", "d2"), ("q3", "d3"),
        ("q1", "d5"), ("q2", "d1"), ("q3", "d5"),
    ]  # fmt: skip
    assert sorted(b.asked) == sorted(set(B) - {("q1", "d2")})


def test_documents_above_a_positive_leave_with_the_queries_whose_positive_they_were(tmp_path):
    chain = whole(tmp_path)
    decided = chain.read("negatives", "pair_decisions")
    columns = ("query_id", "doc_id", "is_positive", "score", "decided_by")
    assert decided.select(columns).rows() == [
        ("q1", "d2", True, 0.25, "a"),
        ("q1", "d5", False, 0.0, "b"),  # equal is not above
        ("q2", "d1", False, -0.25, "b"),
        ("q3", "d5", True, 0.25, "b"),
    ]
    assert chain.ids("corpus") == ["d1", "d3", "d4"]
    assert chain.ids("queries") == ["q1", "q3", "q4"]
    assert chain.read("qrels").rows() == [("q1", "d1", 1), ("q3", "d3", 1), ("q4", "d4", 1)]
    assert chain.read("corpus")["topic"].to_list() == ["t"] * 3
    chain.check_ledger()


def test_the_ledger_has_rows_for_documents_and_for_questions(tmp_path):
    chain = whole(tmp_path)
    columns = ("unit", "item_id", "doc_id", "reason", "detail", "score", "target_position")
    assert chain.read("dropped").select(columns).rows() == [
        ("documents", "d5", "d5", "false_negative", "by q3", 0.25, None),
        ("documents", "d2", "d2", "false_negative", "by q1", 0.25, None),
        ("questions", "q2", "d2", "positive_removed", "by d2", 0.25, "beginning"),
    ]
    assert chain.read("flow").select("stage", "step", "unit", "entered", "kept").rows() == [
        ("false_negatives", 9, "documents", 5, 3),
        ("false_negatives", 9, "questions", 4, 3),
    ]


def test_copies_that_remove_each_others_queries_are_refused(tmp_path):
    chain = benchmark(
        tmp_path,
        documents=["d1", "d2"],
        queries={"q1": "d1", "q2": "d2"},
        recall=[("q1", "d2"), ("q2", "d1")],
    )
    known = {("q1", "d1"): 0.5, ("q1", "d2"): 0.75, ("q2", "d2"): 0.5, ("q2", "d1"): 0.75}
    scores = chain.score(*panel(known, known))
    chain.decide(scores)
    with pytest.raises(InputError, match=r"leave none of 2 queries; set false_negatives.under"):
        chain.remove(scores)
