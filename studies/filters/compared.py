"""Decide a rule on a complete table of scores, and on only the scores that it requests."""

from collections.abc import Callable, Sequence

import polars as pl

Decide = Callable[[pl.DataFrame], pl.DataFrame]
"""From scores to decisions."""
Wanted = Callable[[pl.DataFrame, str], pl.DataFrame]
"""From the scores so far and the scorer who is next to the keys of what that one has to score."""
Row = tuple[object, ...]


def short_circuited(
    complete: pl.DataFrame, wanted: Wanted, scorer: str, turns: Sequence[str]
) -> pl.DataFrame:
    """Return the scores of a complete table that a rule requests, scorer by scorer."""
    scores = complete.clear()
    for name in turns:
        asked = wanted(scores, name).with_columns(pl.lit(name).alias(scorer))
        more = complete.join(asked, on=asked.columns, how="semi", maintain_order="left")
        if more.height != asked.height:
            raise ValueError(f"{asked.height} scorings asked for, {more.height} are there")
        scores = pl.concat([scores, more])
    return scores


def compared(
    label: str,
    complete: pl.DataFrame,
    *,
    wanted: Wanted,
    decide: Decide,
    items: pl.DataFrame,
    parts: tuple[str, ...] = ("document",),
    rounds: int = 1,
) -> Row:
    """Decide both ways, hold the outcomes against each other, and count the scorings."""
    scorer = "judge" if "judge" in complete.columns else "reranker"
    scorers = complete.get_column(scorer).unique(maintain_order=True).to_list()
    turns = [name for name in scorers for _ in range(rounds)]
    partly = short_circuited(complete, wanted, scorer, turns)
    expected, found = decide(complete), decide(partly)
    if not found.equals(expected):
        raise ValueError(f"{label}: the decisions differ")
    kept = "kept" if "kept" in found.columns else "is_positive"
    n_complete, n_scored = items.height * len(parts) * len(scorers), partly.height
    counts = " + ".join(str(partly.filter(pl.col(scorer) == name).height) for name in scorers)
    ratio = f"{n_complete / n_scored:.2f}"
    return label, items.height, int(found[kept].sum()), n_complete, n_scored, counts, ratio
