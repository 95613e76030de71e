"""Stages ``summaries`` and ``table_csv``: the tables of all pairs, and what is made of them."""

import csv as csv_files
import json
import logging
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import polars as pl

from psibench.config.leaderboards import Leaderboard
from psibench.errors import InputError
from psibench.metrics.language_averages import language_averages
from psibench.metrics.leaderboards import leaderboard_correlations
from psibench.metrics.position_trend import position_trend
from psibench.tables import hash_file, read_any_table, write_csv, write_table
from psibench.tables.derived import derived, read_all
from psibench.tables.schemas import BUCKET_SCORES, COMPARISONS, PSI_TABLE, TableSpec
from psibench.tables.stage import stage
from psibench.tables.summary_schemas import LANGUAGE_AVERAGES, LEADERBOARDS, POSITION_TREND

logger = logging.getLogger("psibench")

Paths = Sequence[str | Path]


@stage("summaries", version=1)
def run_summaries(
    *, psi: Paths, buckets: Paths, comparisons: Paths, boards: Sequence[Leaderboard], tables: Paths
) -> None:
    """Write each table NAME of all language pairs as NAME.parquet and NAME.csv of ``tables``.

    psi_table, bucket_scores and comparisons are those of the pairs in the order given;
    position_trend (slope and correlations of score on position) is made of the buckets;
    language_averages (macro-averages over languages) and leaderboards (correlations of those with
    each of ``boards``; no file without one) of the PSI table.

    Raises
    ------
    InputError
        If a table or a leaderboard is not what it should be.
    """
    files_of = {Path(path).name: path for path in tables}

    def write(frame: pl.DataFrame, spec: TableSpec, paths: Paths) -> pl.DataFrame:
        own = boards if spec is LEADERBOARDS else []
        files = {board.path: hash_file(board.path) for board in own}
        source = derived("summaries", paths, params={"table": spec.name}, files=files)
        write_table(frame, files_of[f"{spec.name}.parquet"], spec, provenance=source)
        write_csv(frame, files_of[f"{spec.name}.csv"])
        return frame

    table = write(read_all(psi, PSI_TABLE), PSI_TABLE, psi)
    scores = write(read_all(buckets, BUCKET_SCORES), BUCKET_SCORES, buckets)
    write(read_all(comparisons, COMPARISONS), COMPARISONS, comparisons)
    write(position_trend(scores), POSITION_TREND, buckets)
    averages = write(language_averages(table), LANGUAGE_AVERAGES, psi)
    if boards:
        found = pl.concat(_correlations(averages, board) for board in boards)
        write(found, LEADERBOARDS, psi)


def _correlations(averages: pl.DataFrame, board: Leaderboard) -> pl.DataFrame:
    """Correlate with a leaderboard; models it lacks are named in the table and in the log."""
    models = averages.get_column("model").unique().sort().to_list()
    scores = read_leaderboard(board)
    lacking = [model for model in models if model not in scores]
    if lacking:
        logger.warning("%s has no score of: %s", board.path, ", ".join(lacking))
    return leaderboard_correlations(averages, scores, leaderboard=board.name)


def read_leaderboard(board: Leaderboard) -> dict[str, float]:
    """Read a leaderboard's scores by model id.

    A model's id is its alias, else its name in lower case. Rows without a score are left out.

    Raises
    ------
    InputError
        If the file or a column is missing, a score is no number, two rows mean one model, or an
        alias names no row.
    """
    name_of, score_of = board.model_column, board.score_column
    try:
        with open(board.path, encoding="utf-8-sig", newline="") as handle:
            reader = csv_files.DictReader(handle, strict=True)
            found = list(reader.fieldnames or [])
            for column in (name_of, score_of):
                if column not in found:
                    raise InputError(f"{board.path} has no column {column!r}; found {found}")
            rows = [(reader.line_num, row[name_of], row[score_of]) for row in reader]
    except (OSError, UnicodeDecodeError, csv_files.Error) as error:
        raise InputError(f"{board.path} cannot be read as CSV: {error}") from error
    scores: dict[str, float] = {}
    names: dict[str, str] = {}
    for line, *cells in rows:
        name, text = ((cell or "").strip() for cell in cells)
        model = board.aliases.get(name, name.lower())
        if model in names:
            raise InputError(
                f"{board.path}, line {line}: {name!r} and {names[model]!r} are both the model "
                f"{model!r}; keep one of the rows, or give one of them another id in `aliases`"
            )
        names[model] = name
        if text:
            scores[model] = _score(text, f"{board.path}, line {line}, {board.score_column}")
    unused = sorted(set(board.aliases) - set(names.values()))
    if unused:
        raise InputError(
            f"{board.path} has no {board.model_column} {unused[0]!r}, which `aliases` of the "
            f"leaderboard {board.name!r} names; found {sorted(names.values())}"
        )
    return scores


def _score(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise InputError(f"{where} is {text!r}; give a number, or nothing where there is none")
    return value


@stage("table_csv", version=1)
def run_csv(parquet: str | Path, output: str | Path) -> None:
    """Write any table as CSV; lists as JSON, bytes as hexadecimal digits.

    Raises
    ------
    InputError
        If the file is not Parquet.
    """
    frame = read_any_table(parquet)
    plain = []
    for name, kind in frame.schema.items():
        if kind.is_nested():
            texts = [
                None if row is None else json.dumps(_plain(row), ensure_ascii=False)
                for row in frame[name]
            ]
            plain.append(pl.Series(name, texts, dtype=pl.String))
        elif kind == pl.Binary:
            plain.append(frame[name].bin.encode("hex").alias(name))
    write_csv(frame.with_columns(plain), output)


def _plain(value: Any) -> Any:
    return value.to_list() if isinstance(value, pl.Series) else value
