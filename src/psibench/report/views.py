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
    "posir_release": "relative-20",
}
SCHEME_ORDER = ("squad", "thirds", "thirds-every-tag", "relative-20")
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


def language_order(statistics: pl.DataFrame) -> list[str]:
    """Return the languages of STATISTICS rows in their order."""
    return list(dict.fromkeys(statistics["language"]))


def headlines(psi_table: pl.DataFrame, languages: Sequence[str] = ()) -> dict[str, Headline]:
    """Return the leading slice of every benchmark of the table.

    ``all`` is taken in each of language pair, domain and length bucket where it occurs; where it
    does not, the value whose rows hold the most queries, and a pair of one language before a pair
    of two. On a tie the first of ``languages`` is taken, then the first by name.
    """
    best: dict[str, Headline] = {}
    grouped = psi_table.group_by("benchmark", *SLICE).agg(pl.col("n_queries").max())
    pooled = pl.sum_horizontal([(pl.col(name) == POOLED).cast(pl.Int32) for name in SLICE])
    places = {language: place for place, language in enumerate(languages)}
    ranked = [
        pl.col(name).replace_strict(places, default=len(places), return_dtype=pl.Int64)
        for name in ("corpus_lang", "query_lang")
    ]
    is_crossed = pl.col("query_lang") != pl.col("corpus_lang")
    named = [pl.col(name) for name in SLICE]
    ordered = grouped.sort(
        [-pooled, is_crossed, -pl.col("n_queries"), *ranked, *named], maintain_order=True
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
