"""Tables that hold several domains, read one domain at a time.

The tables of a benchmark have the columns ``language`` and ``domain`` in front, and a row group for
each domain. A job reads and writes them through `psibench.tables.job`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from psibench.tables.spec import STRING, Column, TableSpec

DOMAIN = Column("domain", STRING, "domain of the benchmark")
LANGUAGE = Column("language", STRING, "language of the benchmark")


def with_labels(spec: TableSpec, columns: Sequence[str]) -> TableSpec:
    """Return a table's spec with the labels in front that are among ``columns``.

    The labels ``language`` and ``domain`` become part of the key. A spec that declares ``domain``
    itself stays unchanged.
    """
    if DOMAIN.name in spec.column_names or DOMAIN.name not in columns:
        return spec
    labels = [label for label in (LANGUAGE, DOMAIN) if label.name in columns]
    key = (*(label.name for label in labels), *spec.key)
    return replace(spec, columns=(*labels, *spec.columns), key=key)


def by_place(spec: TableSpec) -> TableSpec:
    """Return a table's spec with ``language`` and ``domain`` in front."""
    return with_labels(spec, [LANGUAGE.name, DOMAIN.name])


def has_domains(path: str | Path) -> bool:
    """Say whether a table has a column ``domain``."""
    try:
        return DOMAIN.name in pq.read_schema(path).names
    except (OSError, pa.ArrowException):
        return False  # reading the file gives the message


@dataclass(frozen=True)
class OfDomain:
    """The rows of one domain in such a table; `read_table` takes it in place of a path."""

    path: str
    domain: str
    language: str | None = None
    """Only the rows of this language, if the table has several."""

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path


TablePath = str | Path | OfDomain
"""A path, or the rows of one domain in it, for `read_table`."""


def domain_params(record: Mapping[str, Any], domain: str) -> Mapping[str, Any] | None:
    """Return a domain's parameters from the provenance of such a table; None if it has no rows."""
    params = record.get("params", {})
    domains = params.get("domains", ())
    if isinstance(domains, Mapping):
        found: Mapping[str, Any] | None = domains.get(domain)
        return found
    return params if domain in domains else None
