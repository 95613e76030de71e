"""What the engine survives: what was asked, what was lost, what was asked twice."""

import errno
import os
import random
import threading
import time

import pytest
from faulty_standin import FaultyStandIn
from llm_helpers import MODEL, ask, items, settings, start_job, stats, stored
from standin_process import StandInProcess

from psibench.errors import InputError
from psibench.llm.run import ask_all
from psibench.llm.sections import LlmSettings

pytestmark = pytest.mark.processes


def served(server: StandInProcess, **asking) -> LlmSettings:
    policy = {"concurrency": 8} | asking
    return LlmSettings(backend="stand-in", model=MODEL, base_url=server.base_url, asking=policy)


def test_kill_9_at_random_moments_loses_nothing(tmp_path):
    rng, n_items, n_kills = random.Random(11), 400, 5
    with StandInProcess("delay_s=0.02,seed=1") as server:
        for _ in range(n_kills):
            client = start_job(served(server), tmp_path, n_items)
            for _ in range(rng.randint(1, 60)):  # lines it prints before it is killed
                client.stdout.readline()
            client.kill()
            client.communicate()
        survivors = len(stored(tmp_path))
        assert survivors > 0
        out, _ = start_job(served(server), tmp_path, n_items).communicate()
        seen = stats(server.base_url)
    assert out.count(" ok") == n_items
    assert len(stored(tmp_path)) == n_items == seen["n_distinct"]
    twice = seen["n_requests"] - seen["n_distinct"]
    assert twice <= n_kills * 8


def test_a_server_that_restarts_in_the_middle_is_waited_for(tmp_path):
    outcomes = []
    with StandInProcess("delay_s=0.02") as first:
        port = first.port
        chosen = served(first, max_tries=100_000)  # of 50 ms: however long it takes
        worker = threading.Thread(
            target=ask_all,
            args=(items(300), chosen),
            kwargs={"store": tmp_path, "on_outcome": outcomes.append},
        )
        worker.start()
        while len(outcomes) < 40:
            time.sleep(0.01)
        first.stop()
        at_stop = len(outcomes)
        with StandInProcess("delay_s=0.005", port=port):
            worker.join(timeout=300)
    assert at_stop < 300
    assert len({o.item_id for o in outcomes if o.status == "ok"}) == 300
    assert len(stored(tmp_path)) == 300


@pytest.mark.parametrize(
    "faults",
    [
        "rate_limited=0.15,server_error=0.15,seed=2",
        "rate_limited=0.2,retry_after_s=0.02,seed=3",
        "reset=0.3,seed=4",
        "rate_limited=0.1,server_error=0.1,reset=0.1,slow=0.05,slow_s=0.1,seed=5",
    ],
)
def test_faults_of_the_connection_lose_nothing(tmp_path, faults):
    stand_in = FaultyStandIn()
    run = ask(items(200), tmp_path, server=stand_in, faults=faults)
    assert run.error is None
    assert run.statuses == {"ok": 200}
    assert stand_in.answered.total() == 200  # no whole reply was thrown away
    assert stand_in.asked.total() > 210


def test_a_full_disk_ends_the_run_and_costs_at_most_what_was_under_way(tmp_path, monkeypatch):
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


def test_two_processes_that_run_at_once_use_one_store(tmp_path):
    with StandInProcess("delay_s=0.02") as server:
        clients = [start_job(served(server), tmp_path, 300) for _ in range(2)]
        outputs = [client.communicate()[0] for client in clients]
        seen = stats(server.base_url)
    assert [out.count(" ok") for out in outputs] == [300, 300]
    assert len(stored(tmp_path)) == seen["n_distinct"] == 300  # some asked twice, none lost
    assert len(list(tmp_path.glob("answers-*.jsonl"))) == 2
