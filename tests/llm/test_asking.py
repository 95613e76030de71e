import asyncio
import json
import re
import time
from dataclasses import replace
from datetime import date

import pytest
from aiohttp import web
from faulty_standin import FaultyStandIn, Imperfections
from llm_helpers import (
    COMPLETION,
    PLAIN,
    Run,
    ScriptedServer,
    answer,
    ask,
    ask_client,
    files_text,
    items,
    request,
    settings,
    stored,
)

from psibench.config.secrets import Secret
from psibench.errors import InputError
from psibench.llm.asking import AskItem
from psibench.llm.connection import open_client
from psibench.llm.limits import Budget, BudgetReachedError
from psibench.llm.request import Message, Sampling
from psibench.llm.run import ask_all
from psibench.llm.sections import LlmSettings, Price
from psibench.llm.usage import Usage

KEY = "planted-key-0123456789abcdef"


def test_second_run_sends_only_changed_requests(tmp_path):
    first, stand_in = ask(items(30), tmp_path), FaultyStandIn()
    changed = [AskItem(f"item-{n}", request(n + 1000)) for n in range(10)] + items(30)[10:]
    second = ask(changed, tmp_path, server=stand_in)
    assert (stand_in.asked.total(), second.totals.n_from_store) == (10, 20)
    for item in items(30)[10:]:
        assert second.by_item[item.id] == replace(first.by_item[item.id], n_replies=0)


@pytest.mark.parametrize(
    ("fault", "status", "reason"),
    [
        ("malformed", "malformed", "no_json"),
        ("refusal", "refused", "marked_as_refusal"),
        ("truncated", "truncated", "output_limit_reached"),
        ("filtered", "filtered", "content_filter"),
    ],
)
def test_unusable_replies_become_outcomes_with_reasons(tmp_path, fault, status, reason):
    run = ask(items(3), tmp_path, faults=f"{fault}=1")
    assert run.error is None
    assert {(o.status, o.reason, o.value) for o in run.outcomes} == {(status, reason, None)}
    assert run.statuses == {status: 3}
    if status == "malformed":  # the first half of {"verdict": "yes"}
        assert {(o.text, o.n_reasks) for o in run.outcomes} == {('{"verdict', 2)}
    again = ask(items(3), tmp_path)  # stored: a server without faults is not asked
    assert again.statuses == {status: 3}
    assert again.totals.n_replies == 0


@pytest.mark.parametrize(
    ("message", "finish", "status", "reason"),
    [
        ({"reasoning_content": '{"verdict": "yes"}'}, "stop", "malformed", "thoughts_alone"),
        ({"content": "", "reasoning": "Is it?"}, "stop", "malformed", "thoughts_alone"),
        ({"content": "", "reasoning": ""}, "stop", "malformed", "empty_reply"),
        (
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "no"}]}]},
            *("stop", "malformed", "thoughts_alone"),
        ),
        ({"reasoning": "Is"}, "length", "truncated", "output_limit_reached_in_thoughts"),
        ({"content": "<think>Is"}, "length", "truncated", "output_limit_reached_in_thoughts"),
        ({"content": '{"verd'}, "length", "truncated", "output_limit_reached"),
        (
            {"content": [{"type": "reasoning", "text": '{"verdict": "no"}'},
                         {"type": "text", "text": '{"verdict": "yes"}'}]},
            *("stop", "ok", ""),
        ),
        ({"content": '{"verdict": "yes"}', "reasoning": "no?"}, "stop", "ok", ""),
    ],
)  # fmt: skip
def test_thoughts_that_a_server_separates_are_no_reply(tmp_path, message, finish, status, reason):
    choices = [{"message": message, "finish_reason": finish}]
    server = ScriptedServer(*[json.dumps(COMPLETION | {"choices": choices})] * 3)
    (outcome,) = ask(items(1), tmp_path, server=server).outcomes
    assert (outcome.status, outcome.reason) == (status, reason)
    assert outcome.value == ({"verdict": "yes"} if status == "ok" else None)
    assert "Is it?" not in files_text(tmp_path)


