"""Intervals of a model's mean scores, from the intervals of its bucket means."""

import polars as pl

KEY = ("benchmark", "model", "query_lang", "corpus_lang", "length_bucket", "buckets")


def mean_intervals(table: pl.DataFrame, scores: pl.DataFrame) -> pl.DataFrame:
    """Combine bucket intervals into those of the mean over queries and over buckets.

    The buckets hold different queries, so the half-widths of a weighted sum of bucket means add
    up in squares: ``low = mean - sqrt(sum (w_i (mean_i - low_i))**2)``, and ``high`` likewise.
    Weights are shares of the queries for the mean over queries, equal for the mean over buckets.

    Parameters
    ----------
    table, scores
        PSI_TABLE and BUCKET_SCORES rows, one per `KEY` (and bucket).

    Returns
    -------
    frame
        `KEY`, mean_low, mean_high, mean_of_buckets_low, mean_of_buckets_high. Rows of schemes
        whose buckets share or leave out queries have none, nor has a mean over buckets that
        leaves out buckets with queries.
    """
    filled = scores.filter(pl.col("n_queries") > 0)
    share = pl.col("n_queries") / pl.col("n_queries").sum().over(KEY)
    even = 1 / pl.len().over(KEY)
    sides = {"low": pl.col("mean") - pl.col("low"), "high": pl.col("high") - pl.col("mean")}
    widths = filled.group_by(KEY).agg(
        pl.len().alias("n_filled"),
        pl.col("n_queries").sum().alias("n_in_buckets"),
    )
    weighted = filled.select(
        *KEY,
        *(
            (weight * side).alias(f"{name}_{end}")
            for name, weight in (("mean", share), ("mean_of_buckets", even))
            for end, side in sides.items()
        ),
    )
    summed = weighted.group_by(KEY).agg(pl.all().pow(2).sum().sqrt())
    joined = table.join(widths, on=KEY).join(summed, on=KEY)
    disjoint = pl.col("n_in_buckets") == pl.col("n_queries")
    whole = disjoint & (pl.col("n_filled") == pl.col("n_buckets"))
    return joined.select(
        *KEY,
        *(
            pl.when(condition)
            .then(pl.col(name) + sign * pl.col(f"{name}_{end}"))
            .alias(f"{name}_{end}")
            for name, condition in (("mean", disjoint), ("mean_of_buckets", whole))
            for end, sign in (("low", -1), ("high", 1))
        ),
    )
