"""A head does not start beside SLURM jobs that another left in its folder."""

import os

import pytest

from psibench.cluster import head_lock
from psibench.cluster.head import start_head
from psibench.errors import InputError


@pytest.fixture(autouse=True)
def _let_go(monkeypatch):
    """Free what a test holds in this process."""
    monkeypatch.setenv("PSIBENCH_HEAD_LOCK", "")  # what `start_head` sets is gone afterwards
    yield
    head_lock._forget()


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
