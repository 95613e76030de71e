"""A run gives the same table after each fault of a cluster."""

import os
import re
import signal
import time
from pathlib import Path

import pytest
from slurm_jobs import slurm_command, wait_until
from slurm_project import ENCODINGS, ON_CPU, SlurmProject

URGENT = [
    "sbatch",
    "--parsable",
    "--partition=urgent",
    "--gpus=1",
    "--output=/dev/null",
    "--wrap=true",
]
LIMIT = 3
"""Time limit in minutes, enough for a loaded machine to start a job and store a first part. A job
checks its limit between parts, and ends 20 s before it."""


@pytest.mark.parametrize("state", ["CANCELLED", "FAILED"])
def test_a_job_that_ends_early_is_resubmitted_and_resumes(
    unencoded: SlurmProject, reference: Path, state: str
) -> None:
    head = unencoded.start(ENCODINGS)
    with unencoded.stopped(n_parts=2) as payload:
        if state == "CANCELLED":
            slurm_command("scancel", head.job(1).number)
        else:
            os.kill(payload, signal.SIGKILL)
        head.job(1).wait_for(state)
    head.finish()
    assert [job.state for job in head.jobs()] == [state, "COMPLETED"]
    unencoded.resumed()
    unencoded.ends_in(reference)


def test_a_preempted_job_is_requeued_and_resumes(unencoded: SlurmProject, reference: Path) -> None:
    head = unencoded.start(ENCODINGS, encode={"slurm_partition": "spare"})
    with unencoded.stopped(n_parts=2):
        urgent = slurm_command(*URGENT).strip()
        wait_until(lambda: head.job(1).facts()["Restarts"] != "0", "the job was requeued")
    head.finish()
    assert len(head.jobs()) == 1, "snakemake submitted the job again"
    facts = head.job(1).facts()
    assert (facts["JobState"], facts["Restarts"]) == ("COMPLETED", "1")
    assert slurm_command("squeue", "-h", "-j", urgent, "-t", "all", "-o", "%T") == ("COMPLETED\n")
    unencoded.resumed()
    unencoded.ends_in(reference)


def test_a_job_stops_before_its_time_limit_and_resumes(
    unencoded: SlurmProject, reference: Path
) -> None:
    runtime = f"{LIMIT} if attempt == 1 else 30"
    head = unencoded.start(ENCODINGS, encode=ON_CPU | {"runtime": runtime})
    job = head.job(1)
    job.wait_for("RUNNING")
    started = time.monotonic()
    with unencoded.stopped(n_parts=1):
        time.sleep(max(0, 60 * LIMIT - 19 - (time.monotonic() - started)))
    job.wait_for("FAILED")
    taken = time.monotonic() - started
    head.finish()
    assert "psibench: stopped: the job's time limit is" in unencoded.job_log(job)
    assert taken < 60 * LIMIT, "SLURM had to end the job"
    limits = [each.facts()["TimeLimit"] for each in head.jobs()]
    assert limits == [f"00:{LIMIT:02}:00", "00:30:00"]
    assert [each.state for each in head.jobs()] == ["FAILED", "COMPLETED"]
    unencoded.resumed()
    unencoded.ends_in(reference)


def test_a_job_out_of_memory_requests_more(unencoded: SlurmProject, reference: Path) -> None:
    head = unencoded.start(ENCODINGS, encode=ON_CPU | {"mem_mb": "250 * 12 ** (attempt - 1)"})
    asked = [head.job(1).facts()["MinMemoryNode"]]
    state = head.job(1).wait_for("FAILED", "OUT_OF_MEMORY", "CANCELLED")
    asked.append(head.job(2).facts()["MinMemoryNode"])
    head.finish()
    assert asked == ["250M", "3000M"]
    assert [job.state for job in head.jobs()] == [state, "COMPLETED"]
    log = unencoded.job_log(head.job(1))
    assert re.search("exceeded memory limit|oom|Exceeded job memory limit", log), log
    unencoded.ends_in(reference)
