"""The embedded default through SLURM: `make slurm-test FULL=1`, 36 minutes on two cores."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_project import TABLE, SlurmProject, as_users_do, see_same_table
from workflow_project import ENVIRONMENT, REPOSITORY

HOURS = 3


@pytest.mark.timeout(HOURS * 3600)
def test_the_default_on_slurm_has_the_table_of_a_local_run(
    slurm: None, tmp_path: Path, note: Callable[[str], None]
) -> None:
    local = [sys.executable, "-m", "snakemake", TABLE, "--profile", "profiles/local", "--quiet"]
    subprocess.run(local, check=True, cwd=REPOSITORY, env=ENVIRONMENT)

    project = SlurmProject(tmp_path)
    started = time.monotonic()
    head = project.run_head(as_users_do(project, TABLE), REPOSITORY)
    try:
        head.finish(seconds=HOURS * 3600)
    finally:
        project.end_heads()
    minutes = (time.monotonic() - started) / 60
    facts = [job.facts() for job in head.jobs()]
    assert {fact["JobState"] for fact in facts} == {"COMPLETED"}
    asked = Counter(fact["Partition"] for fact in facts)
    lines = [
        (path.relative_to(project.folder / "logs"), line.split("INFO ", 1)[-1])
        for path in sorted(project.folder.glob("logs/*/encode/*/*.log"))
        for line in path.read_text().splitlines()
        if "CUDA_VISIBLE_DEVICES" in line
    ]
    assert lines
    assert all("partition gpu" in line and "DEVICES=0" in line for _, line in lines)
    see_same_table(project.folder, REPOSITORY)
    counted = ", ".join(f"{n} on {name}" for name, n in sorted(asked.items()))
    note(f"the embedded default: {asked.total()} jobs in {minutes:.0f} min, {counted}; same: yes")
    for path, line in (lines[0], lines[-1]):
        note(f"  {path}: {line}")
