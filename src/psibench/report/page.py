"""Stage ``report``: one HTML file over the result tables that needs nothing else to be read.

Data is read once, each part of the page is made of it (`scores`, `languages`, `filters`,
`examples`), and ``templates/report.html`` puts the parts together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from psibench.config.models import Model
from psibench.filters.verify import VerifyMargin
from psibench.generate.benchmarks import (
    Benchmark,
    FinewebPosqRelease,
    GeneratedBenchmark,
    SquadPosq,
)
from psibench.metrics.statistics import DOMAIN_STATISTICS, QUERY_TYPE_PREFIX, START_PREFIX
from psibench.report.examples import Example, example_section, read_examples
from psibench.report.filters import (
    Facts,
    generation_tables,
    read_generation,
    read_verification,
    verification_blocks,
    view_tables,
)
from psibench.report.languages import (
    LanguageTables,
    language_blocks,
    quality_blocks,
    read_languages,
)
from psibench.report.pairs import pair_blocks
from psibench.report.plots import draw_histogram, model_styles
from psibench.report.scores import Scored, score_context
from psibench.report.tables import Block, Panel, Table, panel, render_page, slug, table_of
from psibench.report.training import read_training, training_blocks
from psibench.report.views import (
    BenchmarkInfo,
    Headline,
    ModelInfo,
    headlines,
    simulation_note,
)
from psibench.report.wording import STATISTIC_TEXTS, count
from psibench.tables import read_provenance, read_table
from psibench.tables.atomic import write_text
from psibench.tables.derived import read_all
from psibench.tables.provenance import now
from psibench.tables.schemas import (
    BUCKET_SCORES,
    COMPARISONS,
    POSITION_HISTOGRAM,
    POSITION_TREND,
    PSI_TABLE,
    STATISTICS,
)
from psibench.tables.spec import POOLED
from psibench.tables.stage import stage

STATISTICS_TABLES = {
    "": "Sizes",
    "bucket:": "Queries per bucket",
    START_PREFIX: "Where evidence begins: mean of start over length, and shares by third",
}
"""Prefix of names of statistics -> title of the table of those that have it."""
UNIT_TEXTS = {
    "start_char": "start of the evidence, characters",
    "relative": "middle of the evidence / length of the passage",
}


@dataclass(frozen=True, kw_only=True)
class ReportInput(Scored):
    """All that is shown on one page: scores, and what is told of the data.

    The frames follow their schemas; each may have no rows. The order of ``benchmarks`` and
    ``models`` is the order on the page; ids that only the tables know follow in sorted order.

    ``views`` names, per benchmark, the ids of its views by sort: ``raw`` (before false negatives
    were removed) and ``tiny``. A view is shown beside its benchmark and has no section of its own.

    ``languages`` are tables by benchmark and name, ``generation`` and ``training`` tables of all
    benchmarks by name; ``published`` and ``probes`` are the addresses of other pages, relative to
    this one, or empty.
    """

    statistics: pl.DataFrame
    position_histogram: pl.DataFrame
    position_trend: pl.DataFrame
    generation: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    verification: Sequence[Facts] = ()
    views: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    languages: Mapping[str, LanguageTables] = field(default_factory=dict)
    training: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    examples: Sequence[Example] = ()
    published: str = ""
    probes: str = ""


@stage("report", version=5)
def run_report(
    *,
    psi_table: str | Path,
    bucket_scores: str | Path,
    comparisons: str | Path,
    position_trend: str | Path,
    statistics: Sequence[str | Path],
    histograms: Sequence[str | Path],
    flow: Sequence[str | Path],
    usage: Sequence[str | Path],
    attrition: Sequence[str | Path],
    benchmarks: Mapping[str, Benchmark],
    models: Mapping[str, Model],
    generated: Sequence[Mapping[str, Any]],
    prices: Mapping[str, Any],
    verification: Sequence[Mapping[str, Any]],
    views: Mapping[str, Mapping[str, str]],
    languages: Sequence[Mapping[str, Any]],
    examples: Sequence[Mapping[str, str]],
    published_page: Sequence[str],
    probes_page: Sequence[str],
    training: Mapping[str, str],
    title: str,
    output: str | Path,
) -> None:
    """Write the report.

    Parameters
    ----------
    flow, usage, attrition
        The ledger of each benchmark, in the order of ``benchmarks``.
    generated, prices
        Labels of the languages that a model was asked in, and the price table; see
        `read_generation`.
    verification, languages, examples
        As `read_verification`, `read_languages` and `read_examples` take them.
    views
        As of `ReportInput`.
    published_page, probes_page
        Addresses of the pages of published figures and of probes, or none.
    training
        Tables of what was trained, by name; none where nothing was.
    """
    table = read_table(psi_table, PSI_TABLE)
    authors = dict(table.select("benchmark", "queries_by").iter_rows())
    record = read_provenance(psi_table) or {}
    made_of = {"rows of the PSI table": str(record.get("rows_hash", ""))}
    made_of["queries by"] = str(record.get("queries_by") or "not recorded")
    made_of |= {name: str(value) for name, value in record.get("revisions", {}).items()}
    ledger = {"flow": flow, "usage": usage, "attrition": attrition}
    of_benchmark = {
        name: dict(zip(benchmarks, map(str, paths), strict=True)) for name, paths in ledger.items()
    }
    inputs = ReportInput(
        psi_table=table,
        bucket_scores=read_table(bucket_scores, BUCKET_SCORES),
        statistics=read_all(statistics, STATISTICS),
        position_histogram=read_all(histograms, POSITION_HISTOGRAM),
        position_trend=read_table(position_trend, POSITION_TREND),
        comparisons=read_table(comparisons, COMPARISONS),
        benchmarks=[
            benchmark_info(name, section, queries_by=authors.get(name, ""))
            for name, section in benchmarks.items()
        ],
        models=[
            ModelInfo(
                name, entry.kind, entry.description, entry.control, getattr(entry, "depth", None)
            )
            for name, entry in models.items()
        ],
        generation=read_generation(generated, prices=prices, **of_benchmark),
        verification=read_verification(verification),
        views=views,
        languages=read_languages(languages),
        examples=read_examples(examples),
        published="".join(published_page),
        probes="".join(probes_page),
        training=read_training(training),
        provenance=made_of,
        title=title,
        created=now(),
    )
    write_text(render_report(inputs), output)


def benchmark_info(name: str, section: Benchmark, *, queries_by: str) -> BenchmarkInfo:
    """Describe a benchmark for the report; ``queries_by`` is what its tables say."""
    note = simulation_note(queries_by)
    generated = section if isinstance(section, GeneratedBenchmark) else None
    verify = generated.verify if generated else None
    return BenchmarkInfo(
        id=name,
        recipe=section.recipe,
        headline=section.buckets[0],
        subset=section.subset if isinstance(section, SquadPosq | FinewebPosqRelease) else "",
        description=section.description,
        simulated=bool(note),
        note=note,
        length_unit=generated.sample.unit if generated and generated.sample else "",
        margin_threshold=verify.threshold if isinstance(verify, VerifyMargin) else None,
    )


def render_report(inputs: ReportInput) -> str:
    """Return the page as HTML: the same inputs give the same text.

    Tables without rows give a page that says so.
    """
    hidden = [name for ids in inputs.views.values() for name in ids.values()]
    tables = ("psi_table", "bucket_scores", "comparisons", "statistics", "position_histogram")
    shown: dict[str, Any] = {
        name: getattr(inputs, name).filter(~pl.col("benchmark").is_in(hidden)) for name in tables
    }
    benchmarks = {info.id: info for info in inputs.benchmarks}
    for name in sorted({one for frame in shown.values() for one in frame["benchmark"]}):
        benchmarks.setdefault(name, BenchmarkInfo(id=name, recipe=""))
    models = {info.id: info for info in inputs.models}
    kinds = dict.fromkeys(shown["bucket_scores"]["model"], "")
    kinds |= dict(shown["psi_table"].select("model", "kind").iter_rows())
    for name in sorted(kinds):
        models.setdefault(name, ModelInfo(id=name, kind=kinds[name]))
    every = inputs.psi_table
    shown |= {
        "language_order": shown["statistics"]["language"].unique(maintain_order=True).to_list()
    }
    inputs = replace(
        inputs, **shown, benchmarks=list(benchmarks.values()), models=list(models.values())
    )
    return render_page("report.html", **_context(inputs, every))


def _context(inputs: ReportInput, every: pl.DataFrame) -> dict[str, Any]:
    """Return what the template shows; ``every`` has the PSI rows of benchmarks and views."""
    benchmarks, models = inputs.benchmarks, inputs.models
    found = score_context(inputs)
    metric, styles = found["metric"], model_styles({model.id: model.control for model in models})
    pairs = [
        pair_blocks(
            info,
            psi_table=inputs.psi_table,
            bucket_scores=inputs.bucket_scores,
            position_trend=inputs.position_trend,
            languages=inputs.language_order,
            models=models,
            styles=styles,
            metric=metric,
        )
        for info in benchmarks
    ]
    return found | {
        "languages": [two for two in zip(benchmarks, pairs, strict=True) if two[1]],
        "data": [(info, *_data(inputs, info, every, metric)) for info in benchmarks],
        "training": training_blocks(inputs.training, benchmarks, metric=metric),
        "examples": example_section(inputs.examples, benchmarks),
        "published": inputs.published,
        "probes": inputs.probes,
    }


def _data(
    inputs: ReportInput, info: BenchmarkInfo, every: pl.DataFrame, metric: str
) -> tuple[list[Block], list[Panel]]:
    """Return a benchmark's tables and figures in page order, and its histograms."""
    order = inputs.language_order
    leading = headlines(inputs.bucket_scores, order) | headlines(inputs.psi_table, order)
    tables = inputs.languages.get(info.id, {})
    made = generation_tables(inputs.generation, info.id)
    # what there is, what came of the documents, what the filters did, how good the
    # translations are, then what the requests took
    blocks: list[Block] = [
        *_statistics_tables(inputs.statistics, info.id),
        *language_blocks(inputs.statistics, info, tables),
        *made[:1],
        *verification_blocks(inputs.verification, info),
        *view_tables(
            every,
            info,
            inputs.views.get(info.id, {}),
            inputs.verification,
            metric=metric,
            models=[model.id for model in inputs.models],
            languages=order,
        ),
        *quality_blocks(tables, info.id),
        *made[1:],
    ]
    return blocks, _histograms(inputs.position_histogram, info.id, leading.get(info.id))


