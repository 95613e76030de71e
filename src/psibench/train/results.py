"""Stage ``training_results``: what training on each distribution did to every base.

A base trained under one distribution with several seeds is one system here: its score of a query is
the mean over the seeds. PSI, its interval and the comparisons are of these means, with documents as
units; how much the seeds differ stands beside them. A distribution in which every position has the
same part is balanced; each of the others is compared with it on the same queries (Controlled,
tables 3 and 11, has the PSI of the worst of them against the balanced one's).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from psibench.config.sections import Uncertainty
from psibench.metrics.aggregate import (
    Evaluated,
    ResultTables,
    RowLabels,
    UncertaintySettings,
    holm,
    result_tables,
)
from psibench.metrics.comparison import psi_difference
from psibench.tables import read_table, write_csv, write_table
from psibench.tables.derived import derived, read_all
from psibench.tables.schemas import PSI_TABLE, QUERY_SCORES
from psibench.tables.spec import FLOAT64, INT64, POOLED, STRING, Column, TableSpec
from psibench.tables.stage import stage
from psibench.train.card import Measured, read_trained, write_model_card

Rows = list[dict[str, Any]]

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
        Column("psi", FLOAT64, "published PSI of the scores averaged over seeds", True),
        Column("psi_low", FLOAT64, "lower end of its interval, documents as units", True),
        Column("psi_high", FLOAT64, "upper end of its interval", True),
        Column("psi_seed_mean", FLOAT64, "mean of the seeds' own PSIs", True),
        Column("psi_seed_sd", FLOAT64, "their standard deviation; null for one seed", True),
        Column("best_bucket", STRING, "label of the best bucket", True),
        Column("worst_bucket", STRING, "label of the worst bucket", True),
        Column("psi_same", FLOAT64, "PSI at equal documents, corrected for noise", True),
        Column("psi_same_low", FLOAT64, "lower end of its interval", True),
        Column("psi_same_high", FLOAT64, "upper end of its interval", True),
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
        Column("psi_difference", FLOAT64, "corrected PSI, balanced less skewed", True),
        Column("psi_difference_low", FLOAT64, "lower end of its interval", True),
        Column("psi_difference_high", FLOAT64, "upper end of its interval", True),
        Column("psi_same_difference", FLOAT64, "the same at equal documents", True),
        Column("psi_same_difference_low", FLOAT64, "lower end of its interval", True),
        Column("psi_same_difference_high", FLOAT64, "upper end of its interval", True),
        Column("p_profile", FLOAT64, "p of profiles of one shape, on both scales", True),
        Column("p_adjusted", FLOAT64, "the same, adjusted over all that is compared (Holm)", True),
        Column("mean_difference", FLOAT64, "mean score, balanced less skewed", True),
        Column("mean_difference_low", FLOAT64, "lower end of its interval", True),
        Column("mean_difference_high", FLOAT64, "upper end of its interval", True),
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
        Column("low", FLOAT64, "lower end of its interval, documents as units", True),
        Column("high", FLOAT64, "upper end of its interval", True),
    ),
    key=(*_KEY, "distribution", "bucket"),
)

TABLES = (TRAINING_TABLE, TRAINING_REDUCTION, TRAINING_BUCKETS)
ALPHA = 0.05


@dataclass(frozen=True)
class TrainedRun:
    """One trained model: its id, and what it was made of.

    ``balanced``: of a distribution in which every position has the same part; ``folder``: where its
    checkpoint lies, whose model card gets its scores; ``licence``: of the base.
    """

    model: str
    training: str
    base: str
    distribution: str
    seed: int
    balanced: bool = False
    folder: str = ""
    licence: str = ""

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


@stage("training_results", version=1)
def run_training_results(
    *,
    psi_table: str | Path,
    trained: Sequence[TrainedRun],
    evaluations: Sequence[Evaluation],
    psi_metrics: Sequence[str],
    uncertainty: Uncertainty,
    tables: Sequence[str | Path],
) -> None:
    """Write training_table, training_reduction and training_buckets, as Parquet and as CSV.

    And the model card of every model with a folder: by then its scores are known. ``psi_table`` has
    each seed's own figures; ``evaluations`` say where the QUERY_SCORES tables of the pairs are;
    ``tables`` are NAME.parquet and NAME.csv of each.
    """
    files = {Path(path).name: path for path in tables}
    own = read_all([psi_table], PSI_TABLE)
    every: dict[str, Rows] = {spec.name: [] for spec in TABLES}
    for one in evaluations:
        runs = [run for run in trained if run.model in one.models]
        found = _results(one, runs, psi_metrics, uncertainty)
        systems = {run.system: run for run in runs}
        every["training_table"] += _table_rows(systems, runs, found, own)
        every["training_reduction"] += _reductions(systems, found)
        every["training_buckets"] += [
            _place(row, systems[row["model"]])
            | row
            | {"distribution": systems[row["model"]].distribution}
            for row in _pooled(found.buckets).iter_rows(named=True)
        ]
    source = derived(
        "training_results",
        [psi_table, *(one.scores for one in evaluations)],
        params={"uncertainty": uncertainty.model_dump(), "metrics": list(psi_metrics)},
    )
    for spec in TABLES:
        columns = {name: [row[name] for row in every[spec.name]] for name in spec.column_names}
        frame = pl.DataFrame(columns, schema=spec.empty().schema)
        write_table(frame, files[f"{spec.name}.parquet"], spec, provenance=source)
        write_csv(frame, files[f"{spec.name}.csv"])
    for run in trained:
        if run.folder:
            scores = list(_measured(own, run.model))
            write_model_card(read_trained(run.folder), run.folder, scores, licence=run.licence)


def _measured(psi_table: pl.DataFrame, model: str) -> Iterator[Measured]:
    """Yield what a model scores over all queries of each pair, by the first bucket scheme."""
    rows = _pooled(psi_table).filter(model=model, evidence="all")
    place = ["benchmark", "query_lang", "corpus_lang", "metric"]
    for row in rows.unique(place, keep="first", maintain_order=True).iter_rows(named=True):
        yield Measured(
            row["benchmark"],
            f"{row['query_lang']}-{row['corpus_lang']}",
            *(row[name] for name in ("metric", "mean", "psi", "psi_low", "psi_high")),
        )


def _results(
    one: Evaluation, runs: Sequence[TrainedRun], metrics: Sequence[str], uncertainty: Uncertainty
) -> ResultTables:
    """Make the result tables of one language pair, a base and a distribution as one system."""
    scores = read_table(one.scores, QUERY_SCORES).partition_by("model", as_dict=True)
    systems: dict[str, list[TrainedRun]] = {}
    for run in runs:
        systems.setdefault(run.system, []).append(run)

    def averaged() -> Iterator[Evaluated]:
        for system, own in systems.items():
            frames = [scores[run.model,] for run in own]
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
        settings=UncertaintySettings(**uncertainty.model_dump()),
    )


def _compared(systems: Mapping[str, TrainedRun]) -> Iterator[tuple[str, str]]:
    """Yield each base under a balanced distribution, and itself under a skewed one."""
    for name, run in systems.items():
        for other, against in systems.items():
            same = (run.training, run.base) == (against.training, against.base)
            if same and run.balanced and not against.balanced:
                yield name, other


def _pooled(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(domain=POOLED, length_bucket=POOLED)


def _place(row: Mapping[str, Any], run: TrainedRun) -> dict[str, Any]:
    """Return where a row of the result tables is: the columns of the key."""
    labels = {"training": run.training, "base": run.base}
    return labels | {name: row[name] for name in _KEY if name not in labels}


def _table_rows(
    systems: Mapping[str, TrainedRun],
    runs: Sequence[TrainedRun],
    found: ResultTables,
    own: pl.DataFrame,
) -> Rows:
    """Return rows of TRAINING_TABLE; ``own``: the PSI table of the models themselves."""
    rows = []
    for row in _pooled(found.psi).iter_rows(named=True):
        run = systems[row["model"]]
        place = _place(row, run)
        models = [other.model for other in runs if other.system == run.system]
        same = {name: place[name] for name in _KEY if name not in ("training", "base")}
        seeds = _pooled(own).filter(pl.col("model").is_in(models), **same)
        psis = seeds["psi"].drop_nulls()
        rows.append(
            row
            | place
            | {
                "distribution": run.distribution,
                "n_seeds": len(models),
                "mean_low": seeds["mean"].min(),
                "mean_high": seeds["mean"].max(),
                "psi_seed_mean": psis.mean(),
                "psi_seed_sd": psis.std() if len(psis) > 1 else None,
                "psi_same": row["psi_same_corrected"],
            }
        )
    return rows


def _reductions(systems: Mapping[str, TrainedRun], found: ResultTables) -> Rows:
    """Return rows of TRAINING_REDUCTION: a base's skewed distributions, balanced beside."""
    psi = _rows_by_system(found.psi)
    rows = []
    for row in found.comparisons.iter_rows(named=True):
        balanced, skewed = systems[row["model"]], systems[row["other"]]
        place = _place(row, skewed)
        mine, theirs = (psi.get((row[name], *_view(row))) for name in ("model", "other"))
        if mine is None or theirs is None:
            continue  # visible evidence of one of them alone
        rows.append(
            place
            | {
                "distribution": skewed.distribution,
                "balanced": balanced.distribution,
                "psi": theirs["psi"],
                "psi_balanced": mine["psi"],
                "reduction": _reduction(theirs["psi"], mine["psi"]),
                **_difference(mine, theirs, "psi"),
                **_difference(mine, theirs, "psi_same"),
                "p_profile": row["p_profile"],
                "mean_difference": row["difference"],
                "mean_difference_low": row["difference_low"],
                "mean_difference_high": row["difference_high"],
            }
        )
    families: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        # all that is compared on one pair, whatever the base
        families.setdefault(_view(row), []).append(row)
    for family in families.values():
        p_values = [np.nan if row["p_profile"] is None else row["p_profile"] for row in family]
        for row, adjusted in zip(family, holm(np.asarray(p_values, np.float64)), strict=True):
            row["p_adjusted"] = None if np.isnan(adjusted) else float(adjusted)
            psis = [
                other["psi"]
                for other in family
                if (other["training"], other["base"]) == (row["training"], row["base"])
                and other["psi"] is not None
            ]
            row["worst"] = int(bool(psis) and row["psi"] == max(psis))
            row["verdict"] = _verdict(row)
    return rows


