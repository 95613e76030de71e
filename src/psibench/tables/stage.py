"""What a stage is: a function from tables to tables, declared beside its name and its version.

``@stage("verify", version=2, each="domains")`` stands over the function. A rule names the stage
among its parameters, ``stage=STAGES["verify"]``, and the one script of the workflow gives the
function what the rule has under the names of its arguments (`call`). The version is raised when the
stage gives other rows for the same input: everything downstream is made again. Nothing else about
the code is a reason to rerun, so refactoring and comments cost no GPU hour.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from dataclasses import fields as dataclass_fields
from functools import cache
from inspect import Parameter, isclass, signature
from pathlib import Path
from types import NoneType
from typing import Any, Protocol, TypeVar, get_args

from pydantic import BaseModel, TypeAdapter

from psibench.tables.domains import Domain, OfDomain
from psibench.tables.io import each_domain
from psibench.tables.job import Job

PACKAGE = Path(__file__).parents[1]
DECLARATION = re.compile(r'^@stage\(\s*"([a-z_]+)",\s*version=([0-9]+)\b', re.MULTILINE)

Function = TypeVar("Function", bound=Callable[..., Callable[[], None] | None])


@dataclass(frozen=True)
class Stage:
    """A stage as it is declared; see `stage`."""

    name: str
    version: int
    function: Callable[..., Callable[[], None] | None]
    each: str | None
    offline: bool


DECLARED: dict[str, Stage] = {}
"""The stages of the modules imported so far, by name."""


def stage(
    name: str, *, version: int, each: str | None = None, offline: bool = False
) -> Callable[[Function], Function]:
    """Declare a function as a stage.

    ``name`` and ``version`` have to be literals, in this order: they are read without an import.

    Parameters
    ----------
    version
        Raised when the stage gives other rows for the same input.
    each
        The rule's parameter with the domains of a language: the function is called for each of
        them, and the tables it writes are of all domains. A mapping gives each domain's value to
        an argument of that name without the plural's s.
    offline
        What is read of the hub is what was downloaded before.
    """

    def declare(function: Function) -> Function:
        DECLARED[name] = Stage(name, version, function, each, offline)
        return function

    return declare


class StageVersion(int):
    """A stage's version, and which stage it is of: to Snakemake, which records it, a number."""

    stage: str
    module: str


@cache
def read_stages(package: Path = PACKAGE) -> dict[str, StageVersion]:
    """Read what modules declare as stages, by name; no module is imported.

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
    """Return a stage's version, imported or not; KeyError if there is none."""
    return DECLARED[name].version if name in DECLARED else int(read_stages()[name])


class RuleJob(Protocol):
    """What a script is given of its rule."""

    rule: str
    input: Any  # these five by name: ``items()``
    output: Any
    params: Any
    wildcards: Any
    resources: Any
    log: Sequence[str]
    threads: int
    config: Mapping[str, Any]


def call(declared: Stage, job: RuleJob) -> None:
    """Call a stage with what its rule has under the names of the function's arguments.

    - ``inputs`` and ``outputs``: all of them by name; ``output``: the only one. Otherwise one of
      them by its name. What is read as `TablePath` are a table's rows of the domain at hand; what
      is read as ``str | Path`` is the file itself. An optional one that is an empty list: None.
    - Parameters, wildcards (``lang`` also as ``language``), resources, ``threads``, ``config``:
      by name, validated as annotated. A dataclass is made of what is given under its fields'
      names and its own; so is a config section that is not given under its own.

    What a stage returns is called once all tables of the job are written.

    Raises
    ------
    TypeError
        If the rule has nothing under a name that the function needs, or two of its resources,
        wildcards and parameters.
    """
    needed = signature(declared.function).parameters.keys()
    if "job" in needed:
        of_rule = job_of(declared, job)
        try:
            declared.function(of_rule)
        finally:
            of_rule.close()
        return
    values: dict[str, Any] = {"threads": job.threads, "config": job.config}
    for group in (job.resources, job.wildcards, job.params):
        found = dict(group.items())
        if twice := needed & values.keys() & found.keys():
            name = min(twice)
            raise TypeError(f"stage {declared.name}: its rule has two things named {name!r}")
        values |= found
    if "lang" in values:
        values["language"] = values["lang"]
    inputs = {name: _plain(given) for name, given in job.input.items()}
    outputs: dict[str, Any] = {name: _plain(given) for name, given in job.output.items()}
    if declared.each is None:
        here = Domain(values["domain"], 0, {}) if "domain" in values else None
        finish = [declared.function(**_arguments(declared, values, inputs, outputs, here))]
    else:
        domains, finish = values[declared.each], []
        with each_domain(list(domains), outputs) as every:
            for one in every:
                given = {**values, "domain": one.name}
                if isinstance(domains, Mapping):
                    given[declared.each.removesuffix("s")] = domains[one.name]
                made = _arguments(declared, given, inputs, one.outputs, one)
                finish.append(declared.function(**made))
    for function in filter(callable, finish):
        function()


def job_of(declared: Stage, rule: RuleJob) -> Job:
    """Make a stage's job of what its rule has.

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


def _arguments(
    declared: Stage,
    values: Mapping[str, Any],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    domain: Domain | None,
) -> dict[str, Any]:
    parameters = signature(declared.function).parameters
    found: dict[str, Any] = {"inputs": inputs, "outputs": outputs}
    if "outputs" in parameters:
        outputs = {}
    elif len(outputs) == 1:
        found["output"], *_ = outputs.values()
    for name, parameter in parameters.items():
        kind = parameter.annotation
        if name in outputs:
            found[name] = outputs[name]
        elif name in inputs:
            found[name] = _table(inputs[name], kind, domain)
        elif fields := _fields(kind, is_given=name in values):
            made = {field: values[field] for field in fields if field in values}
            found[name] = _adapter(kind).validate_python(made | values.get(name, {}))
        elif name in values:
            found[name] = _adapter(kind).validate_python(values[name])
        elif name not in found and parameter.default is Parameter.empty:
            known = sorted({*outputs, *inputs, *values})
            raise TypeError(f"stage {declared.name}: its rule gives no {name!r}; it has {known}")
    return {name: found[name] for name in parameters if name in found}


def _table(given: str | list[str], kind: Any, domain: Domain | None) -> Any:
    """Return what a stage reads of an input: the domain's rows, or the files as they are."""
    parts = get_args(kind)
    if NoneType in parts and not given:
        return None
    if domain is not None and OfDomain in parts:
        return domain.table(given)
    if domain is not None and parts and OfDomain in get_args(parts[0]):
        return domain.tables(given)
    return given


def _fields(kind: Any, *, is_given: bool) -> list[str]:
    """List the fields that an argument is made of: of a dataclass, or of a section not given."""
    if is_dataclass(kind):
        return [field.name for field in dataclass_fields(kind)]
    is_section = isclass(kind) and issubclass(kind, BaseModel)
    return list(kind.model_fields) if is_section and not is_given else []


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
