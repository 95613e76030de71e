import json
import urllib.error
import urllib.request
from dataclasses import replace

import pytest
from batch_helpers import Server

from psibench.llm.request import Message, Request, ResponseSchema
from psibench.llm.standin.server import seed_of

BODY = {
    "model": "gpt-x",
    "messages": [{"role": "user", "content": "<query>a</query><segment>b</segment>"}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "judge_segment"}},
}


@pytest.fixture(scope="module")
def url():
    with Server() as running:
        yield running.url


def post(url, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", data)) as reply:
        return json.load(reply)


def test_replies_name_the_stand_in_and_their_usage(url):
    reply = post(url, BODY)
    assert reply["model"] == "stand-in/gpt-x"
    assert json.loads(reply["choices"][0]["message"]["content"]) == {"verdict": "no"}
    # < query > a < / query > < segment > b < / segment >; { " verdict " : " no " }
    assert reply["usage"] == {"prompt_tokens": 16, "completion_tokens": 9, "total_tokens": 25}
    assert post(url, BODY) == reply  # as ever


def test_task_without_rules_is_refused(url):
    odd = {"type": "json_schema", "json_schema": {"name": "odd"}}
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(url, BODY | {"response_format": odd})
    assert caught.value.code == 400
    assert "no rules for task 'odd'" in json.load(caught.value)["error"]["message"]


def test_limits_of_an_item_leave_the_seed():
    schema = {"properties": {"persona": {"type": "string"}, "questions": {"type": "array"}}}
    response = ResponseSchema("choose_configuration", schema)
    limits = {"properties": {"persona": {"enum": ["a"]}, "questions": {"maxItems": 3}}}
    plain = Request(model="m", messages=(Message("user", "é"),), response=response)
    limited = replace(plain, response=replace(response, limits=limits))
    assert limited.body() != plain.body()
    assert seed_of(json.dumps(limited.body()).encode()) == seed_of(
        json.dumps(plain.body()).encode()
    )
