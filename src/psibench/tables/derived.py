"""Small helpers the stages share: provenance of an output, several inputs as one frame."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from psibench.tables import Provenance, content_hash, read_provenance, read_table
from psibench.tables.domains import TablePath
from psibench.tables.provenance import joined_names
from psibench.tables.spec import TableSpec
from psibench.tables.stage import version_of


def derived(
    stage: str,
    paths: Sequence[TablePath] = (),
    *,
    params: Mapping[str, Any],
    revisions: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    queries_by: str | None = None,
    prompt_hash: str | None = None,
    llm_backend: str | None = None,
) -> Provenance:
    """Make the provenance of a stage's output, with the stage's current version.

    Content hashes, revisions, who wrote the queries and which backends answered are taken over
    from the input tables. ``files`` are hashes of inputs that are no tables; ``queries_by`` and
    ``llm_backend`` are added to what the inputs say, ``prompt_hash`` is this stage's own.
    """
    records = [read_provenance(path) or {} for path in paths]
    merged = {k: v for one in records for k, v in one.get("revisions", {}).items()}

    def joined(field: str, given: str | None) -> str | None:
        return joined_names([given, *(record.get(field) for record in records)])

    return Provenance(
        stage,
        version_of(stage),
        params=params,
        inputs={str(path): content_hash(path) for path in paths} | dict(files or {}),
        revisions=merged | dict(revisions or {}),
        queries_by=joined("queries_by", queries_by),
        prompt_hash=prompt_hash,
        llm_backend=joined("llm_backend", llm_backend),
    )


def queries_by(path: TablePath) -> str:
    """Return who wrote the queries a table is about, or ``not recorded``."""
    return (read_provenance(path) or {}).get("queries_by") or "not recorded"


def read_all(paths: Sequence[TablePath], spec: TableSpec) -> pl.DataFrame:
    """Read tables of one kind and stack them in the order given; columns only some have are null.

    Without paths the frame is empty, with the declared columns.
    """
    empty = spec.empty()
    return pl.concat([empty, *(read_table(path, spec) for path in paths)], how="diagonal")
