"""Comparison of bases trained on skewed and on balanced evidence."""

from pathlib import Path

import jobs
import numpy as np
import polars as pl
import pytest

from psibench.config.sections import Uncertainty
from psibench.metrics.aggregate import Evaluated, RowLabels, result_tables
from psibench.tables import read_table, write_table
from psibench.tables.derived import derived
from psibench.tables.schemas import PSI_TABLE, QUERY_SCORES
from psibench.text.segments import POSITIONS
from psibench.train.results import (
    TRAINING_TABLE,
    Evaluation,
    TrainedRun,
    run_training_results,
)

METRIC = "ndcg@10"
N_DOCUMENTS = 200
CHANCES = {"begin": (0.9, 0.6, 0.3), "middle": (0.5, 0.8, 0.5), "uniform": (0.65, 0.65, 0.65)}
PAIR = ("b", "eng-Latn", "eng-Latn")


def scores_of(model: str, values: np.ndarray) -> pl.DataFrame:
    """Columns of QUERY_SCORES that are read here, with a query in each third of a document."""
    n_queries = len(values)
    place, third = np.arange(n_queries), np.arange(n_queries) % 3
    known = pl.DataFrame(
        {
            "model": [model] * n_queries,
            "query_id": [f"q{number}" for number in place],
            "domain": ["d"] * n_queries,
            "document_id": [f"d{number // 3:03}" for number in place],
            "span_start_char": 300 * third,
            "span_mid_char": 300.0 * third + 100,
            "pos_char_length": [900] * n_queries,
            "relative_position": (300 * third + 100) / 900,
            "target_position": [POSITIONS[number] for number in third],
            "target_positions": [POSITIONS[number] for number in third],
            "visible": [1.0] * n_queries,
            "pos_visible": [1.0] * n_queries,
            METRIC: values,
        }
    )
    return pl.concat([QUERY_SCORES.empty(), known], how="diagonal_relaxed")


def results(folder: Path, out: Path, runs: list[TrainedRun]) -> None:
    """Make the table of some runs from the scores and PSIs in a folder."""
    models = [run.model for run in runs]
    jobs.run(
        run_training_results,
        {"psi_table": folder / "psi.parquet"},
        {"parquet": out / "training_table.parquet", "csv": out / "training_table.csv"},
        trained=runs,
        evaluations=[Evaluation(*PAIR, str(folder / "s.parquet"), ["thirds"], models)],
        psi_metrics=[METRIC],
        uncertainty=Uncertainty(),
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The table of a base under three distributions with two seeds each."""
    folder = tmp_path_factory.mktemp("training")
    rng = np.random.default_rng(3)
    runs, frames = [], {}
    for distribution, chances in CHANCES.items():
        for seed in (1, 2):
            model = f"net-{distribution}-s{seed}"
            values = (rng.random((N_DOCUMENTS, 3)) < chances).astype(float)
            frames[model] = scores_of(model, values.ravel())
            runs.append(
                TrainedRun(
                    model, "t", "net", distribution, seed, balanced=distribution == "uniform"
                )
            )
    source = derived("score", params={})
    write_table(pl.concat(frames.values()), folder / "s.parquet", QUERY_SCORES, provenance=source)
    own = result_tables(
        (Evaluated(model, "dense", frame) for model, frame in frames.items()),
        labels=RowLabels(*PAIR),
        metrics=[METRIC],
        schemes=["thirds"],
    )
    write_table(own.psi, folder / "psi.parquet", PSI_TABLE, provenance=source)
    results(folder, folder, runs)
    table = read_table(folder / "training_table.parquet", TRAINING_TABLE)
    return frames, own.psi, table.filter(evidence="all"), folder


def test_a_distribution_has_one_row_of_the_scores_averaged_over_seeds(made):
    frames, _, table, _ = made
    table = table.filter(bucket="all")
    assert table["distribution"].to_list() == ["begin", "middle", "uniform"]
    row = table.row(0, named=True)
    both = [frames[f"net-begin-s{seed}"] for seed in (1, 2)]
    mean = np.mean([frame[METRIC].to_numpy() for frame in both], axis=0)
    thirds = mean.reshape(-1, 3).mean(axis=0)
    assert row["mean"] == pytest.approx(mean.mean())
    assert row["psi"] == pytest.approx(1 - thirds.min() / thirds.max())
    assert (row["best_bucket"], row["worst_bucket"]) == ("beginning", "end")
    assert (row["n_seeds"], row["n_queries"], row["n_documents"]) == (2, 600, 200)


def test_results_of_single_seeds_are_reported(made):
    _, psi, table, _ = made
    row = table.filter(bucket="all", distribution="begin").row(0, named=True)
    own = psi.filter(
        pl.col("model").str.starts_with("net-begin"),
        evidence="all", domain="all", length_bucket="all",
    )  # fmt: skip
    assert row["psi_seed_mean"] == pytest.approx(own["psi"].mean())
    assert row["psi_seed_sd"] == pytest.approx(own["psi"].std())
    assert (row["mean_seed_low"], row["mean_seed_high"]) == (own["mean"].min(), own["mean"].max())


def test_a_balanced_training_is_compared_with_each_skewed_one(made):
    *_, table, _ = made
    found = table.filter(bucket="all")
    assert found.select("distribution", "balanced").rows() == [
        ("begin", "uniform"),
        ("middle", "uniform"),
        ("uniform", None),
    ]
    begin, middle, uniform = found.iter_rows(named=True)
    assert begin["psi_balanced"] == uniform["psi"]
    assert begin["reduction"] == pytest.approx(1 - begin["psi_balanced"] / begin["psi"])
    assert (begin["worst"], middle["worst"]) == (1, 0)
    # .3 of .9 against none: far beyond 200 documents' noise
    assert begin["verdict"] == middle["verdict"] == "lower"
    assert begin["psi_same_difference_high"] < 0
    assert begin["p_adjusted"] < 0.001
    # Holm: the smaller of two p-values is doubled.
    smaller = min((begin, middle), key=lambda row: row["p_profile"])
    assert smaller["p_adjusted"] == pytest.approx(2 * smaller["p_profile"])


def test_the_curves_are_means_by_third_over_both_seeds(made):
    frames, _, table, _ = made
    buckets = table.filter(pl.col("bucket") != "all", distribution="middle")
    values = [frames[f"net-middle-s{seed}"][METRIC].to_numpy() for seed in (1, 2)]
    expected = np.mean(values, axis=0).reshape(-1, 3).mean(axis=0)
    assert buckets["bucket"].to_list() == ["beginning", "middle", "end"]
    assert buckets["mean"].to_numpy() == pytest.approx(expected)
    assert (buckets["low"] < buckets["mean"]).all()


def test_a_difference_within_noise_is_not_claimed(made, tmp_path):
    *_, folder = made
    runs = [
        TrainedRun("net-uniform-s1", "t", "net", "begin", 1),
        TrainedRun("net-uniform-s2", "t", "net", "uniform", 1, balanced=True),
    ]
    results(folder, tmp_path, runs)
    table = read_table(tmp_path / "training_table.parquet", TRAINING_TABLE)
    assert set(table["verdict"].drop_nulls()) == {"not shown"}
    assert table["psi_seed_sd"].to_list() == [None] * table.height  # one seed has no spread
