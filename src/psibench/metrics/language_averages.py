"""Macro-averages over languages: each language counts alike, however many queries it has."""

import polars as pl

from psibench.tables.spec import POOLED
from psibench.tables.summary_schemas import LANGUAGE_AVERAGES

MONOLINGUAL = "monolingual"
CROSS_LINGUAL = "cross-lingual"

_SET = ("benchmark", "setting", "length_bucket", "metric", "buckets", "evidence")
_ROW = (*_SET, "model", "kind")
_AVERAGES = ("mean", "mean_of_buckets", "psi", "psi_noise_mean", "psi_corrected", "psi_same")


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
        table 3). Read averages of PSI beside `psi_noise_mean`, the average of what noise of
        independent queries gives the same languages, and beside `psi_same`.

        Models are averaged over the same languages: those in which any model of the benchmark,
        setting, length bucket, metric, bucket scheme and evidence view has a score
        (`n_all_languages`). A model that lacks one of them has null averages; `n_languages` and
        `languages` say what it has. Of a language with a score, a null PSI or mean over bucket
        means is left out of that average; `n_psi` and `n_mean_of_buckets` say how many are in.

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
    full = rows.group_by(_SET).agg(
        pl.col("language").filter(scored).n_unique().cast(pl.Int64).alias("n_all_languages")
    )
    averaged = rows.group_by(_ROW, maintain_order=True).agg(
        scored.sum().cast(pl.Int64).alias("n_languages"),
        pl.col("mean_of_buckets").count().cast(pl.Int64).alias("n_mean_of_buckets"),
        known.sum().cast(pl.Int64).alias("n_psi"),
        pl.col("mean", "mean_of_buckets", "psi").mean(),
        pl.col("psi_noise_mean", "psi_corrected").filter(known).mean(),
        pl.col("psi_same").count().cast(pl.Int64).alias("n_psi_same"),
        pl.col("psi_same").mean(),
        pl.col("language").filter(scored).sort().str.join(", ").alias("languages"),
        joined_names("queries_by"),
    )
    averaged = averaged.join(full, on=_SET, how="left", maintain_order="left").with_columns(
        pl.when(has_all_languages()).then(pl.col(name)).alias(name) for name in _AVERAGES
    )
    return averaged.select(LANGUAGE_AVERAGES.column_names)


def has_all_languages() -> pl.Expr:
    """Whether a row of LANGUAGE_AVERAGES has every language that any model has."""
    return pl.col("n_languages") == pl.col("n_all_languages")


def joined_names(column: str) -> pl.Expr:
    """Aggregate a column of names, each a list joined by commas, to its distinct names."""
    return pl.col(column).str.split(", ").explode().unique().sort().str.join(", ")
