"""The PSI table of the page: server-rendered rows, and all rows as JSON for its script."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import polars.selectors as cs

from psibench.report.inputs import ModelInfo
from psibench.report.views import POOLED, SCHEME_ORDER
from psibench.report.wording import (
    exceeds_chance,
    interval,
    number,
    p_value,
    pair_text,
    undefined_reason,
)

DECIMALS = 8
MAX_ROWS = 20_000
"""Rows up to which the page has all, those of single domains among them."""
TEXT_COLUMNS = (
    "model",
    "kind",
    "benchmark",
    "metric",
    "buckets",
    "evidence",
    "pair",
    "domain",
    "length_bucket",
    "best_bucket",
    "worst_bucket",
    "reason",
)
NUMBER_COLUMNS = (
    "n_queries",
    "n_buckets",
    "mean",
    "psi",
    "psi_low",
    "psi_high",
    "psi_null_p95",
    "psi_p",
    "psi_corrected",
)


def fitting(psi_table: pl.DataFrame, *, limit: int = MAX_ROWS) -> pl.DataFrame:
    """Return the rows that a page can carry: all up to ``limit``, else those of pooled domains.

    ``psi_table`` carries ``headline``; the leading rows stay.
    """
    if psi_table.height <= limit:
        return psi_table
    is_pooled = pl.col("domain") == POOLED
    return psi_table.filter(
        is_pooled | pl.col("headline") | ~is_pooled.any().over("benchmark"),
    )


def prepared(
    psi_table: pl.DataFrame, models: Mapping[str, ModelInfo], *, benchmarks: Sequence[str]
) -> pl.DataFrame:
    """Return the rows in page order, with ``pair``, ``kind`` and ``reason`` as shown.

    ``psi_table`` carries ``headline``. Order: ``benchmarks``, leading slice first, bucket scheme,
    slice, evidence, then PSI from large to small. Controls are of the kind ``control``.
    """
    # both renderings of the table start from the same rounded numbers
    rows = psi_table.with_columns(cs.float().round(DECIMALS)).to_dicts()
    for row in rows:
        row["pair"] = pair_text(row["query_lang"], row["corpus_lang"])
        row["reason"] = undefined_reason(row)
        if models[row["model"]].control is not None:
            row["kind"] = "control"
    schema = pl.Schema({**psi_table.schema, "pair": pl.String(), "reason": pl.String()})
    schemes = {name: i for i, name in enumerate(SCHEME_ORDER)}
    order = {name: i for i, name in enumerate(benchmarks)}
    rows.sort(key=lambda row: _place(row, order, schemes))
    return pl.DataFrame(rows, schema=schema)


def _place(
    row: Mapping[str, Any], benchmarks: Mapping[str, int], schemes: Mapping[str, int]
) -> tuple[Any, ...]:
    psi = -math.inf if row["psi"] is None else row["psi"]
    names = (row["buckets"], row["metric"], row["pair"], row["domain"], row["length_bucket"])
    scheme = schemes.get(row["buckets"], len(schemes))
    return (
        benchmarks[row["benchmark"]],
        not row["headline"],
        scheme,
        *names,
        row["evidence"],
        -psi,
        row["model"],
    )


def payload(rows: pl.DataFrame, *, metric: str) -> str:
    """Return all rows as JSON, safe inside a ``<script>`` element.

    Text columns are written once per distinct value and referred to by number; what is not
    finite is null.
    """
    columns: dict[str, Any] = {}
    for name in TEXT_COLUMNS:
        values = list(dict.fromkeys(rows[name]))
        number_of = {value: i for i, value in enumerate(values)}
        columns[name] = {"values": values, "codes": [number_of[v] for v in rows[name]]}
    for name in NUMBER_COLUMNS:
        columns[name] = [_finite(value) for value in rows[name]]
    columns["headline"] = [int(value) for value in rows["headline"]]
    data = {"n": rows.height, "metric": metric, "pooled": POOLED, "columns": columns}
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    escapes = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028"}
    for character, escape in (escapes | {"\u2029": "\\u2029"}).items():
        text = text.replace(character, escape)
    return text


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def scale_end(rows: pl.DataFrame) -> float:
    """Return the right end of the small PSI charts: the next tenth above all, 1 at most."""
    ends = [rows[name].max() for name in ("psi", "psi_high", "psi_null_p95")]
    largest = max((float(str(end)) for end in ends if end is not None), default=1.0)
    return min(1.0, max(0.1, math.ceil(largest * 10 - 1e-9) / 10))


def cells(row: Mapping[str, Any], *, end: float) -> dict[str, Any]:
    """Return a row with its numbers as text and its small chart in percent of ``end``."""
    return {
        **row,
        "mean_text": number(row["mean"]),
        "psi_text": number(row["psi"]) if row["psi"] is not None else "undefined",
        "interval_text": interval(row["psi_low"], row["psi_high"]),
        "null_text": number(row["psi_null_p95"]),
        "p_text": p_value(row["psi_p"]),
        "corrected_text": number(row["psi_corrected"]),
        "beyond": exceeds_chance(row),
        "chart": chart(row, end=end),
    }


def chart(row: Mapping[str, Any], *, end: float) -> dict[str, float | None]:
    """Return the places of a row's dot, interval and null band, in percent of ``end``."""
    names = ("psi", "psi_low", "psi_high", "psi_null_p95")
    return {
        name: None if row[name] is None else round(min(100.0, 100 * row[name] / end), 1)
        for name in names
    }
