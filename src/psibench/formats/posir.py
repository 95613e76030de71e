"""The layout of PosIR's release: {language}/{domain}/{corpus,queries,qrels}/test.parquet.

Corpus: `_id`, `text`. Queries: `_id`, `text`, `pos_char_span` ([start, end) of the evidence in its
positive, characters), `pos_char_length` and `pos_token_length` (of the positive). Qrels:
`query-id`, `corpus-id`, `score`. In a translated language spans and lengths are those of the
original. Folders with `{table}.parquet` in place of `{table}/test.parquet`, which the authors' code
reads, are read as well; and so are three columns of queries that `psibench export --extra` adds
(`FURTHER`).
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from psibench.config.base import ID_PATTERN, LANGUAGE_PATTERN
from psibench.config.paths import workflow_path
from psibench.config.release import PosirReleaseSource
from psibench.errors import InputError, MissingError
from psibench.formats.checks import refuse_repeated_pairs
from psibench.formats.posir_columns import COLUMNS, FURTHER, read_columns
from psibench.formats.posir_hub import REPOSITORY, release_on_hub
from psibench.metrics.query_scores import name_some
from psibench.tables import atomic_path

if TYPE_CHECKING:
    from psibench.config.places import Place

__all__ = [
    "COLUMNS",
    "FURTHER",
    "TABLES",
    "ReleaseTables",
    "dataset_files",
    "discover",
    "read_dataset",
    "release_files",
    "write_dataset",
]

TABLES = ("corpus", "queries", "qrels")
PLACES = ("{table}/test.parquet", "{table}.parquet")
LAYOUT = "{language}/{domain}/corpus|queries|qrels/test.parquet, as in eng-Latn/game/corpus/..."


@dataclass(frozen=True)
class ReleaseTables:
    """One dataset of a release, in file order: `COLUMNS`, and what there is of `FURTHER`."""

    corpus: pl.DataFrame
    queries: pl.DataFrame
    qrels: pl.DataFrame


def discover(path: str) -> dict[str, list[str]]:
    """List the languages of a local release and the domains of each, sorted.

    Folders that are not named like a language are no part of a release.

    Raises
    ------
    InputError
        If there is no such folder, no language in it, a domain's name is not one psibench can use,
        or a domain lacks a table.
    """
    root = Path(path)
    if not root.is_dir():
        raise MissingError(
            f"{path}: no such folder in {Path.cwd()}. Give the folder of a release "
            f"({LAYOUT}); of one on the hub, name `languages` and `domains`"
        )
    languages = [entry for entry in _folders(root) if re.match(LANGUAGE_PATTERN, entry.name)]
    found = {entry.name: [domain.name for domain in _folders(entry)] for entry in languages}
    if not any(found.values()):
        inside = ", ".join(sorted(entry.name for entry in root.iterdir())[:5]) or "nothing"
        raise InputError(f"{path}: no release; found {inside}, expected {LAYOUT}")
    for language, domains in found.items():
        for domain in domains:
            if not re.match(ID_PATTERN, domain) or domain == "all":
                raise InputError(
                    f"{root / language / domain}: a domain's name has only a-z, 0-9, '.', '_' and "
                    "'-', and is not 'all'; rename the folder"
                )
            release_files(path, language=language, domain=domain)
    return found


def release_files(
    path: str, *, language: str, domain: str, revision: str | None = None
) -> dict[str, Path]:
    """Return where the three tables of a dataset lie; of one on the hub, after fetching them.

    Raises
    ------
    InputError
        If a file is missing.
    """
    folder = f"{language}/{domain}"
    if Path(path).is_dir():
        return {table: _local_file(Path(path) / folder, table) for table in TABLES}
    if not re.match(REPOSITORY, path):
        raise MissingError(f"{path}: no such folder in {Path.cwd()}, and no name on the hub")
    wanted = {t: [f"{folder}/{place.format(table=t)}" for place in PLACES] for t in TABLES}
    return release_on_hub(path, wanted, revision=revision)


def dataset_files(source: PosirReleaseSource, at: "Place") -> list[str]:
    """List the local files of one place of a release; none for a name on the hub."""
    if not Path(source.path).is_dir() and re.match(REPOSITORY, source.path):
        return []
    files = release_files(source.path, language=at.language, domain=at.domain)
    return [workflow_path(str(path)) for path in files.values()]


def read_dataset(
    path: str, *, language: str, domain: str, revision: str | None = None
) -> ReleaseTables:
    """Read one dataset of a release.

    Raises
    ------
    InputError
        If a file is missing or no Parquet file, a column is missing or of another type, a value is
        null, a position none of the three, a length none of a text, or an id or a judged pair
        occurs twice.
    """
    files = release_files(path, language=language, domain=domain, revision=revision)
    tables = {table: read_columns(files[table], table) for table in TABLES}
    for table in ("corpus", "queries"):
        ids = tables[table].get_column("_id")
        if ids.is_duplicated().any():
            repeated = ids.filter(ids.is_duplicated()).unique()
            raise InputError(f"{files[table]}: ids that occur twice: {name_some(repeated)}")
    refuse_repeated_pairs(tables["qrels"], source=str(files["qrels"]))
    return ReleaseTables(**tables)


def write_dataset(
    tables: ReleaseTables, folder: Path, *, language: str, domain: str, extra: bool = False
) -> None:
    """Write one dataset of a release below ``folder``: the published columns, in their types.

    ``extra``: further columns too, after them.
    """
    for table in TABLES:
        frame: pl.DataFrame = getattr(tables, table)
        own = [pl.col(name).cast(kind) for name, kind in COLUMNS[table].items()]
        rest = [pl.exclude(list(COLUMNS[table]))] if extra else []
        path = folder / language / domain / table / "test.parquet"
        with atomic_path(path) as temporary:
            frame.select(*own, *rest).write_parquet(temporary, compression="zstd")


def _folders(root: Path) -> list[Path]:
    return sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))


def _local_file(folder: Path, table: str) -> Path:
    paths = [folder / place.format(table=table) for place in PLACES]
    for path in paths:
        if path.is_file():
            return path
    raise MissingError(f"{paths[0]}: no such file; a release has {LAYOUT}")
