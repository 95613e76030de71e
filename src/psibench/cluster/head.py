"""What a head process does before it starts jobs, and what these find in their environment."""

import os
from pathlib import Path

from psibench.cluster.head_lock import (
    HEAD_VARIABLE,
    JOBS,
    JOBS_VARIABLE,
    acquire,
    lock_paths,
    refuse_running_jobs,
)
from psibench.cluster.orphans import refuse_orphans
from psibench.config.paths import IS_INSTALLED
from psibench.models.manifests import FOLDER_VARIABLE
from psibench.models.node_cache import VARIABLE as CACHE_VARIABLE

SOURCE = Path(__file__).resolve().parents[2]


def set_environment(store: str | Path, node_cache: str | None) -> None:
    """Say where downloaded checkpoints and their copies on a node's disk are, and psibench itself.

    In an environment of ``--sdm conda`` psibench is not installed: the folder of a checkout goes
    before what PYTHONPATH has. Beside an installed one is all that is installed with it, which must
    not come before an environment's own; Snakemake lets its scripts look there last.
    """
    if not IS_INSTALLED:
        others = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
        os.environ["PYTHONPATH"] = os.pathsep.join(
            dict.fromkeys([str(SOURCE), *others])  # a job's own snakemake comes here, too
        )
    os.environ[JOBS_VARIABLE] = str(Path(store).absolute() / JOBS)
    # Of a head, for jobs that it runs itself; a job of SLURM outlives the head and has its own
    # snakemake, which comes here.
    os.environ.pop(HEAD_VARIABLE, None)
    os.environ[FOLDER_VARIABLE] = str(Path(store).absolute() / "checkpoints")
    # Bars of libraries; jobs tell their progress in lines (psibench.progress).
    os.environ.setdefault("TQDM_DISABLE", "1")
    if node_cache:
        os.environ[CACHE_VARIABLE] = node_cache


def start_head(store: str | Path, workdir: str | Path, *, executor: str) -> None:
    """Lock the store and the working directory, and look for jobs left by another head.

    Jobs that this process runs itself, not SLURM, end when its lock does.

    Raises InputError if another head is at work, or jobs of an earlier one are active.

    Parameters
    ----------
    executor
        Name of snakemake's executor plugin.
    """
    acquire(store, workdir)
    if executor == "slurm":
        refuse_orphans(workdir)
    refuse_running_jobs(Path(workdir) / store)
    os.environ[HEAD_VARIABLE] = str(lock_paths(store, workdir)[1])
