from dataclasses import fields, replace

import pytest
from llm_helpers import JUDGE, PLAIN, request

from psibench.llm.request import Message, Request, ResponseSchema, Sampling

CHANGES = {
    "model": "stand-in/other",
    "revision": "2026-01-01",
    "messages": (Message("system", "Be brief."), *request().messages),
    "sampling": Sampling(temperature=0.5),
    "response": ResponseSchema("judge_segment", {"type": "object"}),
    "reply_format": "json_object",
    "sample": 1,
}
SAMPLING_CHANGES = {
    "temperature": 1.0,
    "top_p": 0.9,
    "max_output_tokens": 100,
    "seed": 7,
    "stop": ["END"],
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "reasoning_effort": "low",
    "extra": {"chat_template_kwargs": {"enable_thinking": False}},
}


def test_changing_any_field_changes_the_key():
    assert set(CHANGES) == {f.name for f in fields(Request)}
    assert set(SAMPLING_CHANGES) == set(Sampling.model_fields)
    changed = [replace(request(), **{name: value}) for name, value in CHANGES.items()]
    changed += [request(sampling=Sampling(**{n: value})) for n, value in SAMPLING_CHANGES.items()]
    changed += [request(response=replace(PLAIN, form=f)) for f in ("json", "text", "integer")]
    keys = {one.key for one in [request(), *changed]}
    assert len(keys) == 1 + len(changed)


def test_equal_requests_share_a_key_in_any_schema_order():
    turned = ResponseSchema(JUDGE.name, dict(reversed(list(JUDGE.schema.items()))))
    assert request(response=turned).key == request().key
    one, same = Sampling(temperature=1), Sampling(temperature=1.0)
    assert request(sampling=one).key == request(sampling=same).key


def test_the_key_is_stable_over_versions():
    # Worth a test: a changed key means that every user asks and pays everything again.
    wanted = Request(model="m", messages=(Message("user", "hi"),), response=JUDGE)
    assert wanted.key == "8e256aab4d232f8faddfe5e7411cf3cd375d0492f64d3af555c13b1fb29721f2"


def test_body_has_only_fields_that_are_set():
    plain = Request(model="m", messages=(Message("user", "hi"),), response=PLAIN)
    assert plain.body() == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    full = replace(
        plain,
        sampling=Sampling(temperature=0, max_output_tokens=9, seed=3, extra={"top_k": 5}),
        response=JUDGE,
        sample=2,
    )
    assert full.body(output_limit_key="max_completion_tokens") == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0.0,
        "max_completion_tokens": 9,
        "seed": 5,  # seed 3 + sample 2
        "top_k": 5,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "judge_segment", "strict": True, "schema": JUDGE.schema},
        },
    }


@pytest.mark.parametrize(
    ("reply_format", "expected"),
    [
        ("json_object_schema", {"type": "json_object", "schema": JUDGE.schema}),
        ("json_object", {"type": "json_object"}),
        ("text", None),
    ],
)
def test_schema_is_sent_in_the_servers_format(reply_format, expected):
    assert request(reply_format=reply_format).body().get("response_format") == expected


QUESTIONS = ResponseSchema(
    "ask",
    {
        "type": "object",
        "properties": {
            "questions": {"type": "array", "items": {"type": "string", "minLength": 1}},
            "other": {"type": "string"},
        },
    },
)
LIMITS = {
    "properties": {
        "questions": {"maxItems": 3, "items": {"maxLength": 9}},
        "other": {"enum": ["a", "b"]},
        "missing": {"maxItems": 1},  # a user's template may lack it
    }
}


@pytest.mark.parametrize(
    ("reply_format", "items"),
    [
        ("json_schema", {"type": "string"}),
        ("json_object_schema", {"type": "string", "minLength": 1, "maxLength": 9}),
    ],
)
def test_limits_are_sent_but_leave_key_and_checks(reply_format, items):
    plain = request(response=QUESTIONS, reply_format=reply_format)
    limited = request(response=replace(QUESTIONS, limits=LIMITS), reply_format=reply_format)
    wanted = limited.body()["response_format"]
    schema = wanted["json_schema"]["schema"] if "json_schema" in wanted else wanted["schema"]
    assert schema["properties"] == {
        "questions": {"type": "array", "maxItems": 3, "items": items},
        "other": {"type": "string", "enum": ["a", "b"]},
    }
    assert limited.key == plain.key
    assert limited.response.schema == QUESTIONS.schema


def test_reask_never_equals_another_sample():
    assert request(sample=1).reask().key not in {request(sample=n).key for n in range(5)}
