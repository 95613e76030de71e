"""The PSI table as text for a terminal."""

from typing import Any

import polars as pl

HEADINGS = (
    "model",
    "domain",
    "length",
    "metric",
    "buckets",
    "evidence",
    "queries",
    "used",
    "mean",
    "PSI",
    "interval",
    "null p95",
    "p",
    "corrected",
    "best",
    "worst",
)
N_TEXT_COLUMNS = 6
UNDEFINED = "-"


def format_psi_table(table: pl.DataFrame) -> str:
    """Lay out a PSI table in aligned columns, numbers with three decimals.

    ``used`` is the number of buckets with enough queries to count. A row of another evidence view
    that equals the row of `all` is left out. An undefined value is shown as ``-``.
    """
    kept = [row for row in _numbered(table) if not row["repeats"]]
    cells = [HEADINGS, *(_cells(row) for row in kept)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADINGS))]
    lines = []
    for row in cells:
        text = [
            cell.ljust(width) if column < N_TEXT_COLUMNS else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(text).rstrip())
    return "\n".join(lines)


def _numbered(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows with `repeats`: whether a view's row equals the one of `all` before it."""
    everything: dict[str, Any] = {}
    rows = []
    for row in table.iter_rows(named=True):
        if row["evidence"] == "all":
            everything = row
        same = row["evidence"] != "all" and {**row, "evidence": "all"} == everything
        rows.append(row | {"repeats": same})
    return rows


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    known = row["psi_low"] is not None
    interval = f"{row['psi_low']:.3f}-{row['psi_high']:.3f}" if known else UNDEFINED
    return (
        row["model"],
        row["domain"],
        row["length_bucket"],
        row["metric"],
        row["buckets"],
        row["evidence"],
        str(row["n_queries"]),
        str(row["n_buckets"]),
        _decimal(row["mean"]),
        _decimal(row["psi"]),
        interval,
        _decimal(row["psi_null_p95"]),
        _decimal(row["psi_p"]),
        _decimal(row["psi_corrected"]),
        row["best_bucket"] or UNDEFINED,
        row["worst_bucket"] or UNDEFINED,
    )


def _decimal(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:.3f}"
