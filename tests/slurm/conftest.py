"""Tests on a real SLURM, only in `make slurm-test`: they start daemons and take minutes."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from slurm_project import SlurmProject

REPOSITORY = Path(__file__).resolve().parents[2]

collect_ignore_glob = [] if os.environ.get("PSIBENCH_SLURM") else ["test_*.py"]
SECONDS = 900  # tests wait for other tests' jobs, and for snakemake to check the queue


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SECONDS))


@pytest.fixture(scope="session")
def slurm() -> None:
    """The SLURM cluster that `make slurm-test` has started."""
    if "SLURM_CONF" not in os.environ:
        pytest.exit("no SLURM cluster for the tests: use `make slurm-test`", returncode=2)


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small project after a run without SLURM."""
    from slurm_project import TABLE, make_project
    from workflow_project import once_per_session

    def make(folder: Path) -> None:
        make_project(folder).run(TABLE)

    return once_per_session(tmp_path_factory, "reference", make)


@pytest.fixture
def unencoded(slurm: None, reference: Path, tmp_path: Path) -> Iterator["SlurmProject"]:
    """The finished small project without its encodings and everything that depends on them."""
    from slurm_project import SlurmProject

    folder = tmp_path / "project"
    shutil.copytree(reference, folder, symlinks=True)
    for name in ("store", "results/tiny/encodings", "results/psi_table.csv", "logs/tiny/encode"):
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    project = SlurmProject(folder)
    yield project
    project.end_heads()
