"""A small report input."""

import pytest
from report_tables import bucket_rows, psi_row, report_input

from psibench.report import BenchmarkInfo, ModelInfo, ReportInput


@pytest.fixture
def small() -> ReportInput:
    """Two models, two controls, one benchmark in two length buckets and both evidence views."""
    psi = [
        psi_row("alpha"),
        psi_row("alpha", evidence="visible"),
        psi_row("alpha", length_bucket="Q1", psi=0.125),
        psi_row("beta", kind="sparse", psi=0.05, psi_low=0.0, psi_p=0.4, n_queries=1100),
        psi_row("blind", psi=0.06, psi_low=0.01, psi_high=0.11, psi_p=0.3),
        psi_row("cut", psi=0.75, psi_low=0.7, psi_high=0.8),
        psi_row("none", psi=None, psi_low=None, psi_high=None, psi_p=None, n_buckets=1),
    ]
    buckets = [
        row
        for model, means in (
            ("alpha", (0.6, 0.5, 0.45)),
            ("beta", (0.5, 0.5, None)),
            ("blind", (0.4, 0.4, 0.39)),
            ("cut", (0.6, 0.3, 0.15)),
        )
        for row in bucket_rows(model, means)
    ]
    place = {"benchmark": "docs", "language": "eng-Latn", "domain": "all"}
    statistics = [
        place | {"statistic": "n_queries", "value": 1200.0},
        place | {"statistic": "query_words_mean", "value": 9.5},
        place | {"statistic": "oddity", "value": 7.0},
        place | {"statistic": "bucket:beginning", "value": 400.0},
    ]
    histogram = [
        place | {"unit": "start_char", "bin_low": 0.0, "bin_high": 100.0, "n_queries": 800},
        place | {"unit": "start_char", "bin_low": 100.0, "bin_high": 200.0, "n_queries": 400},
    ]
    return report_input(
        psi,
        buckets,
        statistics,
        histogram,
        benchmarks=(BenchmarkInfo("docs", "known_item", "", "Manual.", True, "by a stand-in"),),
        models=(
            ModelInfo("alpha", "dense", "First."),
            ModelInfo("beta", "sparse", "Second."),
            ModelInfo("blind", "dense", "Mean of words.", "position-blind"),
            ModelInfo("cut", "dense", "First 128 tokens.", "truncating"),
        ),
        provenance={"config sha256": "00ff"},
        created="2025-01-02 03:04 UTC",
    )
