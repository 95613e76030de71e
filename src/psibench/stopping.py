"""The orderly end of a job that was told to end, or whose time is up: it is run again later.

Batch systems send SIGTERM at the time limit and on preemption, and SIGUSR1 before it if asked to
(``--signal``). A job ends between two batches, with what is finished in the store and with the
exit code 75 (EX_TEMPFAIL of sysexits.h: try again); run again, it goes on from there.
"""

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from psibench.reading import whole_number

logger = logging.getLogger("psibench")

STOPPED_STATUS = 75
MARGIN_S = 20.0
"""Seconds kept before the time limit at least: for leaving Python and copying results."""
SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class Stopped(Exception):  # noqa: N818 - no error: the job ends on purpose
    """The job ends before it is done, on purpose; what it finished is stored."""


class Stop:
    """Why a job should end now, if it should.

    Parameters
    ----------
    end_time
        When the batch system ends the job, seconds since the epoch; None: not known.
    """

    def __init__(self, end_time: float | None = None) -> None:
        self._end_time = end_time
        self._signal: str | None = None

    def tell(self, number: int, *_: object) -> None:
        """Remember a signal; a handler."""
        self._signal = self._signal or signal.Signals(number).name

    def check(self, needed_s: float = 0.0) -> None:
        """Let the job go on, or end it.

        Parameters
        ----------
        needed_s
            Seconds that what comes next may take, storing included.

        Raises
        ------
        Stopped
            If a signal came, or the time limit is nearer than ``needed_s`` or ``MARGIN_S``.
        """
        if self._signal is not None:
            raise Stopped(f"{self._signal} received")
        if self._end_time is not None:
            left = self._end_time - time.time()
            if left < max(MARGIN_S, needed_s):
                raise Stopped(f"the job's time limit is {max(0.0, left):.0f} s away")


@contextmanager
def signals_stop_job() -> Iterator[None]:
    """End a job on SIGTERM, SIGUSR1 and Ctrl-C within the block, where nothing watches for them.

    ``Stopped`` is raised where the main thread is; within `watched_stop`, at its next check.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    process = os.getpid()

    def stop(number: int, *_: object) -> None:
        if os.getpid() != process:  # forked from the job: it ends as it would without this
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        raise Stopped(f"{signal.Signals(number).name} received")

    handlers = {number: signal.signal(number, stop) for number in SIGNALS}
    # The terminal sends Ctrl-C to all processes: as SIGTERM it ends a job between two batches. What
    # a script runs in the background ignores it.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        handlers[signal.SIGINT] = signal.signal(
            signal.SIGINT, lambda *_: signal.raise_signal(signal.SIGTERM)
        )
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


@contextmanager
def watched_stop() -> Iterator[Stop]:
    """Watch for SIGTERM, SIGUSR1 and the time limit within the block.

    The handlers found before are put back. Signals reach the main thread alone; in other threads
    only the time limit counts.
    """
    stop = Stop(job_end_time())
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop.tell) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def job_end_time() -> float | None:
    """Return when SLURM ends this job, seconds since the epoch; None outside of one.

    From SLURM_JOB_END_TIME; where SLURM does not set it (22.05 does not), from squeue.
    """
    told = os.environ.get("SLURM_JOB_END_TIME", "")
    if (end := whole_number(told)) is not None:
        return float(end)
    number = os.environ.get("SLURM_JOB_ID")
    return _asked_end_time(number) if number else None


def _asked_end_time(number: str) -> float | None:
    """Ask squeue; None if it cannot say (a job without a limit, no squeue on the node)."""
    try:
        answer = subprocess.run(
            ["squeue", "-h", "-j", number, "-o", "%e"],
            capture_output=True, text=True, timeout=30, check=True,
        ).stdout.strip()  # fmt: skip
        return datetime.fromisoformat(answer).timestamp()
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        logger.info("the end of job %s is not known (%s)", number, error)
        return None
