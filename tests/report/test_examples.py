"""Example queries with their evidence on the page."""

import re
from typing import Any

import pytest
from report_tables import psi_row, report_input

from psibench.report.examples import CONTEXT, LONGEST, example, excerpt
from psibench.report.page import render_report

TEXT = "The lid is blue. The box is red. The rope is long."


def row(**changes: Any) -> dict[str, Any]:
    asked = {"_id": "q1", "text": "What colour is the box?", "pos_char_span": [17, 32]}
    return asked | {"pos_char_length": len(TEXT), "pos_token_length": 12} | changes


def shown(text: str = TEXT, **changes: Any) -> dict[str, Any]:
    return example(row(**changes), text, domain="law")


GERMAN = "Der Deckel ist blau. Die Kiste ist rot. Das Seil ist lang."
TRANSLATED = {"pos_translated_char_length": len(GERMAN)}
SEVERAL = {"pos_char_span": None, "target_position": None, "pos_char_spans": [[0, 16], [33, 50]]}


@pytest.mark.parametrize(
    ("text", "changes", "before", "evidence", "fact"),
    [
        (TEXT, {}, "The lid is blue. ", "The box is red.", "characters 17 to 32 of 50"),
        (TEXT, SEVERAL, "", "The lid is blue.", "characters 0 to 16 of 50, the first of 2 spans"),
        (
            *(TEXT, {"pos_page": 7}, "The lid is blue. ", "The box is red."),
            "characters 17 to 32 of 50, page 7",
        ),
        (GERMAN, TRANSLATED, "", "", "marked in the original only"),
        ("Kurz.", {}, "", "", "marked in the original only"),
        (
            *(TEXT, {"pos_char_span": None, "target_position": "mixed"}, "", ""),
            "known by class, mixed",
        ),
    ],
    ids=["original", "several", "page", "translated", "other text", "class"],
)
def test_evidence_is_marked_where_it_is_known(text, changes, before, evidence, fact) -> None:
    found = shown(text, **changes)
    assert (found["before"], found["evidence"]) == (before, evidence)
    assert found["before"] + found["evidence"] + found["after"] == text
    assert found["fact"] == f"evidence: {fact}"


def test_page_marks_evidence_with_its_language() -> None:
    arabic = "الغطاء أزرق. الصندوق أحمر. الحبل طويل."
    one = shown(arabic, pos_char_span=[13, 26], pos_char_length=len(arabic))
    group = {"name": "Arabic", "language": "ara-Arab", "tag": "ar", "examples": [one]}
    rows = [psi_row("m", benchmark="b")]
    page = render_report(report_input(rows, examples={"b": [group]}))
    assert '<p class="query" lang="ar" dir="auto">' in page
    passage = re.search(r'<p class="passage" lang="ar" dir="auto">(.*?)</p>', page, re.DOTALL)
    assert passage is not None
    assert passage[1] == "الغطاء أزرق. <mark>الصندوق أحمر.</mark> الحبل طويل."
    assert 'href="#examples"' in page


def test_long_texts_and_long_evidence_are_cut() -> None:
    assert tuple(excerpt("One two three.", 4, 7).values()) == ("One ", "two", " three.")
    before, evidence, after = excerpt("a" * 1000 + "b" * 1000 + "c" * 1000, 1000, 2000).values()
    half = LONGEST // 2
    assert before == "\u2026" + "a" * CONTEXT
    assert evidence == f"{'b' * half} \u2026 {'b' * half}"
    assert after == "c" * (CONTEXT - 1) + "\u2026"
