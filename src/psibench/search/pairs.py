"""Query-document pairs as single 64-bit keys: what makes million-row look-ups cheap.

Equal pairs have equal keys; unequal pairs may, rarely, share one, so whoever finds equal keys
compares the ids afterwards. The keys hold within a process and are never stored.
"""

import polars as pl


def pair_key(query: str, doc: str) -> pl.Expr:
    """Return the UInt64 key of the ids in the String columns `query` and `doc`."""
    return pl.col(query).hash(1) ^ pl.col(doc).hash(2)


def repeated_pairs(frame: pl.DataFrame, *, query: str, doc: str) -> pl.DataFrame:
    """Return the pairs that occur more than once: columns `query`, `doc`, n; ordered by ids."""
    keys = frame.select(pair_key(query, doc)).to_series()
    if keys.n_unique() == frame.height:
        suspects = frame.clear()
    else:
        suspects = frame.filter(keys.is_duplicated())
    counts = suspects.group_by(query, doc).agg(n=pl.len())
    return counts.filter(pl.col("n") > 1).sort(query, doc)
