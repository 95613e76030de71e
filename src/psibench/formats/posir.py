"""The layout of PosIR's release: {language}/{domain}/{corpus,queries,qrels}/test.parquet.

Corpus: `_id`, `text`. Queries: `_id`, `text`, `pos_char_span` ([start, end) of the evidence in its
positive, characters), `pos_char_length` and `pos_token_length` (of the positive). Qrels:
`query-id`, `corpus-id`, `score`. In a translated language, spans and lengths refer to the original.
psibench also reads folders with `{table}.parquet` instead of `{table}/test.parquet`, as the
authors' code does, and the columns of queries that `psibench export --extra` adds (`FURTHER`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from psibench.config.base import ID_PATTERN, LANGUAGE_PATTERN
from psibench.errors import InputError, MissingError
from psibench.formats.checks import (
    refuse_odd_lengths,
    refuse_odd_spans,
    refuse_other_positions,
    without_repeated_rows,
)
from psibench.formats.tabular import NUMBER, SPAN, SPANS, TEXT, TEXTS, read_typed_columns
from psibench.metrics.query_scores import CLUSTER, SEVERAL_SPANS, name_some

RELEASE_COLUMNS: Mapping[str, dict[str, Any]] = {
    "corpus": {"_id": TEXT, "text": TEXT},
    "queries": {
        "_id": TEXT,
        "text": TEXT,
        "pos_char_span": SPAN,
        "pos_char_length": NUMBER,
        "pos_token_length": NUMBER,
    },
    "qrels": {"query-id": TEXT, "corpus-id": TEXT, "score": NUMBER},
}
"""The published columns with their types."""
FURTHER: Mapping[str, dict[str, Any]] = {
    "queries": {
        "target_position": TEXT,
        "pos_corpus_id": TEXT,
        "pos_translated_char_length": NUMBER,
        "positions": TEXTS,
        SEVERAL_SPANS: SPANS,
        CLUSTER: TEXT,
    }
}
"""Optional columns that psibench adds; values may be null."""
REPOSITORY = r"^[\w-][\w.-]*/[\w.-]+$"
"""Pattern of the name of a dataset on the hub: owner/name."""
RELEASE_TABLES = tuple(RELEASE_COLUMNS)
_TABLE_PATHS = ("{table}/test.parquet", "{table}.parquet")
LAYOUT = "{language}/{domain}/corpus|queries|qrels/test.parquet, e.g. eng-Latn/game/corpus/..."


@dataclass(frozen=True)
class ReleaseTables:
    """One dataset of a release, in file order; it may have columns of `FURTHER`."""

    corpus: pl.DataFrame
    queries: pl.DataFrame
    qrels: pl.DataFrame


def discover(path: str) -> dict[str, list[str]]:
    """List the languages of a local release and the domains of each, sorted.

    Folders whose name is not a language are ignored. A language may lack domains, and a domain may
    lack queries (`release_files`).

    Raises InputError if the folder does not exist or has no language, a domain's name is invalid,
    or a domain lacks a table.
    """
    root = Path(path)
    if not root.is_dir():
        raise MissingError(
            f"{path}: no such folder in {Path.cwd()}. Give the folder of a release "
            f"({LAYOUT}); for a release on the hub, set `languages` and `domains`"
        )
    languages = [entry for entry in _folders(root) if re.match(LANGUAGE_PATTERN, entry.name)]
    domains_of = {entry.name: [domain.name for domain in _folders(entry)] for entry in languages}
    if not any(domains_of.values()):
        inside = ", ".join(sorted(entry.name for entry in root.iterdir())[:5]) or "nothing"
        raise InputError(f"{path}: not a release; found {inside}, expected {LAYOUT}")
    for language, domains in domains_of.items():
        for domain in domains:
            if not re.match(ID_PATTERN, domain) or domain == "all":
                raise InputError(
                    f"{root / language / domain}: a domain's name may only have a-z, 0-9, '.', '_' "
                    "and '-', and may not be 'all'; rename the folder"
                )
            release_files(path, language=language, domain=domain)
    return domains_of


def release_files(
    path: str, *, language: str, domain: str, revision: str | None = None
) -> dict[str, Path]:
    """Return the paths of the three tables of a dataset; download them if it is on the hub.

    A local dataset may have only documents, without queries and qrels.

    Raises InputError if a file is missing.
    """
    folder = f"{language}/{domain}"
    if Path(path).is_dir():
        local = {table: _local_file(Path(path) / folder, table) for table in RELEASE_TABLES}
        if local["queries"] is None and local["qrels"] is None and local["corpus"] is not None:
            return {"corpus": local["corpus"]}
        for table, file in local.items():
            if file is None:
                absent = Path(path) / folder / _TABLE_PATHS[0].format(table=table)
                raise MissingError(f"{absent}: no such file; a release has {LAYOUT}")
        return {table: file for table, file in local.items() if file is not None}
    if not re.match(REPOSITORY, path):
        raise MissingError(
            f"{path}: no such folder in {Path.cwd()}, and not the name of a dataset on the hub "
            "(owner/name)"
        )
    wanted = {
        table: [f"{folder}/{one.format(table=table)}" for one in _TABLE_PATHS]
        for table in RELEASE_TABLES
    }
    return {table: _fetch(path, paths, revision) for table, paths in wanted.items()}


def read_dataset(
    path: str, *, language: str, domain: str, revision: str | None = None
) -> ReleaseTables:
    """Read one dataset of a release.

    Raises InputError if a file is missing or not a Parquet file, a column is missing or has another
    type, a value is null, a position is no third, a length is impossible, an id occurs twice, or a
    judged pair has two grades.
    """
    files = release_files(path, language=language, domain=domain, revision=revision)
    tables = {table: _read_table(file, table) for table, file in files.items()}
    for table in RELEASE_TABLES:
        tables.setdefault(table, pl.DataFrame(schema=RELEASE_COLUMNS[table]))
    for table in files.keys() & {"corpus", "queries"}:
        ids = tables[table].get_column("_id")
        if ids.is_duplicated().any():
            repeated = ids.filter(ids.is_duplicated()).unique()
            raise InputError(
                f"{files[table]}: ids that occur twice: {name_some(repeated)}; ids must be unique"
            )
    if "qrels" in files:
        tables["qrels"] = without_repeated_rows(tables["qrels"], source=str(files["qrels"]))
    return ReleaseTables(**tables)


@dataclass(frozen=True)
class DatasetCounts:
    """Rows of a local dataset: documents, queries, and queries with a positive in the corpus."""

    documents: int
    queries: int
    answerable: int


def count_dataset(path: str, *, language: str, domain: str) -> DatasetCounts:
    """Count the rows of a local dataset by ids, without reading texts.

    Raises InputError if a file is missing, is not a Parquet file, or lacks a column.
    """
    files = release_files(path, language=language, domain=domain)
    frames = {}
    columns = {"corpus": ["_id"], "queries": ["_id"], "qrels": RELEASE_COLUMNS["qrels"]}
    for table, names in columns.items():
        kinds = {name: RELEASE_COLUMNS[table][name] for name in names}
        frames[table] = pl.DataFrame(schema=kinds)
        if table in files:
            frames[table] = read_typed_columns(files[table], kinds, further={}, hint=f"in {table}")
    judged = (
        frames["qrels"]
        .filter(pl.col("score") > 0)
        .join(frames["corpus"], left_on="corpus-id", right_on="_id", how="semi")
    )
    answerable = frames["queries"].join(judged, left_on="_id", right_on="query-id", how="semi")
    return DatasetCounts(frames["corpus"].height, frames["queries"].height, answerable.height)


def _folders(root: Path) -> list[Path]:
    return sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))


def _local_file(folder: Path, table: str) -> Path | None:
    paths = (folder / one.format(table=table) for one in _TABLE_PATHS)
    return next((path for path in paths if path.is_file()), None)


def _fetch(name: str, paths: Sequence[str], revision: str | None) -> Path:
    """Return the first of these files that exists on the hub, from the cache if it is there."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    for path in paths:
        try:
            return Path(hf_hub_download(name, path, repo_type="dataset", revision=revision))
        except Exception as error:  # the kinds differ by version of huggingface_hub
            is_absent = isinstance(error, EntryNotFoundError)
            if is_absent and not isinstance(error, LocalEntryNotFoundError):
                continue  # LocalEntryNotFoundError: not cached, and the hub does not answer
            raise InputError(
                f"{name}: no such folder in {Path.cwd()}, and the dataset of this name on the hub, "
                f"revision {revision!r}, cannot be loaded ({type(error).__name__}: {error}). Check "
                "the name; on a machine without network, use a local folder."
            ) from error
    raise InputError(
        f"dataset {name!r}, revision {revision!r}: no file {paths[0]}; check `languages` and "
        "`domains`"
    )


