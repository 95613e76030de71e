"""Extras, their pins in the lock file, and conda environments with these pins."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from psibench.config.paths import CONFIG_FOLDER
from psibench.errors import EXTRAS

REPOSITORY = CONFIG_FOLDER.parent
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
INSTALLED_BY_SETUP = ("documents", "models", "workflow", "train", "dev")
PIN = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")


def read_lock() -> dict[str, str]:
    lines = (REPOSITORY / "requirements.lock").read_text().splitlines()
    pins = [PIN.fullmatch(line) for line in lines if line and not line.startswith("#")]
    assert all(pins), "a line that pins nothing"
    return {canonicalize_name(pin[1]): pin[2] for pin in pins if pin is not None}


def test_the_lock_file_pins_all_that_the_package_asks_for() -> None:
    pins = read_lock()
    wanted = list(PROJECT["dependencies"])
    for extra in INSTALLED_BY_SETUP:
        wanted += PROJECT["optional-dependencies"][extra]
    for requirement in map(Requirement, wanted):
        name = canonicalize_name(requirement.name)
        if name == "psibench-ir":
            continue  # an extra that has another one's
        assert name in pins, requirement
        assert requirement.specifier.contains(pins[name], prereleases=True), requirement


@pytest.mark.processes
def test_pip_resolves_the_pins_of_an_environment_with_each_other(tmp_path: Path) -> None:
    given = yaml.safe_load((REPOSITORY / "envs" / "gpu.yaml").read_text())
    wanted = tmp_path / "pins.txt"
    wanted.write_text("\n".join(given["dependencies"][2]["pip"]))
    # Without an index: pip's resolver reads the metadata of the packages installed here.
    resolve = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "-r", str(wanted)]
    done = subprocess.run(resolve, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Would install" not in done.stdout


def imported(path: Path) -> set[str]:
    """The packages that a module imports, at the top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


FRAMEWORKS = {"haystack", "langchain_core", "llama_index"}
"""Whoever calls `psibench.haystack_search` and its like has the framework."""


def test_every_import_is_of_a_plain_install_or_of_an_extra_that_messages_name() -> None:
    distributions = packages_distributions()
    plain = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    of_extras = {module for modules in EXTRAS.values() for module in modules}
    modules = set[str]().union(*map(imported, (REPOSITORY / "src").rglob("*.py")))
    unknown = {
        module
        for module in modules - sys.stdlib_module_names - {"psibench"} - of_extras - FRAMEWORKS
        if not plain & {canonicalize_name(name) for name in distributions.get(module, ())}
    }
    assert unknown == set()


def test_what_a_message_says_to_install_has_the_module_it_names() -> None:
    """A module of a package in the extra, or of one that such a package needs."""
    distributions = packages_distributions()
    for extra, modules in EXTRAS.items():
        asked = {
            canonicalize_name(Requirement(line).name)
            for line in PROJECT["optional-dependencies"][extra]
        }
        asked |= {"huggingface-hub", "safetensors", "tokenizers"}  # what transformers needs
        for module in modules:
            owners = distributions.get(module, [module])  # what peers bring need not be here
            names = {canonicalize_name(name) for name in owners}
            assert names & asked, f"{module} is not installed by psibench-ir[{extra}]"
