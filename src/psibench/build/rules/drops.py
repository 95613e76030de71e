"""From the pairs that were found to the items they drop, and from decisions to dropped rows."""

import polars as pl

from psibench.build.rules.frames import as_table, require_columns, require_unique
from psibench.tables.dropped import DROPPED_SCHEMA
from psibench.tables.verify_schemas import DECISIONS


def strongest(decided: pl.DataFrame, item: str, other: str) -> pl.DataFrame:
    """Find the positive pair with the highest score for every item that has one.

    Parameters
    ----------
    decided
        PAIR_DECISIONS rows.
    item, other
        ``query_id`` and ``doc_id``, or the other way round.

    Returns
    -------
    frame of ``item_id``, ``score``, ``decided_by`` (the other one; of equal scores the first id),
    in order of ``item_id``.
    """
    require_columns(decided, ("query_id", "doc_id", "is_positive", "score"), "pair decisions")
    return (
        decided.filter("is_positive")
        .sort(item, "score", other, descending=[False, True, False], nulls_last=True)
        .unique(item, keep="first", maintain_order=True)
        .select(item_id=item, score="score", decided_by=other)
    )


def drop_hits(rule: str, items: pl.Series, hits: pl.DataFrame, reason: str) -> pl.DataFrame:
    """Make DECISIONS rows of which those in ``hits`` (as of `strongest`) are dropped."""
    known = hits.with_columns(is_hit=pl.lit(True))
    is_hit = pl.col("is_hit").is_not_null()
    made = (
        pl.DataFrame({"item_id": items})
        .join(known, on="item_id", how="left", maintain_order="left")
        .with_columns(
            rule=pl.lit(rule),
            kept=~is_hit,
            reason=pl.when(is_hit).then(pl.lit(reason)).otherwise(pl.lit("")),
        )
    )
    return as_table(DECISIONS, made.to_dict())


def dropped_rows(
    decisions: pl.DataFrame, items: pl.DataFrame, *, stage: str, unit: str
) -> pl.DataFrame:
    """Turn the decisions against items into rows of what a stage dropped, in their order.

    Parameters
    ----------
    items
        ``_id``, and ``doc_id``, ``target_position`` and ``char_length`` where known, of every item.
    unit
        What an item is, as FLOW calls it.

    Returns
    -------
    frame in the columns of `psibench.tables.dropped`; ``detail`` says whose score decided.
    """
    require_columns(decisions, DECISIONS.column_names, "decisions")
    require_unique(items, ("_id",), "items")
    facts = ("doc_id", "target_position", "char_length")
    known = [name for name in facts if name in items.columns]
    joined = decisions.filter(~pl.col("kept")).join(
        items.select("_id", *known),
        left_on="item_id",
        right_on="_id",
        how="left",
        maintain_order="left",
    )
    joined = joined.with_columns(
        stage=pl.lit(stage), unit=pl.lit(unit), detail=pl.lit("by ") + pl.col("decided_by")
    )
    absent = [name for name in DROPPED_SCHEMA if name not in joined.columns]
    joined = joined.with_columns(pl.lit(None).alias(name) for name in absent)
    return joined.select(pl.col(name).cast(kind) for name, kind in DROPPED_SCHEMA.items())


def kept_items(items: pl.DataFrame, decisions: pl.DataFrame, key: str = "_id") -> pl.DataFrame:
    """Leave the items that the decisions keep, in their order; an item without one is left out."""
    kept = decisions.filter("kept").select("item_id")
    return items.join(kept, left_on=key, right_on="item_id", how="semi", maintain_order="left")
