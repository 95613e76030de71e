"""The layout of PosIR's release: {language}/{domain}/{corpus,queries,qrels}/test.parquet.

Corpus: `_id`, `text`. Queries: `_id`, `text`, `pos_char_span` ([start, end) of the evidence in its
positive, characters), `pos_char_length` and `pos_token_length` (of the positive). Qrels:
`query-id`, `corpus-id`, `score`. In a translated language spans and lengths are those of the
original. Folders with `{table}.parquet` in place of `{table}/test.parquet`, which the authors' code
reads, are read as well; and so are three columns of queries that `psibench export --extra` adds
(`FURTHER`).
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
from psibench.formats.tabular import NUMBER, SPAN, SPANS, TEXT, TEXTS, read_columns
from psibench.metrics.query_scores import CLUSTER, SEVERAL_SPANS, name_some

COLUMNS: Mapping[str, dict[str, Any]] = {
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
"""The published columns with the types they are written in."""
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
"""Columns that psibench adds: read where they are there; a value may be null."""
REPOSITORY = r"^[\w-][\w.-]*/[\w.-]+$"
"""How a dataset on the hub is named: owner/name."""
TABLES = tuple(COLUMNS)
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

    Folders that are not named like a language are no part of a release. A language need not have
    every domain, nor a domain queries (`release_files`).

    Raises InputError if there is no such folder, no language in it, a domain's name is not one
    psibench can use, or a domain lacks a table.
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

    A local dataset may be documents alone: it has neither queries nor qrels.

    Raises InputError if a file is missing.
    """
    folder = f"{language}/{domain}"
    if Path(path).is_dir():
        found = {table: _local_file(Path(path) / folder, table) for table in TABLES}
        if found["queries"] is None and found["qrels"] is None and found["corpus"] is not None:
            return {"corpus": found["corpus"]}
        for table, file in found.items():
            if file is None:
                absent = Path(path) / folder / PLACES[0].format(table=table)
                raise MissingError(f"{absent}: no such file; a release has {LAYOUT}")
        return {table: file for table, file in found.items() if file is not None}
    if not re.match(REPOSITORY, path):
        raise MissingError(f"{path}: no such folder in {Path.cwd()}, and no name on the hub")
    wanted = {t: [f"{folder}/{place.format(table=t)}" for place in PLACES] for t in TABLES}
    return {table: _fetch(path, paths, revision) for table, paths in wanted.items()}


def read_dataset(
    path: str, *, language: str, domain: str, revision: str | None = None
) -> ReleaseTables:
    """Read one dataset of a release.

    Raises InputError if a file is missing or no Parquet file, a column is missing or of another
    type, a value is null, a position none of the three, a length none of a text, an id occurs
    twice, or a judged pair does with two grades.
    """
    files = release_files(path, language=language, domain=domain, revision=revision)
    tables = {table: _read_table(file, table) for table, file in files.items()}
    for table in TABLES:
        tables.setdefault(table, pl.DataFrame(schema=COLUMNS[table]))
    for table in files.keys() & {"corpus", "queries"}:
        ids = tables[table].get_column("_id")
        if ids.is_duplicated().any():
            repeated = ids.filter(ids.is_duplicated()).unique()
            raise InputError(f"{files[table]}: ids that occur twice: {name_some(repeated)}")
    if "qrels" in files:
        tables["qrels"] = without_repeated_rows(tables["qrels"], source=str(files["qrels"]))
    return ReleaseTables(**tables)


@dataclass(frozen=True)
class Counts:
    """Rows of a local dataset: documents, queries, and queries with a positive in the corpus."""

    documents: int
    queries: int
    answerable: int


def count_dataset(path: str, *, language: str, domain: str) -> Counts:
    """Count a local dataset by its ids; no text is read.

    Raises InputError if a file is missing or no Parquet file, or lacks a column.
    """
    files = release_files(path, language=language, domain=domain)
    frames = {}
    for table, names in {"corpus": ["_id"], "queries": ["_id"], "qrels": COLUMNS["qrels"]}.items():
        kinds = {name: COLUMNS[table][name] for name in names}
        frames[table] = pl.DataFrame(schema=kinds)
        if table in files:
            frames[table] = read_columns(files[table], kinds, further={}, hint=f"in a {table}")
    judged = (
        frames["qrels"]
        .filter(pl.col("score") > 0)
        .join(frames["corpus"], left_on="corpus-id", right_on="_id", how="semi")
    )
    answerable = frames["queries"].join(judged, left_on="_id", right_on="query-id", how="semi")
    return Counts(frames["corpus"].height, frames["queries"].height, answerable.height)


def _folders(root: Path) -> list[Path]:
    return sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))


def _local_file(folder: Path, table: str) -> Path | None:
    paths = (folder / place.format(table=table) for place in PLACES)
    return next((path for path in paths if path.is_file()), None)


def _fetch(name: str, paths: Sequence[str], revision: str | None) -> Path:
    """Fetch the first of these files of a dataset on the hub that exists, or find it fetched."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    for path in paths:
        try:
            return Path(hf_hub_download(name, path, repo_type="dataset", revision=revision))
        except Exception as error:  # the client's kinds differ by version
            is_absent = isinstance(error, EntryNotFoundError)
            if is_absent and not isinstance(error, LocalEntryNotFoundError):
                continue  # the local one: not fetched before, and no answer now
            raise InputError(
                f"{name}: no such folder in {Path.cwd()}, and as a dataset on the hub, revision "
                f"{revision!r}, it cannot be loaded ({type(error).__name__}: {error}). Check the "
                "name; on a machine without network, give a local folder."
            ) from error
    raise InputError(
        f"dataset {name!r}, revision {revision!r}: no file {paths[0]}; check `languages` and "
        "`domains`"
    )


def _read_table(path: Path, table: str) -> pl.DataFrame:
    """Read the columns of a table of a release, and those of `FURTHER` that it has.

    Of the published columns none is null, but a span of evidence that is several, or known by class
    alone.
    """
    columns = COLUMNS[table]
    hint = f"a release's {table} has {', '.join(columns)}"
    frame = read_columns(path, columns, further=FURTHER.get(table, {}), hint=hint)
    by_other = [n for n in ("target_position", SEVERAL_SPANS) if n in frame.columns]
    is_elsewhere = pl.any_horizontal(pl.lit(value=False), pl.col(by_other).is_not_null())
    for name in columns:
        is_lost = pl.col(name).is_null()
        nulls = frame.filter(is_lost & ~is_elsewhere if name == "pos_char_span" else is_lost).height
        if nulls:
            raise InputError(f"{path}: column {name} is null in {nulls} of {frame.height} rows")
    if table == "queries":
        if (frame.get_column("pos_char_span").list.len() != 2).any():
            raise InputError(f"{path}: a pos_char_span has not two numbers; expected [start, end]")
        lengths = [name for name in frame.columns if name.endswith("_length")]
        refuse_odd_lengths(frame, lengths, source=str(path))
        refuse_other_positions(frame, source=str(path))
        refuse_odd_spans(frame, source=str(path))
    return frame
