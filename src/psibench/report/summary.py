"""The results of a PSI table as plain values: verdicts, PSI with interval, and bucket means."""

from typing import Any

import polars as pl

from psibench.report.verdict import is_control, shown_interval, verdicts
from psibench.report.views import headline_metric
from psibench.tables.spec import ALL

BY_PAIR = ("benchmark", "query_lang", "corpus_lang")
EVERY = {"domain": ALL, "length_bucket": ALL}
MODEL_KEYS = (
    *("model", "kind", "n_queries", "n_documents", "mean", "psi", "psi_same", "p_position"),
    *("p_adjusted", "control", "p_control", "p_control_adjusted", "seen"),
)
"""Columns of the PSI table that a summary repeats for each model."""
BUCKET_KEYS = (
    *("bucket", "bucket_low", "bucket_high", "n_queries", "mean", "low", "high"),
    *("same_mean", "same_low", "same_high"),
)


def chosen_rows(
    psi: pl.DataFrame, *, metric: str | None = None, scheme: str | None = None
) -> pl.DataFrame:
    """Return the PSI rows over all domains and lengths of one metric and one scheme per benchmark.

    None: the metric of `headline_metric`, the first scheme of each benchmark.
    """
    buckets = pl.col("buckets")
    chosen = buckets == (buckets.first().over("benchmark") if scheme is None else scheme)
    return psi.filter(chosen, metric=metric or headline_metric(psi), **EVERY)


def summaries(
    psi: pl.DataFrame,
    buckets: pl.DataFrame | None = None,
    *,
    scheme: str | None = None,
    metric: str | None = None,
) -> list[dict[str, Any]]:
    """Return the results of each benchmark and language pair, described in docs/json.md.

    Uses `chosen_rows`. Intervals of PSI agree with the printed ones (`shown_interval`).
    ``buckets`` are BUCKET_SCORES rows; None: unknown bucket means.
    """
    rows = chosen_rows(psi, metric=metric, scheme=scheme)
    if rows.is_empty():
        return []
    others = psi.filter(metric=rows["metric"][0], **EVERY).join(
        rows, on=[*BY_PAIR, "model", "buckets"], how="anti"
    )
    found = []
    for key, group in rows.group_by(BY_PAIR, maintain_order=True):
        about = dict(zip(BY_PAIR, key, strict=True))
        by_model = {row["model"]: row for row in group.filter(evidence="all").to_dicts()}
        models = []
        for one in verdicts(group.to_dicts(), others.filter(**about).to_dicts()):
            row = by_model[one.model]
            model = {name: row[name] for name in MODEL_KEYS}
            for name in ("psi", "psi_same"):
                model[f"{name}_low"], model[f"{name}_high"] = shown_interval(row, name)
            model |= {"flags": [flag for flag in row["flags"].split(", ") if flag]}
            model |= {"is_control": is_control(row), "verdict": one.label, "advice": one.advice}
            if buckets is not None:
                same = {"metric": row["metric"], "buckets": row["buckets"], "evidence": "all"}
                mine = buckets.filter(model=one.model, **about, **same, **EVERY)
                model["buckets"] = mine.select(BUCKET_KEYS)
            models.append(model)
        labels = {"metric": group["metric"][0], "buckets": group["buckets"][0]}
        found.append(about | labels | {"models": models})
    return found
