"""Start and stop of the head process, and the environment of its jobs."""

import logging
import os
import re
import signal
import subprocess
from collections.abc import Mapping
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
"""Matches the job name of a run: snakemake-executor-plugin-slurm 2.8 uses a uuid (``run_uuid``),
with an optional prefix."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_stopped_by: list[signal.Signals] = []


def set_environment(store: str | Path) -> None:
    """Set the variables with which jobs find downloaded checkpoints and psibench.

    The environments of ``--sdm conda`` do not contain psibench, so the folder of a checkout is put
    in front of PYTHONPATH. The folder of an installed psibench is not: it contains other packages,
    which must not override those of the environment. Snakemake adds that folder last itself.
    """
    if not IS_INSTALLED:
        others = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
        os.environ["PYTHONPATH"] = os.pathsep.join(
            dict.fromkeys([str(SOURCE), *others])  # once, as the snakemake of a job also runs this
        )
    # Only local jobs of a head end with it. A SLURM job outlives the head, and its snakemake also
    # runs this function.
    os.environ.pop(HEAD_VARIABLE, None)
    os.environ[FOLDER_VARIABLE] = str(Path(store).absolute() / "checkpoints")
    # A job is `python -m snakemake`, which would import a yaml.py of the working directory.
    os.environ["PYTHONSAFEPATH"] = "1"
    # No progress bars of libraries: jobs log lines instead (psibench.progress).
    os.environ.setdefault("TQDM_DISABLE", "1")


def start_head(store: str | Path, workdir: str | Path, *, executor: str) -> None:
    """Lock the store and the working directory, and refuse if SLURM has jobs of an earlier run.

    The local jobs of this process end when it releases the lock; SLURM jobs continue.

    Raises InputError if another head is running, or SLURM has jobs of an earlier one.

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
    """Make SIGTERM and Ctrl-C end this run cleanly; call in the main thread.

    Ignored signals stay ignored, e.g. SIGINT in a background process of a script.
    """
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def stop_signal() -> signal.Signals | None:
    """Return the signal that stopped this run, if any."""
    return next(iter(_stopped_by), None)


def _stop(number: int, *_: object) -> NoReturn:
    """Handle SIGTERM and SIGINT: stop the local jobs and raise KeyboardInterrupt.

    Snakemake's handler of SIGTERM waits for all running jobs, and can deadlock on a lock that its
    scheduler holds in the same thread. The scheduler catches KeyboardInterrupt and cancels jobs on
    a cluster; `end_jobs` stops jobs on this machine.
    """
    _stopped_by.append(signal.Signals(number))
    for one in STOP_SIGNALS:
        signal.signal(one, signal.SIG_DFL)
    message = (
        f"psibench: received {_stopped_by[0].name}; the jobs store their current work and end. "
        "The same command continues from there. A second signal ends this process at once.\n"
    )
    with suppress(OSError):  # not print, which the signal may have interrupted
        os.write(2, message.encode())
    # Snakemake would report the stopped jobs as failed.
    logging.disable(logging.CRITICAL)
    end_jobs()
    raise KeyboardInterrupt


def refuse_endless_arrays(arrays: str | None, jobs: Mapping[str, int], *, limit: int) -> None:
    """Raise InputError if job arrays would wait for jobs that are never submitted.

    slurm-executor 2.8 drops the ready jobs of an array's rule if further ones are ready that exceed
    the limit `jobs`; Snakemake then waits for the dropped jobs (its issue 473).

    Parameters
    ----------
    arrays
        The setting `slurm-array-jobs`: names of rules, or ``all``; None without arrays.
    jobs
        Number of jobs of this run by rule.
    limit
        Most jobs in the queue at once, the setting `jobs`.
    """
    rules = {name.strip() for name in re.split("[,;]", arrays or "")}
    for rule, n in jobs.items():
        if n > limit and rules & {rule, "all"}:
            raise InputError(
                f"slurm-array-jobs: {arrays}: rule {rule} has {n:,} jobs, and `jobs: {limit}` "
                "allows fewer at once. Snakemake would wait for them without end. Set `jobs` to at "
                f"least {n}, or remove the rule from slurm-array-jobs (docs/slurm.md)"
            )


def refuse_queued_jobs(folder: str | Path) -> None:
    """Raise InputError if SLURM has jobs of an earlier run in a working directory.

    Also raises InputError if squeue is missing or fails.
    """
    command = ["squeue", "--noheader", f"--user={os.getuid()}", "-o", "%i\x1f%j\x1f%Z"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except FileNotFoundError as error:
        raise InputError(
            "SLURM is not installed on this machine: squeue is not on PATH. Run on a login node, "
            "or without `--profile slurm`"
        ) from error
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or error
        raise InputError(
            f"squeue failed ({reason}). Check that SLURM's controller is running, and try again"
        ) from error
    wanted = os.path.realpath(folder)
    rows = [[part.strip() for part in line.split("\x1f")] for line in listed.stdout.splitlines()]
    jobs = [
        number
        for number, name, directory in rows
        if RUN_NAME.fullmatch(name) and os.path.realpath(directory) == wanted
    ]
    if jobs:
        raise InputError(
            f"{folder}: {len(jobs)} SLURM jobs of an earlier run are still active, and both runs "
            "would write the same files. Wait for these jobs (their results are kept) or cancel "
            f"them, then start again: scancel {' '.join(jobs)}"
        )
