"""A small report input."""

import pytest
from report_tables import bucket_rows, psi_row, report_input, undefined_row
from verification_tables import verified_input

from psibench.report.page import ReportInput, render_report
from psibench.report.views import BenchmarkInfo, ModelInfo


@pytest.fixture(scope="session")
def small() -> ReportInput:
    """Two models, two controls, one benchmark in two length buckets and both evidence views."""
    lower = {"psi_same": 0.05, "psi_same_low": 0.0, "psi_same_high": 0.09, "drop": -0.03}
    chance = {"p_adjusted": 0.4, "psi_same_corrected": 0.0, "p_control_adjusted": 1.0}
    blind = {"p_adjusted": 0.3, "psi_same_corrected": 0.02, "control": None}
    cut = {"psi_same": 0.7, "psi_same_low": 0.65, "psi_same_high": 0.75, "seen": 0.6}
    psi = [
        psi_row("alpha", seen=0.9, truncation=-0.1, truncation_low=-0.2, truncation_high=-0.05),
        psi_row("alpha", evidence="visible", n_queries=1080),
        psi_row("alpha", length_bucket="Q1", psi=0.125),
        psi_row("beta", kind="sparse", psi=0.05, psi_low=0.0, n_queries=1100, **lower, **chance),
        psi_row("blind", psi=0.06, **lower, **blind, p_control_adjusted=None),
        psi_row("cut", psi=0.75, **cut, psi_same_corrected=0.69, flags="too_few_documents"),
        undefined_row("none"),
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
        benchmarks=(BenchmarkInfo("docs", "known_item", "", "Manual.", "by a stand-in"),),
        models=(
            ModelInfo("alpha", "dense", "First."),
            ModelInfo("beta", "sparse", "Second."),
            ModelInfo("blind", "dense", "Mean of words.", "position-blind"),
            ModelInfo("cut", "dense", "First 128 tokens.", "truncating"),
        ),
        provenance={"config sha256": "00ff"},
        created="2025-01-02 03:04 UTC",
    )


@pytest.fixture(scope="session")
def small_page(small: ReportInput) -> str:
    """The page of `small`, rendered once."""
    return render_report(small)


@pytest.fixture(scope="session")
def verified_page() -> str:
    """The page of two benchmarks with verification and views, rendered once."""
    return render_report(verified_input())
