"""Time limits: a job ends by itself before its limit, or SLURM ends it; both resume."""

import time
from collections.abc import Callable
from pathlib import Path

from slurm_project import ENCODINGS, ON_CPU, SlurmProject

# Minutes a loaded machine may take to start a job and store a first part: a job looks at its limit
# between parts, and ends 20 s before it.
LIMIT = 3


def minutes(first: int) -> dict[str, object]:
    """Ask for so many minutes at first, for thirty after."""
    return ON_CPU | {"runtime": f"{first} if attempt == 1 else 30"}


def test_a_job_stops_before_its_time_limit_and_the_next_goes_on(
    unencoded: SlurmProject, reference: Path, note: Callable[[str], None]
) -> None:
    head = unencoded.start(ENCODINGS, encode=minutes(LIMIT))
    job = head.job(1)
    job.wait_for("RUNNING")
    started = time.monotonic()
    stored = unencoded.wait_for_parts(1)
    with unencoded.paused():
        time.sleep(max(0, 60 * LIMIT - 19 - (time.monotonic() - started)))
    job.wait_for("FAILED")
    taken = time.monotonic() - started
    head.finish()
    assert "psibench: stopped: the job's time limit is" in unencoded.job_log(job)
    assert taken < 60 * LIMIT, "SLURM did not have to end it"
    limits = [each.facts()["TimeLimit"] for each in head.jobs()]
    assert limits == [f"00:{LIMIT:02}:00", "00:30:00"]
    assert [each.state for each in head.jobs()] == ["FAILED", "COMPLETED"]
    said = unencoded.resumed(stored)
    unencoded.ends_in(reference)
    note(
        f"time limit near: stopped by itself after {taken:.0f} s of {60 * LIMIT}, "
        f"retried with {limits[1]}; {said}; same table: yes"
    )


def test_a_job_that_slurm_ends_at_its_time_limit_resumes(
    unencoded: SlurmProject, reference: Path, note: Callable[[str], None]
) -> None:
    head = unencoded.start(ENCODINGS, encode=minutes(LIMIT))
    job = head.job(1)
    stored = unencoded.wait_for_parts(1)
    with unencoded.paused():  # as hung as in a dead file system
        job.wait_for("TIMEOUT")
    head.finish()
    assert [each.state for each in head.jobs()] == ["TIMEOUT", "COMPLETED"]
    limits = [each.facts()["TimeLimit"] for each in head.jobs()]
    assert limits == [f"00:{LIMIT:02}:00", "00:30:00"]
    assert "DUE TO TIME LIMIT" in unencoded.job_log(job)
    said = unencoded.resumed(stored)
    unencoded.ends_in(reference)
    note(
        f"time limit hit by a hung job: TIMEOUT at {limits[0]}, retried with {limits[1]}; "
        f"{said}; same table: yes"
    )
