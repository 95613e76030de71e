"""Blocks of the report on languages and domains: sizes, PSI by pair, quality of translations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from psibench.metrics.buckets import LENGTH_BUCKETS
from psibench.metrics.statistics import QUERY_TYPE_PREFIX
from psibench.report.beside import Reference, beside_panel
from psibench.report.plots import as_image, draw_heat_map
from psibench.report.tables import (
    Columns,
    FigureView,
    Form,
    PageBlock,
    Panel,
    Table,
    table_of,
)
from psibench.report.views import PAIR_COLUMN, BenchmarkInfo, leading_rows
from psibench.report.wording import STATISTIC_TEXTS, count, percent
from psibench.tables.build_schemas import (
    TRANSLATION_AGREEMENT,
    TRANSLATION_QUALITY,
    TRANSLATOR_QUALITY,
)
from psibench.tables.derived import read_all
from psibench.tables.schemas import DOMAIN_SIMILARITY
from psibench.tables.spec import ALL, TableSpec
from psibench.translate.quality import DIMENSIONS, OVERALL

LANGUAGE_SPECS: Mapping[str, TableSpec] = {
    "similarity": DOMAIN_SIMILARITY,
    "quality": TRANSLATION_QUALITY,
    "agreement": TRANSLATION_AGREEMENT,
    "translators": TRANSLATOR_QUALITY,
}
LanguageTables = Mapping[str, pl.DataFrame]
"""A benchmark's tables of `LANGUAGE_SPECS` by name."""


def read_languages(files: Sequence[Mapping[str, Any]]) -> dict[str, LanguageTables]:
    """Read the tables of `LANGUAGE_SPECS` by benchmark.

    ``files`` come from `psibench.plan.summaries.language_files`.
    """
    return {
        one["benchmark"]: {
            name: read_all(one[name], spec) for name, spec in LANGUAGE_SPECS.items() if name in one
        }
        for one in files
    }


# --- Sizes by language and domain, like PosIR's Tables 4 to 6 and Figure 6

TOKENS = ("min", "q1", "median", "q3", "max", "mean")


def language_blocks(
    statistics: pl.DataFrame,
    info: BenchmarkInfo,
    tables: LanguageTables,
    references: Sequence[Reference] = (),
) -> list[PageBlock]:
    """Return the tables and figures of a benchmark's languages and domains.

    ``statistics`` has STATISTICS rows of any benchmarks, and decides the order of languages and
    domains. A single language or domain has no table. All figures except the first are folded.
    """
    names = ["n_passages", "n_queries", "query_tokens_mean"]
    names += [f"passage_tokens_{name}" for name in TOKENS]
    mine = statistics.filter(benchmark=info.id)
    place = ["language", "domain"]
    sizes = mine.pivot("statistic", on_columns=names, index=place, values="value")
    is_of_all = pl.col("domain") == ALL
    # the pooled row of each language, or the row of its only domain
    whole = sizes.filter(is_of_all | ~is_of_all.any().over("language"))
    parts = sizes.filter(~is_of_all)
    blocks: list[PageBlock] = [
        *_sizes_beside(mine, info, beside_panel(references, "sizes", info.recipe))
    ]
    if whole.height > 1:
        blocks.append(_size_table("Languages", whole, "language", whole))
    if parts["domain"].n_unique() > 1:
        blocks.append(_size_table("Domains", parts, "domain", whole))
        mean = pl.col("passage_tokens_mean")
        caption = f"Mean tokens per document divided by {whole['language'][0]}, by domain."
        ratios = parts.select(
            "domain", "language", mean / mean.first().over("domain", order_by=pl.row_index())
        )
        blocks += _heat_map(
            "Length relative to the first language", ratios, caption, is_folded=True
        )
    blocks += _query_type_table(mine, whole, beside_panel(references, "query types", info.recipe))
    if "similarity" in tables:
        figures = _similarity_figures(tables["similarity"].filter(benchmark=info.id))
        blocks += [replace(one, is_folded=place > 0) for place, one in enumerate(figures)]
    return blocks


