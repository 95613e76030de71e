"""The stand-in's judges: one scale, three rules that are not one and the same."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psibench.llm.request import Message, Request, ResponseSchema
from psibench.llm.standin.completion import answer_directly
from psibench.llm.standin.rules import JUDGES, by_words, judge_of

PIER = "The stone pier of Vardo protected fishing boats. Dutch merchants paid for it in time."
NAMES = sorted(JUDGES)  # rare, rules, sentence


def answer(task, user, *, model="stand-in/rules"):
    request = Request(model, (Message("user", user),), response=ResponseSchema(task, {}))
    return answer_directly(request)


def judged(task, tag, name, query, text):
    user = f"<query>\n{query}\n</query>\n<{tag}>\n{text}\n</{tag}>"
    (value,) = json.loads(answer(task, user, model=f"stand-in/{name}").text).values()
    return value


def grades(query, text):
    return [judged("grade_relevance", "passage", name, query, text) for name in NAMES]


def verdicts(query, text):
    return [judged("judge_segment", "segment", name, query, text) for name in NAMES]


PERSONAS = "<document>Piers.</document><personas>\n1. a cook\n2. a builder of piers\n</personas>"
PROPOSING = f"<document>{PIER} {PIER.upper()}</document><position>end</position>"


@pytest.mark.parametrize(
    ("task", "user", "reply"),
    [
        ("grade_relevance", "<query>stone pier</query><passage>A pier.</passage>", {"grade": 2}),
        ("judge_segment", "<query>stone pier</query><segment>A pier.</segment>", {"verdict": "no"}),
        (  # difficulty and length are drawn
            "choose_configuration",
            PERSONAS,
            {"persona": "a builder of piers", "difficulty": "easy", "query_length": "long"},
        ),
        (  # so are the sentences asked about, and the opening
            "propose_questions",
            PROPOSING,
            {
                "questions": [
                    {
                        "question": "How do these go together: DUTCH, MERCHANTS, PAID and TIME?",
                        "answer": "DUTCH MERCHANTS PAID FOR IT IN TIME.",
                    }
                ]
            },
        ),
    ],
)
def test_the_replies_of_rules_are_those_it_has_always_given(task, user, reply):
    assert json.loads(answer(task, user).text) == reply


def test_words_scattered_over_sentences_count_less_for_the_judge_of_sentences():
    # Six of six words; three in either sentence.
    query = "stone pier boats Dutch merchants paid"
    assert grades(query, PIER) == [4, 4, 2]
    assert verdicts(query, PIER) == ["yes", "yes", "no"]


def test_a_rare_word_that_is_missing_or_alone_weighs_most_for_the_judge_of_rare_words():
    # Weights: water 1.28, time 0.43, call 0.94, vardo 4.96 (unlisted); of 7.62 in all.
    query = "water time call Vardo"
    assert grades(query, "Time to call for water.") == [1, 3, 3]  # 2.65 of 7.62; three of four
    assert verdicts(query, "Time to call for water.") == ["no", "yes", "yes"]
    assert grades(query, "The pier of Vardo") == [2, 1, 1]  # 4.96 of 7.62; one of four


@given(
    st.lists(st.sampled_from(PIER.split()), max_size=6).map(" ".join),
    st.lists(st.sampled_from([*PIER.split(), "opera.", "volcano."]), max_size=12).map(" ".join),
)
def test_a_share_lies_between_0_and_1_and_a_sentence_has_no_more_than_its_text(query, text):
    words, sentence, rare = (JUDGES[name](query, text) for name in ("rules", "sentence", "rare"))
    assert 0 <= sentence <= words <= 1
    assert 0 <= rare <= 1
    assert (rare == 0) == (words == 0)
    assert (rare == 1) == (words == 1)


@pytest.mark.parametrize("model", ["stand-in/rules", "stand-in/other", "gpt-x", ""])
def test_a_name_that_is_no_judge_judges_by_words_as_ever(model):
    assert judge_of(model) is by_words
    assert judged("grade_relevance", "passage", "other", "stone opera", PIER) == 2
