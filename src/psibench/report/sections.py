"""The data's own tables and drawings: statistics, and histograms of evidence positions."""

from dataclasses import dataclass

import polars as pl

from psibench.build.statistics import DOMAIN_STATISTICS, QUERY_TYPE_PREFIX
from psibench.report.figures import draw_histogram
from psibench.report.inputs import BenchmarkInfo
from psibench.report.panels import slug
from psibench.report.plain import Table
from psibench.report.svg import inline_svg
from psibench.report.views import POOLED, Headline
from psibench.report.wording import MISSING, count, statistic_text

BUCKET_PREFIX = "bucket:"
UNIT_TEXTS = {
    "start_char": "start of the evidence, characters",
    "relative": "middle of the evidence / length of the passage",
}


@dataclass(frozen=True)
class Histogram:
    """Where the evidence is: one drawing with its caption."""

    svg: str
    caption: str


def statistics_tables(statistics: pl.DataFrame, benchmark: str) -> list[Table]:
    """Return a benchmark's statistics: one table of sizes and one of queries per bucket.

    Rows are language and domain in the order given, pooled ones first; names without a known
    meaning are shown as they are. What the tables of languages and domains show is left out. No
    rows give no table.
    """
    elsewhere = pl.col("statistic").is_in(DOMAIN_STATISTICS) | pl.col("statistic").str.starts_with(
        QUERY_TYPE_PREFIX
    )
    mine = statistics.filter((pl.col("benchmark") == benchmark) & ~elsewhere)
    names = list(dict.fromkeys(mine["statistic"]))
    plain = [name for name in names if not name.startswith(BUCKET_PREFIX)]
    bucket = [name for name in names if name.startswith(BUCKET_PREFIX)]
    values = {(la, do, st): va for _, la, do, st, va in mine.iter_rows()}
    groups = list(dict.fromkeys(zip(mine["language"], mine["domain"], strict=True)))
    groups.sort(key=lambda group: (group[0] != POOLED, group[1] != POOLED))
    tables = []
    for title, chosen in (("Sizes", plain), ("Queries per bucket", bucket)):
        if not chosen:
            continue
        header = [statistic_text(name).removeprefix(BUCKET_PREFIX) for name in chosen]
        rows = tuple(
            (*group, *(_value(values.get((*group, name))) for name in chosen)) for group in groups
        )
        tables.append(Table(title, ("language", "domain", *header), rows))
    return tables


def histograms(
    table: pl.DataFrame, benchmark: BenchmarkInfo, leading: Headline | None
) -> list[Histogram]:
    """Return a benchmark's histograms of evidence positions, one per unit.

    The language is ``all`` if there is such a one, else that of the leading slice, else the one
    with most queries. Domains are ``all`` if there is such a one, else summed.
    """
    mine = table.filter(pl.col("benchmark") == benchmark.id)
    found = []
    for unit in sorted(set(mine["unit"]), key=lambda name: (name != "start_char", name)):
        rows = mine.filter(pl.col("unit") == unit)
        language = _language(rows, leading)
        rows = rows.filter(pl.col("language") == language)
        if POOLED in set(rows["domain"]):
            rows = rows.filter(pl.col("domain") == POOLED)
        bins = rows.group_by("bin_low", "bin_high").agg(pl.col("n_queries").sum()).sort("bin_low")
        edges = [(low, high) for low, high, _ in bins.iter_rows()]
        drawn = draw_histogram(edges, list(bins["n_queries"]), x_text=UNIT_TEXTS.get(unit, unit))
        text = f"{count(int(bins['n_queries'].sum()))} queries by {UNIT_TEXTS.get(unit, unit)}"
        caption = text if language == POOLED else f"{text}; {language}"
        svg = inline_svg(
            drawn,
            name=slug("histogram", benchmark.id, unit),
            title=f"Evidence positions in {benchmark.id}",
            description=caption,
        )
        found.append(Histogram(svg, caption))
    return found


def _language(rows: pl.DataFrame, leading: Headline | None) -> str:
    languages = set(rows["language"])
    for wanted in (POOLED, leading.corpus_lang if leading else POOLED):
        if wanted in languages:
            return wanted
    sizes = rows.group_by("language").agg(pl.col("n_queries").sum())
    return str(sizes.sort(["n_queries", "language"], descending=[True, False])["language"][0])


def _value(value: float | None) -> str:
    return MISSING if value is None else count(value)
