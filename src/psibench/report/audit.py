"""How good the margin is, as a language model sees it, in the layout of Controlled's table 7."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from psibench.report.filter_tables import CAVEAT, HERE, pool_text
from psibench.report.plain import Table
from psibench.report.published import TABLE_7, read_published
from psibench.report.wording import count, percent

AUDIT_NOTE = (
    "A language model said of each third, seen alone, whether it answers. Exclusive: yes for the "
    "target and no for both others. Brackets: 95 % Wilson intervals, in per cent."
)
AUDIT_METRICS = {
    "target_yes": "target yes",
    "distractor_no": "distractor no",
    "exclusive": "exclusive",
}


def audit_block(table: pl.DataFrame) -> Table:
    """Return the audit by stratum of the margin, as in Controlled's Table 7.

    ``table`` holds AUDIT_TABLE rows. The stratum without a margin is left out where nothing of it
    was audited.
    """
    published = read_published(TABLE_7)
    known = {(row["low"], row["high"]): row for row in published.rows.iter_rows(named=True)}
    rows = []
    for row in table.iter_rows(named=True):
        bounds = (row["low"], row["high"])
        if bounds == (None, None) and not row["n"] + row["n_unusable"]:
            continue
        beside = known.get(bounds, {})
        rows.append(
            (
                _stratum_text(row),
                count(row["n"]),
                count(row["n_unusable"]),
                *(_audited(row, name) for name in AUDIT_METRICS),
                *(percent(beside.get(name)) for name in AUDIT_METRICS),
            )
        )
    names = tuple(AUDIT_METRICS.values())
    return Table(
        "Audit of the margin by a language model",
        ("stratum", "queries", "not usable", *names, *names),
        tuple(rows),
        n_names=1,
        groups=(("", 1), (HERE, 5), (f"published: {published.source}", 3)),
        note=f"{AUDIT_NOTE} {CAVEAT}",
    )


def _stratum_text(row: Mapping[str, Any]) -> str:
    low, high = row["low"], row["high"]
    if low is None:
        return "no margin" if high is None else f"failed: m < {high:g}"
    return pool_text(low) if high is None else f"{low:g} ≤ m < {high:g}"


def _audited(row: Mapping[str, Any], name: str) -> str:
    ends: Sequence[float | None] = (row[f"{name}_low"], row[f"{name}_high"])
    if row[name] is None or None in ends:
        return percent(row[name])
    low, high = (f"{100 * end:.1f}" for end in ends if end is not None)
    return f"{percent(row[name])}\n[{low}, {high}]"
