from collections import Counter

import polars as pl
from answered_tasks import documents, gather, reasons
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
    proposal_items,
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


def test_questions_get_numbered_ids_and_losses_have_reasons():
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


def test_span_items_follow_the_documents_of_the_shard():
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


def test_a_located_question_has_the_third_of_its_span():
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


def test_questions_with_an_ambiguous_quote_are_dropped():
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


@given(st.integers(1, 300), st.data())
def test_the_third_of_a_span_agrees_with_the_relative_bins(n_chars, data):
    start = data.draw(st.integers(0, n_chars - 1))
    end = data.draw(st.integers(start + 1, n_chars))
    frame = pl.DataFrame({"span_mid_char": [(start + end) / 2], "pos_char_length": [n_chars]})
    bins = assign(frame, bucket_scheme("relative-3"))
    assert position_of_span(start, end, n_chars) == POSITIONS[bins.bucket_index[0]]


def test_the_drawn_documents_do_not_depend_on_shards():
    ids = [f"d{number}" for number in range(3000)]
    drawn = [name for name in ids if is_drawn(name, share=0.1, seed=42)]
    assert 240 < len(drawn) < 360
    assert set(drawn) < {name for name in ids if is_drawn(name, share=0.2, seed=42)}
    assert all(is_drawn(name, share=1.0, seed=42) for name in ids)
    thirds = Counter(drawn_position(name, seed=42) for name in drawn)
    assert min(thirds.values()) > 60  # the third does not depend on the draw
    tables = {"documents": pl.DataFrame({"_id": ids, "text": [f"text {name}" for name in ids]})}
    section = ProposeQuestions(llm="x", share=0.1, n_questions=4)
    items = list(proposal_items(tables, section))
    assert [item.doc_id for item in items] == [item.id for item in items] == drawn
    first = items[0]
    assert first.target_position == drawn_position(first.id, seed=42)
    assert first.values == {
        "document": f"text {first.id}",
        "position": first.target_position,
        "n_questions": 4,
    }
