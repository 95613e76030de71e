"""Builders of small literal tables for the report's tests."""

import base64
import re
from collections.abc import Iterable
from typing import Any

from psi_rows import frame, psi_row

from psibench.report.page import ReportInput
from psibench.report.tables import FigureView, PageBlock, Table
from psibench.report.views import BenchmarkInfo, ModelInfo
from psibench.tables.schemas import BUCKET_SCORES, POSITION_HISTOGRAM, PSI_TABLE, STATISTICS

FORBIDDEN = ("equally hard", "does not care", "truncation is all", "truncation is enough", "chance")
"""Claims that a page must not make; see docs/psi.md."""
THIRDS = (("beginning", 0.0, 1 / 3), ("middle", 1 / 3, 2 / 3), ("end", 2 / 3, 1.0))


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
    known = ("psi", "drop", "best_", "worst_", "test", "p_")
    nothing = dict.fromkeys(name for name in psi_row(model) if name.startswith(known))
    return psi_row(model, **nothing, n_buckets=1) | changes


def report_input(
    psi: list[dict[str, Any]] | None = None,
    buckets: list[dict[str, Any]] | None = None,
    statistics: list[dict[str, Any]] | None = None,
    histogram: list[dict[str, Any]] | None = None,
    **more: Any,
) -> ReportInput:
    """Return a page's tables; benchmarks and models default to the ones in the rows."""
    rows = [*(psi or []), *(buckets or []), *(statistics or [])]
    names = dict.fromkeys(row["benchmark"] for row in rows)
    models = {row["model"]: row["kind"] for row in psi or []}
    models = {row["model"]: "dense" for row in buckets or []} | models
    named = {
        "benchmarks": [BenchmarkInfo(name, "") for name in names],
        "models": [ModelInfo(name, kind) for name, kind in models.items()],
    }
    return ReportInput(
        psi_table=frame(PSI_TABLE, psi or []),
        bucket_scores=frame(BUCKET_SCORES, buckets or []),
        statistics=frame(STATISTICS, statistics or []),
        position_histogram=frame(POSITION_HISTOGRAM, histogram or []),
        **{**named, **more},
    )


def by_title(blocks: Iterable[PageBlock]) -> dict[str, Any]:
    """The tables and figures of a part of the page under their names."""
    return {one.name if isinstance(one, Table) else one.title: one for one in blocks}


def svg_texts(image: str) -> list[str]:
    """The texts of the drawings in a piece of a page, in their order."""
    drawings = re.findall(r"data:image/svg[+]xml;base64,([^\"]+)", image)
    return [
        text
        for one in drawings
        for text in re.findall(r"<text[^>]*>([^<]*)</text>", base64.b64decode(one).decode())
    ]


def texts(figure: FigureView) -> list[str]:
    """The texts of a figure's only drawing."""
    return svg_texts(figure.panels[0].image)
