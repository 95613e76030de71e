"""Servers that lie, stall, redirect or refuse for good: each is one failed try, in plain words."""

import asyncio
import json
import time

import pytest
from llm_helpers import COMPLETION, ScriptedServer, ask, ask_client, items, settings, stored

from psibench.config.secrets import Secret
from psibench.llm.answer_store import AnswerStore
from psibench.llm.asking import AskItem
from psibench.llm.client import OpenAIChatClient, call_of
from psibench.llm.connection import status_failure
from psibench.llm.limits import Budget
from psibench.llm.request import Sampling
from psibench.llm.sections import Price

PRICE = Price(input_usd=1.0, output_usd=10.0, as_of="2026-01-01")
LIES = [
    *({"prompt_tokens": n, "completion_tokens": 5} for n in (10**30, -1000, "many", 1.5, True)),
    {"prompt_tokens": 3, "completion_tokens": [1]},
    *(["prompt_tokens", 3], "3", None),
]


JSON = b"Content-Type: application/json"


def ask_raw(folder, status, *headers):
    """Ask a server for one item whose replies have this status and these headers."""
    body = json.dumps(COMPLETION).encode()
    head = [b"HTTP/1.1 " + status, *headers, b"Content-Length: %d" % len(body)]
    reply = b"\r\n".join([*head, b"Connection: close", b"", body])

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        await writer.drain()
        writer.close()

    async def run():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        chosen = settings(max_tries=2)
        async with server:
            client = OpenAIChatClient(chosen, base_url=url)
            return await ask_client(client, items(1), chosen, folder)

    return asyncio.run(run())


@pytest.mark.parametrize(
    "header",
    [
        "X-Served-In: Zürich".encode(),
        "X-Served-In: Zürich".encode("latin-1"),
        b"Set-Cookie: \xff=\x80",
        b"Content-Type: application/json; charset=\xff",
        b"Content-Encoding: \xff",
    ],
    ids=ascii,
)
def test_non_ascii_header_does_not_end_the_run(tmp_path, header):
    run = ask_raw(tmp_path, b"200 OK", JSON, header)
    assert (run.error, run.statuses) == (None, {"ok": 1})


@pytest.mark.parametrize(
    ("status", "header", "reason", "words"),
    [
        (b"400 Bad", b"X-Request-Id: \xe9", "http_400", "model"),
        (b"429 Slow", b"Retry-After: \xe9", "http_429", "model"),
        (b"503 Gone", b"Retry-After: Fri, 99 Foo 9999 \xff", "http_503", "model"),
        (b"301 Moved", b"Location: http://[bad/\xff", "http_301", "redirects to another address"),
        (b"302 Moved", "Location: http://zürich.example/".encode(), "http_302", "zürich.example"),
        ("200 Größe".encode("latin-1"), JSON, "connection", "unreadable status line"),
    ],
)
def test_odd_bytes_in_the_head_of_an_error_leave_its_reason(
    tmp_path, status, header, reason, words
):
    (outcome,) = ask_raw(tmp_path, status, header).outcomes
    assert (outcome.status, outcome.reason) == ("failed", reason)
    assert words in outcome.text


def completion(**changes) -> str:
    return json.dumps(COMPLETION | changes)


def bounded(n: int) -> list[AskItem]:
    return items(n, sampling=Sampling(max_output_tokens=100))


@pytest.mark.parametrize("usage", LIES, ids=str)
def test_implausible_usage_counts_as_the_whole_reservation(tmp_path, usage):
    budget = Budget(1.0, PRICE)
    run = ask(bounded(1), tmp_path, server=ScriptedServer(completion(usage=usage)), budget=budget)
    most = call_of(bounded(1)[0].request).most
    assert (run.error, run.statuses) == (None, {"ok": 1})
    assert budget.spent_usd == pytest.approx(PRICE.cost(most))
    assert AnswerStore(tmp_path).usage() == most  # the next run's budget knows it, too


@pytest.mark.parametrize(
    "body",
    [
        '{"choices": ' + 50_000 * '{"a":' + "1" + 50_000 * "}" + "}",
        completion().replace("1000,", "1e400,").replace("verdict", "other"),
        "[]",
        "9" * 5000,
    ],
    ids=["nested", "huge usage", "list", "digits"],
)
def test_unparsable_body_is_one_failed_try(tmp_path, body):
    run = ask(items(1), tmp_path, server=ScriptedServer(body))
    assert (run.error, run.statuses) == (None, {"ok": 1})


@pytest.mark.parametrize(
    "content",
    ['{"verdict": 1e400}', 200_000 * "```json\n{", 100_000 * '{"a":'],
    ids=["infinite", "fences", "nested"],
)
def test_content_that_would_take_forever_is_malformed_soon(tmp_path, content):
    choice = {"message": {"content": content}, "finish_reason": "stop"}
    started = time.thread_time()  # of the processor: others on the machine do not count
    run = ask(items(1), tmp_path, server=ScriptedServer(completion(choices=[choice])))
    assert (run.error, run.statuses) == (None, {"ok": 1})  # the second reply is
    assert run.outcomes[0].n_reasks == 1
    assert time.thread_time() - started < 60  # a slow version took 70 s for the fences


