"""The pure parts of studies/filters: what is planted, what is counted."""

import sys
from pathlib import Path

import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "studies" / "filters"))

from asked import answer_position
from false_negatives import on_own_scale
from near_duplicates import (
    LONG_FRAME,
    SHORT_FRAME,
    WORDS_GONE,
    one_query_per_document,
    plant,
    without_answer,
)
from scored import PANEL
from wrong_positions import verdict_on_order

TEXT = "Alpha one two. Beta three four. Gamma five six."


@pytest.mark.parametrize(
    ("text", "answer", "words"),
    [(TEXT, "five four", "no single place"), ("Alpha one two.", "Alpha", "nothing is left")],
)
def test_a_document_without_an_answer_to_cut_is_refused(text, answer, words):
    with pytest.raises(ValueError, match=words):
        without_answer(text, answer)


def candidates(positions: list[str], answers: list[str | None] | None = None) -> pl.DataFrame:
    """Queries of documents d0, d1, ..., three for each document."""
    return pl.DataFrame(
        {
            "_id": [f"q{i}" for i in range(len(positions))],
            "pos_corpus_id": [f"d{i // 3}" for i in range(len(positions))],
            "target_position": positions,
            "answer_position": answers or positions,
            "answer": ["three four"] * len(positions),
            "text": ["beta three"] * len(positions),
        }
    )


def test_each_document_gives_one_query_and_the_thirds_take_turns():
    asked = candidates(["beginning", "middle", "end"] * 3)

    chosen = one_query_per_document(asked)

    assert chosen.get_column("_id").to_list() == ["q0", "q4", "q8"]


def test_a_query_whose_answer_stands_elsewhere_is_not_chosen():
    asked = candidates(["beginning", "middle", "end"], ["middle", "middle", None])

    assert one_query_per_document(asked).get_column("_id").to_list() == ["q1"]


def test_half_of_the_planted_documents_carry_the_answer():
    asked = candidates(["middle"] * 12)
    documents = pl.DataFrame({"_id": [f"d{i}" for i in range(4)], "text": [TEXT] * 4})

    plants = plant(asked, documents, ["First. Last."], seed=1)

    kinds = [SHORT_FRAME] * 3 + [LONG_FRAME] * 3 + [WORDS_GONE] * 6
    assert plants.get_column("kind").to_list() == kinds
    has_answer = plants.get_column("text").str.contains("three")
    assert has_answer.to_list() == [True] * 6 + [False] * 6


@pytest.mark.parametrize(
    ("answer", "position"),
    [("Alpha", "beginning"), ("three four. G", "middle"), ("six.", "end"), ("zeta", None)],
)
def test_an_answer_lies_in_the_third_that_holds_most_of_it(answer, position):
    assert answer_position(TEXT, answer) == position


def test_own_scale_is_the_share_of_positives_that_score_no_higher():
    scores = pl.DataFrame(
        [
            (query, doc, name, score)
            for name in PANEL
            for query, doc, score in (("q", "p", 0.2), ("r", "s", 0.4), ("q", "s", 0.3))
        ],
        schema=["query_id", "doc_id", "reranker", "score"],
        orient="row",
    )
    positives = pl.DataFrame({"query_id": ["q", "r"], "doc_id": ["p", "s"]})

    # Of the positives' 0.2 and 0.4: one is not above 0.2 or 0.3, both are not above 0.4.
    assert on_own_scale(scores, positives).get_column("score").to_list() == [0.5, 1.0, 0.5] * 3


def audit(*exclusive: tuple[int, float]) -> pl.DataFrame:
    """Strata from low to high, (queries, Exclusive) each; the interval is 0.1 to either side."""
    cuts = [None, 0.0, 0.1, 0.2][: len(exclusive)]
    return pl.DataFrame(
        [
            (f"s{i}", low, 0.1 * i, n, share, share - 0.1, share + 0.1)
            for i, ((n, share), low) in enumerate(zip(exclusive, cuts, strict=True))
        ],
        schema=["stratum", "low", "high", "n", "exclusive", "exclusive_low", "exclusive_high"],
        orient="row",
    )


def test_exclusive_rises_where_it_never_falls():
    words = "Exclusive rises with the stratum over the 3 strata with 20 queries or more."
    assert verdict_on_order(audit((20, 0.2), (30, 0.2), (40, 0.9))) == words


@pytest.mark.parametrize(("last", "how"), [(0.4, "overlap"), (0.2, "apart")])
def test_a_fall_is_named_and_small_strata_are_left_aside(last, how):
    words = verdict_on_order(audit((20, 0.5), (19, 0.9), (30, last)))

    assert words == (
        "Exclusive does NOT rise with the stratum over the 2 strata with 20 queries or more: "
        f"s0 0.500 -> s2 {last:.3f} (intervals {how})."
    )
