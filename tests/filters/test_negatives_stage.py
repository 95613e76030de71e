"""False negatives by FineWeb-PosQ's protocol: scripted rerankers and judges, worked out by hand."""

import pytest
from fake_reranker import PairReranker
from negatives_chain import NegativesChain

from psibench.errors import InputError
from psibench.filters.negatives import FinewebNegatives
from psibench.tables import read_provenance

SECTION = FinewebNegatives(
    protocol="fineweb_posq",
    recall={"model": "bm25"},
    rerankers=["a", "b", "c"],
    judges=["x", "y", "z"],
)
QUERIES = {"q1": "d1", "q2": "d2", "q3": "d3", "q4": "d4"}
# Of q4 only its positive is recalled, so it has no pair.
RECALL = [
    *(("q1", "d1"), ("q1", "d2"), ("q1", "d3")),
    *(("q2", "d2"), ("q2", "d1"), ("q2", "d3")),
    *(("q3", "d3"), ("q3", "d1")),
    ("q4", "d4"),
]
# Above 0.5 is a vote for the pair; two of three decide. Entries that nobody asks for are absent.
A = {("q1", "d2"): 0.75, ("q1", "d3"): 0.5, ("q2", "d1"): 1, ("q2", "d3"): 0.5, ("q3", "d1"): 0.5}
B = {("q1", "d2"): 0.75, ("q1", "d3"): 0.25, ("q2", "d1"): 0, ("q2", "d3"): 1, ("q3", "d1"): 0.75}
C = {("q2", "d1"): 0.75, ("q2", "d3"): 0.5, ("q3", "d1"): 0.75}
# Grades of 3 and 4 are votes for the pair; two of three decide. None is no usable reply.
GRADES = {
    **{("x", "q1", "d2"): 3, ("x", "q2", "d1"): None, ("x", "q3", "d1"): 2},
    **{("y", "q1", "d2"): 4, ("y", "q2", "d1"): 3, ("y", "q3", "d1"): 2},
    **{("z", "q2", "d1"): 2},
}


def benchmark(folder, section=SECTION, **more) -> NegativesChain:
    return NegativesChain(
        folder, section, documents=["d4", "d3", "d2", "d1"], queries=QUERIES, recall=RECALL, **more
    )


def panel(c=C) -> list[PairReranker]:
    return [PairReranker(name, known) for name, known in (("a", A), ("b", B), ("c", c))]


def whole(folder, grades=GRADES) -> NegativesChain:
    """Run all stages."""
    chain = benchmark(folder)
    scores = chain.score(*panel())
    chain.decide(scores)
    chain.remove(scores, chain.judge(grades))
    return chain


def test_rerankers_vote_until_a_pair_is_decided(tmp_path):
    chain, (a, b, c) = benchmark(tmp_path), panel()
    decided = chain.decide(chain.score(a, b, c))
    columns = ("query_id", "doc_id", "is_positive", "reason", "score", "decided_by", "n_yes")
    assert decided.select(columns).rows() == [
        ("q1", "d2", True, "majority_positive", 0.75, "b", 2),
        ("q1", "d3", False, "", 0.25, "b", 0),
        ("q2", "d1", True, "majority_positive", 0.75, "c", 2),
        ("q2", "d3", False, "", 0.5, "c", 1),  # 0.5 twice: no vote
        ("q3", "d1", True, "majority_positive", 0.75, "c", 2),
    ]
    assert sorted(a.asked) == sorted(b.asked) == sorted(A)
    assert sorted(c.asked) == sorted(C)
    assert chain.read("scores-c", "pair_scores").rows() == [
        ("q2", "d1", "c", 0.75, 7.5),
        ("q2", "d3", "c", 0.5, 5.0),
        ("q3", "d1", "c", 0.75, 7.5),
    ]


def test_a_judge_is_shown_whole_documents_and_only_what_is_open(tmp_path):
    chain = benchmark(tmp_path)
    chain.decide(chain.score(*panel()))
    chain.judge(GRADES)
    first = chain.read("judge_1_pairs", "pairs")
    assert first.row(0) == ("q1--d2", "q1", "d2", "document", "q1 text", "d2 text")
    assert [chain.read(f"judge_{n}_pairs", "pairs")["_id"].to_list() for n in (1, 2, 3)] == [
        ["q1--d2", "q2--d1", "q3--d1"],
        ["q1--d2", "q2--d1", "q3--d1"],
        ["q2--d1"],  # the others have two votes one way
    ]


