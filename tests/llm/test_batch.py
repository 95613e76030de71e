"""The batch backend against a stand-in's files and batches."""

import logging
import threading
from datetime import date

import pytest
from batch_helpers import Server, ask, batch_settings, records
from faulty_standin import Imperfections
from llm_helpers import COMPLETION, MODEL, PLAIN, files_text, items, request, stored, wait_for
from llm_helpers import ask as ask_one_by_one
from standin_batches import BatchStandIn

from psibench.config.secrets import Secret
from psibench.errors import InputError
from psibench.llm import batch
from psibench.llm.asking import AskItem
from psibench.llm.batch import read_result
from psibench.llm.connection import TryFailedError
from psibench.llm.limits import Budget, BudgetReachedError
from psibench.llm.request import Message, ResponseSchema, Sampling
from psibench.llm.sections import Price
from psibench.llm.standin.server import error_response
from psibench.llm.usage import Usage

both_backends = pytest.mark.parametrize("backend", ["openai-batch", "stand-in"])


def test_batches_give_the_answers_of_single_requests(server, tmp_path):
    batched = ask(items(10), tmp_path / "batch", batch_settings(server.url))
    single = ask_one_by_one(items(10), tmp_path / "single")
    assert batched.by_item == single.by_item
    assert (batched.totals.n_items, batched.totals.n_replies) == (10, 10)
    assert (len(server.batches), server.n_requests) == (1, 10)
    assert records(tmp_path / "batch") == []  # read, and so removed
    again = ask([*items(10), *items(10)], tmp_path / "batch", batch_settings(server.url))
    assert (again.totals.n_from_store, again.statuses) == (20, {"ok": 20})
    assert len(server.batches) == 1


@both_backends
def test_equal_requests_are_sent_once(server, tmp_path, backend):
    same = [AskItem(f"twin-{number}", request(0)) for number in range(12)]
    run = ask(same, tmp_path, batch_settings(server.url, backend=backend))
    assert server.n_requests == 1
    assert len(run.by_item) == 12
    assert sum(outcome.n_replies for outcome in run.outcomes) == 1


@both_backends
def test_rejected_request_fails_separately_and_is_repeated_next_run(server, tmp_path, backend):
    unknown = AskItem(
        "odd", request(0, response=ResponseSchema("no_such_task", {"type": "object"}))
    )
    chosen = batch_settings(server.url, backend=backend)
    run = ask([*items(3), unknown], tmp_path, chosen)
    assert run.error is None
    assert run.statuses == {"ok": 3, "failed": 1}
    assert run.by_item["odd"].reason == "http_400"
    assert "no_such_task" in run.by_item["odd"].text
    # 400 is not tried again; after it, an answered request may be repeated.
    n_repeated, n_first = int(backend == "stand-in"), server.n_requests
    assert 4 <= n_first <= 4 + n_repeated
    assert ask([*items(3), unknown], tmp_path, chosen).totals.n_from_store == 3
    assert server.n_requests == n_first + 1 + n_repeated


def long_item(number: int, n_chars: int) -> AskItem:
    text = f"{number} " + "x" * n_chars
    return AskItem(f"long-{number}", request(0, response=PLAIN, messages=(Message("user", text),)))


def test_batches_are_cut_by_size_and_too_large_requests_fail(server, tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "MOST_BYTES", 20_000)
    wanted = [*(long_item(n, 6_000) for n in range(7)), long_item(9, 21_000)]  # three fit
    run = ask(wanted, tmp_path, batch_settings(server.url))
    assert server.batch_sizes == [3, 3, 1]
    assert run.error is None
    assert run.by_item["long-9"].reason == "too_large"
    assert run.statuses == {"ok": 7, "failed": 1}


def test_temporarily_failed_lines_are_sent_again(server, tmp_path):
    faults = "server_error=0.2,rate_limited=0.1,reset=0.1,hang=0.1,seed=2"
    run = ask(items(60), tmp_path, batch_settings(server.url, faults, max_tries=20))
    assert run.error is None
    assert run.statuses == {"ok": 60}
    assert server.stand_in.answered.total() == 60  # nothing answered was asked again
    assert server.n_requests > 80  # batches of 30, then of 15
    assert set(server.stand_in.answered.values()) == {1}


def test_malformed_replies_are_repeated_in_further_batches(server, tmp_path):
    run = ask(items(80), tmp_path, batch_settings(server.url, "malformed=0.4,seed=6"))
    assert run.error is None
    assert run.totals.n_replies == sum(1 + outcome.n_reasks for outcome in run.outcomes)
    assert len(stored(tmp_path)) == run.totals.n_replies == server.n_requests
    sizes = server.batch_sizes
    assert len(sizes) == 3  # once, and two re-asks
    assert sizes[0] == 80 > sizes[1] > sizes[2] > 0
    # 0.4 ** 3 of 80: about 5 stay malformed
    assert run.statuses["ok"] >= 70


