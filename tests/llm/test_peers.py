"""Jobs that write to one store at the same time: nothing lost, next to nothing asked twice."""

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest
from llm_helpers import Run, answer, ask, ask_at, items, settings

from psibench.llm.answer_files import STALE_S, WriterName, host_name
from psibench.llm.answer_store import AnswerStore
from psibench.llm.compaction import compact
from psibench.llm.peers import live_writers
from psibench.llm.request import Sampling
from psibench.llm.standin.imperfections import Imperfections
from psibench.llm.standin.process import StandInProcess
from psibench.llm.standin.server import StandIn, serving

CLIENT = Path(__file__).with_name("faulty_client.py")
IN_FLIGHT = 8
LONG_S = 20.0
OTHER_PID = 2**22 + 1  # above the largest a Linux kernel gives


def start_client(server: StandInProcess, store: Path, n_items: int):
    command = [sys.executable, str(CLIENT), server.base_url, str(store), str(n_items)]
    return subprocess.Popen([*command, str(IN_FLIGHT)], stdout=subprocess.PIPE, text=True)


def n_twice(server: StandInProcess) -> int:
    with urllib.request.urlopen(server.base_url.replace("/v1", "/stats")) as reply:
        seen = json.load(reply)
    return seen["n_requests"] - seen["n_distinct"]


@dataclass
class Together:
    runs: list[Run]
    stand_in: StandIn
    ended: list[float]
    """Seconds after which each run had ended."""

    @property
    def seconds(self) -> float:
        return max(self.ended)

    @property
    def n_twice(self) -> int:
        return self.stand_in.asked.total() - len(self.stand_in.asked)


def together(folder, *wanted, faults="delay_s=0.05") -> Together:
    """Run one engine per list of items, each with a store object of its own, at once."""
    stand_in = StandIn(Imperfections.parse(faults))

    async def one(url, its_items) -> tuple[Run, float]:
        started = time.perf_counter()
        with AnswerStore(folder) as store:
            run = await ask_at(url, its_items, settings(concurrency=IN_FLIGHT), store)
        return run, time.perf_counter() - started

    async def run() -> Together:
        async with serving(stand_in) as url:
            done = await asyncio.gather(*(one(url, its_items) for its_items in wanted))
            return Together([run for run, _ in done], stand_in, [seconds for _, seconds in done])

    return asyncio.run(run())


def n_stored(folder) -> int:
    store = AnswerStore(folder)
    store.refresh()
    return len(store)


def test_a_process_that_joins_later_asks_next_to_nothing_again(tmp_path):
    with StandInProcess("delay_s=0.05") as server:
        first = start_client(server, tmp_path, 1000)
        head = [first.stdout.readline() for _ in range(300)]
        second = start_client(server, tmp_path, 1000)
        outputs = ["".join(head) + first.communicate()[0], second.communicate()[0]]
        assert n_twice(server) <= 2 * IN_FLIGHT
    assert [out.count(" ok") for out in outputs] == [1000, 1000]
    assert n_stored(tmp_path) == 1000


def test_the_share_of_a_killed_process_is_asked_by_the_other(tmp_path):
    with StandInProcess("delay_s=0.05") as server:
        killed, survivor = (start_client(server, tmp_path, 600) for _ in range(2))
        for _ in range(100):
            killed.stdout.readline()
        killed.kill()
        killed.communicate()
        died = time.monotonic()
        out, _ = survivor.communicate()
        assert time.monotonic() - died < 0.5 * STALE_S  # 3.75 s for all on an idle machine
        assert n_twice(server) <= 2 * IN_FLIGHT
    assert out.count(" ok") == 600
    assert n_stored(tmp_path) == 600


def test_three_jobs_share_out_the_items(tmp_path):
    done = together(tmp_path, *[items(300)] * 3)
    assert [run.statuses for run in done.runs] == [{"ok": 300}] * 3
    assert done.n_twice <= 3 * IN_FLIGHT
    assert min(run.totals.n_asked for run in done.runs) > 40
    assert list(tmp_path.glob("*.open.jsonl")) == []


def test_reasks_are_asked_once_too(tmp_path):
    seeded = items(150, sampling=Sampling(seed=1))  # each re-ask has a body of its own
    done = together(tmp_path, seeded, seeded, faults="delay_s=0.02,malformed=0.3,seed=8")
    first, second = done.runs
    assert sum(first.statuses.values()) == 150
    assert {o.item_id: (o.status, o.n_reasks, o.usage) for o in first.outcomes} == {
        o.item_id: (o.status, o.n_reasks, o.usage) for o in second.outcomes
    }
    assert len(done.stand_in.asked) > 180
    assert done.n_twice <= 2 * IN_FLIGHT


@pytest.fixture
def long_waits(monkeypatch):
    """Who waits for others is not done within ``LONG_S``, however fast the machine is."""
    monkeypatch.setattr("psibench.llm.sharing.NOTICE_S", 3 * LONG_S)
    monkeypatch.setattr("psibench.llm.sharing.LATE_S", 3 * LONG_S)


