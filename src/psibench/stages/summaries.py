"""Stages ``position_trend``, ``language_averages`` and ``leaderboards``: over all benchmarks."""

import logging
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from psibench.config.leaderboards import Leaderboard
from psibench.metrics.language_averages import language_averages
from psibench.metrics.leaderboards import leaderboard_correlations
from psibench.metrics.position_trend import position_trend
from psibench.stages.leaderboard_file import read_leaderboard
from psibench.stages.tables import derived
from psibench.tables import hash_file, read_table, write_csv, write_table
from psibench.tables.schemas import BUCKET_SCORES, PSI_TABLE
from psibench.tables.summary_schemas import LANGUAGE_AVERAGES, LEADERBOARDS, POSITION_TREND

logger = logging.getLogger("psibench")


def run_position_trend(bucket_scores: str | Path, *, parquet: str | Path, csv: str | Path) -> None:
    """Write slope and correlations of score on position, as Parquet and CSV."""
    found = position_trend(read_table(bucket_scores, BUCKET_SCORES))
    source = derived("position_trend", [bucket_scores], params={})
    write_table(found, parquet, POSITION_TREND, provenance=source)
    write_csv(found, csv)


def run_language_averages(psi_table: str | Path, *, parquet: str | Path, csv: str | Path) -> None:
    """Write the macro-averages over languages, as Parquet and CSV."""
    found = language_averages(read_table(psi_table, PSI_TABLE))
    source = derived("language_averages", [psi_table], params={})
    write_table(found, parquet, LANGUAGE_AVERAGES, provenance=source)
    write_csv(found, csv)


def run_leaderboards(
    averages: str | Path,
    *,
    boards: Sequence[Leaderboard],
    parquet: str | Path,
    csv: str | Path,
) -> None:
    """Write the correlations with each leaderboard, as Parquet and CSV.

    Models of the run that a leaderboard lacks are named in the table and in the log.
    """
    frame = read_table(averages, LANGUAGE_AVERAGES)
    models = frame.get_column("model").unique().sort().to_list()
    found = []
    for board in boards:
        scores = read_leaderboard(board)
        lacking = [model for model in models if model not in scores]
        if lacking:
            logger.warning("%s has no score of: %s", board.path, ", ".join(lacking))
        found.append(leaderboard_correlations(frame, scores, leaderboard=board.name))
    source = derived(
        "leaderboards",
        [averages],
        params={"boards": [board.model_dump(mode="json") for board in boards]},
        files={board.path: hash_file(board.path) for board in boards},
    )
    table = pl.concat(found)
    write_table(table, parquet, LEADERBOARDS, provenance=source)
    write_csv(table, csv)
