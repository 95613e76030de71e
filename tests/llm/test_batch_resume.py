"""Batches under way survive the process that created them, and are shared by jobs."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from batch_helpers import Server, ask, batch_settings, n_stored, records
from llm_helpers import answer, items, request

from psibench.errors import InputError
from psibench.llm.answer_store import AnswerStore
from psibench.llm.batch_records import BatchRecord, BatchRecords
from psibench.llm.batch_server import BatchServer
from psibench.llm.chain import Item
from psibench.llm.retry import TryFailedError
from psibench.llm.standin.imperfections import Imperfections
from psibench.llm.usage import Usage

CLIENT = Path(__file__).with_name("batch_helpers.py")


@pytest.fixture
def server():
    with Server() as running:
        yield running


def start_client(server, store, n_items):
    command = [sys.executable, str(CLIENT), server.url, str(store), str(n_items)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def wait_for(condition, timeout_s=300.0):
    until = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.01)
    return found


def delayed(server, seconds):
    server.stand_in.imperfections = Imperfections(batch_delay_s=seconds)


def test_a_killed_run_is_resumed_without_asking_twice(server, tmp_path):
    delayed(server, 2.5)
    client = start_client(server, tmp_path, 200)
    wait_for(lambda: any(record["batch_id"] for record in records(tmp_path)))
    client.kill()
    client.communicate()
    assert n_stored(tmp_path) == 0
    assert server.batches()[0]["status"] == "in_progress"
    out, _ = start_client(server, tmp_path, 200).communicate()
    assert out.count(" ok") == 200
    assert "asked 200 from store 0" in out  # received by this run, though asked by the other
    seen = server.stats
    assert (seen["n_batches"], seen["n_requests"], seen["n_distinct"]) == (1, 200, 200)
    assert n_stored(tmp_path) == 200
    assert records(tmp_path) == []


def test_a_run_killed_around_the_creation_of_its_batch_asks_nothing_twice(server, tmp_path):
    client = start_client(server, tmp_path, 150)
    wait_for(lambda: server.stats["n_files"])  # uploaded, perhaps not created or not recorded
    client.kill()
    client.communicate()
    out, _ = start_client(server, tmp_path, 150).communicate(timeout=300)
    assert out.count(" ok") == 150
    assert server.stats["n_requests"] == server.stats["n_distinct"] == n_stored(tmp_path) == 150


class Killed(BaseException):
    """What stands for the end of a process."""


def killed_while_creating(server, folder, monkeypatch, *, is_created):
    """Run until the first batch's record is written without an id, as kill -9 would leave it."""
    create = BatchServer.create

    def dying(self, *args, **kwargs):
        if is_created:
            create(self, *args, **kwargs)
        raise Killed

    monkeypatch.setattr(BatchServer, "create", dying)
    with pytest.raises(Killed):
        ask(items(10), folder, batch_settings(server.url))
    monkeypatch.setattr(BatchServer, "create", create)
    assert [record["batch_id"] for record in records(folder)] == [None]


def test_a_batch_that_was_not_recorded_is_found_by_its_name(server, tmp_path, monkeypatch):
    killed_while_creating(server, tmp_path, monkeypatch, is_created=True)
    run = ask(items(10), tmp_path, batch_settings(server.url))
    assert (run.error, run.statuses) == (None, {"ok": 10})
    assert (server.stats["n_batches"], server.stats["n_requests"]) == (1, 10)
    assert records(tmp_path) == []


def test_a_batch_that_was_never_created_is_given_up_after_a_while(server, tmp_path, monkeypatch):
    killed_while_creating(server, tmp_path, monkeypatch, is_created=False)
    monkeypatch.setattr("psibench.llm.batch_reading.CREATION_S", 0.0)
    (path,) = (tmp_path / "batches").iterdir()
    started = time.monotonic()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"renewed_s": time.time() + 0.3}))
    run = ask(items(10), tmp_path, batch_settings(server.url, timeout_s=0.5))
    assert time.monotonic() - started > 0.5  # its creator might have been alive
    assert (run.error, run.statuses) == (None, {"ok": 10})
    assert (server.stats["n_batches"], server.stats["n_requests"]) == (1, 10)