def _read_table(path: Path, table: str) -> pl.DataFrame:
    """Read the columns of a release's table, and the columns of `FURTHER` that it has.

    Published columns may not be null, except `pos_char_span` if a query has several spans or only a
    class.
    """
    columns = RELEASE_COLUMNS[table]
    hint = f"a release's {table} has {', '.join(columns)}"
    frame = read_typed_columns(path, columns, further=FURTHER.get(table, {}), hint=hint)
    by_other = [n for n in ("target_position", SEVERAL_SPANS) if n in frame.columns]
    is_elsewhere = pl.any_horizontal(pl.lit(value=False), pl.col(by_other).is_not_null())
    for name in columns:
        is_lost = pl.col(name).is_null()
        nulls = frame.filter(is_lost & ~is_elsewhere if name == "pos_char_span" else is_lost).height
        if nulls:
            raise InputError(
                f"{path}: column {name} is null in {nulls} of {frame.height} rows; expected a value"
            )
    if table == "queries":
        if (frame.get_column("pos_char_span").list.len() != 2).any():
            raise InputError(f"{path}: a pos_char_span lacks two numbers; expected [start, end]")
        lengths = [name for name in frame.columns if name.endswith("_length")]
        refuse_odd_lengths(frame, lengths, source=str(path))
        refuse_other_positions(frame, source=str(path))
        refuse_odd_spans(frame, source=str(path))
    return frame
