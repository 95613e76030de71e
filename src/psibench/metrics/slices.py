"""Which queries a row of the result tables is about: domain, length bucket, evidence view."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from psibench.metrics.buckets import LENGTH_BUCKETS

POOLED = "all"
EVIDENCE_VIEWS = ("all", "visible", "whole")


@dataclass(frozen=True)
class Slice:
    """The queries of one domain and length bucket; POOLED where not divided."""

    domain: str
    length_bucket: str
    frame: pl.DataFrame


def slices(frame: pl.DataFrame, *, length_buckets: bool, domains: bool) -> Iterator[Slice]:
    """Yield all queries, then each length bucket, then each domain, as asked for.

    Length buckets come in order and only those that hold queries, if two or more do; domains by
    name, if there are two or more.
    """
    yield Slice(POOLED, POOLED, frame)
    if length_buckets:
        held = set(frame.get_column("length_bucket").drop_nulls().unique())
        for label in (label for label in LENGTH_BUCKETS if label in held and len(held) > 1):
            yield Slice(POOLED, label, frame.filter(pl.col("length_bucket") == label))
    if domains:
        names = frame.get_column("domain").unique().sort().to_list()
        for name in names if len(names) > 1 else []:
            yield Slice(name, POOLED, frame.filter(pl.col("domain") == name))


def evidence_views(frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return all queries; those whose span the model saw; those whose positive it saw whole.

    ``visible`` keeps early evidence of long positives and drops their late evidence, so its
    buckets hold positives of different lengths. ``whole`` is like with like: every position from
    positives that were not cut at all.
    """
    return {
        "all": frame,
        "visible": frame.filter(pl.col("visible") >= 1.0),
        "whole": frame.filter(pl.col("pos_visible") >= 1.0),
    }


def row_seed(seed: int, *labels: str) -> int:
    """Derive the seed of a row from its own labels, so that no other row has a say in it."""
    text = "\x1f".join((str(seed), *labels))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest())