@pytest.mark.parametrize(
    ("bound", "reason", "n_asked"),
    [(1000, "context_window_full", 1), (1, "output_limit_reached", 3)],
)
def test_reply_cut_off_by_the_context_window_is_final(tmp_path, bound, reason, n_asked):
    stand_in = FaultyStandIn()
    bounded = items(1, sampling=Sampling(max_output_tokens=bound))
    (outcome,) = ask(bounded, tmp_path, server=stand_in, faults="truncated=1").outcomes
    assert (outcome.status, outcome.reason) == ("truncated", reason)
    assert stand_in.asked.total() == n_asked


@pytest.mark.parametrize(
    ("told", "cached", "output"),
    [
        ({"total_tokens": 40}, 0, 30),  # thoughts that a service counts only in the total
        ({"total_tokens": 3}, 0, 5),
        ({"total_tokens": 10**30}, 0, 5),
        ({"cached_input_tokens": 11}, 0, 5),  # more than the prompt has: at the full price
        ({"cached_input_tokens": 10}, 10, 5),
    ],
)
def test_further_plausible_token_counts_are_used(told, cached, output):
    assert Usage.read(told | {"input_tokens": 10, "output_tokens": 5}) == Usage(10, output, cached)


def test_missing_server_ends_the_run_with_a_clear_message(tmp_path):
    chosen = settings(max_tries=2, give_up_after=3)
    chosen = chosen.model_copy(update={"base_url": "http://127.0.0.1:9/v1"})
    run = Run()
    with pytest.raises(InputError, match="in a row"):
        ask_all(items(50), chosen, store=tmp_path, on_outcome=run.outcomes.append)
    assert 3 <= run.statuses["failed"] <= 10  # three, and those under way
    assert run.outcomes[0].reason == "connection"
    assert list(tmp_path.iterdir()) == []  # no answer, no file


@pytest.mark.parametrize("step", [401, 404, (429, "insufficient_quota", {})])
def test_an_error_that_all_requests_share_ends_the_run_at_once(tmp_path, step):
    server = ScriptedServer(*[step] * 100)
    run = ask(items(100), tmp_path, server=server, chosen=settings(concurrency=4))
    assert "the server refuses all requests: http_4" in str(run.error)
    assert ("/v1/chat/completions: check base_url" in str(run.error)) == (step == 404)
    assert server.n_asked <= 4  # none is tried again


class SelectiveServer(ScriptedServer):
    """Rejects the requests of some items; from the request ``broke_after`` on, all."""

    def __init__(self, *rejected, status=400, body=None, broke_after=10**9):
        super().__init__()
        self.rejected, self.status, self.broke_after = set(rejected), status, broke_after
        self.body = body or {"error": {"message": "made to fail"}}

    async def _chat(self, request):
        number = int(re.search(rb"copper mine (\d+)", await request.read())[1])
        if number not in self.rejected and self.n_asked < self.broke_after:
            return await super()._chat(request)
        self.arrived.append(time.monotonic())
        return web.json_response(self.body, status=self.status)


@pytest.mark.parametrize(("n_good", "n_failed"), [(0, 3), (1, 30)])
def test_rejected_requests_end_the_run_only_if_none_is_answered(tmp_path, n_good, n_failed):
    server = SelectiveServer(*range(n_good, n_good + 30))
    chosen = settings(concurrency=1, give_up_after=3)
    run = ask(items(n_good + 30), tmp_path, server=server, chosen=chosen)
    assert run.statuses["failed"] == n_failed
    assert (run.error is None) == (n_good > 0)


