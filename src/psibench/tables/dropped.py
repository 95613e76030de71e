"""Items a source or a recipe left out: the attrition columns it knows."""

from collections.abc import Sequence

import polars as pl

DROPPED_SCHEMA = {
    "stage": pl.String,
    "item_id": pl.String,
    "reason": pl.String,
    "detail": pl.String,
    "score": pl.Float64,
    "target_position": pl.String,
    "char_length": pl.Int32,
}


def dropped_frame(rows: Sequence[object] = ()) -> pl.DataFrame:
    """Make a frame of dropped items from rows (tuples in the schema's order, or mappings)."""
    return pl.DataFrame(rows, schema=DROPPED_SCHEMA, orient="row")
