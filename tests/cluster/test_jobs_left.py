"""A head does not start beside jobs that another left: neither those that run nor SLURM's queue."""

import os
import subprocess
import sys

import pytest

from psibench.cluster import head_lock
from psibench.cluster.head import start_head
from psibench.errors import InputError

JOB = """
import time
from psibench.cluster.job import job
with job("logs/ask/eng-Latn.log"):
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _let_go(monkeypatch):
    """Free what a test holds in this process."""
    monkeypatch.setenv("PSIBENCH_HEAD_LOCK", "")  # what `start_head` sets is gone afterwards
    yield
    head_lock._forget()


@pytest.mark.processes
def test_a_head_does_not_start_beside_a_process_that_runs_a_job_on_its_store(tmp_path, monkeypatch):
    monkeypatch.setenv("PSIBENCH_JOBS", str(tmp_path / "store" / "jobs"))
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    process = subprocess.Popen(
        [sys.executable, "-c", JOB], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        for folder in (tmp_path, tmp_path / "other"):  # wherever its own folder is
            with pytest.raises(InputError, match="a run whose head is gone") as refused:
                start_head(tmp_path / "store", folder, executor="local")
            assert "logs/ask/eng-Latn.log of" in str(refused.value)
            assert f"SLURM job 17, process {process.pid}, in {tmp_path}" in str(refused.value)
    finally:
        process.kill()
        process.communicate()
    start_head(tmp_path / "store", tmp_path, executor="local")


def test_what_a_killed_job_left_behind_is_removed_and_what_runs_is_not(tmp_path, monkeypatch):
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    for name in ("old", "new"):
        (jobs / f"host-1-{name}.lock").touch()
    monkeypatch.setenv("PSIBENCH_JOBS", str(jobs))
    with head_lock.job_lock("x.log"):
        for path in jobs.iterdir():
            if "new" not in path.name:
                os.utime(path, (0, 0))
        (held,) = head_lock.running_jobs(tmp_path)
        assert held.startswith("x.log of")
        assert len(list(jobs.iterdir())) == 2
    assert [path.name for path in jobs.iterdir()] == ["host-1-new.lock"]


RUN = "3f8a1c9e-0b7d-4e52-9a61-7c2d5e8f9012"


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """A program in the place of squeue that prints the rows given to it, or fails."""

    def put(*rows, fails=False):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        path = folder / "squeue"
        lines = "".join("\x1f".join(map(str, row)) + "\n" for row in rows)
        (folder / "jobs.txt").write_text(lines)
        end = "echo controller down >&2; exit 1" if fails else f"cat {folder / 'jobs.txt'}"
        path.write_text(f"#!/bin/sh\n{end}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return put


def test_a_head_does_not_start_over_slurm_jobs_of_another_in_its_folder(queue, tmp_path):
    queue(
        ("17", RUN, tmp_path),
        ("18_[2-4]", f"mine_{RUN}", tmp_path / ".." / tmp_path.name),
        ("19", RUN, tmp_path / "bin"),  # another folder
        ("20", "notebook", tmp_path),  # not of snakemake
    )
    start_head("store", tmp_path, executor="local")  # has no business with SLURM
    with pytest.raises(InputError, match=r"still active, 2 in all.*scancel 17 18_\[2-4\]$"):
        start_head("store", tmp_path, executor="slurm")
    queue(("19", RUN, tmp_path / "bin"))
    start_head("store", tmp_path, executor="slurm")


def test_a_controller_that_is_down_is_no_empty_queue(queue, tmp_path):
    queue(fails=True)
    with pytest.raises(InputError, match=r"squeue failed \(controller down"):
        start_head("store", tmp_path, executor="slurm")


def test_a_machine_without_slurm_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="SLURM is not installed on this machine"):
        start_head("store", tmp_path, executor="slurm")


@pytest.mark.parametrize("error", [KeyError("getpwuid(): uid not found: 54321"), OSError("no")])
def test_a_user_without_a_passwd_entry_holds_a_lock(tmp_path, monkeypatch, error):
    def missing():
        raise error

    monkeypatch.setattr("getpass.getuser", missing)
    start_head("store", tmp_path, executor="local")
    assert f"of user {os.getuid()} on" in (tmp_path / "store" / "head.lock").read_text()
