"""The stand-in's rules about where evidence lies, on documents that have little of it."""

import random

import pytest

from psibench.llm.standin.rules import HANDLERS, Task
from psibench.text.segments import POSITIONS

# Three sentences, of which only the last lies wholly inside a third (37 of 111 characters each).
UNEVEN = (
    "Copper miners dug deep shafts below northern valleys and hills. "
    "Rain flooded galleries. Farmers sold barley."
)
QUESTION = "<question>Who dug copper shafts?</question><answer>the miners</answer>"


def propose(position, document=UNEVEN, seed=0):
    prompt = (
        f"<document>{document}</document><position>{position}</position>"
        "<n_questions>2</n_questions>"
    )
    reply = HANDLERS["propose_questions"](Task(prompt, random.Random(seed)))
    return [question["answer"] for question in reply["questions"]]


def locate(document, *, is_wrong=False, seed=0):
    prompt = f"<document>{document}</document>{QUESTION}"
    return HANDLERS["locate_span"](Task(prompt, random.Random(seed), is_wrong))["quote"]


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        # No sentence is wholly in the first third: the one whose middle is there, at 31.5 of 108.
        ("beginning", ["Copper miners dug deep shafts below northern valleys and hills."]),
        ("middle", []),  # no middle of a sentence lies between 36 and 72
        # Too short to be asked about otherwise; middles at 75.5 and 98.
        ("end", ["Rain flooded galleries.", "Farmers sold barley."]),
    ],
)
def test_a_third_without_a_whole_sentence_gets_the_sentence_whose_middle_is_there(
    position, expected
):
    assert propose(position) == expected


def test_chinese_sentences_are_asked_about(real_data):
    from psibench.sources.squad import read_squad_files

    contexts = read_squad_files([real_data / "xquad.zh.json"])["context"].unique().sort()
    answered = [bool(propose(position, text)) for text in contexts for position in POSITIONS]
    assert sum(answered) > 0.9 * len(answered)


def test_nothing_is_quoted_where_nothing_fits():
    assert locate("Rain fell. Barley was sold.") == ""
    assert locate("") == ""


@pytest.mark.parametrize("seed", range(5))
def test_an_erring_quote_is_another_sentence(seed):
    right, wrong = locate(UNEVEN), locate(UNEVEN, is_wrong=True, seed=seed)
    assert right.startswith("Copper miners")
    assert wrong in UNEVEN
    assert wrong != right
