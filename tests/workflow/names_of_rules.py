"""Prints of every rule: its stage, arguments it has nothing for, what it does not declare."""

import inspect
import json
import sys
from collections import Counter
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path

from pydantic import BaseModel
from snakemake.api import SnakemakeApi
from snakemake.settings.types import (
    ConfigSettings,
    OutputSettings,
    ResourceSettings,
    StorageSettings,
)

from psibench.tables.stage import DECLARED, StageVersion

BASES = ("on_cpu", "on_gpu")
"""What rules are made of."""
ALWAYS = {"inputs", "outputs", "threads", "config"}


def lacking(rule, version: StageVersion) -> list[str]:
    """The arguments of the rule's stage that no name of the rule gives, or two give."""
    import_module(version.module)
    declared = DECLARED[version.stage]
    taken = inspect.signature(declared.function).parameters
    named = [{name for name, _ in group.items()} for group in (rule.input, rule.params)]
    outputs = {name for name, _ in rule.output.items()}
    named += [set(rule.wildcard_names), set(rule.resources)]
    named += [set()] if "outputs" in taken else [outputs]
    given = Counter(name for names in named for name in names)
    given.update(ALWAYS)
    given.update(["output"] if len(outputs) == 1 else [])
    given.update(["language"] if "lang" in given else [])
    given.update({"domain", declared.each.removesuffix("s")} if declared.each else ())
    return [
        name
        for name, argument in taken.items()
        if given[name] > 1
        # A dataclass or section is made of what the names of its fields give.
        or (
            given[name] == 0
            and argument.default is inspect.Parameter.empty
            and not is_made(argument.annotation)
        )
    ]


def is_made(kind) -> bool:
    return is_dataclass(kind) or (inspect.isclass(kind) and issubclass(kind, BaseModel))


def about(rule) -> dict:
    version = dict(rule.params._allitems()).get("stage")
    declared = {
        "log": rule.log,
        "benchmark": rule.benchmark,
        "environment": rule.conda_env,
        "message": rule.message,
        "script": rule.script,
        **{name: name in rule.resources for name in ("mem_mb", "runtime")},
    }
    return {
        "stage": version.stage if version is not None else None,
        "lacking": lacking(rule, version) if version is not None else [],
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
    said = {rule.name: about(rule) for rule in rules if rule.name not in BASES}
    print(json.dumps(said))


main(*sys.argv[1:])
