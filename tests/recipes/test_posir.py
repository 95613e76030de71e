from collections import Counter

import polars as pl
import pytest
from answered_tasks import ask, contexts, documents, gather, reasons
from hypothesis import given
from hypothesis import strategies as st

from psibench.generate.posir import (
    LOCATE_SPAN,
    PROPOSE_QUESTIONS,
    LocateSpan,
    ProposeQuestions,
    drawn_position,
    is_drawn,
    position_of_span,
    question_items,
)
from psibench.llm.tasks import Replied
from psibench.metrics.buckets import assign, bucket_scheme
from psibench.tables.dropped import Flow
from psibench.text.segments import POSITIONS

PROPOSE = ProposeQuestions(llm="x", n_questions=3)
LOCATE = LocateSpan(llm="x")
#       0         10        20        30
TEXT = "Ada built a mill. Bo sold\nflour. Cy ran off. Cy ran off."  # 56 characters


def proposed(*rows) -> pl.DataFrame:
    names = list(PROPOSE_QUESTIONS.spec.column_names)
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def questions_reply(*pairs, doc_id="d0", position="end") -> Replied:
    questions = [{"question": question, "answer": answer} for question, answer in pairs]
    return Replied(doc_id, doc_id, position, {"questions": questions})


def test_each_document_is_asked_about_once_with_its_drawn_third():
    tables = {"documents": documents(["one", "two", "three"])}
    items = list(PROPOSE_QUESTIONS.items(tables, PROPOSE))
    assert [(item.id, item.doc_id, item.sample) for item in items] == [
        (name, name, 0) for name in ("d0", "d1", "d2")
    ]
    for item in items:
        position = drawn_position(item.doc_id, seed=42)
        assert item.target_position == position
        assert item.values["position"] == position
        assert item.values["n_questions"] == 3
    assert items[1].values["document"] == "two"


def test_a_document_keeps_its_third_whatever_else_is_asked_about():
    few = {"documents": documents({"a": "x", "b": "y"})}
    many = {"documents": documents({"c": "z", "b": "y", "d": "x", "a": "x"})}
    drawn = [
        {item.doc_id: item.target_position for item in PROPOSE_QUESTIONS.items(tables, PROPOSE)}
        for tables in (few, many)
    ]
    assert drawn[0].items() <= drawn[1].items()


@pytest.mark.parametrize("seed", [0, 1, 42])
def test_thirds_are_drawn_equally_often(seed):
    drawn = [drawn_position(f"doc-{number}", seed=seed) for number in range(3000)]
    # Binomial(3000, 1/3) has mean 1000 and standard deviation 26; 130 is five of them.
    assert all(abs(drawn.count(position) - 1000) < 130 for position in POSITIONS)
    other = [drawn_position(f"doc-{number}", seed=seed + 7) for number in range(3000)]
    same = sum(a == b for a, b in zip(drawn, other, strict=True))
    assert abs(same - 1000) < 130  # seeds are independent


def test_questions_get_ids_by_their_place_and_losses_have_reasons():
    tables = {"documents": documents([TEXT, "Second."])}
    replies = [
        questions_reply(
            (" Who built the mill? ", " Ada "),
            ("", "nobody"),
            ("Who sold flour?", "  "),
            ("who  sold FLOUR?", "Bo"),
            ("WHO built the\nmill?", "Ada"),
            ("What does the passage say of Cy?", "he ran"),
            ("Who ran off?", "Cy"),
            ("What did Cy do?", "run"),
        ),
        questions_reply(doc_id="d1", position="middle"),
    ]
    gathered = gather(PROPOSE_QUESTIONS, PROPOSE, tables, replies)
    assert gathered.rows.rows() == [
        ("d0-q0", "Who built the mill?", "d0", "end", "Ada"),
        ("d0-q3", "who  sold FLOUR?", "d0", "end", "Bo"),
        ("d0-q6", "Who ran off?", "d0", "end", "Cy"),
    ]
    assert reasons(gathered) == {
        "d0-q1": "blank_question",
        "d0-q2": "blank_answer",
        "d0-q4": "repeated_question",
        "d0-q5": "mentions_document",
        "d0-q7": "beyond_n_questions",
        "d1": "no_question",
    }
    assert gathered.flow == (Flow("documents", 2, 1), Flow("questions", 8, 3))
    row = gathered.dropped.filter(pl.col("item_id") == "d0-q5").row(0, named=True)
    assert row["detail"] == "the passage: What does the passage say of Cy?"
    assert (row["target_position"], row["char_length"]) == ("end", 56)
    row = gathered.dropped.filter(pl.col("item_id") == "d0-q4").row(0, named=True)
    assert row["detail"] == "d0-q0: WHO built the\nmill?"


