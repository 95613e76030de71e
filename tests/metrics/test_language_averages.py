import polars as pl
import pytest
from psi_rows import frame, psi_row

from psibench.metrics.summaries import language_averages, leaderboard_correlations
from psibench.tables.schemas import PSI_TABLE

BASE = {"psi": 0.2, "psi_noise_mean": 0.1, "psi_same": 0.12, "psi_corrected": 0.15}


def table(*rows: dict) -> pl.DataFrame:
    """A PSI table of rows, with defaults from BASE and `psi_row`."""
    return frame(PSI_TABLE, [psi_row(**{"model": "m"} | BASE | row) for row in rows])


def language(code: str, **values) -> dict:
    return {"query_lang": code, "corpus_lang": code} | values


def test_languages_have_equal_weight_without_rows_of_domains():
    english = {"n_queries": 1000, "mean": 0.8, "mean_of_buckets": 0.7, "psi": 0.1}
    arabic = {"n_queries": 10, "mean": 0.4, "mean_of_buckets": 0.5, "psi": 0.4}
    found = language_averages(
        table(
            language("eng-Latn", queries_by="people", **english),
            language("eng-Latn", mean=0.1, domain="law"),
            language("ara-Arab", queries_by="llm:x, people", **arabic),
            {"query_lang": "fra-Latn", "mean": 0.6},
            {"query_lang": "deu-Latn", "mean": 0.4},
        )
    )
    assert found.select("setting", "n_languages", "mean", "languages", "queries_by").rows() == [
        ("monolingual", 2, pytest.approx(0.6), "ara-Arab, eng-Latn", "llm:x, people"),
        ("cross-lingual", 2, 0.5, "deu-Latn-eng-Latn, fra-Latn-eng-Latn", "simulation"),
    ]
    row = found.row(0, named=True)
    assert (row["mean_of_buckets"], row["psi"]) == pytest.approx((0.6, 0.25))


def test_a_language_counts_in_the_averages_of_what_it_has():
    none = dict.fromkeys(("mean", "mean_of_buckets", "psi", "psi_noise_mean"))
    found = language_averages(
        table(
            language("eng-Latn", mean=0.8, psi=0.2, psi_noise_mean=0.1),
            language("ara-Arab", mean=0.0, psi=None, psi_noise_mean=None, psi_corrected=None),
            language("kor-Kore", mean=0.4, psi=None, psi_corrected=0.9, mean_of_buckets=None),
            language("spa-Latn", **none),
        )
    )
    row = found.row(0, named=True)
    assert (row["n_languages"], row["n_all_languages"]) == (3, 3)
    assert (row["n_mean_of_buckets"], row["n_psi"]) == (2, 1)
    assert row["languages"] == "ara-Arab, eng-Latn, kor-Kore"
    assert row["mean"] == pytest.approx(0.4)
    assert (row["psi"], row["psi_noise_mean"], row["psi_corrected"]) == (0.2, 0.1, 0.15)


# Models that lack a language: no average over another set, and no rank beside the others.

ENGLISH, ARABIC, CHINESE = "eng-Latn", "ara-Arab", "cmn-Hans"
LEVEL = {ENGLISH: 0.5, ARABIC: 0.3, CHINESE: 0.1}
AVERAGES = ("mean", "mean_of_buckets", "psi", "psi_noise_mean", "psi_corrected", "psi_same")
RANKED = ("a", "b", "c", "d")
BOARD = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "only": 0.5}


def row(model: str, code: str, mean: float | None, **values) -> dict:
    return language(code, model=model, mean=mean, mean_of_buckets=mean) | values


def averaged(rows: list[dict]) -> pl.DataFrame:
    return language_averages(table(*rows))


def of(found: pl.DataFrame, **wanted: str) -> dict:
    return found.filter(**wanted).row(0, named=True)


def five_models() -> list[dict]:
    """Four models in the board's order in each of three languages, `only` just in English."""
    rows = [
        row(model, code, level + place / 100)
        for place, model in enumerate(RANKED)
        for code, level in LEVEL.items()
    ]
    return [*rows, row("only", ENGLISH, LEVEL[ENGLISH])]


def test_a_model_without_all_languages_has_no_averages():
    found = averaged(five_models())
    only = of(found, model="only")
    assert [only[name] for name in AVERAGES] == [None] * len(AVERAGES)
    assert (only["n_languages"], only["n_all_languages"]) == (1, 3)
    assert (only["n_mean_of_buckets"], only["n_psi"]) == (1, 1)
    assert only["languages"] == ENGLISH
    first = of(found, model="a")
    assert first["mean"] == pytest.approx(0.3)
    assert (first["n_languages"], first["n_all_languages"]) == (3, 3)


def test_all_languages_are_the_union_over_models():
    found = averaged([row("a", ENGLISH, 0.5), row("b", ARABIC, 0.3)])
    assert found.select("n_languages", "n_all_languages", "mean").rows() == [(1, 2, None)] * 2


@pytest.mark.parametrize(
    "label",
    [
        {"benchmark": "other"},
        {"length_bucket": "Q4"},
        {"metric": "mrr@10"},
        {"buckets": "relative-20"},
        {"evidence": "whole"},
    ],
)
def test_sets_of_languages_are_each_for_themselves(label):
    rows = [row("a", code, 0.5) for code in LEVEL] + [row("a", ENGLISH, 0.4, **label)]
    found = averaged(rows)
    assert of(found, **label)["n_all_languages"] == 1
    assert of(found, **label)["mean"] == pytest.approx(0.4)
    assert found["n_all_languages"].to_list() == [3, 1]


def test_models_that_lack_a_language_are_named_and_not_ranked():
    board = {model: score for model, score in BOARD.items() if model != "d"}
    lacks = pl.when(pl.col("model") != "b").then("mean_of_buckets")
    averages = averaged(five_models()).with_columns(mean_of_buckets=lacks)
    found = leaderboard_correlations(averages, board, leaderboard="x")
    columns = ("average", "n_models", "spearman", "models", "unmatched", "incomplete")
    assert found.select(columns).rows() == [
        ("mean", 3, pytest.approx(1.0), "a, b, c", "d", "only"),
        ("mean_of_buckets", 2, None, "a, c", "d", "only"),
    ]
