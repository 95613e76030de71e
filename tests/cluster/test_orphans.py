import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys

import pytest
from fake_slurm import RUN, FakeSlurm
from two_heads import Folder

from psibench.cli import main
from psibench.cluster import head_lock, orphans
from psibench.cluster.head import start_head
from psibench.cluster.head_lock import acquire
from psibench.errors import InputError


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A working directory, the process in it."""
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PSIBENCH_HEAD_LOCK", "")  # what `start_head` sets is gone afterwards
    yield folder
    head_lock._forget()


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    slurm = FakeSlurm(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{slurm.folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(orphans, "LOOK_S", 0.01)
    return slurm


def test_jobs_of_snakemake_in_this_folder_are_orphans(run, slurm, tmp_path, capsys):
    slurm.add("17", run)
    slurm.add("18_[2-4]", run, state="PENDING", name=f"mine_{RUN}", comment="(null)")
    slurm.add("19", tmp_path)  # another folder
    slurm.add("20", run, name="notebook")  # not of snakemake
    slurm.add("21", run / ".." / "run")  # the same folder, spelt otherwise
    assert main(["orphans"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["job", "state", "time", "rule"],
        ["17", "RUNNING", "1:02", "rule_encode"],
        ["18_[2-4]", "PENDING", "1:02", "-"],
        ["21", "RUNNING", "1:02", "rule_encode"],
    ]
    assert "Their head process is gone" in lines[4]
    assert slurm.cancelled() == []


def test_cancel_ends_these_jobs_alone(run, slurm, tmp_path, capsys):
    slurm.add("17", run)
    slurm.add("19", tmp_path)
    assert main(["orphans", "--cancel"]) == 0
    assert slurm.cancelled() == ["17"]
    assert "Cancelled: 1." in capsys.readouterr().out
    assert main(["orphans"]) == 0
    assert capsys.readouterr().out == f"No orphans in {run}.\n"


def test_a_folder_that_is_not_there_is_an_error(run, slurm, capsys):
    assert main(["orphans", "--folder", "nope"]) == 2
    assert (
        "--folder nope: no such folder; give a run's working directory" in capsys.readouterr().err
    )


def test_jobs_that_do_not_end_are_named(run, slurm, capsys, monkeypatch):
    slurm.add("17", run)
    (slurm.folder / "stubborn").touch()
    monkeypatch.setattr(orphans, "CANCEL_S", 0.05)
    assert main(["orphans", "--cancel"]) == 2
    assert "jobs 17 are cancelled and have not ended yet" in capsys.readouterr().err


def test_jobs_of_a_living_head_are_no_orphans(run, slurm, capsys):
    slurm.add("17", run)
    acquire("store", run)
    assert main(["orphans"]) == 0
    assert f"its jobs (1) belong to snakemake of {head_lock.getpass.getuser()}" in (
        capsys.readouterr().out
    )
    for options in (["--cancel"], ["--cancel", "--force"]):
        assert main(["orphans", *options]) == 2
        assert "belong to a run that is going on" in capsys.readouterr().err
    assert slurm.cancelled() == []


@pytest.fixture
def no_flock(monkeypatch):
    """A file system without locks."""

    def refuse(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)


def test_without_flock_a_living_head_keeps_its_jobs(run, slurm, no_flock, capsys):
    acquire("store", run)  # as the head does: it goes on without a lock
    slurm.add("17", run)
    assert main(["orphans"]) == 0
    listed = capsys.readouterr().out
    assert "17" in listed
    assert "it cannot be told whether the head process of these jobs is alive" in listed
    assert "gone. Wait" not in listed.split("cannot be told")[0]
    assert main(["orphans", "--cancel"]) == 2
    refused = capsys.readouterr().err
    assert "psibench-head.lock: the file system has no locks (Function not implemented)" in refused
    assert f"process {os.getpid()}, in {run}" in refused
    assert "Nothing is cancelled. If none runs, add --force." in refused
    assert slurm.cancelled() == []


def test_without_flock_force_cancels(run, slurm, no_flock):
    acquire("store", run)
    slurm.add("17", run)
    assert main(["orphans", "--cancel", "--force"]) == 0
    assert slurm.cancelled() == ["17"]


def test_a_head_that_has_not_said_who_it_is_yet_keeps_its_jobs(run, slurm, capsys):
    slurm.add("17", run)
    acquire("store", run)
    head_lock.lock_paths("store", run)[1].write_text("")
    assert main(["orphans", "--cancel"]) == 2
    assert "a run holds it and has not said which" in capsys.readouterr().err
    assert slurm.cancelled() == []


def test_a_head_does_not_start_over_the_jobs_of_another(run, slurm):
    slurm.add("17", run)
    start_head("store", run, executor="local")  # another executor has no business with SLURM
    with pytest.raises(
        InputError, match=r"still active, 1 in all: 17 \(rule_encode\).*orphans --cancel"
    ):
        start_head("store", run, executor="slurm")


def test_snakemake_says_so_and_runs_nothing(slurm, tmp_path):
    folder = Folder(tmp_path / "project")
    slurm.add("17", folder.path)
    done = subprocess.run(
        [*folder.command(), "as=slurm"],
        cwd=folder.path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 1
    assert "SLURM jobs of an earlier run are still active, 1 in all" in done.stderr
    assert "Traceback" not in done.stderr
    assert not folder.has("started.txt")


def test_a_controller_that_is_down_is_an_error_not_an_empty_list(run, slurm, capsys):
    (slurm.folder / "down").touch()
    assert main(["orphans"]) == 2
    assert "Unable to contact slurm controller" in capsys.readouterr().err


def test_without_slurm_it_is_said_that_its_jobs_are_not_seen(run, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["orphans"]) == 0
    assert "No squeue on this machine: of SLURM nothing is known." in capsys.readouterr().out


JOB = """
import time
from psibench.cluster.job import job
with job("logs/ask/eng-Latn.log"):
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def process(run, monkeypatch):
    """A job without a head, that locks a file of its own in the store."""
    monkeypatch.setenv("PSIBENCH_JOBS", str(run / "store" / "jobs"))
    started = subprocess.Popen(
        [sys.executable, "-c", JOB], cwd=run, stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    yield started
    started.kill()
    started.communicate()


def test_a_process_that_runs_a_job_is_an_orphan_and_can_be_ended(run, process, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["orphans"]) == 0
    listed = capsys.readouterr().out
    assert f"{socket.gethostname()}:{process.pid}" in listed
    assert "logs/ask/eng-Latn.log" in listed
    assert main(["orphans", "--cancel"]) == 0
    assert "Cancelled: 1." in capsys.readouterr().out
    assert process.wait(timeout=60) == -signal.SIGTERM
    assert main(["orphans"]) == 0
    assert "No orphans" in capsys.readouterr().out


def test_a_head_does_not_start_beside_a_process_that_runs_a_job_on_its_store(
    run, process, tmp_path
):
    for folder in (run, tmp_path):  # wherever its own folder is
        with pytest.raises(InputError, match=r"a run whose head is gone.*logs/ask/eng-Latn\.log"):
            start_head(run / "store", folder, executor="local")
    start_head("store", tmp_path, executor="local")
    process.kill()
    process.wait()
    start_head(run / "store", run, executor="local")


def test_a_process_of_another_host_is_left_alone_and_named(run, process, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    assert main(["orphans", "--cancel"]) == 2
    assert f"end them there: `kill {process.pid}` on" in capsys.readouterr().err
    assert process.poll() is None


def test_a_job_of_slurm_is_listed_once(run, slurm, monkeypatch, capsys, tmp_path):
    slurm.add("17", run)
    monkeypatch.setenv("PSIBENCH_JOBS", str(run / "store" / "jobs"))
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    with head_lock.job_lock("x.log"):
        assert main(["orphans"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:-1]] == ["17"]


def test_what_a_killed_job_left_behind_is_removed_and_what_runs_is_not(tmp_path, monkeypatch):
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "host-1-abc.lock").touch()
    os.utime(jobs / "host-1-abc.lock", (0, 0))
    monkeypatch.setenv("PSIBENCH_JOBS", str(jobs))
    with head_lock.job_lock("x.log"), head_lock.job_lock("y.log"):
        for path in jobs.iterdir():
            os.utime(path, (0, 0))
        assert {job.name for job in head_lock.running_jobs(tmp_path)} == {"x.log", "y.log"}
        assert len(list(jobs.iterdir())) == 2
    assert list(jobs.iterdir()) == []
