"""Queries with their evidence: which are shown, what is said of them, how a browser gets them."""

import re
from typing import Any

from report_tables import psi_row, report_input

from psibench.report.examples import Example, chosen, example_section, make_example
from psibench.report.page import render_report
from psibench.report.views import BenchmarkInfo

TEXT = "The lid is blue. The box is red. The rope is long."


def row(**changes: Any) -> dict[str, Any]:
    asked = {"_id": "q1", "text": "What colour is the box?", "pos_char_span": [17, 32]}
    return asked | {"pos_char_length": len(TEXT), "pos_token_length": 12} | changes


def example(text: str = TEXT, language: str = "eng-Latn", **changes: Any) -> Example:
    return make_example(row(**changes), text, benchmark="b", language=language, domain="law")


def test_choice_depends_on_the_ids_alone() -> None:
    ids = [f"q{i}" for i in range(50)]
    assert chosen(ids, 3) == chosen(reversed(ids), 3)
    assert chosen(ids, 3)[:2] == chosen(ids, 2)
    assert chosen(["only"], 3) == ["only"]
    assert chosen(ids, 3) != ids[:3]


def test_evidence_of_an_original_is_marked_with_place_and_length() -> None:
    found = example()
    assert found.excerpt.evidence == ("The box is red.",)
    assert found.facts == (
        "evidence: characters 17 to 32 of 50, 15 long",
        "middle at 0.49",  # 24.5 / 50
        "document: 12 tokens",
    )


def test_evidence_found_again_is_marked_where_it_was_found() -> None:
    text = "Der Deckel ist blau. Die Kiste ist rot. Das Seil ist lang."
    found = example(
        text,
        "deu-Latn",
        pos_translated_char_length=len(text),
        located_char_span=[21, 39],
        located_by="sentences",
    )
    assert found.excerpt.evidence == ("Die Kiste ist rot.",)
    assert found.facts[0] == "found again in the translation (sentences)"
    assert "in the original: at 0.49" in found.facts
    assert found.facts[-1] == "document: 12 tokens in the original"


def test_evidence_not_found_again_is_not_marked() -> None:
    more = {"pos_translated_char_length": 12, "located_char_span": None}
    found = example("Etwas Text.", "deu-Latn", **more, not_located="quote_not_found")
    assert found.excerpt.evidence == ()
    assert found.facts[0] == "evidence: not located in the translation (quote_not_found)"


def test_span_of_a_text_of_another_length_is_not_marked() -> None:
    found = example("Kurz.", "deu-Latn")
    assert found.excerpt.evidence == ()
    assert found.facts[0] == "evidence: not looked for in this text"


def test_evidence_known_by_class_is_not_marked_and_its_class_is_told() -> None:
    found = example(pos_char_span=None, target_position="mixed")
    assert found.excerpt.evidence == ()
    assert found.facts == (
        "evidence: known by class, mixed",
        "shown unmarked: the text's beginning",
    )


def test_of_several_spans_all_are_told_and_the_first_is_shown() -> None:
    spans = [[0, 16], [33, 50]]
    found = example(pos_char_span=None, target_position=None, pos_char_spans=spans)
    assert found.excerpt.evidence == ("The lid is blue.",)
    told = ("evidence: 2 spans, characters 0 to 16; 33 to 50 of 50", "shown: the first")
    assert found.facts[:2] == told
    more = {"pos_char_spans": spans, "pos_translated_char_length": 12, "target_position": None}
    translated = example("Etwas Text.", "deu-Latn", pos_char_span=None, **more)
    assert translated.excerpt.evidence == ()
    assert translated.facts[0] == "evidence: 2 spans of the original"


def test_groups_are_in_page_order_with_names_and_directions() -> None:
    shown = [example(language=code) for code in ("ara-Arab", "cmn-Hans", "eng-Latn")]
    infos = (BenchmarkInfo("other", "posir"), BenchmarkInfo("b", "posir"))
    ((info, groups),) = example_section(shown, infos)
    assert info.id == "b"
    found = [(group.name, group.tag, group.direction) for group in groups]
    assert found == [
        ("Arabic", "ar", "rtl"),
        ("Chinese (Simplified)", "zh-Hans", "ltr"),
        ("English", "en", "ltr"),
    ]


def test_page_marks_evidence_with_language_and_direction() -> None:
    arabic = "الغطاء أزرق. الصندوق أحمر. الحبل طويل."
    one = example(arabic, "ara-Arab", pos_char_span=[13, 26], pos_char_length=len(arabic))
    infos = (BenchmarkInfo("b", "posir"),)
    page = render_report(
        report_input([psi_row("m", benchmark="b")], benchmarks=infos, examples=(one,))
    )
    assert '<p class="query" lang="ar" dir="rtl">' in page
    passage = re.search(r'<p class="passage" lang="ar" dir="rtl">(.*?)</p>', page, re.DOTALL)
    assert passage is not None
    assert passage[1] == "الغطاء أزرق. <mark>الصندوق أحمر.</mark> الحبل طويل."
    assert 'href="#examples"' in page
