"""What reaches a reranker that looks for false negatives: order, blocks, gaps, odd inputs."""

import pytest
from fake_reranker import PairReranker
from negatives_chain import NegativesChain

from psibench.filters.negatives import FinewebNegatives
from psibench.rerankers import scoring

SECTION = FinewebNegatives(
    protocol="fineweb_posq",
    recall={"model": "bm25"},
    rerankers=["a", "b", "c"],
    judges=["x"],
    needed=1,
)
DOCUMENTS = ["d1", "d2", "d3"]
QUERIES = {"q1": "d1", "q2": "d2"}
RECALL = [("q1", "d3"), ("q1", "d2"), ("q1", "d1"), ("q2", "d1"), ("q2", "d2"), ("q2", "d3")]
PAIRS = [("q1", "d3"), ("q1", "d2"), ("q2", "d1"), ("q2", "d3")]
SCORES = {pair: place / 4 for place, pair in enumerate(PAIRS)}


def benchmark(folder, **more) -> NegativesChain:
    tables = {"documents": DOCUMENTS, "queries": QUERIES, "recall": RECALL}
    return NegativesChain(folder, SECTION, **(tables | more))


@pytest.mark.parametrize("size", [1, 3])
def test_blocks_change_nothing_and_load_the_reranker_once(tmp_path, monkeypatch, size):
    monkeypatch.setattr(scoring, "PAIRS_PER_BLOCK", size)
    chain, reranker = benchmark(tmp_path), PairReranker("a", SCORES)
    chain.score_one(reranker)
    assert chain.read("scores-a", "pair_scores")["score"].to_list() == list(SCORES.values())
    assert reranker.n_loads == 1
    assert sorted(reranker.asked) == sorted(SCORES)
    again = PairReranker("a", {})
    chain.score_one(again)
    assert again.asked == []  # all of it is in the store


def test_a_document_without_text_is_null_and_no_candidate(tmp_path):
    chain = benchmark(tmp_path, texts={"d3": " "})
    panel = [PairReranker(name, {("q1", "d2"): 1.0, ("q2", "d1"): 0.0}) for name in "abc"]
    decided = chain.decide(chain.score(*panel))
    assert chain.read("scores-a", "pair_scores")["raw"].to_list() == [None, 10.0, 0.0, None]
    assert decided.select("doc_id", "is_positive", "reason").rows() == [
        ("d3", False, "unusable_vote"),
        ("d2", True, "majority_positive"),
        ("d1", False, ""),
        ("d3", False, "unusable_vote"),
    ]


def test_queries_of_other_domains_in_the_run_are_left_aside(tmp_path):
    chain = benchmark(tmp_path, recall=[("other", "far"), *RECALL])
    chain.score_one(PairReranker("a", SCORES))
    assert set(chain.read("scores-a", "pair_scores")["query_id"]) == {"q1", "q2"}
