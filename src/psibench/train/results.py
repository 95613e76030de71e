"""Stage ``training_results``: effect of the training distribution on every base.

A base trained under one distribution is one system: its score of a query is the mean over the
training seeds. PSI, its interval and the comparisons use these means, with documents (or clusters
of documents) as units; other columns show how much the seeds differ. A distribution is balanced if
all positions have equal parts, otherwise skewed. Each skewed distribution is compared with the
balanced one on the same queries (Controlled, tables 3 and 11, compares the worst one).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from psibench.config.sections import Uncertainty
from psibench.metrics.aggregate import (
    Evaluated,
    ResultTables,
    RowLabels,
    holm,
    result_tables,
)
from psibench.metrics.comparison import psi_difference_columns
from psibench.tables import read_table, write_csv
from psibench.tables.job import Job
from psibench.tables.schemas import COMPARISONS, PSI_TABLE, QUERY_SCORES
from psibench.tables.spec import (
    ALL,
    BY_DOCUMENT,
    FLOAT64,
    INT64,
    STRING,
    Column,
    TableSpec,
    with_interval,
)
from psibench.tables.stage import stage

_PLACE = (
    Column("benchmark", STRING, "benchmark id"),
    Column("query_lang", STRING, "language of the queries"),
    Column("corpus_lang", STRING, "language of the documents"),
    Column("training", STRING, "id of the config's training"),
    Column("base", STRING, "id of the base"),
)
_WHAT = (
    Column("metric", STRING, "metric name, e.g. ndcg@10"),
    Column("buckets", STRING, "bucket scheme: squad, thirds, thirds-every-tag or relative-20"),
    Column("evidence", STRING, "all, visible or whole, as in the PSI table"),
)
_KEY = tuple(column.name for column in (*_PLACE, *_WHAT))
_PAIR = ("benchmark", "query_lang", "corpus_lang")
_VIEW = tuple(column.name for column in _WHAT)

TRAINING_TABLE = TableSpec(
    "training_table",
    (
        *_PLACE,
        Column("distribution", STRING, "distribution of the training evidence; pool: no selection"),
        *_WHAT,
        Column(
            "bucket",
            STRING,
            "bucket label; all: row of all queries, the only one with n_documents and the columns "
            "after it",
        ),
        Column(
            "bucket_low", FLOAT64, "lower bound: characters (squad) or share of the length", True
        ),
        Column(
            "bucket_high", FLOAT64, "upper bound: characters (squad) or share of the length", True
        ),
        Column("n_seeds", INT64, "models whose scores are averaged"),
        Column("n_queries", INT64, "queries of the row"),
        Column("mean", FLOAT64, "mean score over queries and seeds; null without queries", True),
        Column("low", FLOAT64, f"of a bucket's mean, {BY_DOCUMENT}; null in the row of all", True),
        Column("high", FLOAT64, "upper end of its interval", True),
        Column("n_documents", INT64, "documents of the queries", True),
        Column("mean_seed_low", FLOAT64, "lowest mean score of a seed", True),
        Column("mean_seed_high", FLOAT64, "highest mean score of a seed", True),
        *with_interval("psi", "published PSI of the scores averaged over seeds", low=BY_DOCUMENT),
        Column("psi_seed_mean", FLOAT64, "mean of the PSIs of single seeds", True),
        Column("psi_seed_sd", FLOAT64, "their standard deviation; null for one seed", True),
        Column("best_bucket", STRING, "label of the best bucket", True),
        Column("worst_bucket", STRING, "label of the worst bucket", True),
        *with_interval("psi_same", "PSI at equal documents, corrected for noise"),
        Column(
            "balanced",
            STRING,
            "balanced distribution with which this skewed one is compared; null, like the columns "
            "below, in rows of a balanced distribution and without a balanced distribution",
            True,
        ),
        Column("worst", INT64, "1 for the skewed distribution with the largest PSI, else 0", True),
        Column("psi_balanced", FLOAT64, "published PSI under the balanced distribution", True),
        Column("reduction", FLOAT64, "1 - psi_balanced / psi", True),
        *with_interval("psi_difference", "corrected PSI, balanced minus skewed"),
        *with_interval("psi_same_difference", "the same at equal documents"),
        Column("p_profile", FLOAT64, "p of equal profile shapes, on both scales", True),
        Column("p_adjusted", FLOAT64, "p_profile adjusted over all comparisons (Holm)", True),
        *with_interval("mean_difference", "mean score, balanced minus skewed"),
        Column(
            "verdict",
            STRING,
            "PSI under balanced compared with skewed: lower, higher or not shown",
            True,
        ),
    ),
    key=(*_KEY, "distribution", "bucket"),
)
COMPARED = TRAINING_TABLE.column_names[TRAINING_TABLE.column_names.index("balanced") :]
"""Columns that compare a skewed distribution with the balanced one."""
ALPHA = 0.05


@dataclass(frozen=True)
class TrainedRun:
    """A trained model; ``balanced`` if its distribution gives all positions equal parts."""

    model: str
    training: str
    base: str
    distribution: str
    seed: int
    balanced: bool = False

    @property
    def system(self) -> str:
        """Name shared by the seeds of a base under one distribution of a training."""
        return f"{self.training}/{self.base}-{self.distribution}"


@dataclass(frozen=True)
class Evaluation:
    """A language pair on which the trained ``models`` (ids) are evaluated."""

    benchmark: str
    query_lang: str
    corpus_lang: str
    scores: str
    schemes: list[str]
    models: list[str]


@stage("training_results", version=6)
def run_training_results(job: Job) -> None:
    """Write TRAINING_TABLE, as Parquet and as CSV.

    Inputs: ``psi_table``, with the results of single seeds, and the QUERY_SCORES files named in
    ``evaluations``. Outputs: ``parquet`` and ``csv``.
    """
    metrics = job.value("psi_metrics", list[str])
    uncertainty = job.section(Uncertainty, "uncertainty")
    trained = job.value("trained", list[TrainedRun])
    evaluations = job.value("evaluations", list[Evaluation])
    seed_psi = job.read("psi_table", PSI_TABLE)
    frames = [TRAINING_TABLE.empty()]
    for one in evaluations:
        runs = [run for run in trained if run.model in one.models]
        found = _results(one, runs, metrics, uncertainty)
        frames += [_table(runs, found, seed_psi), _buckets(runs, found)]
    record: dict[str, Any] = {
        "inputs": [one.scores for one in evaluations],
        "params": {"uncertainty": uncertainty.model_dump(), "metrics": metrics},
    }
    table = pl.concat(frames)
    job.write("parquet", table, TRAINING_TABLE, **record)
    write_csv(table, str(job.outputs["csv"]))


def _results(
    one: Evaluation, runs: Sequence[TrainedRun], metrics: Sequence[str], uncertainty: Uncertainty
) -> ResultTables:
    """Make the result tables of one language pair, with the seeds of a system averaged."""
    scores = read_table(one.scores, QUERY_SCORES).partition_by("model", as_dict=True)
    systems: dict[str, list[TrainedRun]] = {}
    for run in runs:
        systems.setdefault(run.system, []).append(run)

    def averaged() -> Iterator[Evaluated]:
        for system, seeds in systems.items():
            frames = [scores[run.model,] for run in seeds]
            means = {m: np.mean([frame[m].to_numpy() for frame in frames], axis=0) for m in metrics}
            first = frames[0].with_columns(
                *(pl.Series(name, values) for name, values in means.items()),
                model=pl.lit(system),
            )
            yield Evaluated(system, "dense", first)

    return result_tables(
        averaged(),
        labels=RowLabels(one.benchmark, one.query_lang, one.corpus_lang),
        metrics=metrics,
        schemes=one.schemes,
        length_buckets=False,
        pairs=list(_compared({run.system: run for run in runs})),
        settings=uncertainty,
    )


def _compared(systems: Mapping[str, TrainedRun]) -> Iterator[tuple[str, str]]:
    """Yield pairs of systems of one base: its first balanced distribution and a skewed one."""
    balanced: dict[tuple[str, str], str] = {}
    for name, run in systems.items():
        if run.balanced:
            balanced.setdefault((run.training, run.base), name)
    for other, against in systems.items():
        even = balanced.get((against.training, against.base))
        if even is not None and not against.balanced:
            yield even, other


def _pooled(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(domain=ALL, length_bucket=ALL)


def _systems(runs: Sequence[TrainedRun]) -> pl.DataFrame:
    """Return one row per system: model (its name), training, base, distribution, n_seeds."""
    every = pl.from_dicts([asdict(run) | {"model": run.system} for run in runs])
    return every.group_by("model", "training", "base", "distribution", maintain_order=True).agg(
        n_seeds=pl.len()
    )


def _table(runs: Sequence[TrainedRun], found: ResultTables, seed_psi: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of all queries; ``seed_psi`` is the PSI table of the single models."""
    names = pl.DataFrame({"model": [r.model for r in runs], "system": [r.system for r in runs]})
    place = ["system", *_PAIR, *_VIEW]
    seeds = (
        _pooled(seed_psi)
        .join(names, on="model")
        .group_by(place)
        .agg(
            mean_seed_low=pl.col("mean").min(),
            mean_seed_high=pl.col("mean").max(),
            psi_seed_mean=pl.col("psi").mean(),
            psis=pl.col("psi").drop_nulls(),
        )
        .with_columns(psi_seed_sd=pl.col("psis").list.std())
    )
    rows = (
        _pooled(found.psi)
        .select(pl.exclude(COMPARED))  # this p_adjusted belongs to another test
        .join(_systems(runs), on="model", maintain_order="left")
        .join(
            seeds, left_on=["model", *place[1:]], right_on=place, how="left", maintain_order="left"
        )
        .join(_reductions(runs, found), on=["model", *_VIEW], how="left", maintain_order="left")
        .with_columns(bucket=pl.lit(ALL), psi_same="psi_same_corrected")
    )
    return _as_table(rows)


