"""What a benchmark holds by language and domain, as in PosIR's Tables 4 to 6 and Figure 6."""

import polars as pl

from psibench.build.quality import POOLED
from psibench.report.fragments import Block, render_blocks
from psibench.report.heat_map import HeatMap, draw_heat_map
from psibench.report.language_tables import (
    by_place,
    domain_table,
    language_table,
    query_type_table,
)
from psibench.report.panels import FigureView, Panel, slug
from psibench.report.plain import Table
from psibench.report.wording import count, number, percent

SHIFT_NOTE = (
    "Found: queries whose evidence was found again in the translation. Shift: how far its relative "
    "position moved, as a share of the document's length; 0.05 is one of twenty bins. Where "
    "sentences were aligned, the whole sentences on both sides are compared."
)
SIMILARITY_NOTE = "Cosine of the means of the domains' document vectors."


def render_languages(
    statistics: pl.DataFrame,
    *,
    benchmark: str,
    relocation: pl.DataFrame | None = None,
    similarity: pl.DataFrame | None = None,
    published_types: pl.DataFrame | None = None,
) -> str:
    """Return the panels of a benchmark's languages and domains as HTML; see `language_blocks`."""
    blocks = language_blocks(
        statistics,
        benchmark=benchmark,
        relocation=relocation,
        similarity=similarity,
        published_types=published_types,
    )
    return render_blocks(blocks, about=benchmark)


def language_blocks(
    statistics: pl.DataFrame,
    *,
    benchmark: str,
    relocation: pl.DataFrame | None = None,
    similarity: pl.DataFrame | None = None,
    published_types: pl.DataFrame | None = None,
) -> list[Block]:
    """Return the tables and figures of a benchmark's languages and domains.

    Parameters
    ----------
    statistics
        STATISTICS rows of any benchmarks; the order of languages and domains is kept.
    relocation
        RELOCATION rows of the benchmark.
    similarity
        DOMAIN_SIMILARITY rows of any benchmarks.
    published_types
        ``query_type``, ``english`` and ``chinese`` (shares), as in PosIR's Table 6.

    Returns
    -------
    Only what there is something to say about: no table of one language or of one domain.
    """
    found = by_place(statistics.filter(pl.col("benchmark") == benchmark))
    languages = {language for language, _ in found}
    blocks: list[Block] = []
    if len(languages) > 1:
        blocks.append(language_table(found))
    if len({domain for _, domain in found} - {POOLED}) > 1:
        blocks.append(domain_table(found))
    types = query_type_table(found, published_types)
    blocks += [] if types is None else [types]
    if relocation is not None and relocation.height:
        blocks.append(relocation_table(relocation))
    if similarity is not None:
        mine = similarity.filter(pl.col("benchmark") == benchmark)
        blocks += similarity_figures(mine, anchor=slug("similarity", benchmark))
    return blocks


def relocation_table(relocation: pl.DataFrame) -> Table:
    """Return how often and how far from its place evidence was found again, by language.

    ``relocation`` are RELOCATION rows; of a language with pooled domains only these are shown.
    """
    pooled = (pl.col("domain") == POOLED).any().over("language")
    shown = relocation.filter((pl.col("domain") == POOLED) | ~pooled)
    rows = tuple(
        (
            row["language"],
            "all methods" if row["method"] == POOLED else row["method"],
            count(row["n_queries"]),
            count(row["n_located"]),
            percent(row["share_located"]),
            number(row["median_shift"]),
            percent(row["share_within_0.05"]),
        )
        for row in shown.iter_rows(named=True)
    )
    header = ("language", "method", "queries", "found", "share", "median shift", "shift ≤ 0.05")
    return Table("Does position survive translation?", header, rows, note=SHIFT_NOTE)


def similarity_figures(similarity: pl.DataFrame, *, anchor: str) -> list[FigureView]:
    """Return a heat map of domains per model, as PosIR's Figure 6: the first language below.

    ``similarity`` are DOMAIN_SIMILARITY rows of one benchmark. The second language, if there is
    one, stands above the diagonal; each further pair of languages has a figure of its own.
    Fewer than two domains give none.
    """
    figures = []
    for (model,), rows in similarity.group_by("model", maintain_order=True):
        languages = list(dict.fromkeys(rows["language"]))
        for place in range(0, len(languages), 2):
            pair = languages[place : place + 2]
            name = slug(anchor, str(model), *pair)
            figure = _similarity_figure(rows, pair, str(model), name)
            figures += [] if figure is None else [figure]
    return figures


def _similarity_figure(
    rows: pl.DataFrame, languages: list[str], model: str, name: str
) -> FigureView | None:
    mine = rows.filter(pl.col("language").is_in(languages))
    domains = tuple(dict.fromkeys(mine["domain_a"]))
    if len(domains) < 2:
        return None
    columns = ("language", "domain_a", "domain_b", "cosine")
    cosines = {(la, a, b): value for la, a, b, value in mine.select(columns).iter_rows()}
    below, above = languages[0], languages[1] if len(languages) > 1 else ""
    values = tuple(
        tuple(
            None if i == j else cosines.get((below if i > j else above, a, b))
            for j, b in enumerate(domains)
        )
        for i, a in enumerate(domains)
    )
    sides = f"Below the diagonal: {below}." + (f" Above: {above}." if above else "")
    caption = f"{SIMILARITY_NOTE} {sides} Model: {model}."
    data = HeatMap(domains, domains, values)
    svg = draw_heat_map(data, name=name, title="Similarity of domains", description=caption)
    return FigureView(
        anchor=name,
        title="Similarity of domains",
        caption=caption,
        panels=(Panel(svg),),
        legend=(),
        header=("domain", *domains),
        rows=tuple(
            (domain, *(number(value) for value in row))
            for domain, row in zip(domains, values, strict=True)
        ),
    )
