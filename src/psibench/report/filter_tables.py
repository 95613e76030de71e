"""What the margin filter keeps, in the layout of Controlled's tables 6 and 8."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from psibench.report.plain import Table
from psibench.report.published import TABLE_6, TABLE_8, read_published
from psibench.report.wording import MISSING, count, percent
from psibench.text.segments import POSITIONS

HERE = "this run"
POOLED_BIN = "all"
FAILED = "failed"
CAVEAT = (
    "Published figures come from the paper's own documents, language model and rerankers: compare "
    "the shape, not the numbers."
)
MARGIN_NOTE = (
    "m: lead of the targeted third over the best other third, the smallest one among the "
    "rerankers. Second line: share of all candidates, and of those kept, by position."
)
CELL_NOTE = (
    "Queries with {pool}. Budget: the smallest cell, which is what training sets of equal size can "
    "draw from each bin."
)


def margin_block(table: pl.DataFrame, *, threshold: float | None) -> Table:
    """Return queries kept by threshold and position, as in Controlled's Table 6.

    ``table`` holds MARGIN_TABLE rows; ``threshold`` is the one of the run. Published figures stand
    beside the same thresholds. The row of queries without a margin is left out where there is none.
    """
    published = read_published(TABLE_6)
    lowest = lowest_threshold(table)
    known = {_meaning(row): _kept_cells(row) for row in published.rows.iter_rows(named=True)}
    if lowest != lowest_threshold(published.rows):
        known.pop(FAILED)  # it means another margin there
    rows = []
    for row in table.iter_rows(named=True):
        if row["condition"] == "no_margin" and not row["n"]:
            continue
        text = _condition_text(row, lowest)
        if threshold is not None and row["threshold"] == threshold:
            text += ", kept"
        rows.append((text, *_kept_cells(row), *known.get(_meaning(row), (MISSING,) * 4)))
    names = ("kept", *POSITIONS)
    return Table(
        "Margin: queries kept by threshold",
        ("condition", *names, *names),
        tuple(rows),
        n_names=1,
        groups=(("", 1), (HERE, 4), (f"published: {published.source}", 4)),
        note=f"{MARGIN_NOTE} {CAVEAT}",
    )


def cell_block(table: pl.DataFrame, *, threshold: float | None, unit: str) -> Table | None:
    """Return the pool of one threshold by length bin and position, as in Controlled's Table 8.

    Parameters
    ----------
    table
        CELL_TABLE rows.
    threshold
        Threshold of the run; None, or one the table does not have, takes the highest.
    unit
        What the bins count; published figures stand beside where bins and unit are the same.

    Without a pool there is no table.
    """
    pools = table.filter(pl.col("threshold").is_not_null())
    if pools.is_empty():
        return None
    known = sorted(set(pools["threshold"]))
    taken = threshold if threshold is not None and threshold in known else known[-1]
    mine = pools.filter(pl.col("threshold") == taken)
    published = read_published(TABLE_8)
    bins = list(mine["length_bin"])
    same = bins == list(published.rows["length_bin"]) and {unit} == set(published.rows["unit"])
    theirs = [_cells(row) for row in published.rows.iter_rows(named=True)]
    beside = theirs if same else [()] * len(bins)
    names = (*POSITIONS, "budget")
    (pool,) = set(published.rows["threshold"])
    shown = f"published: {published.source}, {pool_text(pool)}"
    other = f"The bins of {published.source} are others, so its figures do not stand beside."
    return Table(
        "Queries kept by length and position",
        (f"length, {unit}" if unit else "length", *names, *(names if same else ())),
        tuple(
            (_bin_text(row["length_bin"]), *_cells(row), *more)
            for row, more in zip(mine.iter_rows(named=True), beside, strict=True)
        ),
        n_names=1,
        groups=(("", 1), (HERE, 4), (shown, 4)) if same else (),
        note=f"{CELL_NOTE.format(pool=pool_text(taken))} {CAVEAT if same else other}",
    )


def lowest_threshold(table: pl.DataFrame) -> float | None:
    """Return the lowest threshold of a table of conditions; None if it has none."""
    known = [value for value in table["threshold"] if value is not None]
    return min(known, default=None)


def pool_text(threshold: float) -> str:
    """Return a cumulative pool as a formula."""
    return f"m ≥ {threshold:g}"


def count_with_share(n: int | None, share: float | None) -> str:
    """Return a count and below it a share, as far as known."""
    if n is None:
        return MISSING
    return count(n) if share is None else f"{count(n)}\n{percent(share, 2)}"


def _meaning(row: Mapping[str, Any]) -> str | float:
    """Return what a condition is: its threshold or, without one, its label."""
    label, threshold = str(row["condition"]), row["threshold"]
    return label if threshold is None else float(threshold)


def _kept_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    parts = (count_with_share(row[f"n_{name}"], row[f"share_{name}"]) for name in POSITIONS)
    return (count_with_share(row["n"], row["share"]), *parts)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(count(row[name]) for name in (*(f"n_{p}" for p in POSITIONS), "budget"))


def _condition_text(row: Mapping[str, Any], lowest: float | None) -> str:
    if row["threshold"] is not None:
        return pool_text(row["threshold"])
    texts = {"all": "all candidates", "no_margin": "no margin"}
    if row["condition"] == FAILED and lowest is not None:
        return f"failed: m < {lowest:g}"
    return texts.get(row["condition"], row["condition"])


def _bin_text(label: str) -> str:
    return "all bins" if label == POOLED_BIN else label.replace("-", "–")