def _buckets(runs: Sequence[TrainedRun], found: ResultTables) -> pl.DataFrame:
    return _as_table(_pooled(found.buckets).join(_systems(runs), on="model", maintain_order="left"))


def _as_table(rows: pl.DataFrame) -> pl.DataFrame:
    """Return TRAINING_TABLE rows; missing columns become null."""
    schema = TRAINING_TABLE.empty().schema
    known = {name: pl.col(name) if name in rows.columns else pl.lit(None) for name in schema}
    return rows.select(**known).cast(schema)


def _reductions(runs: Sequence[TrainedRun], found: ResultTables) -> pl.DataFrame:
    """Compare each skewed system (``model``) with the balanced one; columns `_VIEW`, `COMPARED`.

    Omits comparisons for which only one of the two has a PSI row (e.g. visible evidence).
    """
    systems = _systems(runs)
    psi = {(row["model"], *_view(row)): row for row in _pooled(found.psi).iter_rows(named=True)}
    rows = []
    for row in found.comparisons.iter_rows(named=True):
        mine, theirs = (psi.get((row[name], *_view(row))) for name in ("model", "other"))
        if mine is None or theirs is None:
            continue
        psis = psi_difference_columns(mine, theirs, kind="psi")
        same = psi_difference_columns(mine, theirs, kind="psi_same")
        rows.append(
            row
            | {"psi": theirs["psi"], "psi_balanced": mine["psi"]}
            | psis
            | {name.replace("psi", "psi_same", 1): value for name, value in same.items()}
        )
    psi_columns = {name: pl.Float64 for name in ("psi", *COMPARED) if "psi" in name}
    compared = pl.from_dicts(rows, schema={**COMPARISONS.empty().schema, **psi_columns})
    balanced = systems.select("model", balanced="distribution")
    ends = {
        end: pl.coalesce(f"psi_same_difference_{end}", f"psi_difference_{end}")
        for end in ("low", "high")
    }
    is_shown = pl.col("p_adjusted") <= ALPHA
    return (
        compared.join(balanced, on="model", maintain_order="left")
        .join(systems, left_on="other", right_on="model", maintain_order="left")
        .with_columns(
            reduction=pl.when(pl.col("psi") != 0).then(1 - pl.col("psi_balanced") / pl.col("psi")),
            worst=(pl.col("psi") == pl.col("psi").max().over("training", "base", *_VIEW)),
            # adjusted over all bases of the language pair
            p_adjusted=pl.col("p_profile")
            .map_batches(lambda p: pl.Series(holm(p.to_numpy())), return_dtype=pl.Float64)
            .over(_VIEW)
            .fill_nan(None),
            **{f"mean_difference{end}": f"difference{end}" for end in ("", "_low", "_high")},
        )
        .with_columns(
            worst=pl.col("worst").fill_null(value=False),
            verdict=pl.when(is_shown & (ends["high"] < 0))
            .then(pl.lit("lower"))
            .when(is_shown & (ends["low"] > 0))
            .then(pl.lit("higher"))
            .otherwise(pl.lit("not shown")),
        )
        .select(*_VIEW, *COMPARED, model="other")
    )


def _view(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[name] for name in _VIEW)
