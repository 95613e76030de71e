"""Batches under way survive the process that created them."""

import json
import time
from datetime import date

import pytest
from aiohttp import web
from batch_helpers import Server, ask, batch_settings, records
from faulty_standin import Imperfections
from llm_helpers import answer, items, request, start_job, stored, wait_for

from psibench.errors import InputError
from psibench.llm.answer_store import AnswerStore
from psibench.llm.batch import BatchServer
from psibench.llm.connection import TryFailedError
from psibench.llm.limits import Budget
from psibench.llm.request import Sampling
from psibench.llm.sections import Price

pytestmark = pytest.mark.processes


def start_client(server, store, n_items):
    return start_job(batch_settings(server.url, timeout_s=1.0), store, n_items)


def delayed(server, seconds):
    server.stand_in.imperfections = Imperfections(batch_delay_s=seconds)


def test_a_killed_run_is_resumed_without_asking_twice(server, tmp_path):
    delayed(server, 2.5)
    client = start_client(server, tmp_path, 200)
    wait_for(lambda: any(record["batch_id"] for record in records(tmp_path)))
    client.kill()
    client.communicate()
    assert len(stored(tmp_path)) == 0
    assert server.batches[0]["status"] == "in_progress"
    run = ask(items(3), tmp_path, batch_settings(server.url))
    assert run.statuses == {"ok": 3}
    # What others may want is stored, too.
    assert run.totals.n_replies == len(stored(tmp_path)) == 200
    assert (len(server.batches), server.n_requests) == (1, 200)
    assert records(tmp_path) == []


@pytest.mark.parametrize("seconds", [0.0, 0.1])
def test_run_killed_while_creating_a_batch_sends_nothing_twice(server, tmp_path, seconds):
    client = start_client(server, tmp_path, 150)
    wait_for(lambda: server.stand_in.files)  # uploaded, perhaps not created or not recorded
    time.sleep(seconds)
    client.kill()
    client.communicate()
    assert ask(items(150), tmp_path, batch_settings(server.url)).statuses == {"ok": 150}
    assert server.n_requests == len(stored(tmp_path)) == 150


def test_killed_runs_batches_are_awaited_and_failed_ones_repeated(server, tmp_path):
    server.stand_in.imperfections = Imperfections(malformed=1.0, batch_delay_s=0.5)
    client = start_client(server, tmp_path, 10)
    wait_for(lambda: len(server.batches) == 2 and records(tmp_path))
    client.kill()
    client.communicate()
    assert len(stored(tmp_path)) == 10
    server.stand_in.imperfections = Imperfections()
    run = ask(items(10), tmp_path, batch_settings(server.url))
    assert (run.error, run.statuses) == (None, {"ok": 10})
    assert {outcome.n_reasks for outcome in run.outcomes} == {2}
    assert server.batch_sizes == [10, 10, 10]
    assert len(stored(tmp_path)) == 30  # two malformed replies to each, and one that is not


def test_stopped_job_leaves_batches_to_the_next_run(server, tmp_path):
    delayed(server, 0.5)

    def check_stop():
        raise RuntimeError("the job's time limit is 20 s away")

    run = ask(items(5), tmp_path, batch_settings(server.url), check_stop=check_stop)
    assert isinstance(run.error, RuntimeError)
    assert len(records(tmp_path)) == 1
    assert ask(items(5), tmp_path, batch_settings(server.url)).statuses == {"ok": 5}
    assert server.n_requests == 5


def written(folder, url, *, batch_id) -> None:
    """Leave the record of a batch of five requests behind."""
    record = {
        "name": "old",
        "server": url,
        "model": "stand-in/rules",
        "input_file_id": "file-1",
        "requests": {"judge_segment": [request(number).key for number in range(5)]},
        "most": {"input_tokens": 2_000_000, "output_tokens": 0},
        "batch_id": batch_id,
        "created": "2026-01-01T00:00:00+00:00",
    }
    (folder / "batches").mkdir(parents=True)
    (folder / "batches" / "old.json").write_text(json.dumps(record))


