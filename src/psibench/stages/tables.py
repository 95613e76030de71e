"""Small helpers the stages share: provenance of an output, several inputs as one frame."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from psibench.stages.versions import STAGE_VERSIONS
from psibench.tables import Provenance, content_hash, read_provenance, read_table
from psibench.tables.schemas import TableSpec


def provenance(
    stage: str,
    *,
    params: Mapping[str, Any],
    inputs: Mapping[str, str],
    revisions: Mapping[str, str] | None = None,
    queries_by: str | None = None,
) -> Provenance:
    """Make the provenance of a stage's output, with the stage's current version."""
    return Provenance(
        stage=stage,
        stage_version=STAGE_VERSIONS[stage],
        params=params,
        inputs=inputs,
        revisions=revisions or {},
        queries_by=queries_by,
    )


def derived(
    stage: str,
    paths: Sequence[str | Path],
    *,
    params: Mapping[str, Any],
    revisions: Mapping[str, str] | None = None,
) -> Provenance:
    """Make the provenance of an output computed from tables.

    Content hashes, revisions and who wrote the queries are taken over from the input tables.
    """
    records = [read_provenance(path) or {} for path in paths]
    merged: dict[str, str] = {}
    for record in records:
        merged |= record.get("revisions", {})
    authors = {name for record in records for name in (record.get("queries_by") or "").split(", ")}
    return provenance(
        stage,
        params=params,
        inputs={str(path): content_hash(path) for path in paths},
        revisions=merged | dict(revisions or {}),
        queries_by=", ".join(sorted(authors - {""})) or None,
    )


def read_all(paths: Sequence[str | Path], spec: TableSpec) -> pl.DataFrame:
    """Read tables of one kind and stack them in the order given; columns only some have are null.

    Without paths the frame is empty, with the declared columns.
    """
    empty = pl.DataFrame(pl.from_arrow(spec.schema.empty_table()))
    return pl.concat([empty, *(read_table(path, spec) for path in paths)], how="diagonal")
