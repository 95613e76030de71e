"""Small literal tables of verification for the report's tests."""

from typing import Any

import polars as pl
from report_tables import bucket_rows, frame, psi_row, report_input

from psibench.filters.audit import AUDIT_TABLE
from psibench.filters.margin_counts import CELL_TABLE, MARGIN_TABLE
from psibench.filters.negatives import JUDGEMENTS
from psibench.filters.position_shift import shift_rows
from psibench.papers.figures import figure_files, report_references
from psibench.report.beside import read_references
from psibench.report.page import ReportInput
from psibench.report.views import BenchmarkInfo, ModelInfo
from psibench.tables.build_schemas import FLOW
from psibench.text.segments import POSITIONS

BINS = ("256-512", "512-1024", "1024-2048", "2048-4096", "4096-8192")


def margins(*pools: tuple[float, tuple[int, int, int]]) -> pl.DataFrame:
    """MARGIN_TABLE of 1,200 candidates, 400 per position, 30 without a margin."""
    lowest = pools[0][1]
    failed = tuple(390 - n for n in lowest)
    conditions: list[tuple[str, float | None, tuple[int, ...]]] = [
        ("all", None, (400, 400, 400)),
        ("no_margin", None, (10, 10, 10)),
        ("failed", None, failed),
        *((f"m>={cut:g}", cut, counts) for cut, counts in pools),
    ]
    rows = []
    for label, threshold, counts in conditions:
        row = {"condition": label, "threshold": threshold, "n": sum(counts)}
        rows.append(row | {f"n_{p}": n for p, n in zip(POSITIONS, counts, strict=True)})
    return frame(MARGIN_TABLE, rows)


def cells(threshold: float, bins: tuple[str, ...] = BINS) -> pl.DataFrame:
    """CELL_TABLE of one pool: 10, 4 and 5 queries in the first bin, one more in each next one."""
    counts = [(10 + i, 4 + i, 5 + i) for i in range(len(bins))]
    total = tuple(sum(column) for column in zip(*counts, strict=True))
    rows = []
    for label, parts in (*zip(bins, counts, strict=True), ("all", total)):
        row = {"condition": f"m>={threshold:g}", "threshold": threshold, "length_bin": label}
        rows.append(row | {f"n_{p}": n for p, n in zip(POSITIONS, parts, strict=True)})
    return frame(CELL_TABLE, rows)


def audit(*strata: tuple[float | None, float | None, int, float]) -> pl.DataFrame:
    """AUDIT_TABLE: (low, high, queries, share), the share for all three metrics."""
    rows = []
    for low, high, n, share in strata:
        label = "no_margin" if high is None else f"m<{high:g}"
        if low is not None:
            label = f"m>={low:g}" if high is None else f"{low:g}<=m<{high:g}"
        row: dict[str, Any] = {"stratum": label, "low": low, "high": high}
        row |= {"n": n, "n_unusable": 2 if n else 0}
        for name in ("target_yes", "distractor_no", "exclusive"):
            known = (share, share - 0.04, share + 0.03) if n else (None, None, None)
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), known, strict=True))
        rows.append(row)
    return frame(AUDIT_TABLE, rows)


def flow(*stages: tuple[str, str, int, int]) -> pl.DataFrame:
    """FLOW: (stage, unit, entered, kept)."""
    rows = [
        {"stage": stage, "step": step, "unit": unit, "entered": entered, "kept": kept}
        | {"dropped": entered - kept}
        for step, (stage, unit, entered, kept) in enumerate(stages)
    ]
    return frame(FLOW, rows)


def shifts(
    *stages: tuple[str, tuple[int, int, int], tuple[int, int, int]], unit: str = "queries"
) -> pl.DataFrame:
    """POSITION_SHIFT: (stage, entered by position, kept by position)."""
    return shift_rows(
        (stage, unit, *([sum(side), *side] for side in (entered, kept)))
        for stage, entered, kept in stages
    )


def judged(n_found: int, n_confirmed: int) -> pl.DataFrame:
    """JUDGEMENTS: so many pairs, each with one reranker and one judge."""
    rows = [
        {"query_id": f"q{i}", "doc_id": "d", "kind": kind, "scorer": kind, "vote": True}
        | {"is_false_negative": i < n_confirmed, "reason": ""}
        for i in range(n_found)
        for kind in ("reranker", "judge")
    ]
    return frame(JUDGEMENTS, rows)


MARGIN_FACTS: dict[str, Any] = {
    "benchmark": "controlled",
    "language": "eng-Latn",
    "domain": "wikipedia",
    "flow": flow(
        ("generate_positional_query", "queries", 1200, 1200), ("margin", "queries", 1200, 300)
    ),
    "margin_table": margins((0.0, (360, 300, 310)), (0.3, (180, 50, 70))),
    "cell_table": cells(0.3),
    "audit_table": audit((None, None, 0, 0.0), (None, 0.0, 100, 0.5), (0.3, None, 100, 0.91)),
    "shift": shifts(
        ("generate_positional_query", (400, 400, 400), (400, 400, 400)),
        ("margin", (400, 400, 400), (180, 50, 70)),
    ),
}

POSQ_FACTS: dict[str, Any] = {
    "benchmark": "fineweb",
    "language": "eng-Latn",
    "domain": "web",
    "flow": flow(
        ("summarise", "documents", 90, 88),
        ("agreement", "questions", 950, 500),
        ("balance", "questions", 500, 300),
    ),
    "shift": shifts(
        ("agreement", (150, 570, 230), (100, 260, 140)),
        ("balance", (100, 260, 140), (100, 100, 100)),
        unit="questions",
    ),
    "judgements": judged(14, 11),
}

REFERENCES = read_references(report_references(), figure_files(report_references()))
MODELS = (ModelInfo("alpha", "dense"), ModelInfo("beta", "sparse"), ModelInfo("blind", "dense"))
INFOS = (
    BenchmarkInfo("controlled", "controlled", length_unit="chars", margin_threshold=0.3),
    BenchmarkInfo("fineweb", "fineweb_posq", length_unit="words"),
)


def flows(*every: dict[str, Any]) -> pl.DataFrame:
    """Their FLOW rows as `read_generation` gives them."""
    reasons = pl.when(pl.col("dropped") > 0).then(pl.format("target_not_first {}", "dropped"))
    return pl.concat(
        facts["flow"].select(
            *(pl.lit(facts[name]).alias(name) for name in ("benchmark", "language", "domain")),
            pl.all(),
            reasons=reasons,
        )
        for facts in every
    )


def verified_input(**more: Any) -> ReportInput:
    """A page of one benchmark by margin and one by agreement, which has a view of its own."""
    names = ("controlled", "fineweb", "fineweb-raw")
    models = [model.id for model in MODELS]
    statistics = [
        {"benchmark": name, "language": "eng-Latn", "domain": "all"}
        | {"statistic": "n_queries", "value": 300.0}
        for name in names
    ]
    return report_input(
        [psi_row(model, benchmark=name) for name in names for model in models],
        [
            row
            for name in names
            for model in models
            for row in bucket_rows(model, (0.6, 0.5, 0.45), benchmark=name)
        ],
        statistics,
        benchmarks=INFOS,
        models=MODELS,
        generation={"flow": flows(MARGIN_FACTS, POSQ_FACTS)},
        verification=(MARGIN_FACTS, POSQ_FACTS),
        references=REFERENCES,
        **more,
    )
