import json

import polars as pl
from answered_tasks import ask, documents

from psibench.generate.ask import gather
from psibench.llm.standin.locales import ACCENTED
from psibench.tables import conform
from psibench.tables.build_schemas import OUTCOMES, REFUSAL_SUSPECTS
from psibench.text.lengths import count_whitespace_tokens, with_lengths
from psibench.translate.refusals import JUDGE_REFUSALS
from psibench.translate.translate import TRANSLATE, TranslateSection, text_parts

SECTION = TranslateSection(llm="x", source_language="eng-Latn", target_language="qps-Latn")
RTL = SECTION.model_copy(update={"target_language": "qps-Arab"})
LONG = "Steam was cheap. Ships grew.\n\nCoal ran out, so\nthe ships lay in port.\n\nSails returned."
DOCUMENTS = documents({"b": LONG, "a": "Copper mines were opened."})
QUERIES = pl.DataFrame(
    {
        "_id": ["q2", "q1"],
        "text": ["old copper mines", "why did ships stay?"],
        "pos_corpus_id": ["a", "b"],
    }
)


CORPUS = with_lengths(DOCUMENTS, count_tokens=count_whitespace_tokens)
PARTS = text_parts(CORPUS, QUERIES, max_tokens=6, count_tokens=count_whitespace_tokens)
TABLES = {"documents": DOCUMENTS, "text_parts": PARTS}


def outcomes(rows):
    """OUTCOMES rows of (item id, document, status, value)."""
    filled = [
        {
            "item_id": item_id,
            "doc_id": doc_id,
            "status": status,
            "value": json.dumps(value) if status == "ok" else None,
        }
        for item_id, doc_id, status, value in rows
    ]
    return pl.DataFrame(filled, schema=OUTCOMES.empty().schema)


def test_part_items_follow_the_documents():
    items = list(TRANSLATE.items(TABLES, RTL))
    assert [(item.id, item.doc_id, item.values["text"], item.values["kind"]) for item in items] == [
        ("d:b:0", "b", "Steam was cheap. Ships grew.", "passage"),
        ("d:b:1", "b", "Coal ran out, so", "passage"),
        ("d:b:2", "b", "the ships lay in port.", "passage"),
        ("d:b:3", "b", "Sails returned.", "passage"),
        ("q:q1:0", "b", "why did ships stay?", "question"),
        ("d:a:0", "a", "Copper mines were opened.", "passage"),
        ("q:q2:0", "a", "old copper mines", "question"),
    ]
    assert {item.values["source_language"] for item in items} == {"English"}
    assert {item.values["target_language"] for item in items} == {"pseudo-locale (Arabic)"}


def test_a_part_without_a_usable_translation_is_dropped():
    rows = [
        ("d:b:0", "b", "ok", {"translation": " Dampf\n"}),
        ("d:b:1", "b", "ok", {"translation": " \n"}),
        ("d:b:2", "b", "malformed", None),
        ("q:q1:0", "b", "ok", {"translation": "Warum?"}),
    ]
    found = gather(TRANSLATE, SECTION, TABLES, outcomes(rows))
    assert found.rows.rows() == [("d:b:0", "Dampf"), ("q:q1:0", "Warum?")]
    dropped = found.dropped.select("unit", "item_id", "doc_id", "reason", "char_length").rows()
    assert dropped == [
        ("texts", "d:b:2", "b", "malformed", len(LONG)),
        ("texts", "d:b:1", "b", "empty_translation", len(LONG)),
    ]
    assert [(flow.unit, flow.entered, flow.kept) for flow in found.flow] == [("texts", 4, 2)]


def tables_with_suspects():
    rows = [
        ("q:q2", "a", "q2", "query", "I'm sorry, but I cannot translate this question."),
        ("d:b", "b", "b", "document", ACCENTED.translate("I cannot go, he said.")),
        ("q:q1", "b", "q1", "query", ACCENTED.translate("why did ships stay?")),
    ]
    suspects = pl.DataFrame(rows, schema=list(REFUSAL_SUSPECTS.column_names), orient="row")
    return TABLES | {"refusal_suspects": suspects}


def test_judges_see_the_beginning_of_a_suspect():
    tables = tables_with_suspects()
    gathered = JUDGE_REFUSALS.gather(tables, SECTION, ask(JUDGE_REFUSALS, SECTION, tables))
    conform(gathered.rows, JUDGE_REFUSALS.spec, where="verdicts")
    assert gathered.rows.rows() == [
        ("d:b", "b", "document", False),
        ("q:q1", "q1", "query", False),
        ("q:q2", "q2", "query", True),
    ]


def test_a_suspect_without_a_usable_reply_has_no_verdict():
    rows = [("d:b", "b", "refused", None), ("q:q2", "a", "ok", {"verdict": "translation"})]
    found = gather(JUDGE_REFUSALS, SECTION, tables_with_suspects(), outcomes(rows))
    assert found.rows["is_refusal"].to_list() == [None, None, False]
    assert found.dropped.select("unit", "item_id", "reason").rows() == [
        ("suspects", "d:b", "refused")
    ]
    assert [(flow.entered, flow.kept) for flow in found.flow] == [(2, 1)]
