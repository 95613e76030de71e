"""Where a table came from: recorded in the Parquet metadata, printed and verified by ``check``."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from psibench import __version__

METADATA_KEY = b"psibench"


def hash_params(params: Mapping[str, Any]) -> str:
    """Hash a stage's parameters: sha256 of their JSON with sorted keys, 64 hex digits."""
    text = json.dumps(params, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def now() -> str:
    """Return the current UTC time in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def joined_names(names: Iterable[str | None]) -> str | None:
    """Join distinct names in sorted order; each may be several, joined by commas, or none."""
    every = {name for part in names for name in (part or "").split(", ")}
    return ", ".join(sorted(every - {""})) or None


@dataclass(frozen=True)
class Provenance:
    """How one table was made.

    Attributes
    ----------
    stage, stage_version
        The stage that made it, and the version constant of its output.
    params
        The parameters it was given (its config leaves); hashed as ``params_hash``.
    inputs
        Input name -> content hash (``rows:...`` for psibench tables, ``sha256:...`` for files).
    revisions
        Model and dataset revisions, e.g. ``{"model:bm25": "bm25s 0.3.16"}``.
    queries_by
        Who wrote the queries: ``people``, ``simulation`` or ``llm:NAME``.
    prompt_hash, llm_backend
        For LLM stages; None elsewhere.
    """

    stage: str
    stage_version: int
    params: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    revisions: Mapping[str, str] = field(default_factory=dict)
    queries_by: str | None = None
    prompt_hash: str | None = None
    llm_backend: str | None = None

    def to_json(self, *, table: str, rows_hash: str, n_rows: int) -> str:
        """Serialise with the facts known only when the table is written."""
        record = asdict(self) | {
            "params_hash": hash_params(self.params),
            "table": table,
            "rows_hash": rows_hash,
            "n_rows": n_rows,
            "psibench_version": __version__,
            "created": now(),
        }
        return json.dumps(record, sort_keys=True, ensure_ascii=False, default=str)


def joined(sources: Mapping[str, Provenance]) -> Provenance:
    """Join the provenance of domains: ``domains`` lists them, or gives their params by domain."""
    first, *_ = every = list(sources.values())
    if all(one.params == first.params for one in every):
        params = {**first.params, "domains": list(sources)}
    else:
        params = {"domains": {name: one.params for name, one in sources.items()}}
    return replace(
        first,
        params=params,
        inputs={name: found for one in every for name, found in one.inputs.items()},
        revisions={name: found for one in every for name, found in one.revisions.items()},
        queries_by=joined_names(one.queries_by for one in every),
        llm_backend=joined_names(one.llm_backend for one in every),
    )
