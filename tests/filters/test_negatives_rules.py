"""What the stages of false negatives decide, against all scores at once and against plain loops."""

import polars as pl
import pytest
from filter_tables import any_score, decision_rows, examples, is_number, pair_scores
from hypothesis import given
from hypothesis import strategies as st

from psibench.errors import InputError
from psibench.filters.negatives import (
    PAIR_DECISIONS,
    PAIR_SCORES,
    FinewebNegatives,
    PosirNegatives,
    Votes,
    decide_candidates,
    decide_final,
    recalled_pairs,
    remove_false_negatives,
    wanted_judgements,
    wanted_pairs,
    with_positives,
)
from psibench.tables import conform

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


GRADES = dict.fromkeys(("query_id", "doc_id", "judge"), pl.String) | {"grade": pl.Int32}


def votes(scorers, pairs, values):
    """Draw a value for every (query, document, scorer)."""
    keys = [(*pair, scorer) for scorer in scorers for pair in pairs]
    return st.lists(values, min_size=len(keys), max_size=len(keys)).map(
        lambda drawn: dict(zip(keys, drawn, strict=True))
    )


def score_in_turn(section, known) -> pl.DataFrame:
    """Let one reranker after the other score the pairs that the rule requests."""
    made = PAIR_SCORES.empty()
    for reranker in section.rerankers:
        wanted = wanted_pairs(section, recalled, made)
        assert wanted.is_unique().all()
        new = {(*pair, reranker): known[(*pair, reranker)] for pair in wanted.iter_rows()}
        made = pl.concat([made, pair_scores(new)])
    return made


def grades_frame(known) -> pl.DataFrame:
    """Make grades of {(query, document, judge): grade}."""
    return pl.DataFrame([(*k, v) for k, v in known.items()], schema=GRADES, orient="row")


def grade_in_turn(section, decided, known) -> pl.DataFrame:
    """Let one judge after the other grade the pairs that the rule requests."""
    made = grades_frame({})
    for judge in section.judges:
        wanted = wanted_judgements(section, decided, made)
        new = {(*pair, judge): known[(*pair, judge)] for pair in wanted.iter_rows()}
        made = pl.concat([made, grades_frame(new)])
    return made


@examples
@given(
    votes(RERANKERS, OTHERS, any_score),
    votes(JUDGES, OTHERS, st.sampled_from([None, 0, 2, 3, 4])),
    st.integers(1, 3),
)
def test_voting_in_turn_drops_the_same_questions(scores, grades, needed):
    section = fineweb(needed=needed)
    made = score_in_turn(section, scores)
    decided = decide_candidates(section, recalled, made)
    assert decided.equals(decide_candidates(section, recalled, pair_scores(scores)))
    judged = grade_in_turn(section, decided, grades)
    found = decide_final(section, decided, judged)
    assert found.equals(decide_final(section, decided, grades_frame(grades)))
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
def test_voting_in_turn_removes_the_same_documents(scores, under):
    section = PosirNegatives(protocol="posir", recall=RECALL, rerankers=RERANKERS, under=under)
    made = score_in_turn(section, scores)
    decided = decide_candidates(section, recalled, made)
    assert decided.equals(decide_candidates(section, recalled, pair_scores(scores)))
    found = decide_final(section, decided, grades_frame({}))
    left = remove_false_negatives(section, found, corpus=ids, queries=asked, qrels=qrels)

    def is_above(query, document, reranker):
        own, other = scores[query, QUERIES[query], reranker], scores[query, document, reranker]
        return is_number(own) and is_number(other) and other > own

    enough = {"any": any, "all": all}[under]
    gone = {pair[1] for pair in OTHERS if enough(is_above(*pair, r) for r in RERANKERS)}
    assert left.corpus["_id"].to_list() == [d for d in DOCUMENTS if d not in gone]
    assert left.queries["_id"].to_list() == [q for q, d in QUERIES.items() if d not in gone]


PAIR = pl.DataFrame({"query_id": ["q"], "doc_id": ["d"]})
POSITIVE = pl.DataFrame({"query_id": ["q"], "doc_id": ["p"]})
ONE = with_positives(PAIR, POSITIVE)

# Scores of a, b, c: VOTED_COLUMNS. Above 0.5 is a yes.
VOTED_COLUMNS = ("is_positive", "reason", "score", "decided_by", "n_yes", "n_votes")
VOTED = [
    ((0.75, 1.0, 0.0), (True, "majority_positive", 1.0, "b", 2, 2)),
    ((0.0, 0.75, 1.0), (True, "majority_positive", 1.0, "c", 2, 3)),
    ((0.25, 0.25, 1.0), (False, "", 0.25, "b", 0, 2)),
    # Exactly 0.5 is not above 0.5.
    ((0.5, 1.0, 0.5), (False, "", 0.5, "c", 1, 3)),
    # An unusable vote does not count, and is reported if it might have mattered.
    ((None, 1.0, 0.0), (False, "unusable_vote", 0.0, "c", 1, 3)),
    ((0.0, 0.0, None), (False, "", 0.0, "b", 0, 2)),
    ((1.0, 0.0, None), (False, "unusable_vote", None, "c", 1, 3)),
    # Half of an even panel is no majority.
    ((1.0, 0.0), (False, "", 0.0, "b", 1, 2)),
    ((0.0, 1.0), (False, "", 0.0, "a", 0, 1)),
]


@pytest.mark.parametrize(("values", "expected"), VOTED)
def test_a_pair_needs_most_rerankers_above_one_half(values, expected):
    names = RERANKERS[: len(values)]
    panel = Votes(protocol="fineweb_posq", rerankers=names)
    scores = pair_scores({("q", "d", by): v for by, v in zip(names, values, strict=True)})
    decided = decide_candidates(panel, ONE, scores)
    assert decided.select("query_id", "doc_id", *VOTED_COLUMNS).rows() == [("q", "d", *expected)]
    conform(decided, PAIR_DECISIONS, where="decided")


def test_a_pair_without_deciding_votes_is_refused():
    panel = Votes(protocol="fineweb_posq", rerankers=RERANKERS)
    said = "1 of 1 pairs have too few votes of a, b, c .* the first is query 'q', document 'd'"
    with pytest.raises(InputError, match=said):
        decide_candidates(panel, ONE, pair_scores({("q", "d", "a"): 0.0}))


def test_a_question_is_dropped_for_its_best_false_negative():
    pairs = [("q1", "d1", 3), ("q1", "d4", 4), ("q1", "d2", 4)]
    found = pl.DataFrame(pairs, ["query_id", "doc_id", "score"], orient="row")
    found = found.with_columns(is_positive=pl.lit(True))
    left = remove_false_negatives(fineweb(), found, corpus=ids, queries=asked, qrels=qrels)
    assert decision_rows(left.query_decisions) == {
        "q1": (False, "false_negative", 4.0, "d2"),  # d2 and d4 have 4: the first id
        "q2": (True, "", None, None),
        "q3": (True, "", None, None),
    }