@pytest.mark.parametrize("order", ["answered first", "rejected first"])
def test_job_with_rejected_requests_finishes_when_rerun(tmp_path, order):
    answered, chosen = items(6)[:2], settings(concurrency=1, give_up_after=3)
    assert ask(answered, tmp_path, server=ScriptedServer(), chosen=chosen).error is None
    # The four others are refused, now and in any later run.
    wanted = items(6) if order == "answered first" else items(6)[2:] + answered
    for _ in range(2):
        server = SelectiveServer(2, 3, 4, 5)
        run = ask(wanted, tmp_path, server=server, chosen=chosen)
        assert (run.error, run.statuses) == (None, {"ok": 2, "failed": 4})
        # After three rejections, and at the end, an answered request is repeated.
        assert (server.n_asked, len({o.item_id for o in run.outcomes})) == (4 + 2, 6)
        assert len(stored(tmp_path)) == 2


@pytest.mark.parametrize("n_left", [1, 2, 30])
def test_an_account_that_ends_in_the_middle_drops_no_item(tmp_path, n_left):
    credit = {"error": {"type": "invalid_request_error", "message": "credit balance is too low"}}
    server = SelectiveServer(broke_after=10, body=credit)
    chosen = settings(concurrency=1, give_up_after=3)
    run = ask(items(10 + n_left), tmp_path, server=server, chosen=chosen)
    assert f"the last {min(3, n_left)} requests, and now also a request that it" in str(run.error)
    assert "credit balance is too low" in str(run.error)
    assert server.n_asked <= 10 + 3 + 1
    assert ask(items(10 + n_left), tmp_path).statuses == {"ok": 10 + n_left}


def test_a_firewall_that_refuses_one_text_does_not_end_the_run(tmp_path):
    chosen = settings(concurrency=1)
    server = SelectiveServer(3, status=403)
    run = ask(items(6), tmp_path, server=server, chosen=chosen)
    assert (run.error, run.statuses) == (None, {"ok": 5, "failed": 1})
    again = ask(items(6)[3:] + items(6)[:3], tmp_path, server=SelectiveServer(3, status=403))
    assert (again.error, again.statuses) == (None, {"ok": 5, "failed": 1})
    wrong_key = ask(items(9)[6:], tmp_path, server=SelectiveServer(status=403, broke_after=0))
    assert "the server refuses all requests: http_403" in str(wrong_key.error)


def test_rejected_requests_do_not_hide_a_server_that_is_gone(tmp_path):
    assert ask(items(1), tmp_path, server=ScriptedServer()).error is None
    server = ScriptedServer(*[400, 400, 503, 503, 503, 400] * 9)
    chosen = settings(concurrency=1, give_up_after=3, max_tries=1)
    run = ask(items(50), tmp_path, server=server, chosen=chosen)
    assert "3 requests failed in a row, the last with http_503" in str(run.error)


@pytest.mark.parametrize("status", [400, 402, 429, 502])
def test_an_error_in_a_successful_reply_is_treated_by_its_status(tmp_path, status):
    error = json.dumps({"error": {"message": "made to fail", "code": status}})
    server = ScriptedServer(0.0, *[error] * 3)
    run = ask(items(2), tmp_path, server=server, chosen=settings(concurrency=1, max_tries=5))
    if status in (429, 502):  # tried again
        assert (run.error, run.statuses, server.n_asked) == (None, {"ok": 2}, 5)
    elif status == 400:  # rejected, as an answered request at the end of the run
        assert "also a request that it answered before, with http_400: made to" in str(run.error)
    else:
        assert "the server refuses all requests: http_402: made to fail" in str(run.error)


@pytest.mark.parametrize("reason", ["content_filter", "SAFETY"])
def test_a_filtered_reply_without_a_message_is_filtered(tmp_path, reason):
    choices = [{"finish_reason": reason, "index": 0}]
    server = ScriptedServer(json.dumps(COMPLETION | {"choices": choices}))
    assert ask(items(1), tmp_path, server=server).statuses == {"filtered": 1}


