from dataclasses import replace

import polars as pl
import pytest
from answered_tasks import ask, documents, gather

from psibench.errors import InputError
from psibench.filters.grade import grading_task, verdict_task
from psibench.llm.tasks import LlmTaskSection, Replied
from psibench.tables.build_schemas import PAIRS

SECTION = LlmTaskSection(llm="x")
GRADING, VERDICT = grading_task("grade_first"), verdict_task("audit")
STEAM = "Steamships needed deeper water than sailing vessels."
COPPER = "Copper mines were opened."
QUERY = "steamships needed deeper water"
ROWS = [
    ("q2--end", "q2", "d1", "end", "copper mines", COPPER),
    ("q1--beginning", "q1", "d0", "beginning", QUERY, STEAM),
    ("q1--end", "q1", "d0", "end", QUERY, COPPER),
]


def tables_of(task, rows=ROWS):
    schema = dict.fromkeys(PAIRS.column_names, pl.String)
    pairs = pl.DataFrame(rows, schema=schema, orient="row")
    return {"documents": documents([STEAM, "Copper."]), f"{task.name}_pairs": pairs}


def asked(task, tables):
    """The stand-in's replies: it knows its tasks by the template's name."""
    return ask(replace(task, name=task.template), SECTION, tables)


def judged(task, replies, rows=ROWS):
    gathered = gather(task, SECTION, tables_of(task, rows), replies)
    assert gathered.dropped.is_empty()
    return gathered.rows.rows()


@pytest.mark.parametrize(
    ("task", "template", "variable"),
    [(GRADING, "grade_relevance", "passage"), (VERDICT, "judge_segment", "segment")],
)
def test_every_pair_is_asked_about_in_order_of_the_documents(task, template, variable):
    assert (task.template, task.unit) == (template, "pairs")
    assert task.reads == ("documents", f"{task.name}_pairs")
    items = list(task.items(tables_of(task), SECTION))
    assert [(item.id, item.doc_id) for item in items] == [
        ("q1--beginning", "d0"),
        ("q1--end", "d0"),
        ("q2--end", "d1"),
    ]
    assert items[0].values == {"query": QUERY, variable: STEAM}
    # The judge must not learn which part is the target.
    assert {item.target_position for item in items} == {None}


def test_grades_stand_beside_what_was_graded():
    assert judged(GRADING, asked(GRADING, tables_of(GRADING))) == [
        ("q1--beginning", "q1", "d0", "beginning", 4),
        ("q1--end", "q1", "d0", "end", 0),
        ("q2--end", "q2", "d1", "end", 4),
    ]


def test_a_pair_without_a_usable_reply_has_a_row_without_a_judgement():
    replies = [Replied("q2--end", "d1", None, {"grade": 0})]
    assert [row[4] for row in judged(GRADING, replies)] == [None, None, 0]
    replies = [Replied("q1--end", "d0", None, {"verdict": "no"})]
    assert [row[4] for row in judged(VERDICT, replies)] == [None, False, None]


@pytest.mark.parametrize(
    ("task", "value", "message"),
    [
        (GRADING, {"grade": 5}, "grade 5; allowed: 0, 1, 2, 3, 4"),
        (GRADING, {"grade": -1}, "grade -1; allowed: 0, 1, 2, 3, 4"),
        (GRADING, {"grade": 3.5}, "no int in field 'grade'"),
        (GRADING, {"grade": True}, "no int in field 'grade'"),
        (GRADING, {"score": 2}, "no int in field 'grade'"),
        (VERDICT, {"verdict": "maybe"}, "verdict 'maybe'; allowed: yes, no"),
        (VERDICT, {"verdict": True}, "no str in field 'verdict'"),
    ],
)
def test_a_reply_to_a_template_with_another_schema_is_explained(task, value, message):
    with pytest.raises(InputError, match=message):
        judged(task, [Replied("q2--end", "d1", None, value)])
