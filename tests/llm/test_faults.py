"""Faults that runs survive without losing answers or sending requests twice."""

import errno
import os
import random
import threading

import pytest
from batch_helpers import Server, batch_settings
from faulty_standin import FaultyStandIn
from llm_helpers import ask, items, settings, start_job, stored, wait_for

from psibench.errors import InputError
from psibench.llm.run import ask_all

pytestmark = pytest.mark.processes


def served(server, **asking):
    return batch_settings(server.url, backend="stand-in", concurrency=8, **asking)


def test_kill_9_at_random_moments_loses_nothing(tmp_path):
    rng, n_items, n_kills = random.Random(11), 400, 5
    with Server("delay_s=0.02,seed=1") as server:
        for _ in range(n_kills):
            client = start_job(served(server), tmp_path, n_items)
            for _ in range(rng.randint(1, 60)):  # lines it prints before it is killed
                client.stdout.readline()
            client.kill()
            client.communicate()
        assert len(stored(tmp_path)) > 0
        out, _ = start_job(served(server), tmp_path, n_items).communicate()
        n_distinct = len(server.stand_in.asked)
        twice = server.n_requests - n_distinct
    assert out.count(" ok") == n_items
    assert len(stored(tmp_path)) == n_items == n_distinct
    assert twice <= n_kills * 8


def test_a_server_that_restarts_in_the_middle_is_waited_for(tmp_path):
    outcomes = []
    with Server("delay_s=0.02") as first:
        port = int(first.url.rsplit(":", 1)[1].split("/")[0])
        chosen = served(first, max_tries=100_000)  # of 50 ms: however long it takes
        worker = threading.Thread(
            target=ask_all,
            args=(items(300), chosen),
            kwargs={"store": tmp_path, "on_outcome": outcomes.append},
        )
        worker.start()
        wait_for(lambda: len(outcomes) >= 40)
    at_stop = len(outcomes)
    with Server("delay_s=0.005", port=port):
        worker.join(timeout=300)
    assert at_stop < 300
    assert len({o.item_id for o in outcomes if o.status == "ok"}) == 300
    assert len(stored(tmp_path)) == 300


def test_connection_failures_lose_nothing(tmp_path):
    stand_in = FaultyStandIn()
    faults = "rate_limited=0.1,retry_after_s=0.02,server_error=0.1,reset=0.1,seed=5"
    run = ask(items(200), tmp_path, server=stand_in, faults=faults)
    assert run.error is None
    assert run.statuses == {"ok": 200}
    assert stand_in.answered.total() == 200  # no whole reply was thrown away
    assert stand_in.asked.total() > 210


def test_full_disk_ends_the_run_and_loses_only_running_requests(tmp_path, monkeypatch):
    write, room = os.write, 40

    def bounded(handle, data):
        nonlocal room
        if not bytes(data[:8]).startswith(b'{"sum":"'):
            return write(handle, data)
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        room -= 1
        return write(handle, data)

    monkeypatch.setattr(os, "write", bounded)
    first = FaultyStandIn()
    run = ask(items(200), tmp_path, server=first)
    monkeypatch.undo()
    assert isinstance(run.error, InputError)
    assert "No space left on device" in str(run.error)
    assert len(run.outcomes) == len(stored(tmp_path)) == 40
    assert 41 <= first.asked.total() <= 40 + settings().asking.concurrency
    second = FaultyStandIn()
    assert ask(items(200), tmp_path, server=second).statuses == {"ok": 200}
    assert second.asked.total() == 160


def test_two_processes_share_one_store(tmp_path):
    with Server("delay_s=0.02") as server:
        clients = [start_job(served(server), tmp_path, 300) for _ in range(2)]
        outputs = [client.communicate()[0] for client in clients]
        n_distinct = len(server.stand_in.asked)
    assert [out.count(" ok") for out in outputs] == [300, 300]
    assert len(stored(tmp_path)) == n_distinct == 300  # some asked twice, none lost
    assert len(list(tmp_path.glob("answers-*.jsonl"))) == 2