@pytest.mark.parametrize("batch_id", ["batch_of_last_year", None])
def test_batch_unknown_to_the_server_is_sent_again(server, tmp_path, batch_id):
    written(tmp_path, server.url, batch_id=batch_id)
    price = Price(input_usd=1.0, output_usd=10.0, batch_share=0.5, as_of=date(2026, 1, 1))
    budget = Budget(0.5, price, is_batch=True)  # all held by the old batch, until it is given up
    wanted = items(6, sampling=Sampling(max_output_tokens=100))
    run = ask([*items(5), *wanted], tmp_path, batch_settings(server.url), budget=budget)
    assert (run.error, run.statuses) == (None, {"ok": 11})
    assert server.n_requests == 11
    assert records(tmp_path) == []


@pytest.mark.parametrize(
    ("listed", "status"),
    [
        ({"error": {"message": "Method Not Allowed"}}, 405),
        ({"object": "list", "data": [{"id": "batch_2"}], "has_more": True}, 200),  # for ever
    ],
)
def test_unlisted_batch_without_an_id_is_sent_again(tmp_path, listed, status):
    async def answer_list(*_):
        return web.json_response(listed, status=status)

    server = Server()
    server.stand_in._list = answer_list
    with server:
        written(tmp_path, server.url, batch_id=None)
        assert ask(items(5), tmp_path, batch_settings(server.url)).statuses == {"ok": 5}
    assert records(tmp_path) == []


def test_batches_of_another_server_are_left_alone(server, tmp_path):
    written(tmp_path, "https://elsewhere.example/v1", batch_id="batch_1")
    run = ask(items(5), tmp_path, batch_settings(server.url))
    assert run.statuses == {"ok": 5}
    ask(items(5), tmp_path, batch_settings(server.url))
    assert [record["name"] for record in records(tmp_path)] == ["old"]
    assert server.n_requests == 5


def test_record_of_a_read_batch_is_removed(server, tmp_path):
    with AnswerStore(tmp_path) as store:
        for number in range(5):
            store.add(answer(number))
    written(tmp_path, server.url, batch_id="batch_1")
    ask(items(6), tmp_path, batch_settings(server.url))
    assert records(tmp_path) == []
    assert server.batch_sizes == [1]


def test_invalid_record_is_named(server, tmp_path):
    (tmp_path / "batches").mkdir()
    (tmp_path / "batches" / "odd.json").write_text('{"name": "odd"}')
    run = ask(items(5), tmp_path, batch_settings(server.url))
    assert isinstance(run.error, InputError)
    assert "odd.json: not a record of a batch" in str(run.error)


def test_a_full_disk_ends_the_run_and_loses_no_batch(server, tmp_path, monkeypatch):
    room, add = [6], AnswerStore.add

    def bounded(self, given):
        room[0] -= 1
        if room[0] < 0:
            raise OSError(28, "No space left on device")
        add(self, given)

    monkeypatch.setattr(AnswerStore, "add", bounded)
    run = ask(items(20), tmp_path, batch_settings(server.url))
    monkeypatch.undo()
    assert isinstance(run.error, InputError)
    assert "No space left on device" in str(run.error)
    assert len(run.outcomes) == len(stored(tmp_path)) == 6
    again = ask(items(20), tmp_path, batch_settings(server.url))
    assert (again.statuses, again.totals.n_from_store) == ({"ok": 20}, 6)
    assert (len(server.batches), server.n_requests) == (1, 20)


def test_lost_server_ends_the_run_and_keeps_the_record(tmp_path, monkeypatch):
    def gone(*_):
        raise TryFailedError("connection", "refused")

    with Server() as server:
        delayed(server, 0.3)
        with monkeypatch.context() as patched:
            patched.setattr(BatchServer, "retrieve", gone)
            run = ask(items(10), tmp_path, batch_settings(server.url))
        assert isinstance(run.error, InputError)
        assert "does not report the state of batches: connection: refused" in str(run.error)
        assert len(records(tmp_path)) == 1
        assert ask(items(10), tmp_path, batch_settings(server.url)).statuses == {"ok": 10}
        assert server.n_requests == 10
