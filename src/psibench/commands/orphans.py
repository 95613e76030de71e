"""`psibench orphans`: jobs that a head process left behind."""

import argparse
from pathlib import Path

from psibench.commands.base import Command
from psibench.commands.text_table import aligned
from psibench.errors import InputError

ADVICE = "Wait for them before you start again, or end them with `psibench orphans --cancel`."
HEADINGS = ("job", "state", "time", "rule")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder and whether to cancel."""
    parser.add_argument(
        "--folder", type=Path, default=Path(), help="working directory of the run (default: .)"
    )
    parser.add_argument(
        "--store", type=Path, default=Path("store"), help="its store (default: store in there)"
    )
    parser.add_argument("--cancel", action="store_true", help="cancel them, and wait for their end")
    parser.add_argument(
        "--force",
        action="store_true",
        help="cancel even where it cannot be told whether their head lives (a file system "
        "without flock)",
    )


def run_orphans(args: argparse.Namespace) -> None:
    """List the jobs of a run whose head is gone; with --cancel, end them."""
    from psibench.cluster.head_lock import UnknownHolderError, holder, lock_paths
    from psibench.cluster.orphans import active_jobs, cancel, sees_slurm

    folder = args.folder.resolve()
    if not folder.is_dir():
        raise InputError(f"--folder {args.folder}: no such folder; give a run's working directory")
    store = folder / args.store
    jobs = active_jobs(folder, store)
    head, doubt = None, ""
    try:
        head = holder(lock_paths(".", folder)[1])
    except UnknownHolderError as error:
        last = f"The last one here was {error.last}. " if error.last else ""
        doubt = (
            f"{error}: it cannot be told whether the head process of these jobs is alive. {last}"
            "See to it yourself that it is gone, e.g. with `ps` on the machine it was started on."
        )
    if head is not None:
        if args.cancel:
            raise InputError(
                f"jobs in {folder} belong to a run that is going on: {head}. End that "
                "first; it cancels its jobs itself when it is interrupted (Ctrl-C)."
            )
        print(f"No orphans in {folder}: its jobs ({len(jobs)}) belong to {head}.")
        return
    if not jobs:
        unseen = "" if sees_slurm() else " No squeue on this machine: of SLURM nothing is known."
        print(f"No orphans in {folder}.{unseen}")
        return
    rows = [(job.id, job.state, job.time, job.rule or "-") for job in jobs]
    print("\n".join(aligned([HEADINGS, *rows], n_text=2)))
    if not args.cancel:
        print(f"{doubt or 'Their head process is gone.'} {ADVICE}")
        return
    if doubt and not args.force:
        raise InputError(f"{doubt} Nothing is cancelled. If none runs, add --force.")
    if left := cancel(jobs, folder=folder, store=store):
        raise InputError(
            f"jobs {', '.join(job.id for job in left)} are cancelled and have not ended yet; look "
            "again with `psibench orphans`"
        )
    print(
        f"Cancelled: {len(jobs)}. Start again. If snakemake then says that the folder is "
        "locked, give the same command with `--unlock` once."
    )


COMMAND = Command(
    description="List active jobs of a run in this folder whose head process (the snakemake that "
    "started them) is gone: this user's SLURM jobs, e.g. after a reboot of the login node, and "
    "processes. They would write the same files as a new run: wait for them, or cancel them.",
    add_arguments=add_arguments,
    run=run_orphans,
)
