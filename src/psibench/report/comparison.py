"""A run's figures beside the papers': same model, language pair, buckets and quantity."""

from collections.abc import Mapping

import polars as pl

from psibench.metrics.aggregate import POOLED
from psibench.report.published_figures import COUNTERPART, PLACE
from psibench.report.published_posir import ENGLISH, EVERY
from psibench.tables.published_schemas import PUBLISHED_COMPARISON

METRIC = "ndcg@10"
_ROW = ("benchmark", "model", "query_lang", "corpus_lang", "length_bucket", "buckets")
_INTERVAL = {
    "mean": ("mean_low", "mean_high"),
    "mean_of_buckets": ("mean_of_buckets_low", "mean_of_buckets_high"),
    "psi": ("psi_low", "psi_high"),
}


def compare(
    figures: pl.DataFrame,
    *,
    psi_table: pl.DataFrame,
    bucket_scores: pl.DataFrame,
    facts: Mapping[str, Mapping[str, str]],
) -> pl.DataFrame:
    """Join published figures with their counterparts in a run.

    Parameters
    ----------
    figures
        As `published_figures` returns them.
    psi_table, bucket_scores
        PSI_TABLE and BUCKET_SCORES rows of a run, any metrics and views; those over all domains
        and all queries with ndcg@10 count.
    facts
        Benchmark id -> ``data`` and ``differs``, as `published_facts` returns them; benchmarks
        without an entry are left out.

    Returns
    -------
    frame
        The columns of PUBLISHED_COMPARISON, then place and printed form as in `FIGURES`. One row
        per figure and benchmark with a counterpart, in the figures' order. All values are in
        [0, 1]. ``inside`` grants the published figure half a unit of its last printed digit; it
        is null where the own figure has no interval.
    """
    own = own_figures(psi_table, bucket_scores, facts)
    own = pl.concat([own, language_means(own, figures)], how="diagonal_relaxed")
    found = figures.join(own, on=COUNTERPART, how="inner", maintain_order="left_right")
    half = 0.5 / (pl.col("scale") * 10.0 ** pl.col("decimals")) + 1e-9
    published = pl.col("published")
    found = found.with_columns(
        (pl.col("own") - published).alias("difference"),
        ((published + half >= pl.col("low")) & (published - half <= pl.col("high"))).alias(
            "inside"
        ),
        _differs(found),
    )
    printed = ("spec", *PLACE, "scale", "decimals")
    rest = [name for name in printed if name not in PUBLISHED_COMPARISON.column_names]
    return found.select(*PUBLISHED_COMPARISON.column_names, *rest)


def own_figures(
    psi_table: pl.DataFrame, bucket_scores: pl.DataFrame, facts: Mapping[str, Mapping[str, str]]
) -> pl.DataFrame:
    """Return a run's figures one by one, in the terms of `FIGURES`; see `compare`.

    Undefined values have no row. Columns: COUNTERPART, benchmark, own, low, high, n_queries (of
    the benchmark in that language pair, any length) and own_differs.
    """
    schema = {"benchmark": pl.String, "data": pl.String, "own_differs": pl.String}
    known = pl.DataFrame(
        [(name, fact["data"], fact["differs"]) for name, fact in facts.items()],
        schema=schema,
        orient="row",
    )
    table, scores = _pooled(psi_table), _pooled(bucket_scores)
    table = table.join(mean_intervals(table, scores), on=_ROW, how="left")
    parts = [
        table.select(
            *_ROW,
            pl.lit("").alias("bucket"),
            pl.lit(quantity).alias("quantity"),
            pl.col(quantity).alias("own"),
            pl.col(low).alias("low"),
            pl.col(high).alias("high"),
        )
        for quantity, (low, high) in _INTERVAL.items()
    ]
    parts.append(
        scores.select(
            *_ROW,
            "bucket",
            pl.lit("bucket_mean").alias("quantity"),
            pl.col("mean").alias("own"),
            "low",
            "high",
        )
    )
    pair = ["benchmark", "model", "query_lang", "corpus_lang"]
    sizes = table.filter(length_bucket=POOLED).group_by(pair).agg(pl.col("n_queries").max())
    every = pl.concat(parts).filter(pl.col("own").is_not_null())
    return every.join(known, on="benchmark").join(sizes, on=pair, how="left")