@pytest.mark.usefixtures("long_waits")
def test_jobs_with_other_items_do_not_wait_for_each_other(tmp_path):
    all_items = items(320)
    both = together(tmp_path, all_items[:160], all_items[160:])
    assert [run.statuses for run in both.runs] == [{"ok": 160}] * 2
    assert both.n_twice == 0
    assert both.seconds < LONG_S  # one second for all on an idle machine
    # Side by side in one event loop: one after the other would take 1 and 2.
    assert min(both.ended) > 0.7 * max(both.ended)


@pytest.mark.usefixtures("long_waits")
def test_jobs_with_one_item_in_common_go_on(tmp_path):
    all_items = items(321)
    common = all_items[320:]
    first, second = all_items[:20] + common, all_items[160:180] + common
    done = together(tmp_path, first + all_items[20:160], second + all_items[180:320])
    assert [run.statuses for run in done.runs] == [{"ok": 161}] * 2
    assert done.n_twice <= 1
    assert done.seconds < LONG_S  # one second for all on an idle machine


def test_jobs_that_overlap_ask_twice_what_they_ask_within_a_look(tmp_path):
    all_items = items(500)
    done = together(tmp_path, all_items[:400], all_items[100:])
    assert [run.statuses for run in done.runs] == [{"ok": 400}] * 2
    assert done.n_twice < 100  # of 300


def test_a_job_that_does_not_answer_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("psibench.llm.sharing.LATE_S", 0.3)
    mark = items(1)[0].request.key[:16]
    silent = f"answers-20260101T000000Z-{host_name()}-{os.getpid()}-00000000-{mark}.open.jsonl"
    (tmp_path / silent).touch()
    done = together(tmp_path, items(60), faults="")
    assert done.runs[0].statuses == {"ok": 60}
    assert (done.n_twice, done.runs[0].totals.n_asked) == (0, 60)
    assert 1.0 < done.seconds < LONG_S


@pytest.mark.usefixtures("long_waits")
def test_a_job_alone_looks_for_others_but_does_not_wait(tmp_path):
    done = together(tmp_path, items(8), faults="")
    assert done.runs[0].statuses == {"ok": 8}
    assert done.seconds < LONG_S


def test_names_of_files_tell_their_writers(tmp_path):
    with AnswerStore(tmp_path) as store:
        path = store.writer.open("00ff")
        name = path.name.removesuffix(".open.jsonl")
        assert WriterName.of(name) == WriterName(host_name(), os.getpid(), "00ff")
    assert not path.exists()  # nothing was written
    name = "answers-20260101T000000Z-gpu-07-cluster-12-0123abcd-ff"
    assert WriterName.of(name) == WriterName("gpu-07-cluster", 12, "ff")
    assert WriterName.of("answers-x") is None


@pytest.mark.parametrize(
    ("host", "pid", "age_s", "is_live"),
    [
        (host_name(), os.getpid(), 1.0, True),
        (host_name(), os.getpid(), 2 * STALE_S, False),  # a number given again
        (host_name(), OTHER_PID, 1.0, False),
        ("elsewhere", OTHER_PID, 0.5 * STALE_S, True),
        ("elsewhere", OTHER_PID, 2 * STALE_S, False),
    ],
    ids=["here", "here but silent", "ended here", "elsewhere", "silent elsewhere"],
)
def test_signs_of_life(tmp_path, host, pid, age_s, is_live):
    stem = f"answers-20260101T000000Z-{host}-{pid}-00000000-00ff"
    for suffix in (".open.jsonl", ".jsonl"):
        (tmp_path / f"{stem}{suffix}").touch()
        os.utime(tmp_path / f"{stem}{suffix}", (0, 1e9 - age_s))
    (tmp_path / "answers-x.open.jsonl").touch()
    assert live_writers(tmp_path, now=1e9) == ({stem} if is_live else set())


def test_a_writer_without_answers_shows_life(tmp_path, monkeypatch):
    monkeypatch.setattr("psibench.llm.answer_files.BEAT_S", 0.0)
    with AnswerStore(tmp_path) as store:
        path = store.writer.open("00ff")
        os.utime(path, (0, 0))
        assert abs(store.writer.beat() - time.time()) < STALE_S
        assert compact(tmp_path, abandoned_after_s=0.0).n_files == 0
        assert path.exists()


def test_compaction_clears_away_what_killed_writers_left_empty(tmp_path):
    path = AnswerStore(tmp_path).writer.open("00ff")
    os.utime(path, (0, 0))
    assert compact(tmp_path).part is None
    assert list(tmp_path.iterdir()) == []


def test_own_answers_are_told_from_those_of_others(tmp_path):
    with AnswerStore(tmp_path) as one, AnswerStore(tmp_path) as other:
        one.add(answer(0))
        other.add(answer(0))
        other.add(answer(1))
        heard = []
        one.refresh(lambda stem, key: heard.append(one.is_own(key)))
        assert heard == [True, False]


def test_an_engine_that_is_refused_leaves_no_file(tmp_path):
    run = ask(items(3), tmp_path, faults="rate_limited=1", chosen=settings(max_tries=1))
    assert run.statuses == {"failed": 3}
    assert list(tmp_path.iterdir()) == []
