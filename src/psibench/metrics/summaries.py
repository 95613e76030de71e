"""Stages ``summaries`` and ``table_csv``: tables over all language pairs, and any table as CSV."""

import csv as csv_files
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

import polars as pl

from psibench.config.sections import Leaderboard
from psibench.errors import InputError
from psibench.metrics.correlation import correlate_rows, spearman
from psibench.reading import parse_number
from psibench.tables import hash_file, read_any_table, write_csv
from psibench.tables.job import Job
from psibench.tables.schemas import (
    BUCKET_SCORES,
    COMPARISONS,
    LANGUAGE_AVERAGES,
    LEADERBOARDS,
    POSITION_TREND,
    PSI_TABLE,
    TableSpec,
)
from psibench.tables.spec import ALL
from psibench.tables.stage import stage

logger = logging.getLogger("psibench")


@stage("summaries", version=1)
def run_summaries(job: Job) -> None:
    """Write tables NAME over all language pairs, as the outputs NAME and NAME_csv.

    psi_table, bucket_scores and comparisons concatenate the inputs. position_trend (slope and
    correlations of score on position) is computed from the buckets, language_averages
    (macro-averages over languages) and leaderboards (their correlations with each of ``boards``;
    no output without boards) from the PSI table. The provenance has ``notice``, the first text of
    pages that use the tables.

    Raises
    ------
    InputError
        If a table or a leaderboard is not valid.
    """
    boards, notice = job.value("boards", list[Leaderboard]), job.value("notice", default="")

    def write(frame: pl.DataFrame, spec: TableSpec, made_of: str) -> pl.DataFrame:
        sources = boards if spec is LEADERBOARDS else []
        replace(job).write(  # records only the inputs of this table
            spec.name,
            frame,
            spec,
            inputs=job.paths(made_of),
            files={board.path: hash_file(board.path) for board in sources},
            params={"table": spec.name} | ({"notice": notice} if notice else {}),
        )
        write_csv(frame, str(job.outputs[f"{spec.name}_csv"]))
        return frame

    table = write(job.read("psi", PSI_TABLE), PSI_TABLE, "psi")
    scores = write(job.read("buckets", BUCKET_SCORES), BUCKET_SCORES, "buckets")
    write(job.read("comparisons", COMPARISONS), COMPARISONS, "comparisons")
    write(position_trend(scores), POSITION_TREND, "buckets")
    averages = write(language_averages(table), LANGUAGE_AVERAGES, "psi")
    if boards:
        found = pl.concat(_correlations(averages, board) for board in boards)
        write(found, LEADERBOARDS, "psi")


def _correlations(averages: pl.DataFrame, board: Leaderboard) -> pl.DataFrame:
    models = averages.get_column("model").unique().sort().to_list()
    scores = read_leaderboard(board)
    lacking = [model for model in models if model not in scores]
    if lacking:
        logger.warning("%s has no score for: %s", board.path, ", ".join(lacking))
    return leaderboard_correlations(averages, scores, leaderboard=board.name)


def read_leaderboard(board: Leaderboard) -> dict[str, float]:
    """Return a leaderboard's scores by model id.

    A model's id is its alias, else its name in lower case. Rows without a score are left out.

    Raises
    ------
    InputError
        If the file or a column is missing, a score is not a number, two rows have the same model,
        or an alias matches no row.
    """
    name_of, score_of = board.model_column, board.score_column
    try:
        with open(board.path, encoding="utf-8-sig", newline="") as handle:
            reader = csv_files.DictReader(handle, strict=True)
            found = list(reader.fieldnames or [])
            for column in (name_of, score_of):
                if column not in found:
                    raise InputError(f"{board.path} has no column {column!r}; columns: {found}")
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
                f"{board.path}, line {line}: {name!r} and {names[model]!r} both have the model id "
                f"{model!r}; keep one row, or set another id in `aliases`"
            )
        names[model] = name
        if text:
            scores[model] = _score(text, f"{board.path}, line {line}", board.score_column)
    unused = sorted(set(board.aliases) - set(names.values()))
    if unused:
        raise InputError(
            f"{board.path} has no {board.model_column} {unused[0]!r} of `aliases` in the "
            f"leaderboard {board.name!r}; available: {sorted(names.values())}"
        )
    return scores


def _score(text: str, where: str, column: str) -> float:
    value = parse_number(text, where=where, column=column)
    if not isfinite(value):
        raise InputError(f"{where}: {column} is {text!r}; give a finite number, or leave it empty")
    return value


