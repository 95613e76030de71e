import json
from dataclasses import replace

import polars as pl
import pytest
from answered_tasks import ask, documents, gather

from psibench.config.paths import PROMPTS
from psibench.errors import InputError
from psibench.filters.grade import grading_task, verdict_task
from psibench.generate.ask import gather as gather_outcomes
from psibench.llm.answer import Answer, interpret
from psibench.llm.prompts import load_prompt
from psibench.llm.request import ResponseSchema
from psibench.llm.tasks import LlmTaskSection, Replied
from psibench.llm.usage import Usage
from psibench.tables.build_schemas import OUTCOMES, PAIRS

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
        (GRADING, {"grade": 5}, "grade 5; allowed: 0 to 4"),
        (GRADING, {"grade": -1}, "grade -1; allowed: 0 to 4"),
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


def outcome_of(task, text, pair_id="q2--end", doc_id="d1"):
    """An OUTCOMES row of a raw reply, read as the engine reads it."""
    prompt = load_prompt(PROMPTS / f"{task.template}.md")
    response = ResponseSchema(task.template, prompt.response.schema)
    answer = Answer("k", task.template, "m", text, "stop", None, Usage(1, 1), 1, 0.1, "2026-01-01")
    read = interpret(answer, response, item_id=pair_id)
    is_ok = read.status == "ok"
    return {
        "item_id": pair_id,
        "doc_id": doc_id,
        "target_position": None,
        "status": read.status,
        "reason": read.reason,
        "value": json.dumps(read.value) if is_ok else None,
        "reply": None if is_ok else read.text,
        "key": read.key,
        "model": read.model,
        "n_replies": 1,
        "input_tokens": 1,
        "cached_input_tokens": 0,
        "output_tokens": 1,
    }


def gathered_from(task, texts):
    """Gather raw replies about the pairs, in the order of `ROWS`."""
    asked_about = [(row[0], row[2]) for row in ROWS]
    rows = [outcome_of(task, text, *pair) for pair, text in zip(asked_about, texts, strict=True)]
    empty = pl.DataFrame(pl.from_arrow(OUTCOMES.schema.empty_table()))
    outcomes = pl.DataFrame(rows, schema=empty.schema)
    return gather_outcomes(task, SECTION, tables_of(task), outcomes)


@pytest.mark.parametrize(
    ("text", "grade", "reason"),
    [
        ('{"grade": 3}', 3, ""),
        ('{"grade": "4"}', 4, ""),
        ('{"grade": 3.0}', 3, ""),
        ('```json\n{"Grade": 0,}\n```', 0, ""),
        ("3.5", None, "no_json"),
        ('"Score: 4/4"', None, "no_json"),
        ("Score: 4/4", None, "no_json"),
        ("Grade: 3", None, "no_json"),
        ("4", None, "no_json"),
        ('{"grade": 3/4}', None, "grade_is_not_a_number"),
        ('{"grade": 0 to 4}', None, "no_json"),
        ('{"grade": 3.5}', None, "grade_is_not_whole"),
        ('{"grade": "3.5"}', None, "grade_is_not_whole"),
        ('{"grade": "4/4"}', None, "grade_is_not_a_number"),
        ('{"grade": "3-4"}', None, "grade_is_not_a_number"),
        ('{"grade": [3]}', None, "grade_is_not_a_number"),
        ('{"grade": 7}', None, "grade_is_out_of_range"),
        ('{"grade": -1}', None, "grade_is_out_of_range"),
        ('{"score": 4}', None, "grade_is_missing"),
        ("[3, 4]", None, "reply_is_not_an_object"),
        ("", None, "empty_reply"),
    ],
)
def test_a_reply_is_a_grade_only_where_it_says_which(text, grade, reason):
    usable = '{"grade": 1}'
    gathered = gathered_from(GRADING, [text, usable, usable])
    assert gathered.rows["grade"].to_list() == [1, 1, grade]
    assert [(count.unit, count.entered, count.kept) for count in gathered.flow] == [
        ("pairs", 3, 3 if grade is not None else 2)
    ]
    found = gathered.dropped.select("stage", "item_id", "reason", "detail").rows()
    expected = ("grade_first", "q2--end", "malformed", f"{reason}: {text}")
    assert found == ([] if grade is not None else [expected])


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ('{"verdict": "no"}', False),
        ('{"verdict": "Yes."}', True),
        ("yes", None),
        ('{"verdict": true}', None),
        ('{"verdict": "partly"}', None),
        ('{"verdict": "yes" or "no"}', None),
    ],
)
def test_a_reply_is_a_verdict_only_where_it_says_yes_or_no(text, verdict):
    usable = '{"verdict": "yes"}'
    gathered = gathered_from(VERDICT, [text, usable, usable])
    assert gathered.rows["is_yes"].to_list() == [True, True, verdict]
    assert gathered.dropped.height == (verdict is None)