def _statistics_tables(statistics: pl.DataFrame, benchmark: str) -> list[Table]:
    """Return a benchmark's statistics: sizes, queries per bucket, and where evidence begins.

    Rows are language and domain in the order given, pooled ones first; names without a known
    meaning are shown as they are. What the tables of languages and domains show is left out. No
    rows give no table.
    """
    name = pl.col("statistic")
    elsewhere = name.is_in(DOMAIN_STATISTICS) | name.str.starts_with(QUERY_TYPE_PREFIX)
    mine = statistics.filter(pl.col("benchmark") == benchmark, ~elsewhere)
    place = ["language", "domain"]
    wide = mine.pivot("statistic", index=place, values="value").sort(
        pl.col("language") != POOLED, pl.col("domain") != POOLED, maintain_order=True
    )
    tables = []
    left = [name for name in wide.columns if name not in place]
    for prefix, title in reversed(STATISTICS_TABLES.items()):
        chosen = [name for name in left if name.startswith(prefix)]
        left = [name for name in left if name not in chosen]
        names = {name: STATISTIC_TEXTS.get(name, name).removeprefix(prefix) for name in chosen}
        shown = wide.select(*place, *chosen).rename(names)
        forms = dict.fromkeys(names.values(), count)
        tables += [table_of(title, shown, forms=forms)] if chosen else []
    return tables[::-1]


