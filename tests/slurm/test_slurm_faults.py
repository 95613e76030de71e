"""What clusters do to jobs: each fault happens, and the same table comes out."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from slurm_jobs import slurm_command, wait_until
from slurm_project import (
    ENCODINGS,
    SlurmProject,
)

Note = Callable[[str], None]
URGENT = [
    "sbatch",
    "--parsable",
    "--partition=gpu",
    "--gpus=1",
    "--output=/dev/null",
    "--wrap=true",
]


def test_a_cancelled_job_is_submitted_again_and_resumes(
    unencoded: SlurmProject, reference: Path, note: Note
) -> None:
    head = unencoded.start(ENCODINGS)
    stored = unencoded.wait_for_parts()
    slurm_command("scancel", head.job(1).number)
    head.job(1).wait_for("CANCELLED")
    head.finish()
    assert [job.state for job in head.jobs()] == ["CANCELLED", "COMPLETED"]
    assert "SLURM status is: 'CANCELLED'" in head.text
    said = unencoded.resumed(stored)
    unencoded.ends_in(reference)
    note(f"scancel of a running job: CANCELLED, retried, COMPLETED; {said}; same table: yes")


def test_a_killed_payload_is_run_again_and_resumes(
    unencoded: SlurmProject, reference: Path, note: Note
) -> None:
    head = unencoded.start(ENCODINGS)
    stored = unencoded.wait_for_parts()
    os.kill(unencoded.payload(), signal.SIGKILL)
    head.job(1).wait_for("FAILED")
    head.finish()
    assert [job.state for job in head.jobs()] == ["FAILED", "COMPLETED"]
    said = unencoded.resumed(stored)
    unencoded.ends_in(reference)
    note(f"kill -9 of the payload: FAILED, retried, COMPLETED; {said}; same table: yes")


def test_a_preempted_job_is_requeued_and_resumes(
    unencoded: SlurmProject, reference: Path, note: Note
) -> None:
    head = unencoded.start(ENCODINGS, encode={"slurm_partition": "spare"})
    stored = unencoded.wait_for_parts()
    with unencoded.paused():
        urgent = slurm_command(*URGENT).strip()
        wait_until(lambda: head.job(1).facts()["Restarts"] != "0", "the job was requeued")
    head.finish()
    assert len(head.jobs()) == 1, "snakemake did not have to submit it again"
    facts = head.job(1).facts()
    # Jobs of tests beside this one may preempt it, too: on a slow machine more than once.
    assert (facts["JobState"], int(facts["Restarts"]) >= 1) == ("COMPLETED", True)
    assert slurm_command("squeue", "-h", "-j", urgent, "-t", "all", "-o", "%T") == ("COMPLETED\n")
    said = unencoded.resumed(stored)
    unencoded.ends_in(reference)
    note(f"preemption: requeued by SLURM as the same job, COMPLETED; {said}; same table: yes")