def _view(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[name] for name in ("metric", "buckets", "evidence"))


def _rows_by_system(psi: pl.DataFrame) -> dict[tuple[str, ...], dict[str, Any]]:
    rows = _pooled(psi).iter_rows(named=True)
    return {(row["model"], *_view(row)): row for row in rows}


def _reduction(skewed: float | None, balanced: float | None) -> float | None:
    return 1 - balanced / skewed if skewed and balanced is not None else None


def _difference(mine: Mapping[str, Any], theirs: Mapping[str, Any], psi: str) -> dict[str, Any]:
    """Return the difference of two corrected PSIs with its interval; null where one has none."""
    names = [f"{psi}_corrected", f"{psi}_low", f"{psi}_high"]
    sides = [tuple(side[name] for name in names) for side in (mine, theirs)]
    known = None not in (*sides[0], *sides[1])
    found = psi_difference(*sides) if known else (None, None, None)
    named = zip(("", "_low", "_high"), found, strict=True)
    return {f"{psi}_difference{end}": value for end, value in named}


def _verdict(row: Mapping[str, Any]) -> str:
    """Say of the balanced distribution's PSI what the figures allow.

    The profiles have to differ in shape on both scales (validity of a comparison of two systems),
    and the interval of the difference of PSIs, at equal documents where they are known, has to
    leave out 0.
    """
    kind = "psi_same_difference" if row["psi_same_difference"] is not None else "psi_difference"
    low, high = row[f"{kind}_low"], row[f"{kind}_high"]
    if low is None or row["p_adjusted"] is None or row["p_adjusted"] > ALPHA:
        return "not shown"
    return "lower" if high < 0 else "higher" if low > 0 else "not shown"