def _sizes_beside(
    mine: pl.DataFrame, info: BenchmarkInfo, references: Sequence[Reference]
) -> list[PageBlock]:
    """Return a benchmark's sizes with published sizes; empty without references.

    The benchmark's subset selects the column of the full or the tiny data.
    """
    if not references or mine.is_empty():
        return []
    whole = mine.sort(pl.col("domain") != ALL, maintain_order=True)
    rows = whole.unique("statistic", keep="first").select("statistic", here="value")
    shown: Columns = {
        "size": pl.col("statistic").replace(STATISTIC_TEXTS).str.replace("bucket:", "queries: "),
        "this run": "here",
    }
    for one in references:
        column = f"{one.recipes[info.recipe]}_{info.subset.lower() or 'full'}"
        name = f"{one.printed.source}, {column}"
        printed = one.printed.texts.select(
            "statistic", pl.col(column).replace("", None).alias(name)
        )
        rows = rows.join(printed, on="statistic", how="right", maintain_order="right")
        shown[name] = name
    rows = rows.filter(pl.any_horizontal(pl.exclude("statistic", "here").is_not_null()))
    title, forms = "Sizes and published sizes", {"this run": count}
    return [table_of(title, rows, shown, forms=forms, n_names=1)]


def _size_table(title: str, rows: pl.DataFrame, by: str, whole: pl.DataFrame) -> Table:
    """Return documents, queries and lengths by language or domain, like PosIR's Tables 4 and 5.

    ``whole`` has the rows over all domains; their sum is the row ``all``.
    """
    n, queries = pl.col("n_passages"), pl.col("n_queries")
    lengths = {name: pl.col(f"passage_tokens_{name}") for name in TOKENS}
    query_tokens = pl.col("query_tokens_mean")
    sums = {
        "n": n.sum(),
        "queries": queries.sum(),
        "query_tokens": (query_tokens * queries).sum()
        / queries.filter(query_tokens.is_not_null()).sum(),
        **{name: pl.when(pl.len() == 1).then(length.first()) for name, length in lengths.items()},
        "min": lengths["min"].min(),
        "max": lengths["max"].max(),
        "mean": (lengths["mean"] * n).sum() / n.sum(),
    }
    total = whole.select(pl.lit(ALL).alias(by), **sums)
    found = pl.concat([rows.group_by(by, maintain_order=True).agg(**sums), total])
    shown: Columns = {
        by: by,
        "documents|number": "n",
        "documents|share": pl.col("n") / total["n"][0],
        "queries|number": "queries",
        "queries|share": pl.col("queries") / total["queries"][0],
        "tokens per query|mean": "query_tokens",
        **{f"tokens per document|{name}": name for name in TOKENS},
    }
    if by == "language":
        shown["tokens per document|to first"] = pl.col("mean") / pl.col("mean").first()
    tokens = "{:,.1f}".format
    forms: dict[str, Form] = {
        **{name: count for name in shown if name.endswith("number")},
        **{name: partial(percent, decimals=2) for name in shown if name.endswith("share")},
        **{name: "{:,.0f}".format for name in shown if name.startswith("tokens per document")},
        "tokens per query|mean": tokens,
        "tokens per document|mean": tokens,
        "tokens per document|to first": "{:.2f}".format,
    }
    return table_of(title, found.fill_nan(None), shown, forms=forms, n_names=1)


def _query_type_table(
    mine: pl.DataFrame, whole: pl.DataFrame, references: Sequence[Reference]
) -> list[PageBlock]:
    """Return queries by type, like PosIR's Table 6; empty without English or Chinese queries."""
    named = mine.join(whole.select("language", "domain", "n_queries"), on=["language", "domain"])
    typed = named.filter(pl.col("statistic").str.starts_with(QUERY_TYPE_PREFIX)).select(
        "language",
        type=pl.col("statistic").str.strip_prefix(QUERY_TYPE_PREFIX),
        queries=pl.col("value").cast(pl.Int64),
        share=pl.col("value") / pl.col("n_queries"),
    )
    if typed.is_empty():
        return []
    languages = typed["language"].unique(maintain_order=True).to_list()
    sides = ("queries", "share")
    rows = typed.pivot("language", index="type", values=sides)
    shown: Columns = {"type": "type"}
    shown |= {f"{name}|{side}": f"{side}_{name}" for name in languages for side in sides}
    is_asked = pl.any_horizontal(pl.col(f"queries_{name}") > 0 for name in languages)
    rows = rows if references else rows.filter(is_asked)
    for one in references:
        theirs = one.printed.rows
        rows = rows.join(theirs, left_on="type", right_on="query_type", maintain_order="left")
        columns = dict.fromkeys(one.languages[name.partition("-")[0]] for name in languages)
        shown |= {f"published: {one.printed.source}|{name}": name for name in columns}
    forms = {name: partial(percent, decimals=2) for name in shown if not name.endswith("queries")}
    title = "What queries ask"
    return [table_of(title, rows, shown, forms=forms, n_names=1)]


