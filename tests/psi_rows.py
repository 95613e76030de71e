"""Literal rows of the PSI table, for the tests of what shows them."""

from typing import Any

import polars as pl

from psibench.tables.schemas import PSI_TABLE
from psibench.tables.spec import TableSpec


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
