import polars as pl
import pytest

from psibench.build.judging import (
    all_parts,
    document_pairs,
    judge_grades,
    part_pairs,
    textless_grades,
)
from psibench.errors import InputError
from psibench.tables import conform
from psibench.tables.build_schemas import GRADES, PAIRS
from psibench.tables.verify_schemas import JUDGE_GRADES
from psibench.text.segments import POSITIONS

DOCUMENTS = pl.DataFrame(
    {"_id": ["d1", "d2", "gap"], "text": ["aaabbbccc", "xy", "one" + " " * 3 + "two"]}
)
SPAN = ("document", "removed")


def candidates(*rows):
    """CANDIDATES rows of (query, document, span)."""
    spans = pl.Series([span for *_, span in rows], dtype=pl.Array(pl.Int32, 2))
    frame = pl.DataFrame([row[:2] for row in rows], schema=["_id", "pos_corpus_id"], orient="row")
    return frame.with_columns(text=pl.col("_id") + "?", pos_char_span=spans)


ASKED = candidates(("q2", "d2", [0, 1]), ("q1", "d1", [3, 6]), ("whole", "d1", [0, 9]))


def wanted(*pairs):
    schema = {"query_id": pl.String, "part": pl.String}
    return pl.DataFrame(pairs, schema=schema, orient="row")


def test_each_pair_has_the_query_and_the_part_of_its_document_in_the_order_wanted():
    found = part_pairs(
        ASKED,
        DOCUMENTS,
        wanted(
            ("q1", "end"), ("q2", "end"), ("q1", "beginning"), ("q1", "removed"), ("q1", "document")
        ),
    )
    conform(found, PAIRS, where="pairs")
    assert found.rows() == [
        ("q1--end", "q1", "d1", "end", "q1?", "ccc"),
        ("q2--end", "q2", "d2", "end", "q2?", "xy"),
        ("q1--beginning", "q1", "d1", "beginning", "q1?", "aaa"),
        ("q1--removed", "q1", "d1", "removed", "q1?", "aaaccc"),
        ("q1--document", "q1", "d1", "document", "q1?", "aaabbbccc"),
    ]


# d2 has two characters: its thirds are "", "" and "xy". The span "whole" leaves nothing of d1.
# The middle third of the document "gap" is three blanks.
@pytest.mark.parametrize(
    ("query", "document", "span", "parts", "textless"),
    [
        ("q1", "d1", [3, 6], POSITIONS, []),
        ("q1", "d1", [3, 6], SPAN, []),
        ("q2", "d2", [0, 1], POSITIONS, ["beginning", "middle"]),
        ("q2", "d2", [0, 1], SPAN, []),
        ("whole", "d1", [0, 9], SPAN, ["removed"]),
        ("whole", "d2", [0, 2], SPAN, ["removed"]),
        ("blank", "gap", [0, 3], POSITIONS, ["middle"]),
    ],
)
def test_a_part_without_text_is_no_pair_but_a_grade_that_is_null(
    query, document, span, parts, textless
):
    asked = candidates((query, document, span))
    shown = part_pairs(asked, DOCUMENTS, all_parts(asked, parts))
    assert shown["part"].to_list() == [part for part in parts if part not in textless]
    grades = textless_grades(asked, DOCUMENTS, parts=parts, judge="j")
    conform(grades, JUDGE_GRADES, where="grades")
    assert grades.rows() == [(query, document, "j", part, None) for part in textless]


def test_a_blank_query_is_shown_to_nobody():
    asked = candidates(("q1", "d1", [3, 6])).with_columns(text=pl.lit(" "))
    assert part_pairs(asked, DOCUMENTS, all_parts(asked, POSITIONS)).is_empty()
    assert textless_grades(asked, DOCUMENTS, parts=POSITIONS, judge="j").height == 3


def test_all_parts_are_in_order_of_the_candidates_and_the_parts():
    assert all_parts(ASKED.head(2), SPAN).rows() == [
        ("q2", "document"),
        ("q2", "removed"),
        ("q1", "document"),
        ("q1", "removed"),
    ]
    assert all_parts(ASKED.clear(), SPAN).is_empty()


def test_nothing_wanted_gives_empty_tables():
    for found in (
        part_pairs(ASKED, DOCUMENTS, wanted()),
        part_pairs(ASKED.clear(), DOCUMENTS, all_parts(ASKED.clear(), POSITIONS)),
    ):
        conform(found, PAIRS, where="pairs")
        assert found.is_empty()
    none = textless_grades(ASKED.clear(), DOCUMENTS, parts=POSITIONS, judge="j")
    conform(none, JUDGE_GRADES, where="grades")
    assert none.is_empty()


@pytest.mark.parametrize(
    ("asked", "texts", "pairs", "message"),
    [
        (ASKED, DOCUMENTS, [("q9", "end")], "candidate 'q9' is not in its table"),
        (ASKED, DOCUMENTS.tail(1), [("q1", "end")], "document 'd1' is not in its table"),
        (ASKED, DOCUMENTS, [("q1", "end"), ("q1", "end")], "query_id, part repeated in 2 rows"),
        (ASKED, pl.concat([DOCUMENTS] * 2), [("q1", "end")], "documents: _id repeated"),
    ],
)
def test_pairs_of_tables_that_do_not_belong_together_are_refused(asked, texts, pairs, message):
    with pytest.raises(InputError, match=message):
        part_pairs(asked, texts, wanted(*pairs))


QUERIES = pl.DataFrame({"_id": ["q1", "q2"], "text": ["q1?", "q2?"]})


def documents_wanted(*pairs):
    schema = {"query_id": pl.String, "doc_id": pl.String}
    return pl.DataFrame(pairs, schema=schema, orient="row")


def test_other_documents_are_judged_whole():
    texts = pl.concat([DOCUMENTS, pl.DataFrame({"_id": ["empty"], "text": [" \n"]})])
    pairs = documents_wanted(("q2", "d1"), ("q2", "empty"), ("q1", "d2"), ("q1", "d1"))
    found = document_pairs(pairs, QUERIES, texts)
    conform(found, PAIRS, where="pairs")
    assert found.rows() == [
        ("q2--d1", "q2", "d1", "document", "q2?", "aaabbbccc"),
        ("q1--d2", "q1", "d2", "document", "q1?", "xy"),
        ("q1--d1", "q1", "d1", "document", "q1?", "aaabbbccc"),
    ]
    assert document_pairs(documents_wanted(), QUERIES, texts).is_empty()


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("q3", "d1")], "query 'q3' is not in its table"),
        ([("q1", "d3")], "document 'd3' is not in its table"),
        ([("q1", "d1"), ("q1", "d1")], "query_id, doc_id repeated in 2 rows"),
    ],
)
def test_other_documents_that_are_not_there_or_given_twice_are_refused(pairs, message):
    with pytest.raises(InputError, match=message):
        document_pairs(documents_wanted(*pairs), QUERIES, DOCUMENTS)


def test_grades_get_the_name_of_their_judge():
    rows = [("q1--end", "q1", "d1", "end", 3), ("q2--end", "q2", "d2", "end", None)]
    graded = pl.DataFrame(rows, schema=list(GRADES.column_names), orient="row")
    found = judge_grades(graded, "deepseek")
    conform(found, JUDGE_GRADES, where="grades")
    assert found.rows() == [
        ("q1", "d1", "deepseek", "end", 3),
        ("q2", "d2", "deepseek", "end", None),
    ]
    with pytest.raises(InputError, match="grades: missing columns: grade"):
        judge_grades(graded.drop("grade"), "deepseek")
