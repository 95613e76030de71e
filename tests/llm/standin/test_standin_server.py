import json
import random
import urllib.error
import urllib.request

import pytest
from standin_process import StandInProcess

from psibench.llm.standin.completion import complete

BODY = {
    "model": "gpt-x",
    "messages": [{"role": "user", "content": "<query>a</query><segment>b</segment>"}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "judge_segment"}},
}


@pytest.fixture(scope="module")
def server():
    with StandInProcess() as running:
        yield running


def post(server, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = server.base_url + "/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, data)) as reply:
        return json.load(reply)


def test_replies_say_that_a_stand_in_wrote_them(server):
    reply = post(server, BODY)
    assert reply["model"] == "stand-in/gpt-x"
    assert json.loads(reply["choices"][0]["message"]["content"]) == {"verdict": "no"}
    assert post(server, BODY) == reply  # as ever
    usage = reply["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"no json", "Expecting value"),
        ({"messages": []}, "at least one message"),
        (
            BODY | {"response_format": {"type": "json_schema", "json_schema": {"name": "odd"}}},
            "no rules for task 'odd'",
        ),
    ],
)
def test_a_bad_request_is_told_what_is_wrong(server, body, words):
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(server, body)
    assert caught.value.code == 400
    assert words in json.load(caught.value)["error"]["message"]


def test_usage_is_of_the_prompt_and_the_reply():
    body = {"messages": [{"role": "user", "content": "one two three"}]}
    reply = complete(body, random.Random(0))
    assert reply["choices"][0]["message"]["content"] == "one two three"
    assert reply["usage"] == {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6}
