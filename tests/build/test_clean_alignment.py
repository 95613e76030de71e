"""Sentences, their alignment by length, and evidence found again."""

from math import erfc, log, sqrt

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psibench.text.alignment import PRIORS, VARIANCE, align_lengths, sentence_spans
from psibench.translate.relocate import (
    align_texts,
    locate_span,
    relocated,
)

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


def bead_cost(source, target, ratio):
    mean = (source + target / ratio) / 2
    delta = abs(target - source * ratio) / (ratio * sqrt(mean * VARIANCE))
    return -log(erfc(delta / sqrt(2)))


def cheapest(source, target, ratio):
    """All sequences of beads, tried one by one: the cost of the best."""
    if not len(source) and not len(target):
        return 0.0
    costs = []
    for (a, b), prior in PRIORS.items():
        if a <= len(source) and b <= len(target):
            unequal = bead_cost(sum(source[:a]), sum(target[:b]), ratio) if a and b else 0.0
            own = unequal - log(prior)
            costs.append(own + cheapest(source[a:], target[b:], ratio))
    return min(costs)


@examples
@given(
    source=st.lists(st.integers(1, 60), max_size=4),
    target=st.lists(st.integers(1, 60), max_size=4),
    ratio=st.sampled_from([0.3, 1.0, 1.2]),
)
def test_no_other_alignment_is_cheaper(source, target, ratio):
    beads = align_lengths(np.array(source, float), np.array(target, float), ratio=ratio)
    # the beads cover both sides, in order
    for side, n in (("source", len(source)), ("target", len(target))):
        edges = [0, *(edge for bead in beads for edge in getattr(bead, side)), n]
        assert all(one == other for one, other in zip(edges[::2], edges[1::2], strict=True))
    total = sum(
        bead.cost - log(PRIORS[np.diff(bead.source)[0], np.diff(bead.target)[0]]) for bead in beads
    )
    assert total == pytest.approx(cheapest(source, target, ratio), abs=0.01)  # a grid of 0.01


ENGLISH = (
    "The old harbour was built by the Romans. It was fortified later. Ships of all nations came."
)
SPANISH = (
    "El viejo puerto fue construido por los romanos. Más tarde fue fortificado. "
    "Llegaban barcos de todas las naciones."
)


def test_evidence_that_was_left_out_has_no_counterpart():
    source = [f"{'Word ' * n}end." for n in (30, 25, 40, 18, 35, 28, 45, 33)]
    target = [text for text in source if text != source[3]]
    at = len(" ".join(source[:3])) + 1
    found = locate_span(align_texts(" ".join(source), " ".join(target), ratio=1.0), (at, at + 20))
    assert (found.span, found.reason) == (None, "no_counterpart")


def test_every_query_is_relocated_or_says_why_not():
    at = ENGLISH.index("Ships")
    schema = {"_id": pl.String, "pos_corpus_id": pl.String, "pos_char_span": pl.Array(pl.Int32, 2)}
    rows = [("q1", "d1", [at, at + 5]), ("q2", "d2", [0, 3]), ("q3", "d1", None)]
    rows += [("q4", "d4", [0, 3]), ("q5", "d1", [ENGLISH.index("fortified"), at + 5])]
    asked = pl.DataFrame(rows, schema=schema, orient="row")
    ids = ["d1", "d2", "d3", "d4"]
    source = pl.DataFrame({"_id": ids, "text": [ENGLISH] * 4})
    corpus = pl.DataFrame({"_id": ids, "text": [SPANISH, " ".join([SPANISH] * 4), SPANISH, ""]})
    columns = ("_id", "located_char_span", "not_located", "located_from_span")
    assert relocated(asked, source, corpus).select(columns).rows() == [
        ("q1", [SPANISH.index("Llegaban"), len(SPANISH)], "", [at, len(ENGLISH)]),
        ("q2", None, "poor_alignment", None),
        ("q3", None, "no_span", None),
        ("q4", None, "blank_text", None),
        ("q5", [SPANISH.index("Más"), len(SPANISH)], "", [ENGLISH.index("It was"), len(ENGLISH)]),
    ]
