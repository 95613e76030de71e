"""SLURM jobs, and the snakemake processes that submit them."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workflow_project import ENVIRONMENT

SUBMITTED = re.compile(r"submitted with SLURM jobid (\d+)")
FINAL = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "PREEMPTED", "NODE_FAIL"}


def wait_until(
    seen: Callable[[], Any], what: str, *, seconds: float = 400, every: float = 0.05
) -> Any:
    """Wait until ``seen`` returns a true value, and return it; AssertionError after ``seconds``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := seen():
            return found
        time.sleep(every)
    raise AssertionError(f"not seen within {seconds:.0f} s: {what}")


def slurm_command(*command: str) -> str:
    """Run a SLURM command and return its output."""
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


class Job:
    """A SLURM job."""

    def __init__(self, number: str) -> None:
        self.number = number

    def facts(self) -> dict[str, str]:
        """The output of `scontrol show job`, by key."""
        line = slurm_command("scontrol", "--oneliner", "show", "job", self.number)
        return dict(part.split("=", 1) for part in line.split() if "=" in part)

    @property
    def state(self) -> str:
        return self.facts()["JobState"]

    def wait_for(self, *states: str, seconds: float = 400) -> str:
        """Wait for one of ``states``; AssertionError if the job ends in another one."""

        def reached() -> str | None:
            state = self.state
            assert state in states or state not in FINAL, f"job {self.number} is {state}"
            return state if state in states else None

        return str(wait_until(reached, f"job {self.number} in {states}", seconds=seconds))


class Head:
    """A snakemake process that submits jobs."""

    def __init__(self, folder: Path, command: list[str], cwd: Path) -> None:
        self.log = folder / f"head-{time.monotonic_ns()}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                env=ENVIRONMENT | os.environ,
                cwd=cwd,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        return self.log.read_text()

    def jobs(self) -> list[Job]:
        return [Job(number) for number in SUBMITTED.findall(self.text)]

    def job(self, number: int = 1, *, seconds: float = 300) -> Job:
        """Wait for its ``number``-th submitted job, from 1."""

        def submitted() -> Job | None:
            if self.process.poll() is not None and len(self.jobs()) < number:
                raise AssertionError(f"it ended before job {number}:\n{self.text[-4000:]}")
            return self.jobs()[number - 1] if len(self.jobs()) >= number else None

        found = wait_until(submitted, f"job {number} submitted", seconds=seconds)
        assert isinstance(found, Job)
        return found

    def finish(self, *, seconds: float = 2000) -> None:
        """Wait for the end of the process, with exit code 0."""
        status = self.process.wait(timeout=seconds)
        assert status == 0, f"ended with {status}:\n{self.text[-4000:]}"

    def fail(self, *, seconds: float = 200) -> str:
        """Wait for the end of the process, with another exit code; return its output."""
        status = self.process.wait(timeout=seconds)
        assert status not in (0, None), self.text[-4000:]
        return self.text

    def kill(self) -> None:
        """Kill only the head process, as the housekeeping of a login node does."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