@stage("table_csv", version=1)
def run_csv(job: Job) -> None:
    """Write any table as CSV; lists as JSON, bytes as hexadecimal digits.

    Raises
    ------
    InputError
        If the file is not Parquet.
    """
    frame = read_any_table(job.path("parquet"))
    plain = []
    for name, kind in frame.schema.items():
        if kind.is_nested():
            texts = [
                None if row is None else json.dumps(row, ensure_ascii=False)
                for row in frame[name].to_list()
            ]
            plain.append(pl.Series(name, texts, dtype=pl.String))
        elif kind == pl.Binary:
            plain.append(frame[name].bin.encode("hex").alias(name))
    write_csv(frame.with_columns(plain), str(job.outputs["csv"]))


# --- Trend of scores over positions ---


PAIRS_AT_ONCE = 4_000_000
"""Upper limit of pairs of buckets compared at once (32 MB)."""

_TREND_KEY = tuple(name for name in BUCKET_SCORES.key if name != "bucket")


def position_trend(bucket_scores: pl.DataFrame) -> pl.DataFrame:
    """Return slope and correlations of bucket means on bucket centres.

    Parameters
    ----------
    bucket_scores : frame in the columns of the bucket-scores table.

    Returns
    -------
    frame in the columns of POSITION_TREND
        One row per row of the PSI table, in the order of their first buckets. All buckets have
        equal weight. The slope is per document length (thirds, relative-N) or per character
        (squad). With fewer than three buckets all values are null; with equal means the slope is 0
        and the correlations are null.

    Notes
    -----
    PosIR's code reports the same four values over its twenty bins. Kendall's p-value assumes that
    all orders of the means are equally likely without a trend; it ignores their sampling noise.
    """
    rows = bucket_scores.select(*_TREND_KEY, "queries_by").unique(maintain_order=True)
    lists = (
        bucket_scores.filter(pl.col("mean").is_not_null())
        .with_columns(centre=(pl.col("bucket_low") + pl.col("bucket_high")) / 2)
        .group_by(_TREND_KEY, maintain_order=True)
        .agg("centre", "mean", n_buckets=pl.len())
    )
    blocks = [
        block
        for part in lists.partition_by("n_buckets", maintain_order=True)
        for block in part.iter_slices(max(1, PAIRS_AT_ONCE // part.item(0, "n_buckets") ** 2))
    ]
    figures = pl.concat(map(_correlated, blocks or [lists]))
    joined = rows.join(figures, on=_TREND_KEY, how="left", maintain_order="left")
    counted = joined.with_columns(pl.col("n_buckets").fill_null(0).cast(pl.Int64))
    return counted.select(POSITION_TREND.column_names)


def _correlated(lists: pl.DataFrame) -> pl.DataFrame:
    """Correlate the lists ``centre`` and ``mean`` of rows with equally many buckets."""
    size = lists.item(0, "n_buckets") if lists.height else 1
    centre, mean = (
        lists.get_column(name).explode(empty_as_null=False).to_numpy().reshape(-1, size)
        for name in ("centre", "mean")
    )
    figures = {name: pl.Series(value) for name, value in correlate_rows(centre, mean).items()}
    return (
        lists.drop("centre", "mean")
        .with_columns(**figures)
        .with_columns(pl.selectors.float().fill_nan(None))
    )


# --- Averages over languages, with equal weights ---


MONOLINGUAL = "monolingual"
CROSS_LINGUAL = "cross-lingual"

_SET = ("benchmark", "setting", "length_bucket", "metric", "buckets", "evidence")
_AVERAGE_KEY = (*_SET, "model", "kind")
_AVERAGES = ("mean", "mean_of_buckets", "psi", "psi_noise_mean", "psi_corrected", "psi_same")


def language_averages(psi_table: pl.DataFrame) -> pl.DataFrame:
    """Average the PSI table's rows over all domains, over languages.

    Parameters
    ----------
    psi_table : frame in the columns of the PSI table.

    Returns
    -------
    frame in the columns of LANGUAGE_AVERAGES
        Monolingual rows average over languages, cross-lingual rows over pairs of languages.
        ``mean`` averages the means over queries (PosIR's overall nDCG@10), ``mean_of_buckets`` the
        means of bucket means (PosIR's nDCG@10 of a length bucket), and ``psi`` the plain PSI
        (PosIR, table 3). Compare averages of PSI with ``psi_noise_mean``, the average PSI of noise
        with independent queries, and with ``psi_same``.

        Models are averaged over the same ``n_all_languages`` languages: all languages in which any
        model of the benchmark, setting, length bucket, metric, bucket scheme and evidence view has
        a score. A model that lacks a language has null averages; ``n_languages`` and ``languages``
        describe its languages. A null PSI or mean of bucket means is left out of that average;
        ``n_psi`` and ``n_mean_of_buckets`` count the values.

    Notes
    -----
    The averages have no interval: translated languages share their queries, so their errors are
    not independent, and the PSI table does not have their correlation.
    """
    same = pl.col("query_lang") == pl.col("corpus_lang")
    pair = pl.col("query_lang") + "-" + pl.col("corpus_lang")
    rows = psi_table.filter(pl.col("domain") == ALL).with_columns(
        setting=pl.when(same).then(pl.lit(MONOLINGUAL)).otherwise(pl.lit(CROSS_LINGUAL)),
        language=pl.when(same).then("query_lang").otherwise(pair),
    )
    scored = pl.col("mean").is_not_null()
    known = pl.col("psi").is_not_null()
    full = rows.group_by(_SET).agg(
        pl.col("language").filter(scored).n_unique().cast(pl.Int64).alias("n_all_languages")
    )
    averaged = rows.group_by(_AVERAGE_KEY, maintain_order=True).agg(
        scored.sum().cast(pl.Int64).alias("n_languages"),
        pl.col("mean_of_buckets").count().cast(pl.Int64).alias("n_mean_of_buckets"),
        known.sum().cast(pl.Int64).alias("n_psi"),
        pl.col("mean", "mean_of_buckets", "psi").mean(),
        pl.col("psi_noise_mean", "psi_corrected").filter(known).mean(),
        pl.col("psi_same").count().cast(pl.Int64).alias("n_psi_same"),
        pl.col("psi_same").mean(),
        pl.col("language").filter(scored).sort().str.join(", ").alias("languages"),
        distinct_names("queries_by"),
    )
    averaged = averaged.join(full, on=_SET, how="left", maintain_order="left").with_columns(
        pl.when(has_all_languages()).then(pl.col(name)).alias(name) for name in _AVERAGES
    )
    return averaged.select(LANGUAGE_AVERAGES.column_names)


def has_all_languages() -> pl.Expr:
    """Whether a row of LANGUAGE_AVERAGES has all languages of any model."""
    return pl.col("n_languages") == pl.col("n_all_languages")


def distinct_names(column: str) -> pl.Expr:
    """Aggregate a column of comma-separated names to its distinct names."""
    return pl.col(column).str.split(", ").explode().unique().sort().str.join(", ")


# --- Rank correlations with external leaderboards ---


_BOARD_KEY = tuple(name for name in LANGUAGE_AVERAGES.key if name != "model")


def leaderboard_correlations(
    averages: pl.DataFrame, scores: Mapping[str, float], *, leaderboard: str
) -> pl.DataFrame:
    """Correlate models' averages with their scores on a leaderboard.

    Parameters
    ----------
    averages : frame in the columns of LANGUAGE_AVERAGES.
    scores : leaderboard score by model id; other models are ignored.
    leaderboard : name of the leaderboard.

    Returns
    -------
    frame in the columns of LEADERBOARDS
        One row per benchmark, setting, length bucket, metric, bucket scheme, evidence view, and
        kind of average. PosIR uses the mean over queries for all lengths, and the mean of bucket
        means for a length bucket (table 2); both kinds have rows here. Only models with all
        languages are ranked; ``incomplete`` names the others. ``unmatched`` names models with an
        average but without a leaderboard score.
    """
    rows: list[dict[str, Any]] = []
    for _, part in averages.sort("model").group_by(_BOARD_KEY, maintain_order=True):
        author = part.select(distinct_names("queries_by")).item()
        complete = part.filter(has_all_languages())
        incomplete = part.filter(~has_all_languages()).get_column("model").to_list()
        for average in ("mean", "mean_of_buckets"):
            known = complete.drop_nulls(average)
            matched = known.filter(pl.col("model").is_in(list(scores)))
            models = matched.get_column("model").to_list()
            others = sorted(set(known.get_column("model")) - set(models))
            found = spearman(
                matched.get_column(average).to_numpy(), [scores[model] for model in models]
            )
            rows.append(
                {name: part.get_column(name)[0] for name in _BOARD_KEY}
                | {"leaderboard": leaderboard, "average": average, "queries_by": author}
                | {"n_models": found.n, "spearman": found.value, "p": found.p}
                | {"models": ", ".join(models), "unmatched": ", ".join(others)}
                | {"incomplete": ", ".join(incomplete)}
            )
    return pl.DataFrame(rows, schema=LEADERBOARDS.empty().schema)
