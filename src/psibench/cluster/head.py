"""What a head process does before it starts jobs, and what these find in their environment."""

import logging
import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from psibench.cluster.head_lock import (
    HEAD_VARIABLE,
    acquire,
    end_jobs,
    lock_paths,
)
from psibench.config.paths import IS_INSTALLED
from psibench.errors import InputError
from psibench.models.manifests import FOLDER_VARIABLE

SOURCE = Path(__file__).resolve().parents[2]
RUN_NAME = re.compile(r"(?:[A-Za-z0-9_-]+_)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""snakemake-executor-plugin-slurm 2.8 names the jobs of a run by a uuid, behind a prefix if one is
set (its ``run_uuid``)."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_stopped_by: list[signal.Signals] = []


def set_environment(store: str | Path) -> None:
    """Say where downloaded checkpoints and psibench itself are.

    In an environment of ``--sdm conda`` psibench is not installed: the folder of a checkout goes
    before what PYTHONPATH has. Beside an installed one is all that is installed with it, which must
    not come before an environment's own; Snakemake lets its scripts look there last.
    """
    if not IS_INSTALLED:
        others = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
        os.environ["PYTHONPATH"] = os.pathsep.join(
            dict.fromkeys([str(SOURCE), *others])  # a job's own snakemake comes here, too
        )
    # Of a head, for jobs that it runs itself; a job of SLURM outlives the head and has its own
    # snakemake, which comes here.
    os.environ.pop(HEAD_VARIABLE, None)
    os.environ[FOLDER_VARIABLE] = str(Path(store).absolute() / "checkpoints")
    # A job is `python -m snakemake`, which would import a yaml.py of the working directory.
    os.environ["PYTHONSAFEPATH"] = "1"
    # Bars of libraries; jobs tell their progress in lines (psibench.progress).
    os.environ.setdefault("TQDM_DISABLE", "1")


def start_head(store: str | Path, workdir: str | Path, *, executor: str) -> None:
    """Lock the store and the working directory, and look for SLURM jobs left by another head.

    Jobs that this process runs itself, not SLURM, end when its lock does.

    Raises InputError if another head is at work, or SLURM has jobs of an earlier one.

    Parameters
    ----------
    executor
        Name of snakemake's executor plugin.
    """
    acquire(store, workdir)
    if executor == "slurm":
        refuse_queued_jobs(workdir)
    os.environ[HEAD_VARIABLE] = str(lock_paths(store, workdir)[1])


def stop_on_signals() -> None:
    """Let SIGTERM and Ctrl-C end this head's run in order, from the main thread.

    A signal that is ignored stays so: a script starts what it runs in the background like that.
    """
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def stop_signal() -> signal.Signals | None:
    """Return the signal that told this head to end its run, if one did."""
    return next(iter(_stopped_by), None)


def _stop(number: int, *_: object) -> NoReturn:
    """End the run on SIGTERM as on Ctrl-C, and tell its jobs to end; a handler.

    Snakemake's own handler of SIGTERM waits for all running jobs, and takes a lock that its
    scheduler may hold in the same thread: then it waits for ever. KeyboardInterrupt, which the
    scheduler catches, makes it cancel jobs on a cluster; `end_jobs` reaches those on this machine.
    """
    _stopped_by.append(signal.Signals(number))
    for one in STOP_SIGNALS:
        signal.signal(one, signal.SIG_DFL)
    told = (
        f"psibench: {_stopped_by[0].name} received. The jobs end once what is under way is stored; "
        "then the same command goes on from there. A second signal ends this process at once.\n"
    )
    with suppress(OSError):  # no print: the signal may have come within one
        os.write(2, told.encode())
    # What Snakemake says of jobs that were told to end reads as if they had failed.
    logging.disable(logging.CRITICAL)
    end_jobs()
    raise KeyboardInterrupt


def refuse_queued_jobs(folder: str | Path) -> None:
    """Refuse to start where SLURM has jobs of an earlier run in a working directory.

    Raises InputError if there are any, or squeue fails.
    """
    command = ["squeue", "--noheader", f"--user={os.getuid()}", "-o", "%i\x1f%j\x1f%Z"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except FileNotFoundError as error:
        raise InputError(
            "SLURM is not installed on this machine: no squeue is on PATH. Run where jobs are "
            "submitted, or without `--profile slurm`"
        ) from error
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or error
        raise InputError(f"squeue failed ({said}); is SLURM's controller up? Try again") from error
    wanted = os.path.realpath(folder)
    rows = [[part.strip() for part in line.split("\x1f")] for line in listed.stdout.splitlines()]
    jobs = [
        number
        for number, name, place in rows
        if RUN_NAME.fullmatch(name) and os.path.realpath(place) == wanted
    ]
    if jobs:
        raise InputError(
            f"{folder}: SLURM jobs of an earlier run are still active, {len(jobs)} in all. Both "
            "runs would write the same files. Wait for them (what they make is kept), or end them, "
            f"then start again: scancel {' '.join(jobs)}"
        )
