"""The object that a stage gets: it reads and writes tables and has the parameters.

A stage, the function that a Snakemake rule runs, takes one `Job`. It reads with
``job.read("candidates", CANDIDATES)``, takes its config section with ``job.section(Verify)``, a
value with ``job.value("top_k", int)``, and writes with ``job.write("rows", kept, CANDIDATES)``.
`Job` adds the provenance to each table: the inputs read so far and the parameters.

A table holds the domains of a language, or a slice of these domains, with a row group for each. A
stage that works on one domain at a time loops over ``job.domains()``: a `DomainJob` reads and
writes the rows of its domain without the columns that name language and domain.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, TypeVar

import polars as pl
import pyarrow as pa
from pydantic import BaseModel, TypeAdapter

from psibench.tables.columns import read_batches, read_columns
from psibench.tables.domains import OfDomain, TablePath, has_domains
from psibench.tables.io import (
    DomainWriter,
    content_hash,
    read_provenance,
    read_table,
    write_table,
)
from psibench.tables.provenance import Provenance, joined_names
from psibench.tables.spec import ALL, TableSpec

Section = TypeVar("Section", bound=BaseModel)

OMITTED_PARAMS = ("stage", "content", "store", "domains", "on_empty")
"""Parameters that provenance omits, because it has them elsewhere or they do not decide the
rows."""


@dataclass
class Job:
    """One job of a stage.

    Attributes
    ----------
    stage, version
        The stage and its version.
    inputs, outputs
        Files of the Snakemake rule, one or several, by the name of the input or output.
    values
        Parameters, wildcards and resources of the rule by name, and ``threads``.
    params
        Names of the values that are parameters. Only parameters and inputs decide the rows.
    config
        The composed config of the workflow, as plain data.
    """

    stage: str
    version: int
    inputs: Mapping[str, str | list[str]] = field(default_factory=dict)
    outputs: Mapping[str, str | list[str]] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    params: Sequence[str] = ()
    config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.used: dict[str, None] = {}
        """Paths of the tables read so far, in order; provenance lists them as inputs."""
        self.writers: dict[str, DomainWriter] = {}
        """Tables that are written domain by domain, by name of the output."""

    # Values

    def value(self, name: str, kind: Any = None, default: Any = ...) -> Any:
        """Return a parameter, wildcard or resource, checked to be of a kind.

        Raises
        ------
        KeyError
            If the rule has no value of that name and there is no default.
        """
        if name not in self.values and default is not ...:
            return default
        if name not in self.values:
            raise KeyError(f"stage {self.stage}: its rule gives no {name!r}; it has {self.names}")
        given = self.values[name]
        return given if kind is None else adapter(kind).validate_python(given)

    def section(self, model: Any, name: str = "section") -> Any:
        """Return a parameter that is a section of a config, as the model (or union of models)."""
        return self.value(name, model)

    def settings(self, model: type[Section]) -> Section:
        """Return a section whose fields are the values of the same names."""
        given = {name: self.values[name] for name in model.model_fields if name in self.values}
        return model.model_validate(given)

    @property
    def names(self) -> list[str]:
        """The names of all values, inputs and outputs, in alphabetical order."""
        return sorted({*self.values, *self.inputs, *self.outputs})

    # Tables

    def has(self, name: str) -> bool:
        """Return whether the rule has an input with at least one file."""
        return bool(self.inputs.get(name))

    def has_output(self, name: str) -> bool:
        """Return whether the rule has an output."""
        return name in self.outputs

    def paths(self, name: str) -> list[str]:
        """List the files of an input.

        Raises
        ------
        KeyError
            If the rule has no such input; check an optional input with `has`.
        """
        if name not in self.inputs:
            raise KeyError(f"stage {self.stage}: its rule has no input {name!r}: {self.names}")
        given = self.inputs[name]
        return [given] if isinstance(given, str) else list(given)

    def path(self, name: str) -> str:
        """Return the only file of an input."""
        (found,) = self.paths(name)
        return found

    def read(self, name: str, spec: TableSpec) -> pl.DataFrame:
        """Read the tables of an input and stack them in order.

        Columns that a table lacks are null in its rows.

        Raises
        ------
        InputError
            If a file is missing, not Parquet, truncated, or does not fit ``spec``.
        """
        return self._stacked(self.paths(name), spec)

    def read_each(self, name: str, spec: TableSpec) -> list[pl.DataFrame]:
        """Read the tables of an input, one by one."""
        return [self._stacked([path], spec) for path in self.paths(name)]

    def _stacked(self, tables: Sequence[TablePath], spec: TableSpec) -> pl.DataFrame:
        self.used |= dict.fromkeys(map(str, tables))
        frames = [read_table(table, spec) for table in tables]
        return frames[0] if len(frames) == 1 else pl.concat([spec.empty(), *frames], how="diagonal")

    def columns(
        self, name: str, spec: TableSpec, columns: Sequence[str], **chosen: Any
    ) -> pl.DataFrame:
        """Read columns of an input's tables and stack them; ``chosen`` as in `read_columns`."""
        return self._columns(self.paths(name), spec, columns, **chosen)

    def _columns(
        self, tables: Sequence[TablePath], spec: TableSpec, columns: Sequence[str], **chosen: Any
    ) -> pl.DataFrame:
        self.used |= dict.fromkeys(map(str, tables))
        frames = [read_columns(table, spec, columns, **chosen) for table in tables]
        return frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal")

    def write(self, name: str, frame: pl.DataFrame, spec: TableSpec, **record: Any) -> None:
        """Write a table, whole or not at all, with its provenance.

        ``record`` are further arguments for the provenance; see `record`.
        """
        write_table(frame, str(self.outputs[name]), spec, provenance=self.record(**record))

    def record(
        self,
        *,
        inputs: Sequence[str] = (),
        params: Mapping[str, Any] | None = None,
        revisions: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
        queries_by: str | None = None,
        prompt_hash: str | None = None,
        llm_backend: str | None = None,
    ) -> Provenance:
        """Return the provenance of a table written now.

        Its inputs are the tables read so far, ``inputs`` (tables that were read without the job)
        and ``files``, hashes of files that are not tables. ``params`` replaces the rule's
        parameters. The record has the revisions, ``queries_by`` and ``llm_backend`` of the inputs'
        provenance and the given ones.
        """
        paths = list(dict.fromkeys([*self.used, *map(str, inputs)]))
        records = [read_provenance(path) or {} for path in paths]
        merged = {k: v for one in records for k, v in one.get("revisions", {}).items()}

        def both(key: str, given: str | None) -> str | None:
            return joined_names([given, *(one.get(key) for one in records)])

        return Provenance(
            self.stage,
            self.version,
            params=self.deciding_params if params is None else params,
            inputs={path: content_hash(path) for path in paths} | dict(files or {}),
            revisions=merged | dict(revisions or {}),
            queries_by=both("queries_by", queries_by),
            prompt_hash=prompt_hash,
            llm_backend=both("llm_backend", llm_backend),
        )

    @cached_property
    def deciding_params(self) -> dict[str, Any]:
        """The parameters that decide the rows."""
        return {name: self.values[name] for name in self.params if name not in OMITTED_PARAMS}

    @cached_property
    def domain_names(self) -> list[str]:
        """The names of its domains, in order."""
        return list(self.value("domains", default=None) or [self.value("domain")])

    @property
    def where(self) -> str:
        """The first output, which names the job in messages."""
        return next((str(path) for path in self.outputs.values()), self.stage)

    # Domains

    def domains(self) -> Iterator["DomainJob"]:
        """Yield the domains of the job; after the last one, write the tables that they added to.

        The parameter ``domains`` names the domains: a list, or a mapping from domain to a value.
        Without it, the wildcard ``domain`` names the only one.
        """
        given = self.value("domains", default=None)
        for number, name in enumerate(self.domain_names):
            own = given[name] if isinstance(given, Mapping) else None
            yield DomainJob(self, name, number, own)
        for writer in self.writers.values():
            writer.write()
        self.close()

    def close(self) -> None:
        """Discard the rows of tables that are not complete."""
        for writer in self.writers.values():
            writer.discard()
        self.writers.clear()


