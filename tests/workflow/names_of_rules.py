"""Prints the stages of every rule, the names that it lacks for them, and its missing keywords."""

import ast
import inspect
import json
import sys
import textwrap
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import get_args

from snakemake.api import SnakemakeApi
from snakemake.settings.types import (
    ConfigSettings,
    OutputSettings,
    ResourceSettings,
    StorageSettings,
)

from psibench.plan.plan import DataStage
from psibench.tables.job import DomainJob, Job
from psibench.tables.stage import DECLARED, StageVersion, read_stages

BASES = ("on_cpu", "on_gpu")
"""Rules that other rules inherit from."""
READING = ("read", "read_each", "columns", "batches", "tables", "paths", "path")
"""Methods of a job or domain whose first argument is an input."""
OF_PLACES = {"ledger": {"flow", "usage"}, "report": {"corpus", "queries"}}
"""Inputs of the jobs that a stage creates itself for each of its `places` or `examples`."""


def lacking(rule, version: StageVersion) -> list[str]:
    """Names that the stage reads from its job but the rule lacks, and values with two origins."""
    import_module(version.module)
    read = ReadNames()
    read.follow(DECLARED[version.stage].function)
    inputs, outputs, params = (
        {name for name, _ in group.items()} for group in (rule.input, rule.output, rule.params)
    )
    values = Counter([*params, *rule.wildcard_names, *rule.resources, "threads"])
    known = inputs | read.optional | OF_PLACES.get(version.stage, set())
    if rule.name == "data":
        known |= read.inputs  # `data_inputs` returns the inputs of each stage
    return sorted(
        [f"input {name}" for name in read.inputs - known]
        + [f"output {name}" for name in read.outputs - outputs - read.optional]
        + [f"value {name}" for name in read.values - values.keys()]
        + [f"two values {name}" for name, n in values.items() if n > 1]
    )


class ReadNames:
    """Literal names that functions read from or write to their `job` or `domain`.

    Follows the functions and classes of the package that take a job or a domain. Does not follow
    functions that are looked up in a table, e.g. probes.
    """

    def __init__(self) -> None:
        self.inputs: set[str] = set()
        self.outputs: set[str] = set()
        self.values: set[str] = set()
        self.optional: set[str] = set()
        """Inputs and outputs that are used only if the rule has them."""
        self.followed: set[object] = set()

    def follow(self, one) -> None:
        """Add the names in a function or class, and in the functions that it uses."""
        self.followed.add(one)
        module = vars(sys.modules[one.__module__])
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(one)))):
            if isinstance(node, ast.Call):
                self.add(node, module)
            named = module.get(node.id) if isinstance(node, ast.Name) else None
            if takes_job(named) and named not in self.followed:
                self.follow(named)

    def add(self, call: ast.Call, module: dict) -> None:
        """Add the names in a call of a job's method."""
        whom, _, method = ast.unparse(call.func).rpartition(".")
        if whom.rpartition(".")[2] not in ("job", "domain"):
            return
        if method == "settings":
            fields = module[call.args[0].id].model_fields.items()
            self.values |= {name for name, field in fields if field.is_required()}
        elif method == "section":
            self.values |= literals(call.args[1:]) or {"section"}
        elif method == "value" and not any(given.arg == "default" for given in call.keywords):
            self.values |= literals(call.args[:1])
        elif method in READING:
            self.inputs |= literals(call.args[:1])
        elif method == "write":
            self.outputs |= literals(call.args[:1])
        elif method in ("has", "has_output"):
            self.optional |= literals(call.args[:1])


def literals(arguments: list[ast.expr]) -> set[str]:
    return {one.value for one in arguments if isinstance(one, ast.Constant)}


def takes_job(named) -> bool:
    """Return whether a function, or a method of a class, of the package takes a job or a domain."""
    if inspect.isclass(named) and named.__module__.startswith("psibench."):
        own = [getattr(one, "__func__", one) for one in [*vars(named).values()]]
        return named not in (Job, DomainJob) and any(
            inspect.isfunction(one) and takes_job(one) for one in own
        )
    if not inspect.isfunction(named) or not named.__module__.startswith("psibench."):
        return False
    return bool({Job, DomainJob} & set(named.__annotations__.values()))


def about(rule) -> dict:
    version = dict(rule.params._allitems()).get("stage")
    # The stage of the rule `data` depends on the benchmark and the language.
    every = read_stages()
    names = get_args(DataStage) if callable(version) else [version.stage] if version else []
    declared = {
        "log": rule.log,
        "benchmark": rule.benchmark,
        "environment": rule.conda_env,
        "message": rule.message,
        "script": rule.script,
        **{name: name in rule.resources for name in ("mem_mb", "runtime")},
        # The hash of its outside files, if it has any.
        "content": "content" in dict(rule.params._allitems())
        or not any(hasattr(one, "is_outside") for one in rule.input),
    }
    return {
        "stages": list(names),
        "lacking": [missing for name in names for missing in lacking(rule, every[name])],
        "undeclared": [name for name, found in declared.items() if not found],
        "log": [str(path) for path in rule.log],
        "environment": Path(rule.conda_env).stem if rule.conda_env else None,
    }


def main(snakefile: str, folder: str) -> None:
    """Read the rules of the default config."""
    default = Path(snakefile).parent / "config" / "config.yaml"
    with SnakemakeApi(OutputSettings(quiet=["all"])) as api:
        rules = api.workflow(
            resource_settings=ResourceSettings(cores=1),
            config_settings=ConfigSettings(configfiles=[default]),
            storage_settings=StorageSettings(),
            snakefile=Path(snakefile),
            workdir=Path(folder),
        )._workflow.rules
    found = {rule.name: about(rule) for rule in rules if rule.name not in BASES}
    print(json.dumps(found))


main(*sys.argv[1:])
