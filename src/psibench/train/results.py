"""Stage ``training_results``: what training on each distribution did to every base.

A base trained under one distribution with several seeds is one system here: its score of a query is
the mean over the seeds. PSI, its interval and the comparisons are of these means, with documents
(or clusters of them) as units; how much the seeds differ stands beside them. A distribution in
which every position has the same part is balanced; each of the others is compared with it on the
same queries (Controlled, tables 3 and 11, has the PSI of the worst of them against the balanced
one's).
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
        Column("distribution", STRING, "where the training evidence lay; pool: of all documents"),
        *_WHAT,
        Column("n_seeds", INT64, "models of which scores are averaged"),
        Column("n_queries", INT64, "queries"),
        Column("n_documents", INT64, "their documents"),
        Column("mean", FLOAT64, "mean over the queries", True),
        Column("mean_low", FLOAT64, "least over the seeds", True),
        Column("mean_high", FLOAT64, "largest over the seeds", True),
        *with_interval("psi", "published PSI of the scores averaged over seeds", low=BY_DOCUMENT),
        Column("psi_seed_mean", FLOAT64, "mean of the seeds' own PSIs", True),
        Column("psi_seed_sd", FLOAT64, "their standard deviation; null for one seed", True),
        Column("best_bucket", STRING, "label of the best bucket", True),
        Column("worst_bucket", STRING, "label of the worst bucket", True),
        *with_interval("psi_same", "PSI at equal documents, corrected for noise"),
    ),
    key=(*_KEY, "distribution"),
)

TRAINING_REDUCTION = TableSpec(
    "training_reduction",
    (
        *_PLACE,
        Column("distribution", STRING, "a skewed distribution"),
        Column("balanced", STRING, "the balanced one it is compared with"),
        *_WHAT,
        Column("worst", INT64, "1 for the skewed distribution of the largest PSI, else 0"),
        Column("psi", FLOAT64, "published PSI under the skewed distribution", True),
        Column("psi_balanced", FLOAT64, "under the balanced one", True),
        Column("reduction", FLOAT64, "1 - psi_balanced / psi", True),
        *with_interval("psi_difference", "corrected PSI, balanced less skewed"),
        *with_interval("psi_same_difference", "the same at equal documents"),
        Column("p_profile", FLOAT64, "p of profiles of one shape, on both scales", True),
        Column("p_adjusted", FLOAT64, "the same, adjusted over all that is compared (Holm)", True),
        *with_interval("mean_difference", "mean score, balanced less skewed"),
        Column("verdict", STRING, "lower, higher or not shown: what may be said of the PSI"),
    ),
    key=(*_KEY, "distribution", "balanced"),
)

TRAINING_BUCKETS = TableSpec(
    "training_buckets",
    (
        *_PLACE,
        Column("distribution", STRING, "where the training evidence lay"),
        *_WHAT,
        Column("bucket", STRING, "bucket label"),
        Column("bucket_low", FLOAT64, "lower bound: characters (squad) or share of the length"),
        Column("bucket_high", FLOAT64, "upper bound: characters (squad) or share of the length"),
        Column("n_queries", INT64, "queries in the bucket"),
        Column("mean", FLOAT64, "mean score over queries and seeds; null if empty", True),
        Column("low", FLOAT64, BY_DOCUMENT, True),
        Column("high", FLOAT64, "upper end of its interval", True),
    ),
    key=(*_KEY, "distribution", "bucket"),
)

TABLES = (TRAINING_TABLE, TRAINING_REDUCTION, TRAINING_BUCKETS)
ALPHA = 0.05


@dataclass(frozen=True)
class TrainedRun:
    """One trained model: its id, and what it was made of.

    ``balanced``: of a distribution in which every position has the same part.
    """

    model: str
    training: str
    base: str
    distribution: str
    seed: int
    balanced: bool = False

    @property
    def system(self) -> str:
        """Name of the base under the distribution of a training, whatever the seed."""
        return f"{self.training}/{self.base}-{self.distribution}"


@dataclass(frozen=True)
class Evaluation:
    """A language pair that trained models are evaluated on; ``models``: their ids."""

    benchmark: str
    query_lang: str
    corpus_lang: str
    scores: str
    schemes: list[str]
    models: list[str]


@stage("training_results", version=5)
def run_training_results(job: Job) -> None:
    """Write training_table, training_reduction and training_buckets, as Parquet and as CSV.

    Inputs: ``psi_table``, which has each seed's own figures, and the QUERY_SCORES that the
    ``evaluations`` name. Outputs: NAME and NAME_csv of each.
    """
    metrics = job.value("psi_metrics", list[str])
    uncertainty = job.section(Uncertainty, "uncertainty")
    trained = job.value("trained", list[TrainedRun])
    evaluations = job.value("evaluations", list[Evaluation])
    seed_psi = job.read("psi_table", PSI_TABLE)
    made: dict[TableSpec, list[pl.DataFrame]] = {spec: [spec.empty()] for spec in TABLES}
    for one in evaluations:
        runs = [run for run in trained if run.model in one.models]
        found = _results(one, runs, metrics, uncertainty)
        for spec, frame in (
            (TRAINING_TABLE, _table(runs, found, seed_psi)),
            (TRAINING_REDUCTION, _reductions(runs, found)),
            (TRAINING_BUCKETS, _pooled(found.buckets).join(_systems(runs), on="model")),
        ):
            made[spec].append(frame.select(spec.column_names).cast(spec.empty().schema))
    record: dict[str, Any] = {
        "inputs": [one.scores for one in evaluations],
        "params": {"uncertainty": uncertainty.model_dump(), "metrics": metrics},
    }
    for spec, frames in made.items():
        table = pl.concat(frames)
        job.write(spec.name, table, spec, **record)
        write_csv(table, str(job.outputs[f"{spec.name}_csv"]))


def _results(
    one: Evaluation, runs: Sequence[TrainedRun], metrics: Sequence[str], uncertainty: Uncertainty
) -> ResultTables:
    """Make the result tables of one language pair, a base and a distribution as one system."""
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
    """Yield each base under a balanced distribution, and itself under a skewed one."""
    for name, run in systems.items():
        for other, against in systems.items():
            same = (run.training, run.base) == (against.training, against.base)
            if same and run.balanced and not against.balanced:
                yield name, other


def _pooled(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(domain=ALL, length_bucket=ALL)


def _systems(runs: Sequence[TrainedRun]) -> pl.DataFrame:
    """Return what each system is: model (its name), training, base, distribution, n_seeds."""
    every = pl.from_dicts([asdict(run) | {"model": run.system} for run in runs])
    return every.group_by("model", "training", "base", "distribution", maintain_order=True).agg(
        n_seeds=pl.len()
    )


def _table(runs: Sequence[TrainedRun], found: ResultTables, seed_psi: pl.DataFrame) -> pl.DataFrame:
    """Return rows of TRAINING_TABLE; ``seed_psi``: the PSI table of the models themselves."""
    names = pl.DataFrame({"model": [r.model for r in runs], "system": [r.system for r in runs]})
    place = ["system", *_PAIR, *_VIEW]
    seeds = (
        _pooled(seed_psi)
        .join(names, on="model")
        .group_by(place)
        .agg(
            mean_low=pl.col("mean").min(),
            mean_high=pl.col("mean").max(),
            psi_seed_mean=pl.col("psi").mean(),
            psis=pl.col("psi").drop_nulls(),
        )
        .with_columns(psi_seed_sd=pl.col("psis").list.std())
    )
    systems = _systems(runs)
    return (
        _pooled(found.psi)
        .join(systems, on="model", maintain_order="left")
        .join(
            seeds, left_on=["model", *place[1:]], right_on=place, how="left", maintain_order="left"
        )
        .with_columns(psi_same="psi_same_corrected")
    )


def _reductions(runs: Sequence[TrainedRun], found: ResultTables) -> pl.DataFrame:
    """Return rows of TRAINING_REDUCTION: a base's skewed distributions, balanced beside.

    Left out is visible evidence of one of the two alone.
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
    psi_columns = {name: pl.Float64 for name in TRAINING_REDUCTION.column_names if "psi" in name}
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
            # all that is compared on one pair, whatever the base
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
    )


def _view(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[name] for name in _VIEW)
