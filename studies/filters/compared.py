"""A rule decided on a complete table of scores, and on what it asks for of it."""

from collections.abc import Callable

import polars as pl

from psibench.build.rules.layouts import Layout
from psibench.build.rules.savings import count_savings

Rule = Callable[[pl.DataFrame], pl.DataFrame]
"""From scores to decisions, or to the scorings that are still needed."""
Row = tuple[object, ...]


def short_circuited(complete: pl.DataFrame, needed: Rule) -> pl.DataFrame:
    """Give a rule what it asks for of a complete table, until it asks for nothing more."""
    scores = complete.clear()
    while not (wanted := needed(scores)).is_empty():
        keys = [name for name in wanted.columns if name in complete.columns]
        more = complete.join(wanted.select(keys), on=keys, how="semi", maintain_order="left")
        if more.height != wanted.height:
            raise ValueError(f"{wanted.height} scorings asked for, {more.height} are there")
        scores = pl.concat([scores, more])
    return scores


def compared(
    label: str,
    complete: pl.DataFrame,
    *,
    needed: Rule,
    decide: Rule,
    items: pl.DataFrame,
    layout: Layout,
    parts: tuple[str, ...] = ("document",),
) -> Row:
    """Decide both ways, hold the outcomes against each other, and count the scorings."""
    partly = short_circuited(complete, needed)
    expected, found = decide(complete), decide(partly)
    if not found.equals(expected):
        raise ValueError(f"{label}: the decisions differ")
    kept = "kept" if "kept" in found.columns else "is_positive"
    scorers = complete.get_column(layout.scorer).unique(maintain_order=True).to_list()
    savings = count_savings(label, partly, items, layout, scorers=scorers, parts=parts)
    per_scorer = savings.filter(pl.col("scorer") != "all").get_column("n_scored")
    every = savings.row(-1, named=True)
    counts = " + ".join(map(str, per_scorer))
    n_complete, n_scored = every["n_complete"], every["n_scored"]
    ratio = f"{n_complete / n_scored:.2f}"
    return label, items.height, int(found[kept].sum()), n_complete, n_scored, counts, ratio
