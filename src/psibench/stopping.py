"""The early end of a job on a signal or near its time limit.

Batch systems send SIGTERM at the time limit and on preemption, and SIGUSR1 before it with the
option ``--signal``. A job then ends between two batches, with its finished work in the store and
exit code 75 (EX_TEMPFAIL of sysexits.h: try again). The next run continues from there.
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
"""Least time before the time limit, for leaving Python and copying results."""
SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class Stopped(Exception):  # noqa: N818 - not an error
    """The job ends early on purpose; its finished work is stored."""


class Stop:
    """The reasons to end a job: a signal, or the time limit.

    Parameters
    ----------
    end_time
        Time limit of the job, seconds since the epoch; None if unknown.
    """

    def __init__(self, end_time: float | None = None) -> None:
        self._end_time = end_time
        self._signal: str | None = None

    def receive(self, number: int, *_: object) -> None:
        """Signal handler that records the signal."""
        self._signal = self._signal or signal.Signals(number).name

    def check(self, needed_s: float = 0.0) -> None:
        """Raise `Stopped` if the job should end now.

        Parameters
        ----------
        needed_s
            Time that the next step may take, with storing.

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
    """Raise `Stopped` in the main thread on SIGTERM, SIGUSR1 and Ctrl-C within the block.

    Within `watched_stop` the next check raises it instead.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    process = os.getpid()

    def stop(number: int, *_: object) -> None:
        if os.getpid() != process:  # a forked process ends as usual
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        raise Stopped(f"{signal.Signals(number).name} received")

    handlers = {number: signal.signal(number, stop) for number in SIGNALS}
    # The terminal sends Ctrl-C to all processes; as SIGTERM it ends a job between two batches.
    # Background processes of a script ignore Ctrl-C.
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

    Restores the previous handlers. Signals reach only the main thread; in other threads only the
    time limit counts.
    """
    stop = Stop(job_end_time())
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop.receive) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def job_end_time() -> float | None:
    """Return the time limit of this SLURM job, seconds since the epoch; None outside SLURM.

    Reads SLURM_JOB_END_TIME, or asks squeue if it is not set (e.g. SLURM 22.05).
    """
    text = os.environ.get("SLURM_JOB_END_TIME", "")
    if (end := whole_number(text)) is not None:
        return float(end)
    number = os.environ.get("SLURM_JOB_ID")
    return _end_time_of_squeue(number) if number else None


def _end_time_of_squeue(number: str) -> float | None:
    """Return the time limit from squeue; None without a limit, or without squeue on the node."""
    try:
        answer = subprocess.run(
            ["squeue", "-h", "-j", number, "-o", "%e"],
            capture_output=True, text=True, timeout=30, check=True,
        ).stdout.strip()  # fmt: skip
        return datetime.fromisoformat(answer).timestamp()
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        logger.info("the time limit of job %s is unknown (%s)", number, error)
        return None