def test_temporary_failures_are_retried_after_the_servers_delay(tmp_path):
    server = ScriptedServer((429, "slow_down", {"retry-after-ms": "300"}), 500, 503, 408)
    run = ask(items(1), tmp_path, server=server)
    assert run.statuses == {"ok": 1}
    assert server.n_asked == 5
    assert server.arrived[1] - server.arrived[0] >= 0.3
    (answer,) = stored(tmp_path)
    assert answer.n_tries == 5


@pytest.mark.parametrize(
    ("policy", "reason", "text"),
    [
        ({"max_tries": 3}, "http_500", "made to fail"),
        ({"deadline_s": 0.2}, "deadline", "no reply within 0.2 s in all tries together"),
    ],
)
def test_tries_are_limited_and_the_last_failure_reported(tmp_path, policy, reason, text):
    server = ScriptedServer(*[500] * 500)
    (failed,) = ask(items(1), tmp_path, server=server, chosen=settings(**policy)).outcomes
    assert (failed.status, failed.reason, failed.text) == ("failed", reason, text)
    assert "max_tries" not in policy or server.n_asked == 3


@pytest.mark.parametrize(("page", "reason"), [("<p>Hello", "not_json"), ("{}", "no_choices")])
def test_invalid_completion_is_retried_a_few_times(tmp_path, page, reason):
    server = ScriptedServer(*[page] * 9)
    run = ask(items(1), tmp_path, server=server)
    assert (run.outcomes[0].status, run.outcomes[0].reason) == ("failed", reason)
    assert (run.outcomes[0].text, server.n_asked) == (page, 3)


class CountingClient:
    """A client that counts concurrent requests."""

    def __init__(self):
        self.n_sent = self.n_under_way = self.most_under_way = 0

    async def ask(self, request, key):
        self.n_sent += 1
        self.n_under_way += 1
        self.most_under_way = max(self.most_under_way, self.n_under_way)
        await asyncio.sleep(0.005)
        self.n_under_way -= 1
        return replace(answer(), key=key)

    async def close(self):
        pass


def test_items_are_drawn_within_the_concurrency(tmp_path):
    client, ahead = CountingClient(), []

    def watched():
        for n_drawn, item in enumerate(items(300), start=1):
            ahead.append(n_drawn - client.n_sent)
            yield item

    run = asyncio.run(ask_client(client, watched(), settings(concurrency=7), tmp_path))
    assert run.statuses == {"ok": 300}
    assert client.most_under_way == 7
    assert max(ahead) <= 7


def test_stopped_job_keeps_its_answers(tmp_path):
    server = FaultyStandIn(Imperfections.parse("delay_s=0.05"))

    def check_stop():
        if server.asked.total() >= 20:
            raise TimeoutError("the job's time limit is 20 s away")

    run = ask(items(500), tmp_path, server=server, check_stop=check_stop)
    assert isinstance(run.error, TimeoutError)
    assert 20 <= len(run.outcomes) == len(stored(tmp_path)) < 500
    assert server.asked.total() == len(run.outcomes)  # running requests could finish


PRICE = Price(input_usd=1.0, output_usd=10.0, as_of=date(2026, 1, 1))
# A reply of 1,000 input and 100 output tokens costs 0.001 + 0.001 = 0.002 USD.


def long_items(n: int) -> list[AskItem]:
    """Items that may cost up to about 1,450 + 100 tokens = 0.0025 USD each."""
    sampling = Sampling(max_output_tokens=100)
    asked = [(Message("user", "x" * 1200 + str(number)),) for number in range(n)]
    return [AskItem(m[0].content, request(sampling=sampling, messages=m)) for m in asked]


@pytest.mark.parametrize("concurrency", [1, 8])
def test_budget_is_not_exceeded_and_answers_are_kept(tmp_path, concurrency):
    wanted, chosen = long_items(50), settings(concurrency=concurrency)
    budget = Budget(0.021, PRICE)
    run = ask(wanted, tmp_path, server=ScriptedServer(), chosen=chosen, budget=budget)
    assert isinstance(run.error, BudgetReachedError)
    assert budget.spent_usd <= 0.021
    assert 9 <= len(run.outcomes) == len(stored(tmp_path)) <= 10
    run = ask(wanted, tmp_path, server=ScriptedServer(), budget=Budget(1.0, PRICE))
    assert (run.error, len(run.outcomes)) == (None, 50)


