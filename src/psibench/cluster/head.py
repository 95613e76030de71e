"""What a head process does before it starts jobs."""

import os
from pathlib import Path

from psibench.cluster.head_lock import HEAD_VARIABLE, acquire, lock_paths, refuse_running_jobs
from psibench.cluster.orphans import refuse_orphans


def start_head(store: str | Path, workdir: str | Path, *, executor: str) -> None:
    """Lock the store and the working directory, and look for jobs left by another head.

    Jobs that this process runs itself, not SLURM, end when its lock does.

    Parameters
    ----------
    executor
        Name of snakemake's executor plugin.

    Raises
    ------
    InputError
        If another head is at work, or jobs of an earlier one are active.
    """
    acquire(store, workdir)
    if executor == "slurm":
        refuse_orphans(workdir)
    refuse_running_jobs(Path(workdir) / store)
    os.environ[HEAD_VARIABLE] = str(lock_paths(store, workdir)[1])