@pytest.mark.timeout(300)  # a wait as long as asked for never ends
@pytest.mark.parametrize("value", [400 * "9", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_extreme_retry_after_does_not_hang_the_run(tmp_path, value):
    server = ScriptedServer(*4 * [(429, "rate_limit_exceeded", {"Retry-After": value})])
    run = ask(items(1), tmp_path, server=server, chosen=settings(max_tries=3))
    assert run.statuses == {"failed": 1}
    assert "http_429" in run.outcomes[0].reason


@pytest.mark.parametrize("status", [301, 308])
def test_a_redirection_is_not_followed(tmp_path, status):
    other = {"Location": "http://elsewhere.invalid/v1/chat/completions?key=secret-of-theirs"}
    server = ScriptedServer((status, "moved", other))
    run = ask(items(3), tmp_path, server=server, chosen=settings(concurrency=1))
    assert "redirects to elsewhere.invalid; name that address in the config" in str(run.error)
    assert "secret-of-theirs" not in str(run.error)
    assert server.n_asked == 1


@pytest.mark.parametrize("content", [r'{"verdict": "\ud83d"}', '{"verdict": "yes"} \ud83d'])
def test_unpaired_surrogate_is_a_malformed_reply(tmp_path, content):
    choice = {"message": {"content": content}, "finish_reason": "stop"}
    replies = [completion(choices=[choice])] * 3
    (outcome,) = ask(items(1), tmp_path, server=ScriptedServer(*replies)).outcomes
    assert outcome.status == "malformed"
    outcome.text.encode()


@pytest.mark.parametrize("field", ["model", "finish_reason"])
def test_unprintable_names_are_escaped_and_cut(tmp_path, field):
    name = "stand-in/\ud800\x1b[31m" + 1000 * "x"
    choice = COMPLETION["choices"][0] | {"finish_reason": name}
    changes = {"model": name} if field == "model" else {"choices": [choice]}
    assert ask(items(1), tmp_path, server=ScriptedServer(completion(**changes))).error is None
    (kept,) = stored(tmp_path)
    assert getattr(kept, field).isprintable()
    assert len(getattr(kept, field).encode()) < 1000


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"code": "context_length_exceeded", "message": "words"}),  # OpenAI
        (
            400,  # llama.cpp; earlier versions sent 500
            {
                "code": 400,
                "type": "exceed_context_size_error",
                "message": "the request exceeds the available context size. try increasing it",
            },
        ),
        (500, {"code": 500, "type": "exceed_context_size_error", "message": "words"}),
        (
            400,  # vLLM
            {
                "code": 400,
                "type": "BadRequestError",
                "message": "This model's maximum context length is 16384 tokens. However, you "
                "requested 122946 tokens (112946 in the messages, 10000 in the completion).",
            },
        ),
        (
            400,
            "The decoder prompt (length 2136) is longer than the maximum model length of 2048.",
        ),
        (500, {"message": "Requested tokens (2285) exceed context window of 2048"}),
        (400, {"message": "prompt is too long: 208310 tokens > 200000 maximum"}),
    ],
)
def test_prompt_beyond_the_context_is_rejected_with_its_reason(status, error):
    failure = status_failure(status, error, Secret(""))
    assert (failure.reason, failure.action) == ("prompt_too_long", "reject")


@pytest.mark.parametrize(
    ("status", "message", "reason"),
    [
        (429, "Request too large: maximum context length budget per minute", "http_429"),
        (400, "Unknown parameter: 'response_format'.", "http_400"),
        (500, "Internal server error", "http_500"),
    ],
)
def test_other_errors_are_not_too_long_prompts(status, message, reason):
    assert status_failure(status, {"message": message}, Secret("")).reason == reason


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"code": "content_filter", "message": "words"}),  # Azure
        (400, {"code": "data_inspection_failed", "message": "words"}),  # DashScope
        (403, "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"),  # xAI
        (403, {"code": 403, "message": "The model requires moderation. Your input was flagged"}),
    ],
)
def test_a_refused_text_is_filtered_whatever_the_servers_status(status, error):
    assert status_failure(status, error, Secret("")).reason == "content_filter"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"code": "Arrearage", "message": "words"}),  # DashScope
        (400, {"code": "model_decommissioned", "type": "invalid_request_error"}),  # Groq
        (429, {"type": "exceeded_current_quota_error", "message": "words"}),  # Moonshot
        (429, {"code": "429", "type": "insufficient_quota", "message": "words"}),
        (403, "Access to the chat endpoint is denied."),  # xAI
    ],
)
def test_an_error_of_the_account_or_model_ends_the_run(status, error):
    assert status_failure(status, error, Secret("")).action == "stop"


@pytest.mark.processes
def test_too_long_prompt_is_sent_once(tmp_path):
    too_long = (500, "exceed_context_size_error", {})
    server = ScriptedServer(too_long, completion())
    run = ask(items(2), tmp_path, server=server, chosen=settings(concurrency=1))
    assert run.by_item["item-0"].reason == "prompt_too_long"
    assert server.n_asked == 2