def test_two_documents_may_have_the_same_question():
    tables = {"documents": documents(["one", "two"])}
    replies = [questions_reply(("Who?", "Ada"), doc_id=name) for name in ("d0", "d1")]
    gathered = gather(PROPOSE_QUESTIONS, PROPOSE, tables, replies)
    assert gathered.rows["_id"].to_list() == ["d0-q0", "d1-q0"]


def test_spans_are_asked_for_in_order_of_the_documents_of_the_shard():
    questions = proposed(
        ("b-q2", "Who?", "b", "end", "Bo"),
        ("a-q1", "What?", "a", "middle", "mill"),
        ("b-q1", "Why?", "b", "end", "flour"),
    )
    tables = {"documents": documents({"c": "C", "b": "B"}), "propose_questions": questions}
    items = list(LOCATE_SPAN.items(tables, LOCATE))
    assert [(i.id, i.doc_id, i.target_position) for i in items] == [
        ("b-q2", "b", "end"),
        ("b-q1", "b", "end"),
    ]
    assert items[0].values == {"document": "B", "question": "Who?", "answer": "Bo"}


def located(*quotes, asked="end"):
    """Gather one question per quote, all about TEXT."""
    rows = [(f"d0-q{k}", f"Q{k}?", "d0", asked, f"A{k}") for k in range(1, len(quotes) + 1)]
    tables = {"documents": documents([TEXT]), "propose_questions": proposed(*rows)}
    replies = [
        Replied(row[0], "d0", asked, {"quote": quote})
        for row, quote in zip(rows, quotes, strict=True)
    ]
    return gather(LOCATE_SPAN, LOCATE, tables, replies)


def test_a_located_question_is_a_candidate_with_the_third_of_its_span():
    gathered = located("“Bo sold flour.”")
    assert gathered.rows.row(0, named=True) == {
        "_id": "d0-q1",
        "text": "Q1?",
        "pos_corpus_id": "d0",
        "pos_char_span": [18, 32],
        "target_position": "middle",  # its middle, 25, lies between 56/3 and 2 * 56/3
        "answer": "A1",
        "quote": "“Bo sold flour.”",
        "asked_position": "end",
        "located_position": "middle",
        "on_target": False,
    }
    assert gathered.flow == (Flow("questions", 1, 1),)


def test_on_target_is_decided_by_the_middle_of_the_span():
    # [0, 32) has its middle at 16, in the first third (to 18.7), and reaches into the second.
    row = located("Ada built a mill. Bo sold flour.", asked="beginning").rows.row(0, named=True)
    assert (row["target_position"], row["located_position"]) == ("beginning", "middle")
    assert row["on_target"]


def test_quotes_without_one_place_drop_their_questions():
    gathered = located("Cy ran off.", "Cy walked off.", " ", "Ada built a mill.")
    assert gathered.rows["_id"].to_list() == ["d0-q4"]
    assert reasons(gathered) == {
        "d0-q1": "quote_ambiguous",
        "d0-q2": "quote_not_found",
        "d0-q3": "empty_quote",
    }
    assert gathered.dropped["detail"].to_list() == ["Cy ran off.", "Cy walked off.", " "]
    assert gathered.dropped["target_position"].to_list() == ["end"] * 3
    assert gathered.flow == (Flow("questions", 4, 1),)


