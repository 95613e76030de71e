"""A small report input with three languages, two domains and two models."""

from dataclasses import replace
from typing import Any

from report_tables import bucket_rows, psi_row, report_input

from psibench.metrics.summaries import position_trend
from psibench.report.page import ReportInput
from psibench.report.views import BenchmarkInfo, ModelInfo

LANGUAGES = ("eng-Latn", "ara-Arab", "cmn-Hans")
PAIRS = (*((one, one) for one in LANGUAGES), ("ara-Arab", "eng-Latn"), ("cmn-Hans", "eng-Latn"))
MODELS = (
    ModelInfo("blind", "dense", control="position-blind"),
    ModelInfo("beta", "dense"),
    ModelInfo("alpha", "dense"),
)
MEANS = {"alpha": 0.5, "beta": 0.4, "blind": 0.3}


def languages_input(models: tuple[ModelInfo, ...] = MODELS) -> ReportInput:
    """Every model on every pair, `beta` on the pairs of one language only."""
    psi: list[dict[str, Any]] = []
    buckets: list[dict[str, Any]] = []
    for model in models:
        for place, (asked, read) in enumerate(PAIRS):
            if model.id == "beta" and asked != read:
                continue
            pair = {"query_lang": asked, "corpus_lang": read, "benchmark": "b"}
            mean = MEANS[model.id] + place / 100
            values = {
                "mean": mean,
                "mean_of_buckets": mean / 2,
                "p_adjusted": 0.01 if place else 0.5,
            }
            psi += [
                psi_row(model.id, **pair, **values),
                psi_row(model.id, **pair, **values, length_bucket="Q1"),
                psi_row(model.id, **pair, **values, domain="law", n_queries=500),
                psi_row(model.id, **pair, **values, evidence="visible"),
            ]
            buckets += bucket_rows(model.id, (mean, mean - 0.1, mean - 0.2), **pair)
    place_of = {"benchmark": "b", "domain": "all", "statistic": "n_queries", "value": 1200.0}
    rest = place_of | {"statistic": "n_passages", "value": 50.0}
    tokens = [
        place_of | {"statistic": f"passage_tokens_{name}", "value": 9.0} for name in ("mean", "max")
    ]
    statistics = [
        {**row, "language": one} for one in LANGUAGES for row in (place_of, rest, *tokens)
    ]
    inputs = report_input(
        psi, buckets, statistics, benchmarks=(BenchmarkInfo("b", "controlled"),), models=models
    )
    return replace(inputs, position_trend=position_trend(inputs.bucket_scores))
