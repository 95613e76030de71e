"""Jobs of stages, made without a workflow."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from psibench.tables import TableSpec, read_table
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
    (name,) = (name for name, one in DECLARED.items() if one.function is function)
    job = made(name, inputs, outputs, **values)
    try:
        function(job, **(given or {}))
    finally:
        job.close()


def made(name: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], **values: Any) -> Job:
    """The job of a stage that `run` runs."""
    return Job(
        name,
        DECLARED[name].version,
        inputs={name: paths(one) for name, one in inputs.items()},
        outputs={name: paths(one) for name, one in outputs.items()},
        values=PLACE | values,
        params=list(values),
    )


def paths(given: Any) -> str | list[str]:
    """The paths of an input as Snakemake gives them: one, or a list."""
    return str(given) if isinstance(given, str | Path) else [str(one) for one in given or ()]


def rows(path: Any, spec: TableSpec) -> pl.DataFrame:
    """The rows of a table of one domain, without the labels."""
    labels = {"language", "domain"} - set(spec.column_names)
    return read_table(path, spec).drop(labels, strict=False)
