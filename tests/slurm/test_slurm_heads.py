"""A killed head leaves SLURM jobs behind, and a second head at the same time is refused."""

import os
import re
import subprocess
from pathlib import Path

from slurm_jobs import wait_until
from slurm_project import ENCODINGS, ON_CPU, SlurmProject, make_project


def test_jobs_of_a_killed_head_are_found_and_cancelled(
    unencoded: SlurmProject, reference: Path
) -> None:
    head = unencoded.start(ENCODINGS, encode=ON_CPU)
    with unencoded.stopped(n_parts=2):
        head.kill()
        orphan = head.job(1)
        assert orphan.state == "RUNNING", "the job ended with its head"

        locked = unencoded.start(ENCODINGS, encode=ON_CPU).fail()
        assert "Directory cannot be locked" in locked, locked
        unencoded.run("--unlock")
        refused = unencoded.start(ENCODINGS, encode=ON_CPU).fail()
        assert "SLURM jobs of an earlier run" in refused, refused
        assert orphan.number in refused
        subprocess.run(refused.split("start again: ")[1].splitlines()[0].split(), check=True)
        wait_until(lambda: orphan.state == "CANCELLED" or None, "the orphan's end")

    again = unencoded.start(ENCODINGS, encode=ON_CPU)
    again.finish()
    assert [job.state for job in again.jobs()] == ["COMPLETED"]
    unencoded.resumed()
    unencoded.ends_in(reference)


def test_a_second_head_is_refused_and_the_first_finishes(
    unencoded: SlurmProject, reference: Path, tmp_path: Path
) -> None:
    first = unencoded.start(ENCODINGS, encode=ON_CPU)
    first.job(1)
    with unencoded.stopped():
        same_folder = unencoded.start(ENCODINGS, encode=ON_CPU).fail()
        assert re.search("another run uses this|Directory cannot be locked", same_folder), (
            same_folder
        )

        (tmp_path / "other").mkdir()
        other = make_project(tmp_path / "other")
        store = os.path.relpath(unencoded.folder / "store", other.folder)
        other.write_config(other.read_config() | {"store": store})
        same_store = other.start("results/psi_table.csv").fail()
        assert "another run uses this store" in same_store, same_store
        assert "submitted with" not in same_folder + same_store

    first.finish()
    unencoded.ends_in(reference)
