"""What the leading PSI rows say in words: verdicts, controls, truncation against neglect."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from psibench.report import psi_rows
from psibench.report.inputs import BenchmarkInfo, ModelInfo
from psibench.report.sections import control_reading, visibility_rows
from psibench.report.verdict import Verdict, verdict
from psibench.report.views import bucket_order, main_scheme, schemes_of


def verdicts(
    lead: pl.DataFrame, benchmarks: Sequence[BenchmarkInfo], models: Mapping[str, ModelInfo]
) -> list[Verdict]:
    """Return the verdict on every benchmark; ``lead`` are the leading PSI rows of one metric."""
    found = []
    for info in benchmarks:
        scheme = main_scheme(schemes_of(lead, info.id), info.recipe)
        rows = _rows(lead.filter(pl.col("evidence") == "all"), info.id, scheme)
        found.append(verdict(info, scheme, rows, models=models))
    return found


def _rows(lead: pl.DataFrame, benchmark: str, scheme: str | None) -> list[dict[str, Any]]:
    if scheme is None:
        return []
    mine = (pl.col("benchmark") == benchmark) & (pl.col("buckets") == scheme)
    return lead.filter(mine).to_dicts()


def controls(
    lead: pl.DataFrame, bucket_scores: pl.DataFrame, models: Sequence[ModelInfo]
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each control over all queries, with what they say."""
    rows = lead.filter(pl.col("evidence") == "all").to_dicts()
    end = psi_rows.scale_end(lead)
    found: dict[str, list[dict[str, Any]]] = {"position-blind": [], "truncating": []}
    for model in models:
        for row in (row for row in rows if row["model"] == model.id and model.control):
            mine = (pl.col("benchmark") == row["benchmark"]) & (pl.col("buckets") == row["buckets"])
            order = bucket_order(bucket_scores.filter(mine))
            reading = control_reading(row, str(model.control), order[0] if order else None)
            cells = psi_rows.cells(row, end=end)
            found[str(model.control)].append({**cells, "reading": reading})
    return found


def visibility(
    lead: pl.DataFrame, benchmarks: Sequence[BenchmarkInfo]
) -> list[tuple[BenchmarkInfo, str, list[dict[str, Any]]]]:
    """Return benchmark, bucket scheme and rows of all queries beside visible ones."""
    found = []
    for info in benchmarks:
        scheme = main_scheme(schemes_of(lead, info.id), info.recipe)
        rows = visibility_rows(_rows(lead, info.id, scheme))
        if rows and scheme is not None:
            found.append((info, scheme, rows))
    return found
