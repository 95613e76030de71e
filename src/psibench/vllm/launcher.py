"""Run a server so that none of its processes outlives the job.

The job runs ``python -m psibench.vllm.launcher JOB_PID STOP_S COMMAND...`` to start ``vllm serve``.
If a server is killed, vLLM's engine and workers stay alive and keep the GPU (vLLM issues 34643 and
55510), and a killed job cannot stop anything. The launcher leads a session, inherits every process
of the server that loses its parent (``prctl(2)``, PR_SET_CHILD_SUBREAPER), and ends them all on a
signal, when the server ends, or when the job is gone. If the launcher itself is killed, the kernel
kills the server.

Linux only. Exits with the server's status; 128 + N if signal N ended it.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
"""Both from linux/prctl.h."""

LOOK_S = 0.1
"""Interval at which the job and the server are checked."""

ORPHAN_STOP_S = 5.0
"""Longest time to end once the job is gone, because another job may be waiting for the GPU."""

KILL_S = 10.0
"""Longest wait for killed processes; one that hangs in a driver ends later."""


class Launcher:
    """One server, from its start until its last process is gone."""

    def __init__(self, *, job: int, stop_s: float) -> None:
        self._job, self._stop_s = job, stop_s
        self._is_signalled = False
        self._status: int | None = None

    def run(self, command: list[str]) -> int:
        """Run a command; return its exit status once all its processes are gone."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        me = os.getpid()
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, preexec_fn=lambda: _die_with(me)
        )
        while self._status is None and not self._is_signalled and os.getppid() == self._job:
            self._wait(server)
        if self._status is None:  # request all processes to end, and give the server time
            is_orphan = os.getppid() != self._job
            stop_s = min(self._stop_s, ORPHAN_STOP_S) if is_orphan else self._stop_s
            deadline = time.monotonic() + stop_s
            os.killpg(0, signal.SIGTERM)  # also this process, which handles the signal
            while self._status is None and time.monotonic() < deadline:
                self._wait(server)
        deadline = time.monotonic() + KILL_S
        while (left := descendants()) and time.monotonic() < deadline:
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self._wait(server)
        return self._status or 0

    def _on_signal(self, *_: object) -> None:
        self._is_signalled = True

    def _wait(self, server: "subprocess.Popen[bytes]") -> None:
        """Reap children that ended; then wait a moment."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == server.pid:
                    code = os.waitstatus_to_exitcode(ended[1])
                    self._status = server.returncode = code if code >= 0 else 128 - code
            if self._status is None or descendants():
                time.sleep(LOOK_S)


def descendants() -> list[int]:
    """Return the ids of all processes that descend from this one."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, heads = [], [os.getpid()]
    while heads:
        heads = [child for head in heads for child in children.get(head, ())]
        found += heads
    return found


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends. Runs between fork and exec."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the call above
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    rest = [ctypes.c_ulong(number) for number in (value, 0, 0, 0)]
    if ctypes.CDLL(None, use_errno=True).prctl(option, *rest):
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


if __name__ == "__main__":
    job, stop_s, *command = sys.argv[1:]
    try:
        sys.exit(Launcher(job=int(job), stop_s=float(stop_s)).run(command))
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror or error}")
