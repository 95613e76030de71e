"""What `results/BENCHMARK` holds of a built benchmark: datasets by language and domain, and runs.

A dataset is one language and domain: its queries search its corpus and nothing else.
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

TABLES = {spec.name: spec for spec in (CORPUS, QUERIES, QRELS)}


@dataclass(frozen=True)
class Dataset:
    """One language and domain of a benchmark.

    ``folder`` has the tables of the language, or of a part of its domains: data/LANGUAGE or
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
        """Where one of its tables lies, with the rows of other domains in it."""
        return self.folder / f"{table}.parquet"

    def read(self, table: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Read its rows of a table, all columns or some; InputError if they do not fit the schema.

        ``language`` and ``domain`` are not among the columns.
        """
        rows = OfDomain(str(self.path(table)), self.domain)
        if columns is None:
            return read_table(rows, TABLES[table])
        return read_columns(rows, TABLES[table], columns)

    @property
    def identical_ids(self) -> IdenticalIds:
        """`identical_ids` of its benchmark; auto: not recorded."""
        return identical_ids_of(self.path("queries"))


def identical_ids_of(queries: Path) -> IdenticalIds:
    """Return `identical_ids` of the benchmark that a table of queries is of; auto: not recorded."""
    params = (read_provenance(queries) or {}).get("params") or {}
    domains = params.get("domains")
    each = list(domains.values()) if isinstance(domains, Mapping) else [params]
    found = {one.get("identical_ids", "keep" if "recipe" in one else "auto") for one in each}
    return found.pop() if len(found) == 1 else "auto"


def find_datasets(
    benchmark: Path,
    *,
    languages: Sequence[str] | None = None,
    domains: Sequence[str] | None = None,
) -> list[Dataset]:
    """List the languages and domains of a benchmark, sorted; those named, or all.

    Those of an earlier run that the last one did not have are there, too, with a warning.

    Raises InputError if there is none, one that is named is not there, one is in the tables of two
    folders, or one lacks a table.
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
                f"{one.name} is in two tables, of runs that sliced the language otherwise: "
                f"{one.path('corpus')}, {other.path('corpus')}; delete the folder of the older one"
            )
    if not every:
        raise InputError(
            f"{benchmark}: no table data/LANGUAGE/corpus.parquet in it; name the folder of a "
            "benchmark in results/, as in results/python-docs"
        )
    datasets = [
        one
        for one in every
        if (languages is None or one.language in languages)
        and (domains is None or one.domain in domains)
    ]
    for kind, wanted in (("language", languages), ("domain", domains)):
        if lost := sorted(set(wanted or ()) - {getattr(one, kind) for one in datasets}):
            there = ", ".join(one.name for one in every)
            raise InputError(
                f"{kind}s: no dataset of {', '.join(lost)} among those chosen; the benchmark has "
                f"{there}"
            )
    counted = benchmark / "statistics.parquet"  # of the last run, where it had come so far
    if counted.is_file():
        last = set(read_columns(counted, STATISTICS, ["language", "domain"]).iter_rows())
        if left := [one.name for one in datasets if (one.language, one.domain) not in last]:
            logger.warning(
                "left from an earlier run, and no part of the last one: %s; delete what does not "
                "belong to the benchmark",
                ", ".join(left),
            )
    for dataset in datasets:
        if lacking := [table for table in TABLES if not dataset.path(table).is_file()]:
            place = Path("results", benchmark.resolve().name, dataset.folder.relative_to(benchmark))
            raise InputError(
                f"{dataset.folder}: no {', '.join(lacking)}; make what is lacking with `psibench "
                f"run CONFIG {' '.join(f'{place}/{table}.parquet' for table in lacking)}`"
            )
    return datasets


def _domains_in(corpus: Path) -> list[str]:
    """List the domains of a table; InputError if it has none: an older version made it."""
    if not has_domains(corpus):
        raise InputError(
            f"{corpus}: no column 'domain' in it; an older psibench wrote a table for each domain. "
            "Make the benchmark again with `psibench run`"
        )
    return read_columns(corpus, CORPUS, [DOMAIN.name])[DOMAIN.name].unique().to_list()


def prefixed_domains(datasets: Sequence[Dataset]) -> set[str]:
    """Name the domains that stand before all of their own ids, in every language."""
    named = {dataset.domain for dataset in datasets}
    bare = {dataset.domain for dataset in datasets if not _all_prefixed(dataset)}
    return named - bare


def _all_prefixed(dataset: Dataset) -> bool:
    columns = {"corpus": ["_id"], "queries": ["_id"], "qrels": ["query-id", "corpus-id"]}
    return all(
        ids.str.starts_with(f"{dataset.domain}/").all()
        for table, names in columns.items()
        for ids in dataset.read(table, names).iter_columns()
    )


@dataclass(frozen=True)
class Run:
    """The file of one model's ranking of one language pair."""

    model: str
    query_language: str
    corpus_language: str
    path: Path


SCORED_RUN = re.compile(r"(?P<view>[^/]+)/(?P<path>runs/[^/]+/[^/]+\.parquet)$")
"""The path of a run, among those that scores were made of."""


def find_runs(benchmark: Path, languages: Sequence[str]) -> list[Run]:
    """List the runs over corpora and by queries of these languages, by pair and model.

    A benchmark may have been scored by the runs of another view, which have more queries: the
    provenance of its scores names them.
    """
    pairs = {
        f"{asked}-{searched}": (asked, searched) for asked in languages for searched in languages
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
    found = [Run(model, *pairs[pair], path) for (model, pair), path in by_model.items()]
    return sorted(found, key=lambda run: (run.corpus_language, run.query_language, run.model))