def killed_while_waiting(server, folder, wanted, monkeypatch, *, n_batches=1):
    """Run until so many batches were created, and the last is waited for."""
    sleep = time.sleep

    def dying(seconds):
        if len(server.batches()) == n_batches:
            raise Killed
        sleep(seconds)

    with monkeypatch.context() as patched:
        patched.setattr("psibench.llm.batch.time.sleep", dying)
        with pytest.raises(Killed):
            ask(wanted, folder, batch_settings(server.url))


def test_what_a_killed_run_asked_for_others_is_stored_too(server, tmp_path, monkeypatch):
    killed_while_waiting(server, tmp_path, items(30), monkeypatch)
    run = ask(items(3), tmp_path, batch_settings(server.url))  # wants 3 of the 30
    assert run.statuses == {"ok": 3}
    assert n_stored(tmp_path) == 30
    assert ask(items(30), tmp_path, batch_settings(server.url)).totals.n_from_store == 30
    assert server.stats["n_requests"] == 30


def test_two_processes_that_start_at_once_ask_each_request_once(server, tmp_path):
    delayed(server, 1.0)
    clients = [start_client(server, tmp_path, 120) for _ in range(2)]
    outputs = [client.communicate(timeout=300)[0] for client in clients]
    assert [out.count(" ok") for out in outputs] == [120, 120]
    seen = server.stats
    assert seen["n_requests"] == seen["n_distinct"] == n_stored(tmp_path) == 120
    assert records(tmp_path) == []


def test_requests_in_another_jobs_batch_are_awaited_and_the_rest_asked(server, tmp_path):
    delayed(server, 0.8)
    first = threading.Thread(
        target=ask, args=(items(20), tmp_path, batch_settings(server.url)), daemon=True
    )
    first.start()
    wait_for(lambda: any(record["batch_id"] for record in records(tmp_path)))
    run = ask(items(30), tmp_path, batch_settings(server.url))  # 20 are under way
    first.join(300)
    assert run.statuses == {"ok": 30}
    assert server.stats["batch_sizes"] == [20, 10]
    assert server.stats["n_requests"] == n_stored(tmp_path) == 30