@dataclass(frozen=True)
class DomainJob:
    """A job's view of one domain.

    Attributes
    ----------
    own
        The domain's value in the parameter ``domains``, if that is a mapping.
    """

    job: Job
    name: str
    number: int
    own: Any = None

    def __str__(self) -> str:
        return f"{self.job.where}, domain {self.name}"

    @property
    def language(self) -> str:
        """The language of the rows that are written."""
        return str(self.job.value("lang"))

    def tables(self, name: str) -> Sequence[TablePath]:
        """List the tables of an input that have rows of the domain."""
        paths = self.job.paths(name)
        if len(self.job.domain_names) > 1 and not any(map(has_domains, paths)):
            paths = paths[self.number : self.number + 1]  # a table for each domain
        if self.name == ALL:
            return paths
        return [OfDomain(path, self.name) if has_domains(path) else path for path in paths]

    def read(self, name: str, spec: TableSpec) -> pl.DataFrame:
        """Read the domain's rows of an input, without language and domain; see `Job.read`."""
        return self.job._stacked(self.tables(name), spec)

    def read_each(self, name: str, spec: TableSpec) -> list[pl.DataFrame]:
        """Read the domain's rows of the tables of an input, one by one."""
        return [self.job._stacked([table], spec) for table in self.tables(name)]

    def columns(
        self, name: str, spec: TableSpec, columns: Sequence[str], **chosen: Any
    ) -> pl.DataFrame:
        """Read columns of the domain's rows of an input; ``chosen`` as in `read_columns`."""
        return self.job._columns(self.tables(name), spec, columns, **chosen)

    def batches(self, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read columns of the domain's rows of an input, few rows at a time, unchecked."""
        tables = self.tables(name)
        self.job.used |= dict.fromkeys(map(str, tables))
        for table in tables:
            yield from read_batches(table, columns)

    def write(self, name: str, frame: pl.DataFrame, spec: TableSpec, **record: Any) -> None:
        """Write the domain's rows of an output; see `Job.write`."""
        job = self.job
        if name not in job.writers:
            job.writers[name] = DomainWriter(str(job.outputs[name]), self.language)
        is_last = self.number == len(job.domain_names) - 1
        job.writers[name].add(self.name, frame, spec, job.record(**record), last=is_last)


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the validator of a type."""
    return TypeAdapter(kind)
