"""Provenance of tables that no job writes, and several tables as one frame."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from psibench.tables import Provenance, read_provenance, read_table
from psibench.tables.domains import TablePath
from psibench.tables.job import Job
from psibench.tables.spec import TableSpec
from psibench.tables.stage import version_of


def derived(
    stage: str, paths: Sequence[TablePath] = (), *, params: Mapping[str, Any], **record: Any
) -> Provenance:
    """Make the provenance of a table that no job writes, with the stage's current version.

    ``paths`` are the tables that it is made of; ``record`` is as in `Job.record`.
    """
    job = Job(stage, version_of(stage))
    return job.record(inputs=[str(path) for path in paths], params=params, **record)


def queries_by(path: TablePath) -> str:
    """Return who wrote the queries a table is about, or ``not recorded``."""
    return (read_provenance(path) or {}).get("queries_by") or "not recorded"


def read_all(paths: Sequence[TablePath], spec: TableSpec) -> pl.DataFrame:
    """Read tables of one kind and stack them in the order given; columns only some have are null.

    Without paths the frame is empty, with the declared columns.
    """
    empty = spec.empty()
    return pl.concat([empty, *(read_table(path, spec) for path in paths)], how="diagonal")
