"""Locks that allow one head process per store and per working directory; local jobs end with it.

The head is the snakemake that starts jobs. It holds a lock on a file in the store and on one in
the working directory until it ends; the kernel releases them even if it is killed. Processes that
it starts do not inherit the locks, but its local jobs watch the second one. Across hosts the locks
work if the file system has flock: NFS does (since Linux 2.6.12), Lustre if mounted with `flock`.
"""

import errno
import fcntl
import getpass
import logging
import os
import signal
import socket
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from psibench.config.paths import STORE_LOCK
from psibench.errors import InputError

FOLDER_LOCK = Path(".snakemake") / "psibench-head.lock"
HEAD_VARIABLE = "PSIBENCH_HEAD_LOCK"
"""Environment variable with the head's lock file; not set for jobs that outlive the head."""
UNSUPPORTED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)
TRIES, PAUSE_S = 5, 0.1
"""Number of attempts and pause between them: a check of a lock holds it for a moment."""

logger = logging.getLogger("psibench")

_held: dict[Path, int] = {}
"""Locks of this process: path -> file descriptor."""


def acquire(store: str | Path, workdir: str | Path) -> None:
    """Lock a store and a working directory until this process ends.

    On a file system without flock, only logs a warning.

    Raises InputError if another head holds one of the locks, or a lock file cannot be written; then
    neither is held.
    """
    locked = []
    try:
        for path in lock_paths(store, workdir):
            if path not in _held:
                _held[path] = _lock(path, workdir)
                locked.append(path)
    except InputError:
        for path in locked:
            os.close(_held.pop(path))
        raise


def lock_paths(store: str | Path, workdir: str | Path) -> tuple[Path, Path]:
    """Return the two files that a head locks, in the store and in the working directory."""
    folder = Path(workdir).resolve()
    return (folder / store).resolve() / STORE_LOCK, folder / FOLDER_LOCK


def end_jobs() -> None:
    """Stop the local jobs by releasing the lock that they watch; they store finished work first.

    Keeps the lock of the store, so that no other head starts before they end.
    """
    for path in [path for path in _held if path.name == FOLDER_LOCK.name]:
        os.close(_held.pop(path))


def end_with_head() -> None:
    """Send this process SIGTERM when its head ends, even if the head is killed.

    A thread waits for the head's lock. Does nothing without a head, or without locks of the file
    system.
    """
    if path := os.environ.get(HEAD_VARIABLE):
        threading.Thread(target=_await_end, args=(path,), daemon=True).start()


def _await_end(path: str) -> None:
    try:
        with open(path, encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
    except OSError as error:
        logger.info("%s: cannot watch the head process (%s)", path, error.strerror)
        return
    logger.warning("the snakemake that runs this job has ended or was stopped: this job stops")
    os.kill(os.getpid(), signal.SIGTERM)


def _lock(path: Path, workdir: str | Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}); a run locks its store and its folder, "
            "so both must be writable"
        ) from error
    try:
        _take(handle, path)
    except InputError:
        os.close(handle)
        raise
    number = os.environ.get("SLURM_JOB_ID")
    holder = (
        f"snakemake of {_user()} on {socket.gethostname()}, "
        f"{f'SLURM job {number}, ' if number else ''}process {os.getpid()}, "
        f"in {Path(workdir).resolve()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S UTC}"
    )
    os.ftruncate(handle, 0)
    os.pwrite(handle, holder.encode(), 0)
    return handle


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in containers, a user id may have no passwd entry
        return f"user {os.getuid()}"


def _take(handle: int, path: Path) -> None:
    """Lock a file if the file system has locks; raise InputError if another process holds it."""
    for left in reversed(range(TRIES)):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if left:
                time.sleep(PAUSE_S)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise InputError(f"{path}: cannot be locked ({error.strerror})") from error
            logger.warning(
                "%s: the file system has no locks (%s); make sure that no two runs use the same "
                "store or folder",
                *(path, error.strerror),
            )
            return
    locked = "this store" if path.name == STORE_LOCK else "this folder"
    raise InputError(
        f"another run uses {locked} ({path.parent}): {_read(handle)}. Two runs would write the "
        "same files. Wait for the other run, or `kill` its process, which releases the lock. A run "
        "in another folder with another `store` can run at the same time."
    )


def _read(handle: int) -> str:
    """Return the description of the process that holds a lock."""
    return os.pread(handle, 4096, 0).decode(errors="replace") or "an unknown process"


def _forget() -> None:
    """Close the lock files in a forked process; its parent keeps the locks."""
    for handle in _held.values():
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_forget)