def _similarity_figures(similarity: pl.DataFrame) -> list[FigureView]:
    """Return a heat map of domains per model and language, like PosIR's Figure 6."""
    figures = []
    for (model, language), rows in similarity.group_by("model", "language", maintain_order=True):
        cosine = pl.when(pl.col("domain_a") != pl.col("domain_b")).then("cosine")
        cells = rows.select("domain_a", "domain_b", cosine)
        caption = f"{language}. Model: {model}."
        figures += _heat_map("Similarity of domains", cells, caption)
    return figures


def _heat_map(
    title: str, cells: pl.DataFrame, caption: str = "", *, is_folded: bool = False
) -> list[FigureView]:
    """Return a heat map of row, column and value; empty with fewer than two rows or columns."""
    if min(cells.select(pl.nth(0, 1).n_unique()).row(0)) < 2:
        return []
    return [FigureView(title, caption, (Panel(as_image(draw_heat_map(cells))),), is_folded)]


# --- Language pairs


def pair_tables(info: BenchmarkInfo, psi_table: pl.DataFrame, *, metric: str) -> list[Table]:
    """Return a table of PSI by model and language pair; empty with a single pair.

    ``psi_table`` may have rows of other benchmarks. Pairs within one language come first. The PSI
    is null if almost nothing is found (flag ``at_floor``).
    """
    is_crossed = pl.col("query_lang") != pl.col("corpus_lang")
    rows = leading_rows(psi_table, info, metric).filter(domain=ALL, length_bucket=ALL)
    is_meaningful = ~pl.col("flags").str.contains("at_floor")
    rows = rows.with_columns(
        PAIR_COLUMN, shown=pl.when(is_meaningful).then(pl.coalesce("psi_same", "psi"))
    )
    ordered = rows.sort(is_crossed, maintain_order=True)
    pairs = ordered["pair"].unique(maintain_order=True).to_list()
    if len(pairs) < 2:
        return []
    wide = rows.pivot("pair", on_columns=pairs, index="model", values="shown")
    return [table_of(f"PSI of {metric} by language pair", wide, n_names=1)]


# --- Quality of translations

FAMILIES = {
    **{"ara": "Semitic", "deu": "Germanic", "kor": "Koreanic", "rus": "Slavic"},
    **dict.fromkeys(("fra", "ita", "por", "spa"), "Romance"),
}
"""Family of a language by ISO 639-3 code, for the languages of PosIR's translations."""
EVERY_LANGUAGE = pl.col("language").replace(ALL, "all languages")
GRADED = (*DIMENSIONS, OVERALL)
GRADE: Form = "{:.2f}".format


def quality_blocks(tables: LanguageTables, references: Sequence[Reference] = ()) -> list[PageBlock]:
    """Return the tables and heat maps of a benchmark's translations; empty without grades."""
    quality = tables.get("quality")
    if quality is None or quality.is_empty():
        return []
    blocks: list[PageBlock] = [_quality_table(quality)]
    if "translators" in tables and tables["translators"].height:
        blocks += _translator_blocks(tables["translators"])
    if "agreement" in tables and tables["agreement"].height:
        blocks += _agreement_blocks(tables["agreement"], references)
    return blocks


