"""Stage ``summaries``: the result tables of all benchmarks, and what is made of them."""

import logging
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from psibench.config.leaderboards import Leaderboard
from psibench.metrics.language_averages import language_averages
from psibench.metrics.leaderboards import leaderboard_correlations
from psibench.metrics.position_trend import position_trend
from psibench.stages.leaderboard_file import read_leaderboard
from psibench.stages.tables import derived, read_all
from psibench.tables import hash_file, write_csv, write_table
from psibench.tables.schemas import BUCKET_SCORES, COMPARISONS, PSI_TABLE, TableSpec
from psibench.tables.summary_schemas import LANGUAGE_AVERAGES, LEADERBOARDS, POSITION_TREND

logger = logging.getLogger("psibench")

Paths = Sequence[str | Path]


def run_summaries(
    *, psi: Paths, buckets: Paths, comparisons: Paths, boards: Sequence[Leaderboard], folder: Path
) -> None:
    """Write each table NAME of all language pairs as ``folder``/NAME.parquet and NAME.csv.

    psi_table, bucket_scores and comparisons are those of the pairs in the order given;
    position_trend (slope and correlations of score on position) is made of the buckets;
    language_averages (macro-averages over languages) and leaderboards (correlations of those with
    each of ``boards``; no file without one) of the PSI table.

    Raises
    ------
    InputError
        If a table or a leaderboard is not what it should be.
    """

    def write(frame: pl.DataFrame, spec: TableSpec, paths: Paths) -> pl.DataFrame:
        files = {board.path: hash_file(board.path) for board in boards}
        if spec is not LEADERBOARDS:
            files = {}
        source = derived("summaries", paths, params={"table": spec.name}, files=files)
        write_table(frame, folder / f"{spec.name}.parquet", spec, provenance=source)
        write_csv(frame, folder / f"{spec.name}.csv")
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
