"""Draws by position: balancing and the tiny subset.

- Balancing (PosQ, appendix A.2, after stage 1a): every position is downsampled to the smallest.
- The tiny subset (PosQ, section 3.2; Myopic): the same number of queries of each position.

A draw takes the first ids in the order of a hash of seed and id. Adding or dropping a candidate
therefore changes no other draw, the order of the input does not matter, and a larger draw contains
a smaller one. The tiny subset instead uses the authors' shuffle.
"""

import hashlib
import random

import polars as pl
from pydantic import Field

from psibench.config.base import Section
from psibench.config.models import Kind
from psibench.filters.decide import (
    NO_TARGET,
    NOT_SAMPLED,
    REPEATED_TEXT,
    make_decisions,
)
from psibench.tables.dropped import OnEmpty, leave_empty
from psibench.text.segments import POSITIONS

RULE_BALANCE = "balance"


class Tiny(Section):
    """A small subset of the queries over the same corpus, for slow models."""

    per_position: int = Field(default=1000, ge=1)
    """Queries drawn of each target position (PosQ, section 3.2: 1,000; Myopic: 3,300)."""
    seed: int = Field(default=42, ge=0)
    """Seed of the shuffle."""
    only_here: list[Kind] = Field(default=["late-interaction", "reranker"])
    """Kinds of models that run only on the subset, as in the papers; other kinds run on both."""


# Draws.


def draw_order(ids: pl.Series, seed: int) -> pl.Series:
    """Return the rank of every id in a draw, from 0: by hash of seed and id."""
    salt = str(seed).encode()
    keys = [
        int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8, key=salt).digest())
        for name in ids
    ]
    numbered = pl.DataFrame({"key": pl.Series(keys, dtype=pl.UInt64), "id": ids})
    ranked = numbered.with_row_index("row").sort("key", "id").with_row_index("order")
    return ranked.sort("row").get_column("order")


def balance_positions(
    targets: pl.DataFrame, *, seed: int, on_empty: OnEmpty = "fail"
) -> pl.DataFrame:
    """Downsample every position to the size of the smallest; return DECISIONS rows without scores.

    ``targets`` has ``query_id`` and ``targets``. A query with several targets is drawn for each,
    and kept if one of the draws takes it; a position may then keep more queries. Reasons:
    no_target, not_sampled.

    Raises
    ------
    InputError
        If a position has no queries, so that balancing would keep none, and ``on_empty`` is fail.
    """
    ordered = targets.with_columns(order=draw_order(targets.get_column("query_id"), seed))
    by_target = ordered.explode("targets").drop_nulls("targets")
    sizes = [int((by_target.get_column("targets") == name).sum()) for name in POSITIONS]
    if targets.height and not all(sizes):
        counts = ", ".join(f"{name} {n}" for name, n in zip(POSITIONS, sizes, strict=True))
        leave_empty(
            f"targets by position: {counts}; balancing to the smallest would keep nothing. "
            "Sample more documents, loosen the filters before it, or set `verify.balance: false`",
            on_empty,
        )
    chosen = by_target.sort("order").group_by("targets").head(min(sizes)).get_column("query_id")
    return _decide_draw(targets, chosen, pl.lit(NOT_SAMPLED))


def tiny_subset(queries: pl.DataFrame, *, per_position: int, seed: int) -> pl.DataFrame:
    """Draw the tiny subset as FineWeb-PosQ's code does; return DECISIONS rows without scores.

    The queries (``query_id``, ``targets``, ``text``), in reading order, are shuffled by Python's
    generator with the seed. Each position takes its first ``per_position``, or all if it has fewer.
    The three draws are joined in order; among queries with the same text only the first one is
    kept. Reasons: no_target, not_sampled, repeated_text.
    """
    order = list(range(queries.height))
    random.Random(seed).shuffle(order)
    shuffled = queries[order]
    drawn = pl.concat(
        shuffled.filter(pl.col("targets").list.contains(name)).head(per_position)
        for name in POSITIONS
    )
    chosen = drawn.unique("text", keep="first", maintain_order=True).get_column("query_id")
    is_drawn = pl.col("query_id").is_in(drawn.get_column("query_id").implode())
    why = pl.when(is_drawn).then(pl.lit(REPEATED_TEXT)).otherwise(pl.lit(NOT_SAMPLED))
    return _decide_draw(queries, chosen, why)


def _decide_draw(targets: pl.DataFrame, chosen: pl.Series, why: pl.Expr) -> pl.DataFrame:
    """Return DECISIONS rows that keep ``chosen``; ``why`` is the reason of others with a target."""
    reason = (
        pl.when(pl.col("targets").list.len() == 0)
        .then(pl.lit(NO_TARGET))
        .when(~pl.col("query_id").is_in(chosen.implode()))
        .then(why)
    )
    return make_decisions(targets.with_columns(item_id="query_id"), reason)


def length_bins_of(sampling: pl.DataFrame) -> list[str]:
    """List the length bins of SAMPLING, in order, without the row of documents outside all bins."""
    return sampling.filter(pl.col("low").is_not_null()).get_column("bin").to_list()
