"""Which rows a page leads with: the pooled ones, or what stands for them."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

POOLED = "all"
PREFERRED_METRIC = "ndcg@10"
RECIPE_SCHEMES = {
    "squad_posq": "squad",
    "fineweb_posq": "thirds",
    "controlled": "thirds",
    "posir": "relative-20",
}
SCHEME_ORDER = ("squad", "thirds", "relative-20")
SLICE = ("query_lang", "corpus_lang", "domain", "length_bucket")


@dataclass(frozen=True)
class Headline:
    """The slice of one benchmark that the page leads with."""

    query_lang: str
    corpus_lang: str
    domain: str
    length_bucket: str


def headline_metric(psi_table: pl.DataFrame) -> str:
    """Return ndcg@10 if the table has it (or is empty), else its first metric in sorted order."""
    metrics = sorted(psi_table["metric"].unique())
    return PREFERRED_METRIC if PREFERRED_METRIC in metrics or not metrics else str(metrics[0])


def headlines(psi_table: pl.DataFrame) -> dict[str, Headline]:
    """Return the leading slice of every benchmark of the table.

    ``all`` is taken in each of language pair, domain and length bucket where it occurs; where it
    does not, the value whose rows hold the most queries, the first by name on a tie.
    """
    best: dict[str, Headline] = {}
    grouped = psi_table.group_by("benchmark", *SLICE).agg(pl.col("n_queries").max())
    pooled = pl.sum_horizontal([(pl.col(name) == POOLED).cast(pl.Int32) for name in SLICE])
    ordered = grouped.with_columns(pooled.alias("n_pooled")).sort(
        ["n_pooled", "n_queries", *SLICE], descending=[True, True, False, False, False, False]
    )
    for row in ordered.iter_rows(named=True):
        best.setdefault(row["benchmark"], Headline(**{name: row[name] for name in SLICE}))
    return best


def with_headline(frame: pl.DataFrame, leading: dict[str, Headline]) -> pl.DataFrame:
    """Return the frame with a boolean column ``headline``: the row is in its leading slice."""
    keys = [{"benchmark": name, **vars(line)} for name, line in leading.items()]
    schema = dict.fromkeys(("benchmark", *SLICE), pl.String)
    marked = pl.DataFrame(keys, schema=schema).with_columns(headline=pl.lit(value=True))
    joined = frame.join(marked, on=["benchmark", *SLICE], how="left", maintain_order="left")
    return joined.with_columns(pl.col("headline").fill_null(value=False))


def schemes_of(frame: pl.DataFrame, benchmark: str) -> list[str]:
    """Return the bucket schemes a benchmark has rows for: known ones first, then by name."""
    found = set(frame.filter(pl.col("benchmark") == benchmark)["buckets"])
    known = [name for name in SCHEME_ORDER if name in found]
    return known + sorted(found - set(known))


def main_scheme(schemes: Sequence[str], recipe: str) -> str | None:
    """Return the bucket scheme a recipe's paper reports; else the first one; None without any."""
    preferred = RECIPE_SCHEMES.get(recipe.lower())
    if preferred in schemes:
        return preferred
    return schemes[0] if schemes else None


def bucket_order(bucket_scores: pl.DataFrame) -> list[str]:
    """Return bucket labels in order of position."""
    unique = bucket_scores.select("bucket", "bucket_low", "bucket_high").unique()
    ordered = unique.sort("bucket_low", "bucket_high", "bucket")
    return list(dict.fromkeys(ordered["bucket"]))
