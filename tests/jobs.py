"""Jobs of stages, made without a workflow."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from psibench.tables.job import Job
from psibench.tables.stage import DECLARED

PLACE = {"lang": "eng-Latn", "domains": ["general"]}


def run(
    function: Callable[..., None],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    *,
    given: Mapping[str, Any] | None = None,
    **values: Any,
) -> None:
    """Run a stage's function over files; of one domain, unless ``values`` name others.

    ``given`` are arguments of the function besides its job. All ``values`` are parameters.
    """
    (declared,) = (one for one in DECLARED.values() if one.function is function)
    job = Job(
        declared.name,
        declared.version,
        inputs={name: paths(one) for name, one in inputs.items()},
        outputs={name: paths(one) for name, one in outputs.items()},
        values=PLACE | values,
        params=list(values),
    )
    function(job, **(given or {}))


def paths(given: Any) -> str | list[str]:
    """The paths of an input as Snakemake gives them: one, or a list."""
    return str(given) if isinstance(given, str | Path) else [str(one) for one in given or ()]
