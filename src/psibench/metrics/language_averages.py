"""Macro-averages over languages: each language counts alike, however many queries it has."""

import polars as pl

from psibench.metrics.slices import POOLED
from psibench.tables.summary_schemas import LANGUAGE_AVERAGES

MONOLINGUAL = "monolingual"
CROSS_LINGUAL = "cross-lingual"

_ROW = ("benchmark", "setting", "length_bucket", "model", "kind", "metric", "buckets", "evidence")


def language_averages(psi_table: pl.DataFrame) -> pl.DataFrame:
    """Average the PSI table's rows of all domains over languages.

    Parameters
    ----------
    psi_table : frame in the columns of the PSI table.

    Returns
    -------
    frame in the columns of LANGUAGE_AVERAGES
        Monolingual rows average over languages, cross-lingual ones over pairs of languages.
        `mean` averages the means over queries (PosIR's overall nDCG@10), `mean_of_buckets` the
        means over bucket means (PosIR's nDCG@10 of a length bucket), `psi` the plain PSI (PosIR,
        table 3). A language whose value is null is left out of that average; `n_languages`,
        `n_mean_of_buckets` and `n_psi` say how many are in. Read averages of PSI beside
        `psi_null_mean`, the average of what chance gives the same languages.

    Notes
    -----
    There is no interval. Translated languages share their queries, so their errors are not
    independent, and neither the ends of their intervals nor the PSI table say how they go
    together. The mean of the ends would be too wide for independent languages; an interval that
    treats them as independent would be too narrow for translations.
    """
    same = pl.col("query_lang") == pl.col("corpus_lang")
    pair = pl.col("query_lang") + "-" + pl.col("corpus_lang")
    rows = psi_table.filter(pl.col("domain") == POOLED).with_columns(
        setting=pl.when(same).then(pl.lit(MONOLINGUAL)).otherwise(pl.lit(CROSS_LINGUAL)),
        language=pl.when(same).then("query_lang").otherwise(pair),
    )
    scored = pl.col("mean").is_not_null()
    known = pl.col("psi").is_not_null()
    averaged = rows.group_by(_ROW, maintain_order=True).agg(
        scored.sum().cast(pl.Int64).alias("n_languages"),
        pl.col("mean_of_buckets").count().cast(pl.Int64).alias("n_mean_of_buckets"),
        known.sum().cast(pl.Int64).alias("n_psi"),
        pl.col("mean", "mean_of_buckets", "psi").mean(),
        pl.col("psi_null_mean", "psi_corrected").filter(known).mean(),
        pl.col("language").filter(scored).sort().str.join(", ").alias("languages"),
        joined_names("queries_by"),
    )
    return averaged.select(LANGUAGE_AVERAGES.column_names)


def joined_names(column: str) -> pl.Expr:
    """Aggregate a column of names, each a list joined by commas, to its distinct names."""
    return pl.col(column).str.split(", ").explode().unique().sort().str.join(", ")
