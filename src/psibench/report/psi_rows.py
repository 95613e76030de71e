"""The PSI table of the page: server-rendered rows, and all rows as JSON for its script."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import polars.selectors as cs

from psibench.metrics.estimate import FLAGS
from psibench.report.inputs import ModelInfo
from psibench.report.verdict import finding_of, has_flag, place, undefined_text
from psibench.report.views import POOLED, SCHEME_ORDER
from psibench.report.wording import interval, number, p_value, pair_text, percent

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
    "flags",
    "reason",
)
CHART_COLUMNS = ("psi_same", "psi_same_low", "psi_same_high", "psi_noise_p95")
NUMBER_COLUMNS = (
    "mean",
    "psi",
    "psi_low",
    "psi_high",
    *CHART_COLUMNS,
    "p_adjusted",
    "p_control_adjusted",
    "seen",
    "drop",
    "n_queries",
    "n_documents",
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
    slice, evidence, then as the verdicts (`psibench.report.verdict.place`). Controls are of the
    kind ``control``.
    """
    # both renderings of the table start from the same rounded numbers
    rows = psi_table.with_columns(cs.float().round(DECIMALS)).to_dicts()
    for row in rows:
        row["pair"] = pair_text(row["query_lang"], row["corpus_lang"])
        row["reason"] = "" if row["psi"] is not None else undefined_text(row)
        if models[row["model"]].control is not None:
            row["kind"] = "control"
    schema = pl.Schema({**psi_table.schema, "pair": pl.String(), "reason": pl.String()})
    schemes = {name: i for i, name in enumerate(SCHEME_ORDER)}
    order = {name: i for i, name in enumerate(benchmarks)}
    rows.sort(key=lambda row: _order(row, order, schemes))
    return pl.DataFrame(rows, schema=schema)


def _order(
    row: Mapping[str, Any], benchmarks: Mapping[str, int], schemes: Mapping[str, int]
) -> tuple[Any, ...]:
    names = (row["buckets"], row["metric"], row["pair"], row["domain"], row["length_bucket"])
    scheme = schemes.get(row["buckets"], len(schemes))
    return (
        benchmarks[row["benchmark"]],
        not row["headline"],
        scheme,
        *names,
        row["evidence"],
        place(row),
        row["model"],
    )


def payload(rows: pl.DataFrame, *, metric: str) -> str:
    """Return all rows and what flags mean as JSON, safe inside a ``<script>`` element.

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
    data = {"n": rows.height, "metric": metric, "pooled": POOLED, "flags": FLAGS}
    data["columns"] = columns
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    escapes = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028"}
    for character, escape in (escapes | {"\u2029": "\\u2029"}).items():
        text = text.replace(character, escape)
    return text


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def raised_flags(rows: pl.DataFrame) -> dict[str, str]:
    """Return the flags that rows carry, in the order of `FLAGS`, each with what it means."""
    raised = {name for flags in rows["flags"].unique() for name in flags.split(", ")}
    return {name: text for name, text in FLAGS.items() if name in raised}


def scale_end(rows: pl.DataFrame) -> float:
    """Return the right end of the small PSI charts: the next tenth above all, 1 at most."""
    ends = [rows[name].max() for name in CHART_COLUMNS]
    largest = max((float(str(end)) for end in ends if end is not None), default=1.0)
    return min(1.0, max(0.1, math.ceil(largest * 10 - 1e-9) / 10))


def cells(row: Mapping[str, Any], *, end: float) -> dict[str, Any]:
    """Return a row with its numbers as text and its small chart in percent of ``end``."""
    return {
        **row,
        "mean_text": number(row["mean"]),
        "psi_text": number(row["psi"]),
        "interval_text": interval(row["psi_low"], row["psi_high"]),
        "same_text": number(row["psi_same"]),
        "same_interval_text": interval(row["psi_same_low"], row["psi_same_high"]),
        "p_text": p_value(row["p_adjusted"]),
        "control_text": p_value(row["p_control_adjusted"]),
        "seen_text": percent(row["seen"]),
        "drop_text": number(row["drop"]),
        "named_flags": [(name, FLAGS.get(name, "")) for name in row["flags"].split(", ") if name],
        "depends": finding_of(row) == "depends",
        "at_floor": has_flag(row, "at_floor"),
        "chart": chart(row, end=end),
    }


def chart(row: Mapping[str, Any], *, end: float) -> dict[str, float | None]:
    """Return the places of a row's dot, interval and noise band, in percent of ``end``."""
    return {
        name: None if row[name] is None else round(min(100.0, 100 * row[name] / end), 1)
        for name in CHART_COLUMNS
    }
