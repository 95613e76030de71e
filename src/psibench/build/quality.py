"""How good translations are: the documents graded, and their grades by language and domain.

PosIR, appendix B: 12 documents per domain in four strata of 512 tokens, graded from 1 to 5 in four
dimensions; the overall grade of a document is the mean of the four.
"""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import product

import polars as pl

from psibench.metrics.buckets import LENGTH_BUCKETS, length_bucket
from psibench.tables.quality_schemas import TRANSLATION_QUALITY

DIMENSIONS = ("fluency", "accuracy", "completeness", "style")
OVERALL = "overall"
POOLED = "all"
GROUPS = ("language", "domain", "length_bin")


def _with_domain(domain: str) -> pl.Expr:
    """Put the domain in front of an id that has not got it."""
    has_it = pl.col("_id").str.starts_with(f"{domain}/")
    return pl.when(has_it).then("_id").otherwise(pl.format("{}/{}", pl.lit(domain), "_id"))


def draw_quality_sample(
    documents: pl.DataFrame, *, domain: str, per_stratum: int, seed: int
) -> pl.DataFrame:
    """Draw documents of a domain by length, the same number from each stratum.

    Drawn are those of the smallest hash of seed and id. So the draw does not depend on the order
    of the documents, and a document that one language lacks changes one document of its sample.

    Parameters
    ----------
    documents
        ``_id`` and ``token_length`` (of the source) of the documents that have a translation.
    per_stratum
        Documents per stratum Q1..Q4 of 512 tokens, longer ones in Q4; where there are fewer, all.

    Returns
    -------
    (n_drawn, 4) frame ``_id`` (``domain/document``), ``domain``, ``doc_id``, ``length_bin``, by
    stratum, then in the order of the draw.
    """
    found = documents.select(
        _with_domain(domain),
        pl.lit(domain).alias("domain"),
        pl.col("_id").alias("doc_id"),
        length_bucket(pl.col("token_length")).alias("length_bin"),
    )
    order = [_priority(seed, name) for name in found.get_column("_id")]
    ranked = found.with_columns(pl.Series("order", order, dtype=pl.Binary)).sort("order", "_id")
    drawn = ranked.group_by("length_bin", maintain_order=True).head(per_stratum)
    return drawn.sort("length_bin", maintain_order=True).select(found.columns)


def stratum_counts(documents: pl.DataFrame, drawn: pl.DataFrame) -> list[tuple[str, int, int]]:
    """Return (stratum, documents there are, documents drawn) for all four strata."""
    strata = documents.select(length_bin=length_bucket(pl.col("token_length")))
    there, taken = (
        dict(frame.group_by("length_bin").len().iter_rows()) for frame in (strata, drawn)
    )
    return [(name, there.get(name, 0), taken.get(name, 0)) for name in LENGTH_BUCKETS]


def _priority(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}\0quality\0{name}".encode()).digest()[:16]


def quality_table(grades: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Average grades by language, domain, length and dimension: TRANSLATION_QUALITY rows.

    Every group also stands pooled as ``all``; languages are pooled where there are several.
    Pooled means are over documents. A document counts towards ``overall`` with all four grades.

    Parameters
    ----------
    grades
        Language -> TRANSLATION_GRADES rows.
    """
    every = graded(grades)
    long = every.unpivot(
        [*DIMENSIONS, OVERALL], index=list(GROUPS), variable_name="dimension", value_name="grade"
    )
    pooled = [
        (True, False) if name != "language" or len(grades) > 1 else (False,) for name in GROUPS
    ]
    parts = [_averages(long, dict(zip(GROUPS, flags, strict=True))) for flags in product(*pooled)]
    domains = list(dict.fromkeys(every.get_column("domain")))
    orders: dict[str, Sequence[str]] = {
        "language": [*grades, POOLED],
        "domain": [POOLED, *(name for name in domains if name != POOLED)],
        "length_bin": [POOLED, *LENGTH_BUCKETS],
        "dimension": [*DIMENSIONS, OVERALL],
    }
    ranks = [pl.col(name).cast(pl.Enum(values)) for name, values in orders.items()]
    return pl.concat(parts).sort(ranks).select(TRANSLATION_QUALITY.column_names)


def graded(grades: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Stack the languages' grades, with ``language`` and ``overall`` (null unless all four are)."""
    columns = ("_id", "domain", "doc_id", "length_bin", *DIMENSIONS)
    frames = [
        frame.select(pl.lit(language).alias("language"), *columns)
        for language, frame in grades.items()
    ]
    complete = pl.all_horizontal(pl.col(name).is_not_null() for name in DIMENSIONS)
    overall = pl.when(complete).then(pl.mean_horizontal(DIMENSIONS)).alias(OVERALL)
    return pl.concat(frames).with_columns(pl.col(DIMENSIONS).cast(pl.Float64), overall)


def _averages(long: pl.DataFrame, is_pooled: Mapping[str, bool]) -> pl.DataFrame:
    kept = [
        pl.lit(POOLED).alias(name) if pooled else pl.col(name) for name, pooled in is_pooled.items()
    ]
    groups = long.with_columns(kept).group_by([*GROUPS, "dimension"], maintain_order=True)
    return groups.agg(
        n=pl.col("grade").count().cast(pl.Int64),
        n_unjudged=pl.col("grade").null_count().cast(pl.Int64),
        mean=pl.col("grade").mean(),
        sd=pl.col("grade").std(),
    )
