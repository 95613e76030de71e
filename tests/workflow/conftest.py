"""One real run of the tiny project, copied for each test that changes it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from workflow_project import Project, once_per_session, save_checkpoint, tiny_config, write_squad


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The tiny project after a complete run; use ``project`` to change it."""

    def make(folder: Path) -> None:
        write_squad(folder / "squad.json")
        save_checkpoint(folder / "checkpoint")
        project = Project(folder)
        project.write_config(tiny_config())
        project.run()

    return Project(once_per_session(tmp_path_factory, "finished", make))


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    """A copy of the finished project, including metadata and times."""
    copy = tmp_path / "project"
    shutil.copytree(finished.folder, copy, symlinks=True)
    return Project(copy)


@pytest.fixture
def own_repository(project: Project, tmp_path: Path) -> Callable[[], Project]:
    """A function that runs the project with an editable copy of the workflow and the package."""

    def make() -> Project:
        copy = tmp_path / "repository"
        copy.mkdir()
        for name in ("Snakefile", "workflow", "config", "profiles", "envs", "src"):
            source = project.repository / name
            target = copy / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, target)
        # The copy uses the shipped tables of the repository, whose paths are inputs of rules.
        paths = "src/psibench/config/paths.py"
        (copy / paths).unlink()
        (copy / paths).symlink_to(project.repository / paths)
        return Project(project.folder, copy)

    return make
