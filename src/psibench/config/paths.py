"""Where the shipped files lie: the config, the workflow, profiles. And which paths a rule may name.

They are at the top of the repository. A wheel carries them inside the package, where an editable
install has none (hatch_build.py).
"""

from pathlib import Path

from psibench.errors import InputError

PACKAGE = Path(__file__).resolve().parents[1]
INSTALLED = PACKAGE / "shipped"
IS_INSTALLED = INSTALLED.is_dir()
"""Whether psibench came as a wheel; else it is a checkout."""
SHIPPED_FOLDER = INSTALLED if IS_INSTALLED else PACKAGE.parents[1]
SNAKEFILE = SHIPPED_FOLDER / "workflow" / "Snakefile"
PROFILES = SHIPPED_FOLDER / "profiles"
CONFIG_FOLDER = SHIPPED_FOLDER / "config"
DEFAULT_CONFIG = CONFIG_FOLDER / "config.yaml"
REGISTRY = CONFIG_FOLDER / "models.yaml"
LLMS = CONFIG_FOLDER / "llms.yaml"
RERANKERS = CONFIG_FOLDER / "rerankers.yaml"
PRICES = CONFIG_FOLDER / "prices.yaml"
CLEANING = CONFIG_FOLDER / "cleaning"
PROMPTS = CONFIG_FOLDER / "prompts"
SHIPPED = "shipped:"
SCHEMA = CONFIG_FOLDER / "schema.json"
RESULTS_FOLDER = Path("results")
"""Folder of a run's tables, in its working directory."""
STORE_LOCK = "head.lock"
"""File in the store of a run."""


def shipped(path: str) -> str:
    """Turn ``shipped:NAME`` into the path of that file of the config folder; others stay."""
    return str(CONFIG_FOLDER / path.removeprefix(SHIPPED)) if path.startswith(SHIPPED) else path


def prompt_path(task: str, given: str | None) -> str:
    """Return the path of a task's template: the given one (see `shipped`), or the shipped one."""
    return workflow_path(shipped(given) if given else str(PROMPTS / f"{task}.md"))


def workflow_path(path: str) -> str:
    """Return a path that a rule and a table may name.

    Raises
    ------
    InputError
        If it is not UTF-8, or holds braces, which Snakemake takes for a wildcard.
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InputError(f"{path}: its name is not UTF-8; rename it") from None
    if "{" in path or "}" in path:
        raise InputError(f"{path}: braces in a path mean a wildcard to the workflow; rename it")
    return path
