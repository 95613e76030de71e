"""Stages: functions of a job with a name and a version.

The decorator ``@stage("verify", version=2)`` declares one. A rule names its stage as a parameter,
``stage=STAGES["verify"]``, and the workflow's only script calls the function with the rule's job
(`psibench.tables.job`). Raise the version when the stage gives other rows for the same input:
Snakemake then repeats it and everything downstream. Other changes of the code cause no rerun.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from psibench.tables.job import Job

PACKAGE = Path(__file__).parents[1]
DECLARATION = re.compile(r'^@stage\(\s*"([a-z_]+)",\s*version=([0-9]+)\b', re.MULTILINE)

Function = TypeVar("Function", bound=Callable[..., None])


@dataclass(frozen=True)
class Stage:
    """A declared stage; see `stage`."""

    name: str
    version: int
    function: Callable[..., None]
    offline: bool


DECLARED: dict[str, Stage] = {}
"""The stages of the modules imported so far, by name."""


def stage(name: str, *, version: int, offline: bool = False) -> Callable[[Function], Function]:
    """Declare a function of a `Job` as a stage.

    ``name`` and ``version`` have to be literals, in this order: they are read without an import.

    Parameters
    ----------
    version
        Raised when the stage gives other rows for the same input.
    offline
        Whether it reads the hub only from the local cache.
    """

    def declare(function: Function) -> Function:
        DECLARED[name] = Stage(name, version, function, offline)
        return function

    return declare


class StageVersion(int):
    """A stage's version with the stage's name and module; for Snakemake it is a number."""

    stage: str
    module: str


@cache
def read_stages(package: Path = PACKAGE) -> dict[str, StageVersion]:
    """Read the declared stages of all modules, by name, without importing them.

    Raises
    ------
    ValueError
        If two functions are declared under one name.
    """
    found: dict[str, StageVersion] = {}
    for path in sorted(package.rglob("*.py")):
        for name, version in DECLARATION.findall(path.read_text(encoding="utf-8")):
            made = StageVersion(version)
            made.stage = name
            made.module = ".".join(path.relative_to(package.parent).with_suffix("").parts)
            if name in found:
                raise ValueError(f"stage {name!r} is in {found[name].module} and {made.module}")
            found[name] = made
    return found


def version_of(name: str) -> int:
    """Return a stage's version; KeyError if there is no such stage."""
    return DECLARED[name].version if name in DECLARED else int(read_stages()[name])


class RuleJob(Protocol):
    """The object that Snakemake gives to a script."""

    rule: str
    input: Any  # these five by name: ``items()``
    output: Any
    params: Any
    wildcards: Any
    resources: Any
    log: Sequence[str]
    threads: int
    config: Mapping[str, Any]


def call(declared: Stage, rule: RuleJob) -> None:
    """Call a stage with its job; remove rows of unfinished tables afterwards."""
    job = job_of(declared, rule)
    try:
        declared.function(job)
    finally:
        job.close()


def job_of(declared: Stage, rule: RuleJob) -> Job:
    """Make a stage's job from its rule.

    Raises
    ------
    TypeError
        If two of its resources, wildcards and parameters have one name.
    """
    values: dict[str, Any] = {"threads": rule.threads}
    for group in (rule.resources, rule.wildcards, rule.params):
        found = dict(group.items())
        if twice := values.keys() & found.keys():
            raise TypeError(f"stage {declared.name}: its rule has two things named {min(twice)!r}")
        values |= found
    return Job(
        declared.name,
        declared.version,
        inputs={name: _plain(given) for name, given in rule.input.items()},
        outputs={name: _plain(given) for name, given in rule.output.items()},
        values=values,
        params=[name for name, _ in rule.params.items()],
        config=rule.config,
    )


def _plain(given: Any) -> str | list[str]:
    return given if isinstance(given, str) else list(given)
