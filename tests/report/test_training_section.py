"""The report's section on training: the curves of Controlled, where something was trained."""

import polars as pl
from report_tables import svg_texts

from psibench.report.training import training_figures
from psibench.report.views import BenchmarkInfo
from psibench.train.results import TRAINING_BUCKETS

ROWS = [
    {"benchmark": "b", "query_lang": "eng-Latn", "corpus_lang": "eng-Latn", "training": "t"}
    | {"metric": "ndcg@10", "buckets": "thirds", "evidence": evidence, "base": base}
    | {"distribution": name, "bucket": label, "bucket_low": i / 3, "bucket_high": (i + 1) / 3}
    | {"n_queries": 9, "mean": 0.5, "low": 0.4, "high": 0.6}
    for base in ("one", "two")
    for name in ("begin", "uniform")
    for i, label in enumerate(("beginning", "middle", "end"))
    for evidence in ("all", "visible")
]
BUCKETS = pl.DataFrame(ROWS, schema=TRAINING_BUCKETS.empty().schema)


def test_a_benchmark_of_trained_models_has_a_panel_a_base_and_a_line_a_distribution():
    infos = [BenchmarkInfo(id=name, recipe="controlled") for name in ("pool", "b")]
    ((info, (curves,)),) = training_figures(BUCKETS, infos, metric="ndcg@10")
    assert info.id == "b"
    assert [panel.name for panel in curves.panels] == ["one", "two"]
    assert {"begin", "uniform"} <= set(svg_texts(curves.panels[0].image))
    assert training_figures(BUCKETS.clear(), infos, metric="ndcg@10") == []
