"""A head does not start while SLURM has jobs of an earlier run in its folder."""

import os

import pytest

from psibench.cluster import head_lock
from psibench.cluster.head import start_head
from psibench.errors import InputError


@pytest.fixture(autouse=True)
def _release_locks(monkeypatch):
    """Release the locks that a test holds in this process."""
    monkeypatch.setenv("PSIBENCH_HEAD_LOCK", "")  # undoes the change of `start_head` afterwards
    yield
    head_lock._forget()


RUN = "3f8a1c9e-0b7d-4e52-9a61-7c2d5e8f9012"


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """A function that replaces squeue by a program that prints rows, or fails."""

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


def test_a_head_refuses_while_slurm_has_jobs_in_its_folder(queue, tmp_path):
    queue(
        ("17", RUN, tmp_path),
        ("18_[2-4]", f"mine_{RUN}", tmp_path / ".." / tmp_path.name),
        ("19", RUN, tmp_path / "bin"),  # another folder
        ("20", "notebook", tmp_path),  # not a job of Snakemake
    )
    start_head("store", tmp_path, executor="local")  # does not ask SLURM
    with pytest.raises(InputError, match=r"2 SLURM jobs of .* active.*scancel 17 18_\[2-4\]$"):
        start_head("store", tmp_path, executor="slurm")
    queue(("19", RUN, tmp_path / "bin"))
    start_head("store", tmp_path, executor="slurm")


def test_a_failing_squeue_is_not_an_empty_queue(queue, tmp_path):
    queue(fails=True)
    with pytest.raises(InputError, match=r"squeue failed \(controller down"):
        start_head("store", tmp_path, executor="slurm")


def test_a_missing_squeue_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="SLURM is not installed on this machine"):
        start_head("store", tmp_path, executor="slurm")


@pytest.mark.parametrize("error", [KeyError("getpwuid(): uid not found: 54321"), OSError("no")])
def test_a_user_without_a_passwd_entry_can_lock(tmp_path, monkeypatch, error):
    def missing():
        raise error

    monkeypatch.setattr("getpass.getuser", missing)
    start_head("store", tmp_path, executor="local")
    assert f"of user {os.getuid()} on" in (tmp_path / "store" / "head.lock").read_text()
