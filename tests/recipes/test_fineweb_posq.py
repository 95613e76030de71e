"""The two tasks of FineWeb-PosQ, answered by the stand-in's rules, and their dropped items."""

import polars as pl
import pytest
from answered_tasks import documents
from answered_tasks import gather as gather_checked

from psibench.config.paths import PROMPTS
from psibench.generate.fineweb_posq import (
    GENERATE_QUESTIONS,
    SUMMARISE,
    GenerateQuestions,
    Summarise,
)
from psibench.llm.prompts import load_prompt
from psibench.llm.tasks import Replied

SUMMARISE_SECTION = Summarise(llm="stand-in", max_words=50)


def questions_section(**changes):
    return GenerateQuestions(**{"llm": "stand-in", "chunk_words": 16, "n_questions": 2} | changes)


def reply(*questions, item="d0-c0", position="beginning"):
    """Return a reply with questions given as (question, answer)."""
    entries = [{"question": q, "answer": a, "type": "simple"} for q, a in questions]
    return Replied(item, item.split("-")[0], position, {"questions": entries})


WORDS = " ".join(f"word{i}" for i in range(48))  # 3 chunks of 16 words
TABLES = {"documents": documents([WORDS, WORDS.upper()])}


def gather(*replies, **changes):
    return gather_checked(GENERATE_QUESTIONS, questions_section(**changes), TABLES, replies)


def refusals(gathered):
    return gathered.dropped.select("item_id", "reason", "detail").rows()


def test_a_document_with_a_blank_summary_has_no_chunks():
    replies = [
        Replied("d0", "d0", None, {"summary": " \n"}),
        Replied("d1", "d1", None, {"summary": " In short. "}),
    ]
    gathered = gather_checked(SUMMARISE, SUMMARISE_SECTION, TABLES, replies)
    assert gathered.rows.rows() == [("d1", "In short.")]
    assert gathered.dropped.rows() == [
        ("summarise", "documents", "d0", "d0", "blank_summary", None, None, None, len(WORDS))
    ]
    tables = TABLES | {"summarise": gathered.rows}
    items = GENERATE_QUESTIONS.items(tables, questions_section())
    assert {item.doc_id for item in items} == {"d1"}


def test_each_chunk_is_an_item_with_summary_and_third():
    summaries = pl.DataFrame({"_id": ["d0"], "summary": ["In short."]})
    items = list(GENERATE_QUESTIONS.items(TABLES | {"summarise": summaries}, questions_section()))
    # A third is 108 characters. word0 to word15 are [0, 101), word16 to word31 [102, 213); the
    # last chunk, [214, 325), does not start above 216.
    assert len(WORDS) == 325
    assert [(i.id, i.doc_id, i.target_position) for i in items] == [
        ("d0-c0", "d0", "beginning"),
        ("d0-c1", "d0", "middle"),
        ("d0-c2", "d0", "middle"),
    ]
    assert items[1].values == {
        "chunk": " ".join(f"word{i}" for i in range(16, 32)),
        "summary": "In short.",
        "n_questions": 2,
    }
    assert load_prompt(PROMPTS / "generate_questions.md").render(items[1].values)


def test_candidates_have_their_chunk_and_the_replied_values():
    gathered = gather(reply(("Which word? ", " word17")), reply(("Where?", "here"), item="d0-c1"))
    first, second = gathered.rows.iter_rows(named=True)
    assert first == {
        "_id": "d0-c0-q0",
        "text": "Which word?",
        "pos_corpus_id": "d0",
        "pos_char_span": [0, 101],
        "target_position": "beginning",
        "answer": "word17",
        "type": "simple",
        "answer_in_chunk": False,  # word17 is in the next chunk
        "chunk": 0,
        "positions": ["beginning"],
    }
    assert (second["_id"], second["chunk"], second["pos_char_span"]) == ("d0-c1-q0", 1, [102, 213])


def test_candidates_beyond_the_requested_number_are_dropped():
    gathered = gather(
        reply(("A?", "word1"), ("a?", "word2"), ("B?", "word3"), ("C?", "word4"), ("", "")),
        reply(("C?", "word17"), item="d0-c1"),
    )
    # The repeated A? does not count towards the two requested questions.
    assert gathered.rows.get_column("_id").to_list() == ["d0-c0-q0", "d0-c0-q2", "d0-c1-q0"]
    assert refusals(gathered) == [
        ("d0-c0-q1", "repeated_question", "d0-c0-q0: a?"),
        ("d0-c0-q3", "beyond_n_questions", "C?"),
        ("d0-c0-q4", "blank_question", ""),
    ]


def test_a_reply_without_a_question_drops_its_chunk():
    gathered = gather(reply(), reply(("A?", "word17"), item="d0-c1", position="middle"))
    columns = ("stage", "unit", "item_id", "doc_id", "reason", "target_position", "char_length")
    assert gathered.dropped.select(columns).rows() == [
        ("generate_questions", "chunks", "d0-c0", "d0", "no_question", "beginning", len(WORDS))
    ]
    flow = [(f.unit, f.entered, f.kept) for f in gathered.flow]
    assert flow == [("chunks", 2, 1), ("questions", 1, 1)]


def test_under_myopic_a_chunk_may_have_two_positions():
    replies = [reply((f"{i}?", "x"), item=f"d0-c{i}") for i in range(3)]
    posq = gather(*replies).rows
    assert posq.select("target_position", "positions").rows() == [
        ("beginning", ["beginning"]),
        ("middle", ["middle"]),
        ("middle", ["middle"]),
    ]
    myopic = gather(*replies, tagging="myopic").rows
    # A third is 108 characters: [0, 101), [102, 213), [214, 325).
    assert myopic.select("target_position", "positions").rows() == [
        ("beginning", ["beginning"]),
        (None, ["beginning", "middle"]),
        (None, ["middle", "end"]),
    ]
    assert myopic.drop("target_position", "positions").equals(
        posq.drop("target_position", "positions")
    )


def test_questions_of_overlapping_chunks_have_their_chunk_as_span():
    # 24 of 48 words, 12 shared: chunks of words 0-23, 12-35 and 24-47
    section = {"chunk_words": 24, "chunk_overlap": 12}
    summaries = pl.DataFrame({"_id": ["d0"], "summary": ["In short."]})
    tables = TABLES | {"summarise": summaries}
    items = list(GENERATE_QUESTIONS.items(tables, questions_section(**section)))
    asked = [reply((f"Where is {k}?", "x"), item=item.id) for k, item in enumerate(items)]
    rows = gather(*asked, **section).rows
    spans = rows["pos_char_span"].to_list()
    assert [WORDS[start:end].split()[0] for start, end in spans] == ["word0", "word12", "word24"]
    assert [WORDS[start:end] for start, end in spans] == [item.values["chunk"] for item in items]


def test_an_overlap_of_a_whole_chunk_is_refused():
    with pytest.raises(ValueError, match="chunk_overlap 16 is not below chunk_words 16"):
        questions_section(chunk_overlap=16)
