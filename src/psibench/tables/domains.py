"""Tables that hold all domains of a language, read and written one domain at a time.

The tables on the way to a benchmark (results/*/build) have a column ``domain`` in front: one job
goes through the domains of a language instead of one job each. What a stage does stays a function
of one domain: it gets `OfDomain` for a table to read and `DomainPart` for one to write.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from psibench.tables.provenance import Provenance
from psibench.tables.spec import STRING, Column, TableSpec

DOMAIN = Column("domain", STRING, "domain of the benchmark")
LANGUAGE = Column("language", STRING, "language of the benchmark")


def with_labels(spec: TableSpec, columns: Sequence[str]) -> TableSpec:
    """Return a table's spec with the labels that a file of these columns has in front.

    They are ``domain``, or ``language`` and ``domain``, and part of its key. A table that names
    domains itself stays as it is.
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
        return False  # reading it says what is wrong


@dataclass(frozen=True)
class OfDomain:
    """The rows of one domain in such a table; `read_table` takes it in place of a path."""

    path: str
    domain: str
    language: str | None = None
    """Where a table has several languages."""

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True)
class DomainPart:
    """Where one domain's rows go; `write_table` takes it in place of a path.

    ``written`` belongs to the table: what each domain has written, until all are there.
    """

    path: str
    language: str | None
    domain: str
    written: dict[str, tuple[pa.Table, TableSpec, Provenance]]

    def __str__(self) -> str:
        return f"{self.path}, domain {self.domain}"


TablePath = str | Path | OfDomain
"""What `read_table` reads."""


OutputPath = str | Path | DomainPart
"""Where `write_table` writes."""


@dataclass(frozen=True)
class Domain:
    """One domain of a job that goes through those of a language.

    Attributes
    ----------
    outputs
        Where its rows go, by the name of the output.
    """

    name: str
    number: int
    outputs: Mapping[str, DomainPart]

    def table(self, given: str | Sequence[str]) -> TablePath:
        """Return its rows of a table of all domains, or its own table out of a list."""
        return domain_table(given, self.name, self.number)

    def tables(self, paths: Sequence[str]) -> list[TablePath]:
        """Return its rows of several tables of all domains."""
        return [OfDomain(path, self.name) for path in paths]


def domain_params(record: Mapping[str, Any], domain: str) -> Mapping[str, Any] | None:
    """Return a domain's parameters from the provenance of such a table; None if it has no rows."""
    params = record.get("params", {})
    domains = params.get("domains", ())
    if isinstance(domains, Mapping):
        found: Mapping[str, Any] | None = domains.get(domain)
        return found
    return params if domain in domains else None


def domain_table(given: str | Sequence[str], domain: str, number: int) -> TablePath:
    """Return one domain's rows of a table of all domains, or its own table out of a list."""
    return OfDomain(given, domain) if isinstance(given, str) else given[number]
