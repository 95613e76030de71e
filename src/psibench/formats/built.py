"""Datasets and runs of a built benchmark in `results/BENCHMARK`, by language and domain.

A dataset is one language and domain: its queries search only its corpus.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import polars as pl

from psibench.errors import InputError
from psibench.formats.checks import IdenticalIds
from psibench.tables import read_provenance, read_table
from psibench.tables.columns import read_columns
from psibench.tables.domains import DOMAIN, OfDomain, has_domains
from psibench.tables.schemas import CORPUS, QRELS, QUERIES, STATISTICS

logger = logging.getLogger("psibench")

DATASET_TABLES = {spec.name: spec for spec in (CORPUS, QUERIES, QRELS)}


@dataclass(frozen=True)
class Dataset:
    """One language and domain of a benchmark.

    ``folder`` has the tables of the language, or of some of its domains: data/LANGUAGE or
    data/LANGUAGE/1-of-2.
    """

    language: str
    domain: str
    folder: Path

    @property
    def name(self) -> str:
        """Language and domain, for messages."""
        return f"{self.language}/{self.domain}"

    def path(self, table: str) -> Path:
        """Return the path of one of its tables, which may have other domains too."""
        return self.folder / f"{table}.parquet"

    def read(self, table: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Read its rows of a table without ``language`` and ``domain``.

        ``columns`` None reads all other columns. Raises InputError if the rows do not fit the
        schema.
        """
        rows = OfDomain(str(self.path(table)), self.domain)
        if columns is None:
            return read_table(rows, DATASET_TABLES[table])
        return read_columns(rows, DATASET_TABLES[table], columns)

    @property
    def identical_ids(self) -> IdenticalIds:
        """`identical_ids` of its benchmark; auto if it was not recorded."""
        return identical_ids_of(self.path("queries"))


def identical_ids_of(queries: Path) -> IdenticalIds:
    """Return `identical_ids` of the benchmark of a queries table; auto if not recorded."""
    params = (read_provenance(queries) or {}).get("params") or {}
    domains = params.get("domains")
    each = list(domains.values()) if isinstance(domains, Mapping) else [params]
    settings = {one.get("identical_ids", "keep" if "recipe" in one else "auto") for one in each}
    return settings.pop() if len(settings) == 1 else "auto"


def find_datasets(
    benchmark: Path,
    *,
    languages: Sequence[str] | None = None,
    domains: Sequence[str] | None = None,
) -> list[Dataset]:
    """List the datasets of a benchmark, sorted; all, or only some languages and domains.

    Datasets that only an earlier run made are included, with a warning.

    Raises InputError if a benchmark has no dataset, a chosen language or domain does not exist, a
    dataset is in the tables of two folders, or it lacks a table.
    """
    data = benchmark / "data"
    folders = sorted({path.parent for path in data.rglob("corpus.parquet")})
    every = [
        Dataset(folder.relative_to(data).parts[0], domain, folder)
        for folder in folders
        for domain in _domains_in(folder / "corpus.parquet")
    ]
    every.sort(key=lambda one: (one.language, one.domain))
    for one, other in pairwise(every):
        if one.name == other.name:
            raise InputError(
                f"{one.name} is in two tables, since two runs divided the domains differently: "
                f"{one.path('corpus')}, {other.path('corpus')}; delete the older folder"
            )
    if not every:
        raise InputError(
            f"{benchmark}: has no table data/LANGUAGE/corpus.parquet; give the folder of a "
            "benchmark in results/, e.g. results/python-docs"
        )
    datasets = [
        one
        for one in every
        if (languages is None or one.language in languages)
        and (domains is None or one.domain in domains)
    ]
    for kind, wanted in (("language", languages), ("domain", domains)):
        if lost := sorted(set(wanted or ()) - {getattr(one, kind) for one in datasets}):
            allowed = ", ".join(one.name for one in every)
            raise InputError(
                f"{kind}s: no dataset of {', '.join(lost)} in the chosen languages and domains; "
                f"the benchmark has {allowed}"
            )
    statistics = benchmark / "statistics.parquet"  # of the last run, if it got this far
    if statistics.is_file():
        last = set(read_columns(statistics, STATISTICS, ["language", "domain"]).iter_rows())
        if left := [one.name for one in datasets if (one.language, one.domain) not in last]:
            logger.warning(
                "datasets from an earlier run that the last run did not make: %s; delete them "
                "unless they belong to the benchmark",
                ", ".join(left),
            )
    for dataset in datasets:
        if lacking := [table for table in DATASET_TABLES if not dataset.path(table).is_file()]:
            folder = Path(
                "results", benchmark.resolve().name, dataset.folder.relative_to(benchmark)
            )
            raise InputError(
                f"{dataset.folder}: missing {', '.join(lacking)}; make these tables with `psibench "
                f"run CONFIG {' '.join(f'{folder}/{table}.parquet' for table in lacking)}`"
            )
    return datasets


def _domains_in(corpus: Path) -> list[str]:
    """List the domains of a table; raise InputError if an older version made it."""
    if not has_domains(corpus):
        raise InputError(
            f"{corpus}: has no column 'domain'; an older psibench wrote a table for each domain. "
            "Make the benchmark again with `psibench run`"
        )
    return read_columns(corpus, CORPUS, [DOMAIN.name])[DOMAIN.name].unique().to_list()


def prefixed_domains(datasets: Sequence[Dataset]) -> set[str]:
    """Return the domains that are the prefix of all of their ids, in every language."""
    every = {dataset.domain for dataset in datasets}
    bare = {dataset.domain for dataset in datasets if not _all_prefixed(dataset)}
    return every - bare


def _all_prefixed(dataset: Dataset) -> bool:
    columns = {"corpus": ["_id"], "queries": ["_id"], "qrels": ["query-id", "corpus-id"]}
    return all(
        ids.str.starts_with(f"{dataset.domain}/").all()
        for table, names in columns.items()
        for ids in dataset.read(table, names).iter_columns()
    )


@dataclass(frozen=True)
class BuiltRun:
    """The run file of one model for one language pair."""

    model: str
    query_language: str
    corpus_language: str
    path: Path


SCORED_RUN = re.compile(r"(?P<view>[^/]+)/(?P<path>runs/[^/]+/[^/]+\.parquet)$")
"""Path of a run among the inputs of scores."""


def find_runs(benchmark: Path, languages: Sequence[str]) -> list[BuiltRun]:
    """List the runs whose queries and corpus are in these languages, by pair and model.

    A benchmark's scores may come from the runs of another view with more queries; the provenance of
    the scores lists these.
    """
    pairs = {
        f"{queries}-{corpus}": (queries, corpus) for queries in languages for corpus in languages
    }
    own = sorted((benchmark / "runs").glob("*/*.parquet"))
    scores = [benchmark / "scores" / f"{pair}.parquet" for pair in pairs]
    scored = [
        benchmark.parent / run["view"] / run["path"]
        for path in scores
        if path.is_file()
        for read in (read_provenance(path) or {}).get("inputs", {})
        if (run := SCORED_RUN.search(read))
    ]
    by_model = {
        (path.parent.name, path.stem): path for path in [*own, *scored] if path.stem in pairs
    }
    runs = [BuiltRun(model, *pairs[pair], path) for (model, pair), path in by_model.items()]
    return sorted(runs, key=lambda run: (run.corpus_language, run.query_language, run.model))
