"""Budget, the server's limits, and keys that must show nowhere."""

import logging
from datetime import date
from pathlib import Path

import pytest
from batch_helpers import ask, batch_settings
from llm_helpers import files_text, items, stored
from standin_batches import BatchImperfections

from psibench.errors import InputError
from psibench.llm.asking import Item
from psibench.llm.batch import read_result
from psibench.llm.limits import Budget, BudgetReachedError
from psibench.llm.request import Sampling
from psibench.llm.sections import Price
from psibench.llm.usage import Usage

KEY = "planted-key-0123456789abcdef"
PRICE = Price(input_usd=1.0, output_usd=10.0, batch_share=0.5, as_of=date(2026, 1, 1))


def priced_items(n: int) -> list[Item]:
    return items(n, sampling=Sampling(max_output_tokens=100))


def most_usd(number: int) -> float:
    """Return the most that an item can cost: bytes for tokens, and 100 tokens out."""
    wanted = priced_items(number + 1)[number].request
    return PRICE.cost(Usage(wanted.max_input_tokens(), 100), is_batch=True)


def test_what_a_budget_has_room_for_is_asked_and_then_the_run_ends(server, tmp_path):
    room_for_ten = sum(most_usd(n) for n in range(10)) * 1.001
    budget = Budget(room_for_ten, PRICE, is_batch=True)
    chosen = batch_settings(server.url)
    run = ask(priced_items(300), tmp_path, chosen, budget=budget)
    assert isinstance(run.error, BudgetReachedError)
    assert server.stats["batch_sizes"][0] == 10
    assert run.statuses == {"ok": server.stats["n_requests"]}
    assert 10 <= server.stats["n_requests"] < 300
    assert budget.spent_usd <= room_for_ten
    assert not budget.has_reservations
    more = Budget(10.0, PRICE, is_batch=True)
    again = ask(priced_items(300), tmp_path, chosen, budget=more)
    assert (again.error, again.statuses) == (None, {"ok": 300})
    assert server.stats["n_requests"] == 300


def test_money_that_comes_back_is_used_for_batches_worth_their_day(server, tmp_path):
    # A request costs at most 0.0006 USD and about 0.00004 in fact: most of it comes back.
    budget = Budget(30 * most_usd(0), PRICE, is_batch=True)
    run = ask(priced_items(400), tmp_path, batch_settings(server.url), budget=budget)
    sizes = server.stats["batch_sizes"]
    assert isinstance(run.error, BudgetReachedError)
    assert len(sizes) > 3
    assert min(sizes) >= 3  # a tenth of what fitted at first
    assert 0.85 * budget.limit_usd < budget.spent_usd <= budget.limit_usd


def test_a_server_with_a_short_queue_gets_one_batch_after_the_other(server, tmp_path):
    # A prompt has about 20 tokens: one batch of five fits into 150, two do not.
    server.stand_in.imperfections = BatchImperfections(enqueued_tokens=150, batch_delay_s=0.5)
    run = ask(items(15), tmp_path, batch_settings(server.url, batch={"max_requests": 5}))
    assert (run.error, run.statuses) == (None, {"ok": 15})
    assert server.stats["n_requests"] == 15
    n_failed = sum(batch["status"] == "failed" for batch in server.batches())
    assert 1 <= n_failed <= 3  # the second and third at first, the third once more


def test_batches_too_long_for_the_servers_queue_are_halved(server, tmp_path):
    server.stand_in.imperfections = BatchImperfections(enqueued_tokens=150)
    run = ask(items(16), tmp_path, batch_settings(server.url))
    assert (run.error, run.statuses) == (None, {"ok": 16})
    assert server.stats["n_requests"] == 16
    done = [b["request_counts"]["total"] for b in server.batches() if b["status"] == "completed"]
    assert sum(done) == 16
    assert max(done) <= 8


@pytest.mark.parametrize(
    ("backend", "faults"),
    [
        ("stand-in", "server_error=0.7,rate_limited=0.3,echo_key=1"),
        ("openai-batch", "server_error=0.5,rate_limited=0.5,echo_key=1"),
        ("openai-batch", "fail_batch=1,echo_key=1"),
        ("openai-batch", "batch_http_error=1,echo_key=1"),
    ],
)
def test_a_key_that_the_server_repeats_is_in_no_outcome_log_or_file(
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


def test_the_answers_of_a_batch_are_stored_before_its_record_goes(server, tmp_path, monkeypatch):
    seen, unlink = [], Path.unlink

    def removing(path, **options):
        if path.suffix == ".json" and path.exists():  # not a temporary file
            seen.append(len(stored(tmp_path)))
        unlink(path, **options)

    monkeypatch.setattr(Path, "unlink", removing)
    assert ask(items(5), tmp_path, batch_settings(server.url)).statuses == {"ok": 5}
    assert seen == [5]


def test_a_line_that_cannot_be_read_costs_its_request_alone(server, tmp_path, monkeypatch):
    spoilt = []

    def spoiling(data, *options):
        if not spoilt:
            spoilt.append(data)
            raise ValueError("torn")
        return read_result(data, *options)

    monkeypatch.setattr("psibench.llm.batch.read_result", spoiling)
    run = ask(items(5), tmp_path, batch_settings(server.url))
    assert (run.error, run.statuses) == (None, {"ok": 5})
    assert server.stats["batch_sizes"] == [5, 1]


def test_a_queue_too_short_for_one_request_ends_the_run(server, tmp_path):
    server.stand_in.imperfections = BatchImperfections(enqueued_tokens=3)
    run = ask(items(4), tmp_path, batch_settings(server.url))
    assert isinstance(run.error, InputError)
    assert "token_limit_exceeded" in str(run.error)
    assert run.outcomes == []
