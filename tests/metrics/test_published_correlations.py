"""PosIR's Spearman correlations with MMTEB, from its published figures per language."""

import polars as pl
import pytest

from psibench.metrics.summaries import language_averages, leaderboard_correlations
from psibench.papers.figures import PUBLISHED
from psibench.tables.schemas import PSI_TABLE

SECTIONS = {"all": "all", "q1": "Q1", "q2": "Q2", "q3": "Q3", "q4": "Q4"}
# Printed under table 2: coefficient, and p-value cut (not rounded) to the digits given.
PRINTED = {
    "all": (0.62, 0.05, 0.06),
    "Q1": (0.73, 0.01, 0.02),
    "Q2": (0.71, 0.02, 0.03),
    "Q3": (0.44, 0.2, 0.3),
    "Q4": (0.39, 0.2, 0.3),
}
TABLE_2 = pl.read_csv(PUBLISHED / "posir_table2.csv")


@pytest.fixture(scope="module")
def averages() -> pl.DataFrame:
    """Language averages of tables 10 and 11, read as rows of a PSI table.

    The value of all lengths is the mean over queries, the value of a length bucket the mean over
    bucket means.
    """
    tables = [pl.read_csv(PUBLISHED / f"posir_table{number}.csv") for number in (10, 11)]
    whole = pl.col("section") == "all"
    mono = pl.col("setting") == "monolingual"
    score = pl.col("ndcg_at_10").cast(pl.Float64) / 100
    rows = pl.concat(tables).with_columns(
        benchmark=pl.lit("posir"),
        query_lang="language",
        corpus_lang=pl.when(mono).then("language").otherwise(pl.lit("eng-Latn")),
        domain=pl.lit("all"),
        length_bucket=pl.col("section").replace_strict(SECTIONS),
        kind=pl.lit("dense"),
        metric=pl.lit("ndcg@10"),
        buckets=pl.lit("relative-20"),
        evidence=pl.lit("all"),
        mean=pl.when(whole).then(score),
        mean_of_buckets=pl.when(~whole).then(score),
        psi=pl.col("psi").cast(pl.Float64),
        queries_by=pl.lit("not recorded"),
    )
    absent = [name for name in PSI_TABLE.column_names if name not in rows.columns]
    return language_averages(rows.with_columns(pl.lit(None).alias(name) for name in absent))


def test_averages_over_languages_are_those_of_table_2(averages):
    column = {"all": "posir", "Q1": "q1", "Q2": "q2", "Q3": "q3", "Q4": "q4"}
    mono = averages.filter(pl.col("setting") == "monolingual")
    assert mono.height == 10 * 5
    for row in mono.iter_rows(named=True):
        name = column[row["length_bucket"]]
        printed = TABLE_2.filter(pl.col("model") == row["model"]).get_column(name).item()
        kind = "mean" if row["length_bucket"] == "all" else "mean_of_buckets"
        assert 100 * row[kind] == pytest.approx(printed, abs=0.006), (row["model"], name)
        assert row["n_languages" if kind == "mean" else "n_mean_of_buckets"] == 10


@pytest.mark.parametrize("length_bucket", list(PRINTED))
def test_spearman_with_mmteb_is_the_published_one(averages, length_bucket):
    scores = dict(TABLE_2.select("model", "mmteb").iter_rows())
    found = leaderboard_correlations(averages, scores, leaderboard="mmteb").filter(
        pl.col("setting") == "monolingual",
        pl.col("length_bucket") == length_bucket,
        pl.col("average") == ("mean" if length_bucket == "all" else "mean_of_buckets"),
    )
    row = found.row(0, named=True)
    coefficient, p, next_p = PRINTED[length_bucket]
    assert row["n_models"] == 10
    assert round(row["spearman"], 2) == coefficient
    assert p <= row["p"] < next_p