def test_no_replies_give_an_empty_table():
    tables = {"documents": documents([TEXT]), "propose_questions": proposed()}
    assert gather(PROPOSE_QUESTIONS, PROPOSE, tables, []).rows.is_empty()
    assert gather(LOCATE_SPAN, LOCATE, tables, []).rows.is_empty()
    assert list(LOCATE_SPAN.items(tables, LOCATE)) == []


@given(st.integers(1, 300), st.data())
def test_the_third_of_a_span_agrees_with_the_relative_bins(n_chars, data):
    start = data.draw(st.integers(0, n_chars - 1))
    end = data.draw(st.integers(start + 1, n_chars))
    frame = pl.DataFrame({"span_mid_char": [(start + end) / 2], "pos_char_length": [n_chars]})
    bins = assign(frame, bucket_scheme("relative-3"))
    assert position_of_span(start, end, n_chars) == POSITIONS[bins.bucket_index[0]]


@pytest.mark.parametrize(
    ("span", "position"),
    # Middles 10, 10.5, 20, 20.5 of 30 characters: thirds end at 10 and 20 and have their end.
    [((0, 20), "beginning"), ((0, 21), "middle"), ((10, 30), "middle"), ((11, 30), "end")],
)
def test_thirds_are_right_closed(span, position):
    assert position_of_span(*span, 30) == position


def chain(tables, *, is_wrong=False):
    replies = ask(PROPOSE_QUESTIONS, PROPOSE, tables, is_wrong=is_wrong)
    questions = gather(PROPOSE_QUESTIONS, PROPOSE, tables, replies).rows
    tables = {**tables, "propose_questions": questions}
    replies = ask(LOCATE_SPAN, LOCATE, tables)
    return questions, gather(LOCATE_SPAN, LOCATE, tables, replies)


@pytest.mark.parametrize("name", ["xquad.en.json", "xquad.zh.json"])
def test_the_chain_keeps_what_the_stand_in_says_of_real_texts(real_data, name):
    docs = contexts(real_data / name)
    questions, gathered = chain({"documents": docs})
    assert questions.height == gathered.rows.height + gathered.dropped.height
    assert gathered.rows.height > 250  # of 240 documents
    texts = dict(docs.select("_id", "text").iter_rows())
    for row in gathered.rows.iter_rows(named=True):
        start, end = row["pos_char_span"]
        assert texts[row["pos_corpus_id"]][start:end] == row["quote"] == row["answer"]
    counts = gathered.rows["target_position"].value_counts()["count"].to_list()
    assert min(counts) > 0.5 * max(counts)  # 240 thirds were drawn one by one
    assert gathered.rows["on_target"].all()


def test_evidence_in_another_third_is_kept_where_it_lies(real_data):
    _, gathered = chain({"documents": contexts(real_data / "xquad.en.json")}, is_wrong=True)
    assert gathered.rows.height > 250
    assert not gathered.rows["on_target"].any()
    assert (gathered.rows["target_position"] != gathered.rows["asked_position"]).all()


def test_a_share_of_the_documents_is_asked_about_whatever_the_shards():
    ids = [f"d{number}" for number in range(3000)]
    drawn = [name for name in ids if is_drawn(name, share=0.1, seed=42)]
    assert 240 < len(drawn) < 360
    assert set(drawn) < {name for name in ids if is_drawn(name, share=0.2, seed=42)}
    assert all(is_drawn(name, share=1.0, seed=42) for name in ids)
    thirds = Counter(drawn_position(name, seed=42) for name in drawn)
    assert min(thirds.values()) > 60  # the third does not depend on the draw
    documents = pl.DataFrame({"_id": ids, "text": [f"text {name}" for name in ids]})
    section = ProposeQuestions(llm="x", share=0.1)
    asked = [item.doc_id for item in question_items({"documents": documents}, section)]
    assert asked == drawn