def test_a_confirmed_question_is_dropped_and_its_passages_stay(tmp_path):
    chain = whole(tmp_path)
    assert chain.ids("queries") == ["q2", "q3", "q4"]
    assert chain.ids("corpus") == ["d4", "d3", "d2", "d1"]
    assert chain.read("qrels").rows() == [("q2", "d2", 1), ("q3", "d3", 1), ("q4", "d4", 1)]
    assert "topic" in chain.read("corpus").columns
    assert chain.read("queries")["answer"].to_list() == ["a"] * 3
    columns = ("stage", "unit", "item_id", "doc_id", "reason", "detail", "score")
    assert chain.read("dropped").select(columns).rows() == [
        ("false_negatives", "questions", "q1", "d1", "false_negative", "by d2", 4.0)
    ]
    facts = chain.read("dropped").select("target_position", "char_length", "language", "domain")
    assert facts.rows() == [("beginning", 7, "eng-Latn", "general")]
    columns = ("stage", "step", "unit", "entered", "kept", "dropped")
    assert chain.read("flow").select(columns).rows() == [
        ("false_negatives", 9, "questions", 4, 3, 1)
    ]
    chain.check_ledger()


def test_judgements_say_who_judged_which_pair_how(tmp_path):
    found = whole(tmp_path).read("judgements")
    columns = ("query_id", "doc_id", "kind", "scorer", "score", "grade", "vote")
    assert found.select(columns).rows() == [
        ("q1", "d2", "reranker", "a", 0.75, None, True),
        ("q1", "d2", "reranker", "b", 0.75, None, True),
        ("q1", "d2", "judge", "x", None, 3, True),
        ("q1", "d2", "judge", "y", None, 4, True),
        ("q2", "d1", "reranker", "a", 1.0, None, True),
        ("q2", "d1", "reranker", "b", 0.0, None, False),
        ("q2", "d1", "reranker", "c", 0.75, None, True),
        ("q2", "d1", "judge", "x", None, None, None),
        ("q2", "d1", "judge", "y", None, 3, True),
        ("q2", "d1", "judge", "z", None, 2, False),
        ("q3", "d1", "reranker", "a", 0.5, None, False),
        ("q3", "d1", "reranker", "b", 0.75, None, True),
        ("q3", "d1", "reranker", "c", 0.75, None, True),
        ("q3", "d1", "judge", "x", None, 2, False),
        ("q3", "d1", "judge", "y", None, 2, False),
    ]
    verdicts = found.select("query_id", "is_false_negative", "reason").unique(maintain_order=True)
    assert verdicts.rows() == [
        ("q1", True, "judged_relevant"),
        ("q2", False, "unusable_vote"),  # one vote for it, one against, one unusable
        ("q3", False, ""),
    ]
    assert found.filter(kind="reranker", scorer="a")["raw"].to_list() == [7.5, 10.0, 5.0]


def test_provenance_names_those_who_scored_and_the_thresholds(tmp_path):
    chain = whole(tmp_path)
    record = read_provenance(chain.path("judgements"))
    assert set(record["revisions"]) == {"reranker:a", "reranker:b", "reranker:c"}
    assert (record["queries_by"], record["llm_backend"]) == ("llm:the-author", "stand-in")
    known = {"judges": ["x", "y", "z"], "needed": 2, "min_grade": 3, "threshold": 0.5}
    assert known.items() <= record["params"].items()
    assert read_provenance(chain.path("scores-a"))["params"]["fingerprint"] == f"{'a':0<32}"
    assert "judges" not in read_provenance(chain.path("scores-a"))["params"]["section"]
    for name in ("corpus", "queries", "qrels", "dropped", "flow"):
        assert read_provenance(chain.path(name))["stage"] == "remove_negatives"


def test_where_no_question_would_be_left_the_stage_says_what_to_change(tmp_path):
    chain = NegativesChain(
        tmp_path,
        SECTION,
        documents=["d1", "d2"],
        queries={"q1": "d1"},
        recall=[("q1", "d1"), ("q1", "d2")],
    )
    scores = chain.score(*(PairReranker(name, {("q1", "d2"): 1.0}) for name in "abc"))
    chain.decide(scores)
    judged = chain.judge({(j, "q1", "d2"): 4 for j in "xyz"})
    with pytest.raises(InputError, match=r"leave none of 1 queries; raise false_negatives.thresh"):
        chain.remove(scores, judged)
    assert not chain.path("corpus").exists()
