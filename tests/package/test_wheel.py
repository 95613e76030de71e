"""The wheel is the whole program: installed outside of the repository, run in an empty folder."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from psibench import __version__
from psibench.config.paths import SHIPPED_FOLDER
from psibench.tables import read_provenance

Run = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(build, cwd=SHIPPED_FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def site_packages(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages of an environment with the wheel, which finds other packages in this Python."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    (found,) = folder.glob("lib/python*/site-packages")
    (found / "others.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    install = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
    install += ["--quiet", "--no-index", "--no-deps", "--ignore-installed", str(wheel)]
    subprocess.run(install, check=True)
    return found


@pytest.fixture
def psibench(site_packages: Path, tmp_path: Path) -> Callable[..., Run]:
    """The installed command, in an empty folder."""
    command = site_packages.parents[2] / "bin" / "psibench"
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    folder = tmp_path / "empty"
    folder.mkdir()

    def run(*arguments: str) -> Run:
        return subprocess.run(
            [str(command), *arguments], capture_output=True, text=True, cwd=folder, env=environment
        )

    return run


def test_it_has_every_shipped_file_and_no_other_package(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("config", "envs", "profiles", "workflow"):
        for path in (SHIPPED_FOLDER / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert f"psibench/shipped/{path.relative_to(SHIPPED_FOLDER)}" in names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"psibench"}


def test_a_config_of_ones_own_is_written_checked_and_planned(
    psibench: Callable[..., Run], tmp_path: Path
) -> None:
    folder = tmp_path / "empty"
    texts = str(SHIPPED_FOLDER / "docs")
    assert psibench("init", "--corpus", texts, "--profile", "slurm").returncode == 0
    done = psibench("run", "--dry-run", "psibench.yaml")
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "benchmark my-docs: known_item" in done.stdout, "checked first"
    assert "Written:" not in done.stdout
    assert re.search(r"(?m)^summaries +1$", said)
    assert not (folder / "results").exists()

    # The copy of the profile is used, and existing files are kept.
    profile = yaml.safe_load((folder / "slurm/config.yaml").read_text())
    (folder / "slurm/config.yaml").write_text(yaml.safe_dump(profile | {"executor": "no-such"}))
    refused = psibench("run", "--profile", "slurm", "--dry-run")
    assert refused.returncode not in (0, None)
    assert "no-such" in refused.stdout + refused.stderr
    again = psibench("init")
    assert again.returncode == 2
    assert "already exists: psibench.yaml" in again.stderr


def test_the_default_is_planned_as_a_whole_and_begun(
    psibench: Callable[..., Run], site_packages: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "empty"
    models = psibench("models")
    assert models.returncode == 0, models.stderr
    assert "all-minilm-l6-v2" in models.stdout
    planned = psibench("run", "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert re.search(r"(?m)^summaries +1$", planned.stdout + planned.stderr)
    assert not (folder / "results").exists()

    table = "results/python-docs/build/eng-Latn/documents.parquet"
    done = psibench("run", "--cores", "1", table)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"Written: {table}\n")
    record = read_provenance(folder / table)
    assert record is not None
    assert record["stage"] == "sample"
    made = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert made <= {"benchmarks", "logs", "results", "store"}
    shipped = site_packages / "psibench" / "shipped"
    assert not list(shipped.rglob(".snakemake*")), "nothing is written beside the workflow"


def test_the_version_is_one_everywhere(wheel: Path) -> None:
    assert wheel.name.startswith(f"psibench_ir-{__version__}-")
    citation = yaml.safe_load((SHIPPED_FOLDER / "CITATION.cff").read_text())
    assert {citation["version"], citation["preferred-citation"]["version"]} == {__version__}
