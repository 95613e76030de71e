"""The pure parts of studies/cleaning: what is planted, what counts as right."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "studies" / "cleaning"))

from cleaned import Outcome
from counted import found, precision, reason_in, recall
from planted_set import Planted, plant
from relocation import holds, joined
from xquad_texts import read_paragraphs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two files of 240 paragraphs with one question each, in XQuAD's form."""
    made = tmp_path_factory.mktemp("xquad")
    for name, words in (("en", "The river {} is long."), ("es", "El río {} es largo.")):
        entries = [
            {
                "context": " " + words.format(i) + " Fin.",
                "qas": [
                    {
                        "id": f"q{i}",
                        "question": f"¿{i}?",
                        "answers": [{"answer_start": 1, "text": "x"}],
                    }
                ],
            }
            for i in range(240)
        ]
        data = {"data": [{"paragraphs": entries}]}
        (made / f"xquad.{name}.json").write_text(json.dumps(data), encoding="utf-8")
    return made


def test_what_is_planted_is_what_its_class_says(folder):
    made = plant(folder, source="eng-Latn", target="spa-Latn", seed=1)
    texts = {p.id: p.text for p in read_paragraphs(folder, "spa-Latn")}
    originals = {p.id: p.text for p in made.source}
    for one in made.documents:
        honest = texts[one.item_id]
        if one.label.startswith("prefix"):
            assert one.text.endswith(honest)
            assert one.text != honest
            assert one.wanted == honest
        elif one.label == "repeated":
            assert one.text.count(honest) == one.size
        elif one.label == "truncated":
            assert honest.startswith(one.text)
            assert len(one.text) <= max(len(honest) * one.size, 1)
        elif one.label == "left in the source language":
            assert one.text == originals[one.item_id]
        elif one.label.startswith("honest"):
            assert one.text.endswith(honest)


def outcome(label, *, prefix=None, reason=None, text="t"):
    return Outcome(Planted("p1", label, "x t", "t"), prefix, text, None, reason)


def test_precision_and_recall_are_counted_by_class():
    rows = [
        outcome("a", reason="out"),
        outcome("a"),
        outcome("b", reason="out"),
        outcome("b", reason="other"),
    ]
    assert found(rows, ("a",), reason_in("out")) == "1 of 2"
    assert recall(rows, ("a", "b"), reason_in("out")).startswith("0.500")
    assert precision(rows, ("a",), reason_in("out")).startswith("0.500")
    assert found(rows, ("c",), reason_in("out")) == "-"


def test_answers_keep_their_places_in_joined_texts(folder):
    paragraphs = read_paragraphs(folder, "eng-Latn")[:2]
    text, spans = joined(paragraphs)
    assert text == f"{paragraphs[0].text} {paragraphs[1].text}"
    assert spans == [(0, 1), (len(paragraphs[0].text) + 1, len(paragraphs[0].text) + 2)]
    assert holds((0, 5), (1, 5))
    assert not holds((0, 5), (1, 6))
