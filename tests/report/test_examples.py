"""Queries with their evidence: which are shown, what is said of them, how a browser gets them."""

import re
from typing import Any

from report_tables import psi_row, report_input

from psibench.report.examples import (
    CONTEXT,
    LONGEST,
    Example,
    example_section,
    excerpt,
    make_example,
)
from psibench.report.page import render_report
from psibench.report.views import BenchmarkInfo

TEXT = "The lid is blue. The box is red. The rope is long."


def row(**changes: Any) -> dict[str, Any]:
    asked = {"_id": "q1", "text": "What colour is the box?", "pos_char_span": [17, 32]}
    return asked | {"pos_char_length": len(TEXT), "pos_token_length": 12} | changes


def example(text: str = TEXT, language: str = "eng-Latn", **changes: Any) -> Example:
    return make_example(row(**changes), text, benchmark="b", language=language, domain="law")


def test_evidence_of_an_original_is_marked_with_place_and_length() -> None:
    found = example()
    assert found.evidence == ("The box is red.",)
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
    assert found.evidence == ("Die Kiste ist rot.",)
    assert found.facts[0] == "found again in the translation (sentences)"
    assert "in the original: at 0.49" in found.facts
    assert found.facts[-1] == "document: 12 tokens in the original"


def test_evidence_not_found_again_is_not_marked() -> None:
    more = {"pos_translated_char_length": 12, "located_char_span": None}
    found = example("Etwas Text.", "deu-Latn", **more, not_located="quote_not_found")
    assert found.evidence == ()
    assert found.facts[0] == "evidence: not located in the translation (quote_not_found)"


def test_span_of_a_text_of_another_length_is_not_marked() -> None:
    found = example("Kurz.", "deu-Latn")
    assert found.evidence == ()
    assert found.facts[0] == "evidence: not looked for in this text"


def test_evidence_known_by_class_is_not_marked_and_its_class_is_told() -> None:
    found = example(pos_char_span=None, target_position="mixed")
    assert found.evidence == ()
    assert found.facts == (
        "evidence: known by class, mixed",
        "shown unmarked: the text's beginning",
    )


def test_of_several_spans_all_are_told_and_the_first_is_shown() -> None:
    spans = [[0, 16], [33, 50]]
    found = example(pos_char_span=None, target_position=None, pos_char_spans=spans)
    assert found.evidence == ("The lid is blue.",)
    told = ("evidence: 2 spans, characters 0 to 16; 33 to 50 of 50", "shown: the first")
    assert found.facts[:2] == told
    more = {"pos_char_spans": spans, "pos_translated_char_length": 12, "target_position": None}
    translated = example("Etwas Text.", "deu-Latn", pos_char_span=None, **more)
    assert translated.evidence == ()
    assert translated.facts[0] == "evidence: 2 spans of the original"


def test_groups_are_in_page_order_with_names_and_tags() -> None:
    shown = [example(language=code) for code in ("ara-Arab", "cmn-Hans", "eng-Latn")]
    infos = (BenchmarkInfo("other", "posir"), BenchmarkInfo("b", "posir"))
    ((info, groups),) = example_section(shown, infos)
    assert info.id == "b"
    found = [(group["name"], group["tag"]) for group in groups]
    assert found == [
        ("Arabic", "ar"),
        ("Chinese (Simplified)", "zh-Hans"),
        ("English", "en"),
    ]


def test_page_marks_evidence_with_its_language() -> None:
    arabic = "الغطاء أزرق. الصندوق أحمر. الحبل طويل."
    one = example(arabic, "ara-Arab", pos_char_span=[13, 26], pos_char_length=len(arabic))
    infos = (BenchmarkInfo("b", "posir"),)
    page = render_report(
        report_input([psi_row("m", benchmark="b")], benchmarks=infos, examples=(one,))
    )
    assert '<p class="query" lang="ar" dir="auto">' in page
    passage = re.search(r'<p class="passage" lang="ar" dir="auto">(.*?)</p>', page, re.DOTALL)
    assert passage is not None
    assert passage[1] == "الغطاء أزرق. <mark>الصندوق أحمر.</mark> الحبل طويل."
    assert 'href="#examples"' in page


SENTENCE = "The lid is blue and the box is red. "


def test_short_text_is_shown_whole() -> None:
    assert excerpt("One two three.", (4, 7)) == ("One ", ("two",), " three.", 0)
    assert excerpt("abcdef", (3, 99)) == ("abc", ("def",), "", 0)
    assert excerpt("One two.", None, around=0.5) == ("One two.", (), "", 0)


def test_context_is_cut_at_white_space() -> None:
    text = SENTENCE * 40
    before, evidence, after, _ = excerpt(text, (720, 739))
    assert evidence == ("The lid is blue and",)
    assert before.startswith("… ")
    assert after.endswith(" …")
    kept, following = before[2:], after[:-2]
    assert CONTEXT - 24 <= len(kept) <= CONTEXT
    assert text[720 - len(kept) - 1] == " "
    assert text[739 + len(following)] == " "
    unmarked, *_ = excerpt(text, None, around=0.5)
    assert "… " in unmarked
    assert unmarked.endswith(" …")


def test_text_without_white_space_is_cut_all_the_same() -> None:
    before, _, after, _ = excerpt("文" * 1000, (500, 510))
    assert (before, after) == ("… " + "文" * CONTEXT, "文" * CONTEXT + " …")


def test_of_long_evidence_beginning_and_end_are_shown() -> None:
    text = SENTENCE * 40
    _, parts, _, n_left_out = excerpt(text, (0, 1080))
    assert text.startswith(parts[0])
    assert text[:1080].endswith(parts[1])
    assert sum(map(len, parts)) + n_left_out == 1080
    assert sum(map(len, parts)) <= LONGEST
