"""Too little memory, and a node that is taken out: the same table comes out."""

import re
import time
from collections.abc import Callable
from pathlib import Path

from slurm_jobs import slurm_command
from slurm_project import ENCODINGS, ON_CPU, SlurmProject

Note = Callable[[str], None]


def test_a_job_out_of_memory_asks_for_more(
    unencoded: SlurmProject, reference: Path, note: Note
) -> None:
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
    note(f"memory limit: {state} with --mem {asked[0]}, again with {asked[1]}; same table: yes")


def test_jobs_wait_while_the_node_is_drained(
    unencoded: SlurmProject, reference: Path, note: Note
) -> None:
    name = slurm_command("sinfo", "-h", "-o", "%n").strip()
    slurm_command("scontrol", "update", f"nodename={name}", "state=drain", "reason=test")
    try:
        head = unencoded.start(ENCODINGS, encode=ON_CPU)
        job = head.job(1)
        time.sleep(3)
        facts = job.facts()
        assert facts["JobState"] == "PENDING"
        drained = slurm_command("sinfo", "-h", "-o", "%T").strip()
    finally:
        slurm_command("scontrol", "update", f"nodename={name}", "state=resume")
    head.finish()
    assert [job.state for job in head.jobs()] == ["COMPLETED"]
    unencoded.ends_in(reference)
    note(
        f"node {drained} while a job was pending ({facts['Reason']}), resumed: "
        "COMPLETED; same table: yes"
    )
