"""What first stages leave to rerankers, by position."""

import polars as pl
from report_tables import bucket_rows, frame, psi_row, report_input

from psibench.report.page import render_report
from psibench.report.scores import FIRST_STAGE_NOTE, first_stages
from psibench.report.views import BenchmarkInfo, ModelInfo
from psibench.tables.schemas import BUCKET_SCORES

INFO = BenchmarkInfo("b", "squad_posq", headline="thirds")
MODELS = (ModelInfo("bm25", "sparse"), ModelInfo("cross", "reranker", depth=100))


def scores(metric: str) -> list[dict]:
    rows = bucket_rows("bm25", (0.5, 0.4, 0.3), benchmark="b")
    rows += bucket_rows("cross", (0.9, 0.8, 0.7), benchmark="b")
    shift = 0.05 if metric == "recall@100" else 0.0
    return [row | {"metric": metric, "mean": row["mean"] + shift} for row in rows]


def table(*metrics: str) -> list:
    rows = frame(BUCKET_SCORES, [row for metric in metrics for row in scores(metric)])
    return first_stages(rows, [INFO], MODELS, metric="ndcg@10")


def test_recall_at_a_reranker_s_depth_stands_above_its_scores_by_position() -> None:
    ((info, found),) = table("ndcg@10", "recall@100")
    assert info is INFO
    assert found.header == ("reranker", " ", "beginning", "middle", "end")
    assert found.rows == (
        ("cross", "first stage, recall@100", "0.950", "0.850", "0.750"),
        ("cross", "reranked, ndcg@10", "0.900", "0.800", "0.700"),
    )


def test_without_recall_at_that_depth_nothing_is_said() -> None:
    assert table("ndcg@10", "recall@10") == []


def test_the_report_has_the_section_where_there_is_such_recall() -> None:
    psi = [psi_row(model.id, benchmark="b") for model in MODELS]
    psi += [row | {"metric": "recall@100"} for row in psi]
    both = scores("ndcg@10") + scores("recall@100")
    page = render_report(report_input(psi, both, benchmarks=(INFO,), models=MODELS))
    assert "What first stages leave to rerankers" in page
    assert FIRST_STAGE_NOTE[:40] in page
    alone = frame(BUCKET_SCORES, both).filter(pl.col("metric") == "ndcg@10").to_dicts()
    page = render_report(report_input(psi[:2], alone, benchmarks=(INFO,), models=MODELS))
    assert "What first stages leave to rerankers" not in page
