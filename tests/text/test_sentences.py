"""Where sentences end, by script."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psibench.text.sentences import sentence_spans

examples = settings(deadline=None, max_examples=60)
SENTENCES = {
    "Latin": [
        "Dr. Smith met J. R. Brown at 3.5 km.",
        "Then what?",
        "“Go!”",
        "e.g. this, etc. and so on.",
    ],
    "Cyrillic": ["В 1812 г. началась война.", "Кто победил?", "Об этом — т.е. о победе — спорят."],
    "Arabic": ["ذهب أحمد إلى السوق.", "ماذا اشترى؟", "اشترى خبزا!"],
    "Urdu": ["وہ گھر گیا۔", "وہ کیوں گیا؟"],
    "Korean": ["서울은 한국의 수도이다.", "인구는 얼마나 되는가?", "약 천만 명이다."],
    "Hindi": ["वह घर गया।", "वह क्यों गया?"],
}


@pytest.mark.parametrize("script", SENTENCES)
def test_sentences_end_at_marks_and_not_at_abbreviations(script):
    text = " ".join(SENTENCES[script])
    assert [text[start:end] for start, end in sentence_spans(text)] == SENTENCES[script]


@examples
@given(st.text(alphabet="aB1.!?؟。 \n“”)", max_size=40))
def test_sentences_cover_all_but_white_space(text):
    spans = sentence_spans(text)
    covered = "".join(text[start:end] for start, end in spans)
    assert "".join(covered.split()) == "".join(text.split())
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)
    assert all(one[1] <= other[0] for one, other in zip(spans, spans[1:], strict=False))
