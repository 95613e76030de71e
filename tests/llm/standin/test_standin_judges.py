"""The stand-in's three judges have one scale, but different rules."""

import random

from psibench.llm.standin.rules import HANDLERS, JUDGES, Task, judge_of

PIER = "The stone pier of Vardo protected fishing boats. Dutch merchants paid for it in time."
NAMES = sorted(JUDGES)  # rare, rules, sentence


def judged(task, tag, name, query, text):
    prompt = f"<query>{query}</query> <{tag}>{text}</{tag}>"
    (value,) = HANDLERS[task](Task(prompt, random.Random(0), judge_of(f"stand-in/{name}"))).values()
    return value


def grades(query, text):
    return [judged("grade_relevance", "passage", name, query, text) for name in NAMES]


def test_scattered_words_count_less_for_the_sentence_judge():
    # Six of six words; three in either sentence.
    query = "stone pier boats Dutch merchants paid"
    assert grades(query, PIER) == [4, 4, 2]
    assert [judged("judge_segment", "segment", name, query, PIER) for name in NAMES] == [
        *("yes", "yes", "no")
    ]


def test_rare_words_weigh_most_for_the_rare_judge():
    # Weights: water 1.28, time 0.43, call 0.94, vardo 4.96 (unlisted); of 7.62 in all.
    query = "water time call Vardo"
    assert grades(query, "Time to call for water.") == [1, 3, 3]  # 2.65 of 7.62; three of four
    assert grades(query, "The pier of Vardo") == [2, 1, 1]  # 4.96 of 7.62; one of four
