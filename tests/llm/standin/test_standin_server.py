import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import standin_process
from standin_process import StandInProcess

from psibench.errors import InputError
from psibench.llm.standin.imperfections import Imperfections

BODY = {
    "model": "gpt-x",
    "messages": [{"role": "user", "content": "<query>a</query><segment>b</segment>"}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "judge_segment"}},
}


@pytest.fixture(scope="module")
def server():
    with StandInProcess() as running:
        yield running


def post(server, body, **headers):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = server.base_url + "/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, data, headers)) as reply:
        return json.load(reply)


def test_replies_say_that_a_stand_in_wrote_them(server):
    reply = post(server, BODY)
    assert reply["model"] == "stand-in/gpt-x"
    assert json.loads(reply["choices"][0]["message"]["content"]) == {"verdict": "no"}
    usage = reply["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0


def test_the_same_request_gets_the_same_reply(server):
    assert post(server, BODY) == post(server, BODY)


def test_it_listens_on_this_machine_only(server):
    assert server.base_url.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(server.base_url.replace("/v1", "/health")) as reply:
        assert json.load(reply) == {"status": "ok"}


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


def test_a_header_switches_faults_on_for_one_request(server):
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(server, BODY, **{"X-Stand-In": "rate_limited=1,retry_after_s=2"})
    assert (caught.value.code, caught.value.headers["Retry-After"]) == (429, "2")
    assert post(server, BODY)["choices"]


def test_it_ends_with_the_process_that_started_it():
    code = (
        "from standin_process import StandInProcess\n"
        "import os\ns = StandInProcess(); s.start(); print(s.base_url, flush=True); os._exit(9)"
    )
    folder = Path(standin_process.__file__).parent
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder
    ).stdout
    url = out.strip().replace("/v1", "/health")
    for _ in range(600):
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except (urllib.error.URLError, ConnectionError):
            return
        time.sleep(0.05)
    pytest.fail("the server outlived its parent")


def test_a_port_in_use_is_reported(server):
    with pytest.raises(InputError, match="did not start: stand-in: "):
        StandInProcess(port=server.port).start()


def test_options_are_read_over_others():
    base = Imperfections(malformed=0.1, seed=4)
    assert Imperfections.parse("malformed=0.5, delay_s=1", base) == Imperfections(
        malformed=0.5, delay_s=1.0, seed=4
    )
    assert Imperfections.parse("", base) == base


@pytest.mark.parametrize("text", ["malformed", "malformed=often", "nonsense=1"])
def test_an_unknown_option_is_refused(text):
    with pytest.raises(InputError, match="stand-in option"):
        Imperfections.parse(text)