def _histograms(table: pl.DataFrame, benchmark: str, leading: Headline | None) -> list[Panel]:
    """Return a benchmark's histograms of evidence positions, one per unit.

    The language is ``all`` if there is such a one, else that of the leading slice, else the one
    with most queries. Domains are ``all`` if there is such a one, else summed.
    """
    mine = table.filter(benchmark=benchmark)
    found = []
    for unit in sorted(set(mine["unit"]), key=lambda name: (name != "start_char", name)):
        rows = mine.filter(unit=unit)
        sizes = rows.group_by("language").agg(pl.col("n_queries").sum())
        ranked = sizes.sort("n_queries", "language", descending=[True, False])["language"].to_list()
        wanted = [POOLED, *([leading["corpus_lang"]] if leading else []), *ranked]
        language = next(one for one in wanted if one in ranked)
        rows = rows.filter(language=language)
        if POOLED in set(rows["domain"]):
            rows = rows.filter(domain=POOLED)
        bins = rows.group_by("bin_low", "bin_high").agg(pl.col("n_queries").sum()).sort("bin_low")
        text = UNIT_TEXTS.get(unit, unit)
        drawn = draw_histogram(bins, x_text=text)
        caption = f"{count(int(bins['n_queries'].sum()))} queries by {text}"
        caption += "" if language == POOLED else f"; {language}"
        anchor, title = slug("histogram", benchmark, unit), f"Evidence positions in {benchmark}"
        found.append(panel(drawn, anchor, title, caption, note=caption))
    return found