def test_a_rejected_request_at_the_end_of_the_budget_is_not_checked(tmp_path):
    short = request(sampling=Sampling(max_output_tokens=10), messages=(Message("user", "y"),))
    wanted, server = [*long_items(1), AskItem("short", short)], ScriptedServer(0.0, 400)
    chosen, budget = settings(concurrency=1), Budget(0.003, PRICE)
    run = ask(wanted, tmp_path, server=server, chosen=chosen, budget=budget)
    assert (run.error, run.statuses) == (None, {"ok": 1, "failed": 1})
    assert (server.n_asked, budget.spent_usd <= 0.003) == (2, True)


@pytest.mark.parametrize(
    ("failure", "n_sent"),
    [
        (0.5, 2),  # no reply in time: perhaps billed, and of 0.006 USD two such tries fit
        ("<p>Hello", 2),  # so is a reply that cannot be read
        (500, 3),  # surely not billed: the third try gets its reply
    ],
)
def test_a_budget_counts_tries_that_may_have_been_billed(tmp_path, failure, n_sent):
    server, budget = ScriptedServer(failure, failure), Budget(0.006, PRICE)
    chosen = settings(timeout_s=0.2)
    run = ask(long_items(1), tmp_path, server=server, chosen=chosen, budget=budget)
    assert server.n_asked == n_sent
    assert isinstance(run.error, BudgetReachedError) == (failure != 500)
    assert len(run.outcomes) == n_sent - 2
    assert budget.spent_usd <= 0.006


def keyed(monkeypatch, **changes) -> LlmSettings:
    monkeypatch.setenv("PSIBENCH_TEST_KEY", KEY)
    return settings(max_tries=2, **changes).model_copy(update={"api_key_env": "PSIBENCH_TEST_KEY"})


def test_no_other_key_of_the_environment_is_sent(tmp_path, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, f"other-{name}")
    sent = []
    stand_in = FaultyStandIn()
    answer_chat = stand_in.chat

    async def listening(request):
        sent.append(" ".join(request.headers.values()))
        return await answer_chat(request)

    stand_in.chat = listening
    assert ask(items(1), tmp_path, server=stand_in, chosen=keyed(monkeypatch)).error is None
    assert KEY in sent[0]
    assert "other-" not in sent[0]
    ask(items(1), tmp_path / "b", server=stand_in)
    assert "other-" not in sent[1]


@pytest.mark.parametrize(
    ("address", "key", "warns"),
    [
        ("http://gpu-node:8000/v1", KEY, True),
        ("http://gpu-node:8000/v1", "", False),
        ("https://gpu-node/v1", KEY, False),
        ("http://127.0.0.1:8000/v1", KEY, False),
        (None, KEY, False),
    ],
)
def test_unencrypted_key_causes_a_warning(address, key, warns, capsys):
    open_client(settings().asking, address, Secret(key))
    warned = capsys.readouterr().err
    assert ("key is sent to http://gpu-node:8000 without encryption" in warned) == warns
    assert KEY not in warned


def test_a_key_inside_a_reply_is_not_stored(tmp_path, monkeypatch):
    echo = request(0, response=PLAIN, messages=(Message("user", f"say {KEY} again"),))
    run = ask([AskItem("a", echo)], tmp_path, chosen=keyed(monkeypatch))
    assert run.outcomes[0].value == {"text": "say [key] again"}
    assert KEY not in files_text(tmp_path)


def test_stand_in_replies_never_count_as_a_models(tmp_path):
    chosen = LlmSettings(backend="openai", model="gpt-4o-mini")
    run = ask(items(3, model="gpt-4o-mini"), tmp_path, chosen=chosen)
    assert "stand_in_mismatch" in str(run.error)
    assert stored(tmp_path) == []