def test_of_two_that_claim_at_the_same_moment_both_draw_back(server, tmp_path, monkeypatch):
    def met_after(method, barrier, calls):
        def meeting(self, *args):
            result = method(self, *args)
            calls.append(1)
            if len(calls) <= 2:
                barrier.wait()
            return result

        return meeting

    # Neither sees the other before both have uploaded, nor looks again before both have written.
    for kind, name in ((BatchServer, "upload"), (BatchRecords, "write")):
        barrier = threading.Barrier(2, timeout=300)
        monkeypatch.setattr(kind, name, met_after(getattr(kind, name), barrier, []))
    delayed(server, 0.5)
    runs = []
    jobs = [
        threading.Thread(
            target=lambda: runs.append(ask(items(10), tmp_path, batch_settings(server.url)))
        )
        for _ in range(2)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(300)
    assert [run.statuses for run in runs] == [{"ok": 10}] * 2
    assert server.stats["n_requests"] == n_stored(tmp_path) == 10


def test_a_batch_the_server_no_longer_knows_is_asked_again(server, tmp_path):
    written(tmp_path, server.url, batch_id="batch_of_last_year")
    run = ask(items(5), tmp_path, batch_settings(server.url))
    assert (run.error, run.statuses) == (None, {"ok": 5})
    assert server.stats["n_requests"] == 5
    assert records(tmp_path) == []


def written(folder, url, *, batch_id, name="old") -> BatchRecord:
    keys = [request(number).key for number in range(5)]
    record = BatchRecord(name, url, "stand-in/rules", "file-1", {"t": keys}, Usage(), batch_id)
    BatchRecords(folder, url).write(record)
    return record


def test_batches_of_another_server_are_left_alone(server, tmp_path):
    written(tmp_path, "https://elsewhere.example/v1", batch_id="batch_1")
    run = ask(items(5), tmp_path, batch_settings(server.url))
    assert run.statuses == {"ok": 5}
    ask(items(5), tmp_path, batch_settings(server.url))
    assert [record["name"] for record in records(tmp_path)] == ["old"]


def test_the_record_of_a_batch_that_was_read_is_cleared_away(server, tmp_path):
    with AnswerStore(tmp_path) as store:
        for number in range(5):
            store.add(answer(number))
    written(tmp_path, server.url, batch_id="batch_1")
    ask(items(5), tmp_path, batch_settings(server.url))
    assert records(tmp_path) == []
    assert server.stats["n_batches"] == 0


def test_a_record_that_is_none_is_named(server, tmp_path):
    (tmp_path / "batches").mkdir()
    (tmp_path / "batches" / "odd.json").write_text('{"name": "odd"}')
    run = ask(items(5), tmp_path, batch_settings(server.url))
    assert isinstance(run.error, InputError)
    assert "odd.json: not a record of a batch" in str(run.error)


def test_a_killed_runs_batch_that_failed_is_asked_again(server, tmp_path, monkeypatch):
    server.stand_in.imperfections = Imperfections(fail_batch=1.0)
    killed_while_creating(server, tmp_path, monkeypatch, is_created=True)
    server.stand_in.imperfections = Imperfections()
    run = ask(items(10), tmp_path, batch_settings(server.url))
    assert (run.error, run.statuses) == (None, {"ok": 10})


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
    assert len(run.outcomes) == n_stored(tmp_path) == 6
    again = ask(items(20), tmp_path, batch_settings(server.url))
    assert (again.statuses, again.totals.n_from_store) == ({"ok": 20}, 6)
    assert (server.stats["n_batches"], server.stats["n_requests"]) == (1, 20)


def test_a_server_that_goes_away_ends_the_run_and_leaves_the_record(tmp_path, monkeypatch):
    def gone(*_):
        raise TryFailedError("connection", "refused")

    with Server() as server:
        delayed(server, 0.3)
        with monkeypatch.context() as patched:
            patched.setattr(BatchServer, "retrieve", gone)
            run = ask(items(10), tmp_path, batch_settings(server.url))
        assert isinstance(run.error, InputError)
        assert "does not tell how batches stand: connection: refused" in str(run.error)
        assert len(records(tmp_path)) == 1
        assert ask(items(10), tmp_path, batch_settings(server.url)).statuses == {"ok": 10}
        assert server.stats["n_requests"] == 10


def test_a_reask_under_way_when_a_run_was_killed_is_awaited(server, tmp_path, monkeypatch):
    server.stand_in.imperfections = Imperfections(malformed=1.0, batch_delay_s=0.5)
    killed_while_waiting(server, tmp_path, items(10), monkeypatch, n_batches=2)
    assert n_stored(tmp_path) == 10
    server.stand_in.imperfections = Imperfections()
    run = ask(items(10), tmp_path, batch_settings(server.url))
    assert (run.error, run.statuses) == (None, {"ok": 10})
    assert {outcome.n_reasks for outcome in run.outcomes} == {2}
    assert server.stats["batch_sizes"] == [10, 10, 10]
    assert n_stored(tmp_path) == 30  # two malformed replies to each, and one that is not


def test_a_record_tells_what_is_under_way_and_nothing_else(server, tmp_path, monkeypatch):
    monkeypatch.setenv("PSIBENCH_TEST_KEY", "planted-key-0123456789abcdef")
    chosen = batch_settings(server.url).model_copy(update={"api_key_env": "PSIBENCH_TEST_KEY"})
    delayed(server, 2.0)
    worker = threading.Thread(target=ask, args=([Item("a", request(7))], tmp_path, chosen))
    worker.start()
    (record,) = wait_for(lambda: [r for r in records(tmp_path) if r["batch_id"]])
    worker.join(300)
    assert set(record) == {
        "name",
        "server",
        "model",
        "input_file_id",
        "requests",
        "most",
        "batch_id",
        "created",
        "renewed_s",
    }
    assert record["requests"] == {"judge_segment": [request(7).key]}
    assert record["batch_id"] == "batch_000001"
    assert server.batches()[0]["metadata"] == {"psibench_batch": record["name"]}
    assert "planted-key" not in json.dumps(record)
    assert "copper" not in json.dumps(record)  # a word of the prompt
