"""Builders of small literal tables for the report's tests."""

import re
from collections.abc import Iterable
from typing import Any

import polars as pl

from psibench.report.page import ReportInput
from psibench.report.tables import Block, FigureView, Table
from psibench.tables.schemas import (
    BUCKET_SCORES,
    COMPARISONS,
    POSITION_HISTOGRAM,
    PSI_TABLE,
    STATISTICS,
    TableSpec,
)
from psibench.tables.summary_schemas import POSITION_TREND

FORBIDDEN = ("equally hard", "does not care", "truncation is all", "truncation is enough", "chance")
"""What a page must not say; see docs/psi.md."""
THIRDS = (("beginning", 0.0, 1 / 3), ("middle", 1 / 3, 2 / 3), ("end", 2 / 3, 1.0))


def frame(spec: TableSpec, rows: list[dict[str, Any]]) -> pl.DataFrame:
    schema = pl.DataFrame(spec.schema.empty_table()).schema
    return pl.DataFrame(rows, schema=schema, orient="row")


def psi_row(model: str, **changes: Any) -> dict[str, Any]:
    row = {
        "benchmark": "docs",
        "query_lang": "eng-Latn",
        "corpus_lang": "eng-Latn",
        "domain": "all",
        "length_bucket": "all",
        "model": model,
        "kind": "dense",
        "metric": "ndcg@10",
        "buckets": "thirds",
        "evidence": "all",
        "n_queries": 1200,
        "n_buckets": 3,
        "smallest_bucket": 400,
        "mean": 0.5,
        "mean_of_buckets": 0.5,
        "psi": 0.25,
        "psi_low": 0.2,
        "psi_high": 0.3,
        "psi_corrected": 0.24,
        "best_bucket": "beginning",
        "worst_bucket": "end",
        "psi_same": 0.22,
        "psi_same_low": 0.17,
        "psi_same_high": 0.27,
        "psi_same_corrected": 0.21,
        "best_same": "beginning",
        "worst_same": "end",
        "drop": 0.22,
        "drop_low": 0.16,
        "drop_high": 0.28,
        "test": "within",
        "p_position": 0.001,
        "p_shape": 0.001,
        "p_bucket": 0.001,
        "p_trend": 0.001,
        "p_adjusted": 0.002,
        "control": "blind",
        "p_control": 0.01,
        "p_control_hit": 0.005,
        "p_control_miss": 0.01,
        "p_control_adjusted": 0.02,
        "seen": 1.0,
        "n_documents": 500,
        "n_effective_documents": 450.0,
        "n_informative_documents": 400,
        "intra_document_correlation": 0.1,
        "length_imbalance": 0.02,
        "info_min": 0.7,
        "info_shape": 0.7,
        "p_confounded": 0.4,
        "psi_noise_mean": 0.04,
        "psi_noise_p95": 0.08,
        "flags": "",
        "queries_by": "simulation",
    }
    return dict.fromkeys(PSI_TABLE.column_names) | row | changes


def bucket_rows(
    model: str, means: tuple[float | None, ...], **changes: Any
) -> list[dict[str, Any]]:
    shared = psi_row(model, **changes)
    names = [c.name for c in BUCKET_SCORES.columns if c.name in shared]
    kept = {name: shared[name] for name in names if name not in ("mean", "n_queries")}
    # at equal documents: a hundredth above the plain mean
    return [
        kept
        | {"bucket": label, "bucket_low": low, "bucket_high": high, "n_queries": 400}
        | {"mean": mean, "low": mean and mean - 0.05, "high": mean and mean + 0.05}
        | {"same_mean": mean and mean + 0.01}
        | {"same_low": mean and mean - 0.03, "same_high": mean and mean + 0.05}
        for (label, low, high), mean in zip(THIRDS, means, strict=True)
    ]


def undefined_row(model: str, **changes: Any) -> dict[str, Any]:
    """A row whose queries all sit in one bucket."""
    parts = ("psi", "psi_same", "drop")
    figures = [f"{part}{end}" for part in parts for end in ("", "_low", "_high")]
    more = ["psi_corrected", "psi_same_corrected", "best_bucket", "worst_bucket"]
    tests = [
        "best_same",
        "worst_same",
        "test",
        "p_position",
        "p_shape",
        "p_bucket",
        "p_trend",
        "p_adjusted",
    ]
    nothing = dict.fromkeys([*figures, *more, *tests, "p_control", "p_control_adjusted"])
    return psi_row(model, **nothing, n_buckets=1) | changes


def comparison_row(model: str, other: str, **changes: Any) -> dict[str, Any]:
    row = {
        "benchmark": "docs",
        "query_lang": "eng-Latn",
        "corpus_lang": "eng-Latn",
        "domain": "all",
        "model": model,
        "other": other,
        "relation": "control",
        "metric": "ndcg@10",
        "buckets": "thirds",
        "evidence": "all",
        "n_queries": 1200,
        "n_documents": 500,
        "mean": 0.5,
        "other_mean": 0.4,
        "psi_same": 0.21,
        "other_psi_same": 0.05,
        "psi_difference": 0.16,
        "psi_difference_low": 0.09,
        "psi_difference_high": 0.23,
        "p_profile": 0.01,
        "p_hit": 0.005,
        "p_miss": 0.01,
    }
    return row | changes


def report_input(
    psi: list[dict[str, Any]] | None = None,
    buckets: list[dict[str, Any]] | None = None,
    statistics: list[dict[str, Any]] | None = None,
    histogram: list[dict[str, Any]] | None = None,
    comparisons: list[dict[str, Any]] | None = None,
    **more: Any,
) -> ReportInput:
    return ReportInput(
        psi_table=frame(PSI_TABLE, psi or []),
        bucket_scores=frame(BUCKET_SCORES, buckets or []),
        statistics=frame(STATISTICS, statistics or []),
        position_histogram=frame(POSITION_HISTOGRAM, histogram or []),
        comparisons=frame(COMPARISONS, comparisons or []),
        **{"position_trend": POSITION_TREND.empty(), **more},
    )


def by_title(blocks: Iterable[Block]) -> dict[str, Any]:
    """The tables and figures of a part of the page under their names."""
    return {one.name if isinstance(one, Table) else one.title: one for one in blocks}


def texts(figure: FigureView) -> list[str]:
    """The texts of a figure's only drawing, in their order."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", figure.panels[0].svg)
