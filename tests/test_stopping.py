import os
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime

import pytest

from psibench import stopping
from psibench.stopping import MARGIN_S, Stop, Stopped, job_end_time, signals_stop_job, watched_stop


@pytest.fixture(autouse=True)
def _outside_of_slurm(monkeypatch):
    for name in ("SLURM_JOB_END_TIME", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)


def told_to_end(number, told):
    with watched_stop() as stop:
        stop.check()
        os.kill(os.getpid(), number)
        told.append(number)
        stop.check()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_ends_the_job_at_the_next_check_only(number):
    before, told = signal.getsignal(number), []
    with pytest.raises(Stopped, match=f"{number.name} received"):
        told_to_end(number, told)
    assert told == [number]  # the job went on to its next check
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_signal_ends_a_job_that_does_not_watch_for_it(number):
    before = signal.getsignal(number)
    with pytest.raises(Stopped, match="received"), signals_stop_job():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_ctrl_c_ends_a_job_that_watches_at_its_next_check():
    told = []
    with pytest.raises(Stopped, match="SIGTERM received"), signals_stop_job():
        told_to_end(signal.SIGINT, told)
    assert told == [signal.SIGINT]


def test_ctrl_c_stays_ignored_in_a_job_in_the_background():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with signals_stop_job():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_process_forked_from_a_job_ends_by_the_signal():
    with signals_stop_job():
        child = os.fork()
        if child == 0:
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                os._exit(1)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM


def test_another_thread_watches_the_time_only(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 5))
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work():
        with watched_stop() as stop:
            seen.append(signal.getsignal(signal.SIGTERM))
            try:
                stop.check()
            except Stopped as error:
                seen.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen[0] is before
    assert "time limit is" in seen[1]


@pytest.mark.parametrize(
    ("left_s", "needed_s", "stops"),
    [
        (MARGIN_S + 5, 0, False),
        (MARGIN_S - 5, 0, True),
        (100, 90, False),
        (100, 110, True),
        (-5, 0, True),
    ],
)
def test_time_limit_is_kept_by_what_comes_next_and_a_margin(monkeypatch, left_s, needed_s, stops):
    monkeypatch.setattr(time, "time", lambda: 1e9)
    stop = Stop(1e9 + left_s)
    if not stops:
        stop.check(needed_s)
        return
    with pytest.raises(Stopped, match="time limit"):
        stop.check(needed_s)


def test_end_time_is_what_slurm_says(monkeypatch):
    assert job_end_time() is None
    monkeypatch.setenv("SLURM_JOB_END_TIME", "1763757000")
    assert job_end_time() == 1763757000.0


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("2030-01-02T03:04:05", datetime(2030, 1, 2, 3, 4, 5).timestamp()),
        ("N/A", None),
        ("Unknown", None),
    ],
)
def test_old_slurm_is_asked_for_the_end_time(monkeypatch, tmp_path, answer, expected):
    script = tmp_path / "squeue"
    script.write_text(f'#!/bin/sh\ntest "$*" = "-h -j 7 -o %e" && echo {answer}\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert job_end_time() == expected


def test_no_squeue_on_the_node_means_no_known_end(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert job_end_time() is None


JOB = """
import sys, time
from psibench.cluster.job import job
from psibench.stopping import watched_stop
with job(sys.argv[1]), watched_stop() as stop:
    print("ready", flush=True)
    while True:
        stop.check()
        time.sleep(0.01)
"""


def test_a_job_told_to_end_exits_with_75_and_says_so(tmp_path):
    log = tmp_path / "x.log"
    process = subprocess.Popen(
        [sys.executable, "-c", JOB, str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=300)
    assert process.returncode == stopping.STOPPED_STATUS == 75
    assert told == (
        "psibench: stopped: SIGTERM received. Finished work is stored; run again to continue.\n"
    )
    assert "WARNING stopped: SIGTERM received" in log.read_text()
    assert "Traceback" not in log.read_text()
