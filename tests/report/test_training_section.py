"""The report's section on training: what it says, and that it is there only where one trained."""

import polars as pl
import pytest
from report_tables import svg_texts

from psibench.report.training import training_blocks
from psibench.report.views import BenchmarkInfo
from psibench.train.results import TRAINING_BUCKETS, TRAINING_REDUCTION, TRAINING_TABLE

INFO = BenchmarkInfo(id="b", recipe="controlled")
PLACE = {
    "benchmark": "b",
    "query_lang": "eng-Latn",
    "corpus_lang": "eng-Latn",
    "training": "t",
    "metric": "ndcg@10",
    "buckets": "thirds",
    "evidence": "all",
}


def frame(spec, rows):
    columns = spec.empty().schema
    return pl.DataFrame([{n: PLACE.get(n) for n in columns} | row for row in rows], schema=columns)


@pytest.fixture
def facts():
    table = [
        {"base": base, "distribution": name, "n_seeds": 2, "psi": psi, "psi_low": 0.1,
         "psi_high": 0.3, "psi_seed_mean": psi, "psi_seed_sd": 0.034}
        for base in ("one", "two") for name, psi in (("begin", 0.206), ("uniform", 0.044))
    ]  # fmt: skip
    reduction = [
        {"base": base, "distribution": "begin", "balanced": "uniform", "worst": 1, "psi": 0.206,
         "psi_balanced": 0.044, "reduction": 0.786, "psi_difference": -0.16,
         "psi_difference_low": -0.2, "psi_difference_high": -0.1, "verdict": "lower"}
        for base in ("one", "two")
    ]  # fmt: skip
    buckets = [
        {"base": base, "distribution": name, "bucket": label, "bucket_low": i / 3,
         "bucket_high": (i + 1) / 3, "n_queries": 9, "mean": 0.5, "low": 0.4, "high": 0.6}
        for base in ("one", "two") for name in ("begin", "uniform")
        for i, label in enumerate(("beginning", "middle", "end"))
    ]  # fmt: skip
    return {
        "training_table": frame(TRAINING_TABLE, table),
        "training_reduction": frame(TRAINING_REDUCTION, reduction),
        "training_buckets": frame(TRAINING_BUCKETS, buckets),
    }


def test_nothing_trained_is_no_section():
    assert training_blocks({}, [INFO], metric="ndcg@10") == []


def test_a_benchmark_without_trained_models_is_left_out(facts):
    other = BenchmarkInfo(id="pool", recipe="controlled")
    found = training_blocks(facts, [other, INFO], metric="ndcg@10")
    assert [info.id for info, _ in found] == ["b"]


def test_each_base_and_distribution_has_a_line_with_the_spread_of_its_seeds(facts):
    ((_, (table, *_)),) = training_blocks(facts, [INFO], metric="ndcg@10")
    assert [row[:2] for row in table.rows] == [
        ("one", "begin"), ("one", "uniform"), ("two", "begin"), ("two", "uniform"),
    ]  # fmt: skip
    assert table.rows[0][-1] == "0.206 ± 0.034"


def test_a_reduction_has_its_verdict_beside_its_name_and_its_interval_of_plain_means(facts):
    ((_, (_, reductions, _)),) = training_blocks(facts, [INFO], metric="ndcg@10")
    base, skewed, verdict, *figures = reductions.rows[0]
    assert (base, skewed, verdict) == ("one", "begin ▼", "uniform: lower")
    assert figures[2] == "79 %"
    assert figures[3:5] == ["−0.160 [−0.200, −0.100]", "plain means"]


def test_the_curves_have_a_panel_for_each_base_and_a_line_for_each_distribution(facts):
    ((_, (*_, curves)),) = training_blocks(facts, [INFO], metric="ndcg@10")
    assert [panel.name for panel in curves.panels] == ["one", "two"]
    assert {"begin", "uniform"} <= set(svg_texts(curves.panels[0].image))
