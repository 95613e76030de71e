"""Tasks that judge: pairs of a query and a text, and translations."""

from dataclasses import replace

import polars as pl
import pytest
from answered_tasks import ask, documents, gather

from psibench.config.paths import PROMPTS
from psibench.filters.grade import grading_task, verdict_task
from psibench.llm.prompts import load_prompt
from psibench.llm.tasks import LlmTaskSection, Replied
from psibench.tables.build_schemas import PAIRS
from psibench.translate.quality import JUDGE_TRANSLATION
from psibench.translate.translate import TranslateSection

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


def tables_of(task):
    schema = dict.fromkeys(PAIRS.column_names, pl.String)
    pairs = pl.DataFrame(ROWS, schema=schema, orient="row")
    return {"documents": documents([STEAM, "Copper."]), f"{task.name}_pairs": pairs}


def judged(task, replies):
    gathered = gather(task, SECTION, tables_of(task), replies)
    assert gathered.dropped.is_empty()
    return gathered.rows.rows()


@pytest.mark.parametrize(("task", "variable"), [(GRADING, "passage"), (VERDICT, "segment")])
def test_every_pair_is_an_item_in_document_order(task, variable):
    items = list(task.items(tables_of(task), SECTION))
    assert [(item.id, item.doc_id) for item in items] == [
        ("q1--beginning", "d0"),
        ("q1--end", "d0"),
        ("q2--end", "d1"),
    ]
    assert items[0].values == {"query": QUERY, variable: STEAM}
    # The judge must not learn which part is the target.
    assert {item.target_position for item in items} == {None}


def test_grades_are_joined_to_their_pairs():
    # The stand-in knows its tasks by the template's name.
    replies = ask(replace(GRADING, name=GRADING.template), SECTION, tables_of(GRADING))
    assert judged(GRADING, replies) == [
        ("q1--beginning", "q1", "d0", "beginning", 4),
        ("q1--end", "q1", "d0", "end", 0),
        ("q2--end", "q2", "d1", "end", 4),
    ]


def test_a_pair_without_a_usable_reply_has_no_judgement():
    replies = [Replied("q2--end", "d1", None, {"grade": 0})]
    assert [row[4] for row in judged(GRADING, replies)] == [None, None, 0]
    replies = [Replied("q1--end", "d0", None, {"verdict": "no"})]
    assert [row[4] for row in judged(VERDICT, replies)] == [None, False, None]


# Translations

TO_FRENCH = TranslateSection(llm="x", source_language="eng-Latn", target_language="fra-Latn")


def sample() -> dict[str, pl.DataFrame]:
    """The sample has two languages; the judge gets only French."""
    names = ("language", "_id", "text", "origin", "domain", "doc_id", "length_bin", "translation")
    rows = [
        (language, f"{prefix}law/{d}", f"text of {d}", "law", "law", d, "Q1", f"texte de {d}")
        for language, prefix in (("fra-Latn", ""), ("deu-Latn", "deu-Latn/"))
        for d in "ab"
    ]
    schema = dict.fromkeys(names, pl.String)
    return {"documents": pl.DataFrame(rows, schema=schema, orient="row")}


def test_a_judge_sees_source_translation_and_language_names():
    items = list(JUDGE_TRANSLATION.items(sample(), TO_FRENCH))
    assert [(item.id, item.doc_id) for item in items] == [("law/a", "law/a"), ("law/b", "law/b")]
    prompt = load_prompt(PROMPTS / "judge_translation.md")
    text = "\n".join(message.content for message in prompt.render(items[0].values))
    for part in ("<source>\ntext of a\n</source>", "<translation>\ntexte de a\n</translation>"):
        assert part in text
    assert "in English" in text
    assert "in French" in text
