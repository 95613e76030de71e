"""Jobs of a run whose head process is gone: nobody waits for them.

SLURM runs its jobs on. Those on the head's own machine end with it, once what is under way is
stored.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from psibench.cluster.head_lock import running_jobs
from psibench.errors import InputError

PROCESS = "process"
"""State of a job that is none of SLURM's; its id is HOST:PID."""
FIELDS = ("%i", "%T", "%j", "%M", "%k", "%Z")
"""squeue's formats: job, state, name, time used, comment, working directory."""
SEPARATOR, NO_COMMENT = "\x1f", "(null)"
RUN_NAME = re.compile(r"(?:[A-Za-z0-9_-]+_)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""snakemake-executor-plugin-slurm 2.8 names the jobs of a run by a uuid, behind a prefix if one is
set (its ``run_uuid``)."""
CANCEL_S = 120
"""How long cancelled jobs may take to end."""
LOOK_S = 1.0


@dataclass(frozen=True)
class Job:
    """An active job, as squeue or its lock tells of it."""

    id: str
    state: str
    name: str
    time: str
    rule: str
    """Rule and wildcards, as the comment has them; "" where the cluster keeps no comments. Of a
    process, its log."""
    folder: str


def jobs_of(folder: str | Path) -> list[Job]:
    """List this user's active jobs that snakemake started in a working directory.

    Raises InputError if there is no squeue, or it fails.
    """
    wanted = os.path.realpath(folder)
    output = _run("squeue", "--noheader", f"--user={os.getuid()}", "-o", SEPARATOR.join(FIELDS))
    lines = (line.split(SEPARATOR) for line in output.splitlines() if line.strip())
    rows = [[field.strip() for field in line] for line in lines if len(line) == len(FIELDS)]
    jobs = (Job(*("" if field == NO_COMMENT else field for field in row)) for row in rows)
    return [
        job
        for job in jobs
        if RUN_NAME.fullmatch(job.name) and os.path.realpath(job.folder) == wanted
    ]


def active_jobs(folder: str | Path, store: str | Path) -> list[Job]:
    """List this user's jobs of SLURM, where there is one, and the processes that hold a job's lock.

    Raises InputError if squeue fails.
    """
    has_slurm = sees_slurm()
    wanted = os.path.realpath(folder)
    processes = [
        Job(f"{job.host}:{job.pid}", PROCESS, "", job.started, job.name, job.folder)
        for job in running_jobs(store)
        if job.folder == wanted and not (has_slurm and job.slurm_job)
    ]
    return [*(jobs_of(folder) if has_slurm else []), *processes]


def sees_slurm() -> bool:
    """Say whether SLURM's jobs can be listed on this machine."""
    return shutil.which("squeue") is not None


def cancel(jobs: Sequence[Job], *, folder: str | Path, store: str | Path) -> list[Job]:
    """Cancel jobs and wait until they have ended; return those that have not.

    Raises InputError if scancel or squeue fails, or a process is on another host; then nothing is
    cancelled.
    """
    processes = [job.id.rpartition(":") for job in jobs if job.state == PROCESS]
    if elsewhere := [one for one in processes if one[0] != socket.gethostname()]:
        named = ", ".join(f"`kill {pid}` on {host}" for host, _, pid in elsewhere)
        raise InputError(f"jobs in {folder} are processes of another host; end them there: {named}")
    for _, _, pid in processes:
        with suppress(ProcessLookupError):  # it has ended since
            os.kill(int(pid), signal.SIGTERM)
    if numbers := [job.id for job in jobs if job.state != PROCESS]:
        _run("scancel", *numbers)
    deadline = time.monotonic() + CANCEL_S
    ids = {_array(job.id) for job in jobs}
    while left := [job for job in active_jobs(folder, store) if _array(job.id) in ids]:
        if time.monotonic() > deadline:
            return left
        time.sleep(LOOK_S)
    return []


def refuse_orphans(folder: str | Path) -> None:
    """Refuse to start a run where jobs of an earlier one are active.

    Raises InputError if there are any, or squeue fails.
    """
    jobs = jobs_of(folder)
    if not jobs:
        return
    named = ", ".join(f"{job.id} ({job.rule or job.state})" for job in jobs[:5])
    more = f" and {len(jobs) - 5} more" if len(jobs) > 5 else ""
    raise InputError(
        f"{folder}: SLURM jobs of an earlier run are still active, {len(jobs)} in all: "
        f"{named}{more}. Both runs would write the same files. Wait for them (what they make is "
        "kept), or end them with `psibench orphans --cancel`; then start again."
    )


def _array(job: str) -> str:
    """Return a job's number without the tasks of an array that it stands for."""
    return job.partition("_")[0]


def _run(command: str, *arguments: str) -> str:
    path = shutil.which(command)
    if path is None:
        raise InputError(
            f"no {command} on this machine: run this where jobs are submitted to SLURM"
        )
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(f"{command} does not answer; is SLURM's controller up?") from error
    if done.returncode != 0:
        raise InputError(
            f"{command} failed ({done.stderr.strip() or done.returncode}); is SLURM's controller "
            "up? Try again"
        )
    return done.stdout