def mean_intervals(table: pl.DataFrame, scores: pl.DataFrame) -> pl.DataFrame:
    """Combine bucket intervals into those of the mean over queries and over buckets.

    The buckets hold different queries, and are taken as independent, though queries of one
    document may sit in several: the half-widths of a weighted sum of bucket means add up in
    squares: ``low = mean - sqrt(sum (w_i (mean_i - low_i))**2)``, and ``high`` likewise.
    Weights are shares of the queries for the mean over queries, equal for the mean over buckets.

    Parameters
    ----------
    table, scores
        PSI_TABLE and BUCKET_SCORES rows, one per `_ROW` (and bucket).

    Returns
    -------
    frame
        `_ROW`, mean_low, mean_high, mean_of_buckets_low, mean_of_buckets_high. Rows of schemes
        whose buckets share or leave out queries have none, nor has a mean over buckets that
        leaves out buckets with queries.
    """
    filled = scores.filter(pl.col("n_queries") > 0)
    share = pl.col("n_queries") / pl.col("n_queries").sum().over(_ROW)
    even = 1 / pl.len().over(_ROW)
    sides = {"low": pl.col("mean") - pl.col("low"), "high": pl.col("high") - pl.col("mean")}
    widths = filled.group_by(_ROW).agg(
        pl.len().alias("n_filled"),
        pl.col("n_queries").sum().alias("n_in_buckets"),
    )
    weighted = filled.select(
        *_ROW,
        *(
            (weight * side).alias(f"{name}_{end}")
            for name, weight in (("mean", share), ("mean_of_buckets", even))
            for end, side in sides.items()
        ),
    )
    summed = weighted.group_by(_ROW).agg(pl.all().pow(2).sum().sqrt())
    joined = table.join(widths, on=_ROW).join(summed, on=_ROW)
    disjoint = pl.col("n_in_buckets") == pl.col("n_queries")
    whole = disjoint & (pl.col("n_filled") == pl.col("n_buckets"))
    return joined.select(
        *_ROW,
        *(
            pl.when(condition)
            .then(pl.col(name) + sign * pl.col(f"{name}_{end}"))
            .alias(f"{name}_{end}")
            for name, condition in (("mean", disjoint), ("mean_of_buckets", whole))
            for end, sign in (("low", -1), ("high", 1))
        ),
    )


def language_means(own: pl.DataFrame, figures: pl.DataFrame) -> pl.DataFrame:
    """Average own figures over PosIR's languages, as tables 2 and 3 do.

    Only a benchmark with all of the paper's languages has a mean: one over others is no
    counterpart. It has no interval: the languages' queries are translations of one another, so
    their errors are not independent.
    """
    posir = figures.filter((pl.col("data") == "posir") & (pl.col("query_lang") != EVERY))
    pairs = posir.select("query_lang", "corpus_lang").unique()
    crossed = pl.col("query_lang") != pl.col("corpus_lang")
    keys = ["benchmark", *(n for n in COUNTERPART if n not in ("query_lang", "corpus_lang"))]
    wanted = dict(pairs.group_by(crossed.alias("crossed")).len().iter_rows())
    return (
        own.filter(data="posir")
        .join(pairs, on=["query_lang", "corpus_lang"], how="semi")
        .group_by(*keys, "own_differs", crossed.alias("crossed"), maintain_order=True)
        .agg(pl.len().alias("n"), pl.col("own").mean(), pl.col("n_queries").sum())
        .filter(pl.col("n") == pl.col("crossed").replace_strict(wanted, default=None))
        .with_columns(
            pl.lit(EVERY).alias("query_lang"),
            pl.when("crossed").then(pl.lit(ENGLISH)).otherwise(pl.lit(EVERY)).alias("corpus_lang"),
        )
        .drop("crossed", "n")
    )


def _pooled(frame: pl.DataFrame) -> pl.DataFrame:
    """Keep the rows over all domains and all queries."""
    return frame.filter(domain=POOLED, evidence="all", metric=METRIC)


def _differs(found: pl.DataFrame) -> pl.Series:
    """Say what differs: the rules, what the paper leaves open, and the number of queries."""
    texts = []
    columns = ("own_differs", "caveat", "n_queries", "n_published")
    for own, caveat, n_queries, n_published in found.select(columns).iter_rows():
        count = ""
        if n_published is not None and n_queries != n_published:
            count = f"{n_queries:,} queries, the paper has {n_published:,}"
        texts.append("; ".join(text for text in (own, caveat, count) if text) or None)
    return pl.Series("differs", texts, dtype=pl.String)
