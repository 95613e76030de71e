"""A stopped run ends its jobs, keeps their finished work, and prints how to continue."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from test_killed_run import N_CONTEXTS, slow_project
from workflow_project import ENVIRONMENT, REPOSITORY, Project, tiny_config, write_squad

MOST_S = 300
"""Longest wait for a stopped run, to fail if it hangs."""
RUN = "import sys; from psibench.cli import main; sys.exit(main(sys.argv[1:]))"
SLOW_SCHEDULERS = """
import time
from pathlib import Path
from snakemake.scheduling import greedy, milp

def select_jobs(*_):
    Path("selecting").touch()
    time.sleep(3600)

greedy.Scheduler.select_jobs = milp.Scheduler.select_jobs = select_jobs
"""


def start(project: Project, *options: str, before: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", before + RUN, "run", "--cores", "2", "config.yaml", *options]
    environment = ENVIRONMENT | {"PYTHONPATH": str(REPOSITORY / "src")}
    return subprocess.Popen(
        command,
        cwd=project.folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def stop(process: subprocess.Popen[str], number: int, *, once: Callable[[], bool]) -> str:
    """Send a signal to a run when ``once`` is true; return its standard error."""
    deadline = time.monotonic() + MOST_S
    while not once():
        assert process.poll() is None, "the run ended before it could be stopped"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    try:
        return process.communicate(timeout=MOST_S)[1]
    finally:
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_run_ends_its_job_and_can_continue(
    tmp_path: Path, number: signal.Signals
) -> None:
    project = slow_project(tmp_path / "stopped")
    parts, log = project.folder / "store/embeddings", project.folder / "logs/tiny/encode/one"
    process = start(project)
    output = stop(process, number, once=lambda: len(list(parts.rglob("part-*.parquet"))) >= 4)
    assert process.returncode == 128 + number
    assert output.endswith("The same command continues from there.\n")
    assert "WorkflowError" not in output
    assert "Traceback" not in output
    assert (
        "stopped: SIGTERM received. Finished work is stored" in (log / "eng-Latn.log").read_text()
    )
    n_stored = 2 * len(list(parts.rglob("part-*.parquet")))  # 240 tokens hold two contexts
    assert n_stored < N_CONTEXTS

    again = start(project)
    again.communicate()
    assert again.returncode == 0
    match = re.search(r"encoded (\d+) of (\d+) texts", (log / "eng-Latn.log").read_text())
    assert match is not None
    assert int(match[2]) - int(match[1]) >= n_stored


@pytest.mark.parametrize("scheduler", ["greedy", "ilp"])
def test_a_run_stops_while_its_scheduler_selects_jobs(tmp_path: Path, scheduler: str) -> None:
    write_squad(tmp_path / "squad.json")
    project = Project(tmp_path)
    project.write_config(tiny_config() | {"models": ["bm25"]})
    process = start(project, "--", "--scheduler", scheduler, before=SLOW_SCHEDULERS)
    output = stop(process, signal.SIGTERM, once=(tmp_path / "selecting").exists)
    assert process.returncode == 128 + signal.SIGTERM
    assert output.endswith("The same command continues from there.\n")


def test_a_killed_job_is_reported_with_its_log(tmp_path: Path) -> None:
    project = slow_project(tmp_path / "killed")
    parts, process = project.folder / "store/embeddings", start(project)

    def kill_job() -> bool:
        if not list(parts.rglob("part-*.parquet")):
            return False
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        return True

    output = stop(process, 0, once=kill_job)
    assert process.returncode == 1
    last = output.strip().splitlines()[-1]
    log = r"\(log: logs/tiny/encode/one/eng-Latn\.log\)"
    assert re.match(rf"psibench run: rule encode was killed by SIGKILL {log}", last)