def _graded(whole: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Return the numbers of graded and other documents, and the mean per dimension, by key."""
    sizes = whole.filter(dimension=OVERALL).select(
        *keys, **{"documents|graded": "n", "documents|not graded": "n_unjudged"}
    )
    means = whole.select(*keys, "mean", dimension=pl.format("mean grade|{}", "dimension")).pivot(
        "dimension", index=list(keys), values="mean"
    )
    columns = [f"mean grade|{name}" for name in GRADED]
    found = sizes.join(means, on=keys, maintain_order="left")
    return found.select(*keys, "documents|graded", "documents|not graded", *columns)


def _quality_table(quality: pl.DataFrame) -> Table:
    """Return a table of mean grades per language and dimension, and overall grades by length."""
    whole = quality.filter(domain=ALL)
    graded = _graded(whole.filter(length_bin=ALL), "language")
    overall = whole.filter(dimension=OVERALL).select("language", "length_bin", "mean")
    by_length = overall.pivot(
        "length_bin", on_columns=LENGTH_BUCKETS, index="language", values="mean"
    )
    lengths = [pl.col(name).alias(f"overall, by length|{name}") for name in LENGTH_BUCKETS]
    shown = graded.join(by_length, on="language", maintain_order="left").select(
        EVERY_LANGUAGE, pl.col("^(documents|mean grade)[|].*$"), *lengths
    )
    title, forms = "Quality of the translations", dict.fromkeys(shown.columns[3:], GRADE)
    return table_of(title, shown, forms=forms, n_names=1)


def _translator_blocks(translators: pl.DataFrame) -> list[PageBlock]:
    """Return the grades of translators by language, like PosIR's Table 7, and a heat map.

    The heat map has the overall grade by translator and language family, the mean over the
    languages of the family, like PosIR's Figure 7.
    """
    whole = translators.filter(domain=ALL, length_bin=ALL)
    placed = whole.with_row_index("place")
    by_language = placed.sort(pl.col("place").min().over("language"), "place")
    graded = _graded(by_language, "language", "translator")
    table = table_of(
        "Translators side by side",
        graded.with_columns(EVERY_LANGUAGE),
        forms=dict.fromkeys(graded.columns[4:], GRADE),
    )
    family = pl.col("language").str.head(3).replace_strict(FAMILIES, default="other")
    overall = whole.filter(pl.col("language") != ALL, dimension=OVERALL)
    by_family = overall.group_by("translator", family.alias("family"), maintain_order=True).agg(
        pl.col("mean").mean()
    )
    return [table, *_heat_map("Overall grade by translator and language family", by_family)]


def _agreement_blocks(agreement: pl.DataFrame, references: Sequence[Reference]) -> list[PageBlock]:
    """Return the agreement of grades by people and by the language model, and a heat map.

    Published values are joined to the rows of all languages. The heat map has the mean grades of
    both by language and dimension, like PosIR's Figure 8.
    """
    is_whole = pl.col("language") == ALL
    rows = agreement.with_columns(beside=pl.when(is_whole).then("dimension"))
    shown: Columns = {
        "language": EVERY_LANGUAGE,
        "dimension": pl.col("dimension").replace(ALL, "the four together"),
        "this run|pairs": "n",
        "this run|unmatched": "n_unmatched",
        "this run|within 1": "within_one",
        "this run|MAE": "mae",
        "this run|people": "mean_human",
        "this run|language model": "mean_llm",
    }
    for printed in (one.printed for one in references):
        side = f"published: {', '.join(printed.place)}"
        theirs = {f"{side}|within 1": "agreement", f"{side}|MAE": "mae"}
        named = printed.rows.select("dimension", **theirs)
        rows = rows.join(
            named, left_on="beside", right_on="dimension", how="left", maintain_order="left"
        )
        shown |= {name: name for name in theirs}
    forms = {name: percent if name.endswith("within 1") else GRADE for name in [*shown][4:]}
    table = table_of("Agreement with people", rows, shown, forms=forms)
    of_language = agreement.filter(pl.col("language") != ALL, pl.col("dimension").is_in(DIMENSIONS))
    graders = {"mean_human": "people", "mean_llm": "language model"}
    cells = of_language.unpivot(list(graders), index=["language", "dimension"]).select(
        pl.format("{}, {}", "language", pl.col("variable").replace(graders)), "dimension", "value"
    )
    title = "Grades by people and by the language model, by language"
    return [table, *_heat_map(title, cells)]
