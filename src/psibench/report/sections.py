"""The parts below the PSI table: controls, truncation against neglect, statistics, histograms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from psibench.build.statistics import DOMAIN_STATISTICS, QUERY_TYPE_PREFIX
from psibench.report.figures import draw_histogram
from psibench.report.inputs import BenchmarkInfo
from psibench.report.panels import slug
from psibench.report.plain import Table
from psibench.report.svg import inline_svg
from psibench.report.views import POOLED, Headline
from psibench.report.wording import (
    MISSING,
    count,
    exceeds_chance,
    number,
    p_value,
    statistic_text,
    undefined_reason,
)

WIDE = 0.3  # upper end of an interval that leaves room for a real difference
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


def control_reading(row: Mapping[str, Any], control: str, first_bucket: str | None) -> str:
    """Return what a control's PSI row says about its benchmark, in one line."""
    if row["psi"] is None:
        return undefined_reason(row)
    if control == "position-blind":
        if exceeds_chance(row):
            return "queries differ in difficulty by position; subtract this in mind"
        if row["psi_high"] is not None and row["psi_high"] > WIDE:
            return "within chance, but the interval is wide: a difference in difficulty may hide"
        return "within chance: queries are about equally hard everywhere"
    if not exceeds_chance(row):
        return "no primacy seen: passages too short to be cut, or too few queries"
    if first_bucket is not None and row["best_bucket"] == first_bucket:
        return "primacy, as it must be"
    return "an effect, but not best at the start: look closer before reading other models"


def visibility_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per model: PSI over all queries, visible ones, and uncut passages.

    ``rows`` are the leading PSI rows of one benchmark and one bucket scheme, all evidence views.
    A model without a row of `all` or `visible` is left out. Null, p and reading are those of the
    uncut passages: only there do all positions come from the same passages.
    """
    views = {(row["model"], row["evidence"]): row for row in rows}
    found = []
    for model in dict.fromkeys(row["model"] for row in rows):
        whole, seen = views.get((model, "all")), views.get((model, "visible"))
        if whole is None or seen is None:
            continue
        uncut = views.get((model, "whole"), seen)
        found.append(
            {
                "model": model,
                "uncut": number(uncut["psi"]) if uncut["psi"] is not None else "undefined",
                "uncut_share": _percent(uncut["n_queries"], whole["n_queries"]),
                "whole": number(whole["psi"]) if whole["psi"] is not None else "undefined",
                "seen": number(seen["psi"]) if seen["psi"] is not None else "undefined",
                "null": number(uncut["psi_null_p95"]),
                "p": p_value(uncut["psi_p"]),
                "share": _percent(seen["n_queries"], whole["n_queries"]),
                "buckets": f"{uncut['n_buckets']} of {whole['n_buckets']}",
                "reading": visibility_reading(whole, uncut),
            }
        )
    return found


def _percent(part: int, total: int) -> str:
    return f"{100 * part / total if total else 0.0:.1f} %"


def visibility_reading(whole: Mapping[str, Any], seen: Mapping[str, Any]) -> str:
    """Return what all queries and those on uncut passages say about truncation and neglect."""
    if seen["n_queries"] == whole["n_queries"]:
        if whole["psi"] is None:
            return undefined_reason(whole)
        return "sees all evidence: nothing is due to truncation"
    if seen["psi"] is None:
        return f"undefined on what it saw whole: {undefined_reason(seen)}"
    fewer = seen["n_buckets"] < whole["n_buckets"]
    caution = "; fewer buckets remain, so the two are not like for like" if fewer else ""
    if exceeds_chance(seen):
        found = "position matters in passages it saw whole, too: neglect"
        if whole["psi"] is not None and whole["psi"] > seen["psi"]:
            found += "; truncation may explain the rest"
        return found + caution
    if exceeds_chance(whole):
        return (
            "within chance in passages it saw whole: truncation is enough to explain the rest"
            + caution
        )
    return "no effect beyond chance in either view" + caution


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
