"""Prints, for every rule with a stage: its stage, and the arguments that it has nothing for."""

import inspect
import json
import sys
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

ALWAYS = {"inputs", "outputs", "threads", "config"}


def lacking(rule, version: StageVersion) -> list[str]:
    """The arguments of the rule's stage that no name of the rule gives."""
    import_module(version.module)
    declared = DECLARED[version.stage]
    given = {name for group in (rule.input, rule.output, rule.params) for name, _ in group.items()}
    given |= {*rule.wildcard_names, *rule.resources, *ALWAYS}
    given |= {"output"} if len([*rule.output.items()]) == 1 else set()
    given |= {"language"} if "lang" in given else set()
    given |= {"domain", declared.each.removesuffix("s")} if declared.each else set()
    return [
        name
        for name, argument in inspect.signature(declared.function).parameters.items()
        if argument.default is inspect.Parameter.empty and name not in given
        # Made of what the names of its fields give.
        if not is_dataclass(argument.annotation)
        and not (
            inspect.isclass(argument.annotation) and issubclass(argument.annotation, BaseModel)
        )
    ]


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
    versions = {rule: dict(rule.params._allitems()).get("stage") for rule in rules}
    said = {r.name: (v.stage, lacking(r, v)) for r, v in versions.items() if v is not None}
    print(json.dumps(said))


main(*sys.argv[1:])
