"""What the stages of false negatives decide, against all scores at once and against plain loops."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rule_tables import any_score, examples, is_number, pair_scores

from psibench.build.false_negatives import (
    candidates_of,
    decide_candidates,
    decide_final,
    recalled_pairs,
    wanted_gradings,
    wanted_pairs,
    with_positives,
)
from psibench.build.removal import remove_false_negatives
from psibench.config.judging import FinewebNegatives, PosirNegatives
from psibench.errors import InputError
from psibench.tables.verify_schemas import JUDGE_GRADES, PAIR_SCORES

RECALL = {"model": "bm25"}
QUERIES = {"q1": "d1", "q2": "d2", "q3": "d3"}
DOCUMENTS = ["d1", "d2", "d3", "d4"]
PAIRS = [(query, document) for query in QUERIES for document in DOCUMENTS]
OTHERS = [(query, document) for query, document in PAIRS if QUERIES[query] != document]
RERANKERS, JUDGES = ["a", "b", "c"], ["x", "y", "z"]

ids = pl.DataFrame({"_id": DOCUMENTS})
asked = pl.DataFrame({"_id": list(QUERIES)})
qrels = pl.DataFrame(
    {"query-id": list(QUERIES), "corpus-id": list(QUERIES.values()), "score": [1, 1, 1]}
)
run = pl.DataFrame(PAIRS, schema=["query_id", "doc_id"], orient="row")
recalled = recalled_pairs(run, asked, qrels)


def fineweb(**more) -> FinewebNegatives:
    known = {"protocol": "fineweb_posq", "recall": RECALL, "rerankers": RERANKERS}
    return FinewebNegatives(**known, judges=JUDGES, **more)


def empty(spec) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(spec.schema.empty_table()))


def votes(scorers, pairs, values):
    """Draw {(query, document, scorer): value}, all of them."""
    keys = [(*pair, scorer) for scorer in scorers for pair in pairs]
    return st.lists(values, min_size=len(keys), max_size=len(keys)).map(
        lambda drawn: dict(zip(keys, drawn, strict=True))
    )


def score_in_turn(section, known) -> pl.DataFrame:
    """Let one reranker after the other score what is wanted of it."""
    made = empty(PAIR_SCORES)
    for reranker in section.rerankers:
        wanted = wanted_pairs(section, recalled, made, reranker=reranker)
        assert wanted.is_unique().all()
        new = {(*pair, reranker): known[(*pair, reranker)] for pair in wanted.iter_rows()}
        made = pl.concat([made, pair_scores(new)])
    return made


def grade_in_turn(section, candidates, known) -> pl.DataFrame:
    """Let one judge after the other grade what is wanted of it."""
    made = empty(JUDGE_GRADES)
    for judge in section.judges:
        wanted = wanted_gradings(section, candidates, made, judge=judge)
        rows = [(*p, judge, "document", known[(*p, judge)]) for p in wanted.iter_rows()]
        made = pl.concat([made, pl.DataFrame(rows, schema=made.schema, orient="row")])
    return made


def all_grades(known) -> pl.DataFrame:
    rows = [(*key, "document", grade) for key, grade in known.items()]
    return pl.DataFrame(rows, schema=empty(JUDGE_GRADES).schema, orient="row")


@examples
@given(
    votes(RERANKERS, OTHERS, any_score),
    votes(JUDGES, OTHERS, st.sampled_from([None, 0, 2, 3, 4])),
    st.integers(1, 3),
)
def test_asking_in_turn_drops_the_questions_that_asking_everybody_drops(scores, grades, needed):
    section = fineweb(needed=needed)
    made = score_in_turn(section, scores)
    decided = decide_candidates(section, recalled, made)
    assert decided.equals(decide_candidates(section, recalled, pair_scores(scores)))
    judged = grade_in_turn(section, candidates_of(decided), grades)
    found = decide_final(section, decided, judged)
    assert found.equals(decide_final(section, decided, all_grades(grades)))
    left = remove_false_negatives(section, found, corpus=ids, queries=asked, qrels=qrels)
    confirmed = {
        pair[0]
        for pair in OTHERS
        if sum(is_number(scores[(*pair, r)]) and scores[(*pair, r)] > 0.5 for r in RERANKERS) >= 2
        and sum((grades[(*pair, j)] or 0) >= 3 for j in JUDGES) >= needed
    }
    assert left.queries["_id"].to_list() == [q for q in QUERIES if q not in confirmed]
    assert left.qrels["query-id"].to_list() == left.queries["_id"].to_list()
    assert left.corpus.equals(ids)


@examples
@given(votes(RERANKERS, PAIRS, any_score), st.sampled_from(["any", "all"]))
def test_asking_in_turn_removes_the_documents_that_asking_everybody_removes(scores, under):
    section = PosirNegatives(protocol="posir", recall=RECALL, rerankers=RERANKERS, under=under)
    made = score_in_turn(section, scores)
    decided = decide_candidates(section, recalled, made)
    assert decided.equals(decide_candidates(section, recalled, pair_scores(scores)))
    found = decide_final(section, decided, empty(JUDGE_GRADES))
    left = remove_false_negatives(section, found, corpus=ids, queries=asked, qrels=qrels)

    def is_above(query, document, reranker):
        own, other = scores[query, QUERIES[query], reranker], scores[query, document, reranker]
        return is_number(own) and is_number(other) and other > own

    enough = {"any": any, "all": all}[under]
    gone = {pair[1] for pair in OTHERS if enough(is_above(*pair, r) for r in RERANKERS)}
    assert left.corpus["_id"].to_list() == [d for d in DOCUMENTS if d not in gone]
    assert left.queries["_id"].to_list() == [q for q, d in QUERIES.items() if d not in gone]


def test_complete_wants_everything_of_every_reranker():
    known = pair_scores(dict.fromkeys([(*pair, "a") for pair in OTHERS], 0.0))
    section = fineweb(complete=True)
    assert wanted_pairs(section, recalled, known, reranker="c").rows() == OTHERS
    posir = PosirNegatives(protocol="posir", recall=RECALL, rerankers=["a"], complete=True)
    wanted = wanted_pairs(posir, recalled, known.clear(), reranker="a").rows()
    assert wanted == [*QUERIES.items(), *OTHERS]


def test_only_queries_with_pairs_have_their_positives_scored():
    section = PosirNegatives(protocol="posir", recall=RECALL, rerankers=["a"])
    few = recalled_pairs(run.filter(pl.col("query_id") == "q2"), asked, qrels)
    wanted = wanted_pairs(section, few, empty(PAIR_SCORES), reranker="a").rows()
    assert wanted == [("q2", "d2"), ("q2", "d1"), ("q2", "d3"), ("q2", "d4")]


def test_a_second_reranker_of_three_is_asked_where_the_first_says_no():
    # One vote against decides nothing: two of three are needed.
    known = pair_scores(dict.fromkeys([(*pair, "a") for pair in OTHERS], 0.0))
    assert wanted_pairs(fineweb(), recalled, known, reranker="b").rows() == OTHERS


def test_qrels_below_one_are_no_positives():
    graded = qrels.with_columns(score=pl.Series([1, 0, 1]))
    pairs = recalled_pairs(run, asked, graded).pairs.rows()
    assert sorted(pairs) == sorted([*OTHERS, ("q2", "d2")])
    positives = with_positives(recalled.pairs, graded).positives.rows()
    assert positives == [("q1", "d1"), ("q3", "d3")]


def test_several_positives_of_a_query_cannot_be_compared_with():
    two = pl.concat([qrels, qrels.head(1).with_columns(pl.lit("d4").alias("corpus-id"))])
    section = PosirNegatives(protocol="posir", recall=RECALL, rerankers=["a"])
    both = recalled_pairs(run, asked, two)
    with pytest.raises(InputError, match="query_id repeated in 2 rows; first: query_id='q1'"):
        wanted_pairs(section, both, empty(PAIR_SCORES), reranker="a")