def test_answers_of_an_expired_batch_are_kept(server, tmp_path):
    run = ask(items(20), tmp_path, batch_settings(server.url, "expire_after=7"))
    assert run.error is None
    assert run.statuses == {"ok": 20}
    assert server.batch_sizes == [20, 13, 6]
    assert server.n_requests == 20
    assert [batch["status"] for batch in server.batches] == ["expired", "expired", "completed"]


def test_other_batches_are_read_after_a_failed_one(server, tmp_path):
    chosen = batch_settings(server.url, "fail_batch=0.4,seed=1", batch={"max_requests": 5})
    run = ask(items(30), tmp_path, chosen)
    assert "failed: invalid_request" in str(run.error)
    n_good = 5 * sum(batch["status"] == "completed" for batch in server.batches)
    assert 0 < n_good < 30
    assert len(run.outcomes) == n_good == len(stored(tmp_path))
    again = ask(items(30), tmp_path, batch_settings(server.url))
    assert (again.error, again.statuses) == (None, {"ok": 30})
    assert server.n_requests == 30


def test_refused_batch_is_reported_and_leaves_no_record(tmp_path, monkeypatch):
    async def refuse(*_):
        return error_response(400, "invalid_request_error", "No such model.")

    monkeypatch.setattr(BatchStandIn, "_create", refuse)
    with Server() as server:
        run = ask(items(9), tmp_path, batch_settings(server.url))
    assert isinstance(run.error, InputError)
    assert "does not accept a batch: http_400: No such model." in str(run.error)
    assert (stored(tmp_path), records(tmp_path)) == ([], [])


def test_cancelled_batch_ends_the_run_and_keeps_its_answers(server, tmp_path):
    def cancel():
        wait_for(lambda: [b["status"] for b in server.batches] == ["in_progress"])
        server.batches[0]["status"] = "cancelling"

    threading.Thread(target=cancel).start()
    run = ask(items(5), tmp_path, batch_settings(server.url, "batch_delay_s=3"))
    assert "batch_000001 was cancelled" in str(run.error)
    assert (run.outcomes, records(tmp_path)) == ([], [])
    assert ask(items(5), tmp_path, batch_settings(server.url)).statuses == {"ok": 5}


def test_failed_calls_are_retried_without_duplicate_batches(server, tmp_path):
    faults = "batch_http_error=0.2,create_reset=0.6,seed=1"
    chosen = batch_settings(server.url, faults, max_tries=30, batch={"max_requests": 2})
    run = ask(items(20), tmp_path, chosen)
    assert (run.error, run.statuses) == (None, {"ok": 20})
    assert (len(server.batches), server.n_requests) == (10, 20)


def output_line(response=None, error=None) -> dict:
    return {"id": "x", "custom_id": "k", "response": response, "error": error}


def http_error(status, **fields):
    return {"status_code": status, "body": {"error": {"message": "words"} | fields}}


@pytest.mark.parametrize(
    ("line", "reason", "action"),
    [
        (output_line(http_error(400, code="context_length_exceeded")), "prompt_too_long", "reject"),
        (output_line(http_error(429, code="insufficient_quota")), "http_429", "stop"),
        (output_line({"status_code": 0, "request_id": "", "body": {}}), "http_0", "retry"),
        (output_line(), "no_response", "retry"),
        (output_line(error={"message": "odd"}), "batch_error", "retry"),
        (
            output_line({"status_code": 200, "body": COMPLETION}, {"code": "request_timeout"}),
            "request_timeout",
            "retry",
        ),
    ],
)
def test_a_line_without_a_completion_is_a_failure(line, reason, action):
    failure = read_result(line, MODEL, "t", Secret(""))
    assert isinstance(failure, TryFailedError)
    assert (failure.reason, failure.action) == (reason, action)
    filtered = read_result(
        output_line(http_error(400, code="content_filter")), MODEL, "t", Secret("")
    )
    assert (filtered.finish_reason, filtered.text) == ("content_filter", "words")


def test_requests_that_all_fail_end_the_run(server, tmp_path):
    chosen = batch_settings(server.url, "server_error=1", max_tries=1, give_up_after=5)
    run = ask(items(20), tmp_path, chosen)
    assert isinstance(run.error, InputError)
    assert "requests failed in a row" in str(run.error)
    assert run.statuses == {"failed": 20}


# Budget, the server's limits, and keys that must show nowhere

KEY = "planted-key-0123456789abcdef"
PRICE = Price(input_usd=1.0, output_usd=10.0, batch_share=0.5, as_of=date(2026, 1, 1))


def priced_items(n: int) -> list[AskItem]:
    return items(n, sampling=Sampling(max_output_tokens=100))


