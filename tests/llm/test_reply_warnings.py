import json
from collections import Counter

import polars as pl
import pytest

from psibench.filters.grade import grading_task, verdict_task
from psibench.generate.controlled import CHOOSE_CONFIGURATION
from psibench.llm.asking import OutcomeSink
from psibench.llm.reply_warnings import limit_warnings, value_warnings

NO_ROWS = [pl.DataFrame()]


def outcomes(*values) -> list[pl.DataFrame]:
    rows = [("ok", json.dumps(value)) for value in values] + [("malformed", None)]
    return [pl.DataFrame(rows, schema=["status", "value"], orient="row")]


def totals(n_judged, *, n_sent=0, n_timeouts=0, **reasons) -> OutcomeSink:
    sink = OutcomeSink(lambda _: None)
    sink.n_judged, sink.n_sent, sink.n_timeouts = n_judged, n_sent, n_timeouts
    sink.form_reasons = Counter(reasons)
    return sink


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        (totals(10, output_limit_reached=1), []),  # one in ten
        (totals(9, output_limit_reached=1), ["1 of 9 replies were cut off by the token limit"]),
        (totals(9, no_json=9), []),
        (totals(9, n_sent=20, n_timeouts=3), ["3 of 20 HTTP requests had no reply"]),
    ],
)
def test_many_replies_at_a_limit_give_a_warning(sink, expected):
    found = list(limit_warnings(sink))
    assert len(found) == len(expected)
    assert all(text.startswith(start) for text, start in zip(found, expected, strict=True))


def test_judge_that_always_says_yes_gives_a_warning():
    task = verdict_task("audit")
    (text,) = value_warnings(task, outcomes(*[{"verdict": "yes"}] * 9), NO_ROWS)
    assert text.startswith("9 of 9 replies have the same verdict, 'yes'")
    mixed = [{"verdict": "yes"}] * 9 + [{"verdict": "no"}]
    assert not list(value_warnings(task, outcomes(*mixed), NO_ROWS))
    assert not list(value_warnings(task, outcomes(*[{"verdict": "yes"}] * 7), NO_ROWS))


def test_equal_grades_give_a_warning_only_in_the_second_round():
    replies = outcomes(*[{"grade": 4}] * 8)
    assert not list(value_warnings(grading_task("grade_first"), replies, NO_ROWS))
    assert len(list(value_warnings(grading_task("grade_rest"), replies, NO_ROWS))) == 1


@pytest.mark.parametrize(("n_listed", "n_warnings"), [(3, 1), (4, 0)])
def test_invented_personas_give_a_warning(n_listed, n_warnings):
    rows = [pl.DataFrame({"persona_listed": [True] * n_listed + [False] * 4})]
    how = [
        {"difficulty": d, "query_length": q} for d in ("easy", "hard") for q in ("long", "short")
    ]
    found = list(value_warnings(CHOOSE_CONFIGURATION, outcomes(*how), rows))
    assert len(found) == n_warnings
