import errno
import fcntl
import logging
import os
import signal
import subprocess
import sys

import pytest

from psibench.cluster import head_lock
from psibench.cluster.head import set_environment
from psibench.cluster.head_lock import acquire, lock_paths
from psibench.errors import InputError

pytestmark = pytest.mark.processes


@pytest.fixture(autouse=True)
def _release_locks():
    """Release the locks that a test holds in this process."""
    yield
    head_lock._forget()


def is_free(path) -> bool:
    """Whether no process holds a lock on a file; true for a missing file."""
    if not path.exists():
        return True
    with open(path) as other:
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


HEAD = """
import subprocess, sys
from psibench.cluster.head import start_head
start_head(sys.argv[1], sys.argv[2], executor="local")
job = subprocess.Popen(["sleep", "600"])
print(job.pid, flush=True)
job.wait()
"""


def start(store, folder):
    """Start a head in a new process; return it and the process id of its job."""
    head = subprocess.Popen(
        [sys.executable, "-c", HEAD, store, folder], stdout=subprocess.PIPE, text=True
    )
    assert head.stdout is not None
    return head, int(head.stdout.readline())


@pytest.fixture
def first(tmp_path):
    """A running head with a folder and a store; killed after the test."""
    head, job = start(tmp_path / "store", tmp_path / "first")
    yield head, job
    os.kill(job, signal.SIGKILL)
    head.kill()
    head.communicate()


def test_a_second_head_on_the_same_store_is_refused(first, tmp_path):
    head, _ = first
    with pytest.raises(InputError, match="another run uses this store") as refused:
        acquire(tmp_path / "store", tmp_path / "second")
    assert str(tmp_path / "store") in str(refused.value)
    assert f"process {head.pid}, in {tmp_path / 'first'}" in str(refused.value)


def test_a_second_head_in_the_same_folder_is_refused(first, tmp_path):
    with pytest.raises(InputError, match="another run uses this folder"):
        acquire(tmp_path / "another-store", tmp_path / "first")
    # The lock of the other store is released again.
    assert is_free(tmp_path / "another-store" / "head.lock")


def test_a_killed_head_releases_its_locks_while_its_job_runs(first, tmp_path):
    head, job = first
    assert not is_free(tmp_path / "store" / "head.lock")
    head.kill()
    head.wait()
    os.kill(job, 0)  # still running
    assert is_free(tmp_path / "store" / "head.lock")
    acquire(tmp_path / "store", tmp_path / "second")


def test_a_forked_process_does_not_hold_the_locks(tmp_path):
    acquire("store", tmp_path)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, b".")
        signal.pause()
        os._exit(0)
    try:
        os.read(read_end, 1)
        head_lock._forget()  # in this process; a copy in the child would keep the lock
        assert is_free(tmp_path / "store" / "head.lock")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_linked_store_is_locked_at_its_target(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert lock_paths("link", tmp_path)[0] == tmp_path / "real" / "head.lock"


def test_a_run_without_flock_continues_with_a_warning(tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with caplog.at_level(logging.WARNING):
        acquire("store", tmp_path)
    assert "the file system has no locks" in caplog.text
    assert f"process {os.getpid()}, in" in (tmp_path / "store" / "head.lock").read_text()


def test_an_unwritable_store_is_named(tmp_path):
    (tmp_path / "store").write_text("a file")
    with pytest.raises(InputError, match=r"head\.lock: cannot be written"):
        acquire("store", tmp_path)


JOB = """
import sys, time
from psibench.cluster.head_lock import end_with_head
end_with_head()
print("ready", flush=True)
time.sleep(float(sys.argv[1]))
"""


def start_job(lock, monkeypatch, *, seconds):
    monkeypatch.setenv("PSIBENCH_HEAD_LOCK", str(lock))
    job = subprocess.Popen(
        [sys.executable, "-c", JOB, str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    return job


def test_a_local_job_ends_with_its_head(tmp_path, monkeypatch):
    acquire("store", tmp_path)
    job = start_job(lock_paths("store", tmp_path)[1], monkeypatch, seconds=600)
    assert job.poll() is None
    head_lock._forget()
    assert job.wait(timeout=60) == -signal.SIGTERM
    job.communicate()


def test_slurm_jobs_do_not_watch_the_head(monkeypatch):
    monkeypatch.setattr(os, "environ", {"PSIBENCH_HEAD_LOCK": "head.lock"})
    set_environment("store")
    assert "PSIBENCH_HEAD_LOCK" not in os.environ


def test_a_job_imports_nothing_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    set_environment("store")
    (tmp_path / "yaml.py").write_text("open('owned', 'w').close()\n")
    job = [sys.executable, "-m", "snakemake", "--version"]  # as a SLURM job starts
    subprocess.run(job, cwd=tmp_path, env=os.environ, check=True, capture_output=True)
    assert not (tmp_path / "owned").exists()
