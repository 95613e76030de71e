"""One head process per store and per working directory; its local jobs end with it.

The head is the snakemake that starts jobs. It holds a lock on a file in the store and on one in
the working directory until it ends; the kernel frees them however it ends. Processes that it
starts do not hold them; its local jobs watch the second one. Across hosts this is as good as the
file system's flock: NFS has it (since Linux 2.6.12), Lustre if mounted with `flock`.
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

from psibench.errors import InputError

STORE_LOCK = "head.lock"
FOLDER_LOCK = Path(".snakemake") / "psibench-head.lock"
HEAD_VARIABLE = "PSIBENCH_HEAD_LOCK"
"""Where a job finds the file that its head keeps locked; not set where the job outlives it."""
UNSUPPORTED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)
TRIES, PAUSE_S = 5, 0.1
"""A check of a lock takes it for a moment: others try again."""

logger = logging.getLogger("psibench")

_held: dict[Path, int] = {}
"""Locked file -> open file, of this process."""


def acquire(store: str | Path, workdir: str | Path) -> None:
    """Hold the locks of a store and a working directory until this process ends.

    On a file system without flock that is logged, and nothing is held.

    Raises InputError if another head holds one of them, or a lock file cannot be written; then none
    is held.
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
    """Return the two files that a head locks: the store's, and the working directory's."""
    folder = Path(workdir).resolve()
    return (folder / store).resolve() / STORE_LOCK, folder / FOLDER_LOCK


def end_jobs() -> None:
    """Let the jobs that this head runs itself end, as if it were gone: they store what they have.

    The lock of the store stays, so that no other head begins before they have ended.
    """
    for path in [path for path in _held if path.name == FOLDER_LOCK.name]:
        os.close(_held.pop(path))


def end_with_head() -> None:
    """Send this process SIGTERM once the head that waits for it is gone, by SIGKILL too.

    A thread waits for the head's lock. Where there is no head, or the file system has no locks,
    nothing is watched.
    """
    if path := os.environ.get(HEAD_VARIABLE):
        threading.Thread(target=_await_end, args=(path,), daemon=True).start()


def _await_end(path: str) -> None:
    try:
        with open(path, encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
    except OSError as error:
        logger.info("%s: whether the head is alive is not known (%s)", path, error.strerror)
        return
    logger.warning("the snakemake that runs this job is gone, or was told to end: the job ends")
    os.kill(os.getpid(), signal.SIGTERM)


def _lock(path: Path, workdir: str | Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}); a run locks its store and its folder"
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
    except (KeyError, OSError):  # containers run with ids that no passwd file has
        return f"user {os.getuid()}"


def _take(handle: int, path: Path) -> None:
    """Lock a file, as far as there are locks; refuse if another process has it."""
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
                "%s: the file system has no locks (%s); see to it yourself that no two runs use "
                "the same store or folder",
                *(path, error.strerror),
            )
            return
    what = "this store" if path.name == STORE_LOCK else "this folder"
    raise InputError(
        f"another run uses {what} ({path.parent}): {_read(handle)}. Two at once would write the "
        "same files. Wait for it, or `kill` its process: the lock goes with it. A run in another "
        "folder with another `store` can go on beside it."
    )


def _read(handle: int) -> str:
    """Return who wrote a lock file."""
    return os.pread(handle, 4096, 0).decode(errors="replace") or "it has not said which"


def _forget() -> None:
    """Close the locks in a forked process: they stay with the one that took them."""
    for handle in _held.values():
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_forget)