def most_usd(number: int) -> float:
    """Return the most that an item can cost: bytes for tokens, and 100 tokens out."""
    wanted = priced_items(number + 1)[number].request
    return PRICE.cost(Usage(wanted.max_input_tokens(), 100), is_batch=True)


def test_run_ends_when_the_budget_is_used_up(server, tmp_path):
    room_for_ten = sum(most_usd(n) for n in range(10)) * 1.001
    budget = Budget(room_for_ten, PRICE, is_batch=True)
    chosen = batch_settings(server.url)
    run = ask(priced_items(300), tmp_path, chosen, budget=budget)
    assert isinstance(run.error, BudgetReachedError)
    assert server.batch_sizes[0] == 10
    assert run.statuses == {"ok": server.n_requests}
    assert 10 <= server.n_requests < 300
    assert budget.spent_usd <= room_for_ten
    assert not budget.has_reservations
    more = Budget(10.0, PRICE, is_batch=True)
    again = ask(priced_items(300), tmp_path, chosen, budget=more)
    assert (again.error, again.statuses) == (None, {"ok": 300})
    assert server.n_requests == 300


def test_unused_reservations_pay_for_large_enough_batches(server, tmp_path):
    # A request costs at most 0.0006 USD, actually about 0.00004: most of the reservation is freed.
    budget = Budget(30 * most_usd(0), PRICE, is_batch=True)
    run = ask(priced_items(400), tmp_path, batch_settings(server.url), budget=budget)
    sizes = server.batch_sizes
    assert isinstance(run.error, BudgetReachedError)
    assert len(sizes) > 3
    assert min(sizes) >= 3  # a tenth of what fitted at first
    assert 0.85 * budget.limit_usd < budget.spent_usd <= budget.limit_usd


def test_server_with_a_short_queue_gets_batches_one_by_one(server, tmp_path):
    # A prompt has about 20 tokens: one batch of five fits into 150, two do not.
    server.stand_in.imperfections = Imperfections(enqueued_tokens=150, batch_delay_s=0.5)
    run = ask(items(15), tmp_path, batch_settings(server.url, batch={"max_requests": 5}))
    assert (run.error, run.statuses) == (None, {"ok": 15})
    assert server.n_requests == 15
    n_failed = sum(batch["status"] == "failed" for batch in server.batches)
    assert 1 <= n_failed <= 3  # the second and third at first, the third once more


def test_batches_too_long_for_the_servers_queue_are_halved(server, tmp_path):
    server.stand_in.imperfections = Imperfections(enqueued_tokens=150)
    run = ask(items(16), tmp_path, batch_settings(server.url))
    assert (run.error, run.statuses) == (None, {"ok": 16})
    assert server.n_requests == 16
    done = [b["request_counts"]["total"] for b in server.batches if b["status"] == "completed"]
    assert sum(done) == 16
    assert max(done) <= 8


@pytest.mark.parametrize(
    ("backend", "faults"),
    [
        ("stand-in", "server_error=0.7,rate_limited=0.3,echo_key=1"),
        ("openai-batch", "fail_batch=1,echo_key=1"),
        ("openai-batch", "batch_http_error=1,echo_key=1"),
    ],
)
def test_repeated_api_key_is_never_stored_or_logged(
    server, tmp_path, monkeypatch, caplog, backend, faults
):
    caplog.set_level(logging.DEBUG)
    chosen = batch_settings(server.url, faults, backend=backend, max_tries=2)
    monkeypatch.setenv("PSIBENCH_TEST_KEY", KEY)
    chosen = chosen.model_copy(update={"api_key_env": "PSIBENCH_TEST_KEY"})
    run = ask(items(6), tmp_path, chosen)
    told = str(run.error) + repr(run.outcomes) + caplog.text + files_text(tmp_path)
    assert "you sent Bearer [key]" in told
    assert KEY not in told


def test_unreadable_line_fails_only_its_request(server, tmp_path):
    class Torn(dict):
        """Files whose first answers have a first line that is cut in half."""

        def __setitem__(self, name, content):
            first, feed, rest = content.partition(b"\n")
            is_answer = b'"status_code": 200' in first and len(self) == 1
            super().__setitem__(
                name, first[: len(first) // 2] + feed + rest if is_answer else content
            )

    server.stand_in.files = Torn()
    run = ask(items(5), tmp_path, batch_settings(server.url))
    assert (run.error, run.statuses) == (None, {"ok": 5})
    assert server.batch_sizes == [5, 1]


def test_a_queue_too_short_for_one_request_ends_the_run(server, tmp_path):
    server.stand_in.imperfections = Imperfections(enqueued_tokens=3)
    run = ask(items(4), tmp_path, batch_settings(server.url))
    assert isinstance(run.error, InputError)
    assert "token_limit_exceeded" in str(run.error)
    assert run.outcomes == []
