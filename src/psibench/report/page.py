"""Stage ``report``: one HTML file over the result tables that needs nothing else to be read.

Data is read and checked once, each part of the page is made of it (`scores`, `languages`,
`filters`, `examples`), and ``templates/report.html`` puts the parts together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from psibench import __version__
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
    GenerationFacts,
    VerificationFacts,
    generation_tables,
    read_generation,
    read_verification,
    verification_blocks,
)
from psibench.report.languages import (
    SUMMARY_TABLES,
    LanguageFacts,
    Summaries,
    language_blocks,
    quality_blocks,
    read_languages,
    read_summaries,
)
from psibench.report.mitigations import mitigation_tables
from psibench.report.pairs import leaderboard_table, pair_blocks
from psibench.report.plots import draw_histogram, inline_svg, model_styles
from psibench.report.scored import Scored, score_context
from psibench.report.tables import (
    Block,
    Panel,
    Table,
    render,
    slug,
)
from psibench.report.training import TrainingTables, read_training, training_blocks
from psibench.report.views import (
    BenchmarkInfo,
    Headline,
    ModelInfo,
    PsiRows,
    headlines,
    simulation_note,
)
from psibench.report.wording import MISSING, count, statistic_text
from psibench.tables import read_provenance, read_table
from psibench.tables.atomic import write_text
from psibench.tables.derived import read_all
from psibench.tables.io import conform
from psibench.tables.provenance import now
from psibench.tables.schemas import (
    BUCKET_SCORES,
    COMPARISONS,
    POSITION_HISTOGRAM,
    PSI_TABLE,
    STATISTICS,
)
from psibench.tables.spec import POOLED, TableSpec
from psibench.tables.stage import stage

SPECS: Mapping[str, TableSpec] = {
    "psi_table": PSI_TABLE,
    "bucket_scores": BUCKET_SCORES,
    "statistics": STATISTICS,
    "position_histogram": POSITION_HISTOGRAM,
    "comparisons": COMPARISONS,
}
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


@dataclass(frozen=True)
class ReportInput:
    """All that is shown on one page.

    The frames follow `SPECS`; each may have no rows. ``created`` is printed as given. The order of
    ``benchmarks`` and ``models`` is the order on the page; ids that only the tables know follow
    in sorted order.

    ``views`` names, per benchmark, the ids of its views by sort: ``raw`` (before false negatives
    were removed) and ``tiny``. A view is shown beside its benchmark and has no section of its own.

    ``languages`` and ``summaries`` tell of language pairs, translations and domains; ``examples``
    are queries with their evidence; ``published`` and ``probes`` are the addresses of other pages,
    relative to this one, or empty; ``training`` is what training on distributions of positions did.
    """

    psi_table: pl.DataFrame
    bucket_scores: pl.DataFrame
    statistics: pl.DataFrame
    position_histogram: pl.DataFrame
    comparisons: pl.DataFrame = field(default_factory=pl.DataFrame)
    benchmarks: tuple[BenchmarkInfo, ...] = ()
    models: tuple[ModelInfo, ...] = ()
    generation: tuple[GenerationFacts, ...] = ()
    verification: tuple[VerificationFacts, ...] = ()
    views: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    languages: tuple[LanguageFacts, ...] = ()
    summaries: Summaries = field(default_factory=Summaries)
    examples: tuple[Example, ...] = ()
    published: str = ""
    probes: str = ""
    training: TrainingTables = field(default_factory=TrainingTables)
    provenance: Mapping[str, str] = field(default_factory=dict)
    title: str = "Position bias of retrievers"
    created: str = ""


@stage("report", version=5)
def run_report(
    *,
    psi_table: str | Path,
    bucket_scores: str | Path,
    comparisons: str | Path,
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
    summaries: Mapping[str, str],
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
    verification, languages, summaries, examples
        As `read_verification`, `read_languages`, `read_summaries` and `read_examples` take them.
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
    made_of = {"psibench": __version__, "rows of the PSI table": str(record.get("rows_hash", ""))}
    made_of["queries by"] = str(record.get("queries_by") or "not recorded")
    revisions = {name: str(value) for name, value in record.get("revisions", {}).items()}
    ledger = {"flow": flow, "usage": usage, "attrition": attrition}
    inputs = ReportInput(
        psi_table=table,
        bucket_scores=read_table(bucket_scores, BUCKET_SCORES),
        statistics=read_all(statistics, STATISTICS),
        position_histogram=read_all(histograms, POSITION_HISTOGRAM),
        comparisons=read_table(comparisons, COMPARISONS),
        benchmarks=tuple(
            benchmark_info(name, section, queries_by=authors.get(name, ""))
            for name, section in benchmarks.items()
        ),
        models=tuple(
            ModelInfo(name, entry.kind, entry.description, entry.control)
            for name, entry in models.items()
        ),
        generation=tuple(
            read_generation(
                generated,
                prices=prices,
                **{
                    name: dict(zip(benchmarks, map(str, paths), strict=True))
                    for name, paths in ledger.items()
                },
            )
        ),
        verification=tuple(read_verification(verification)),
        views=views,
        languages=tuple(read_languages(languages)),
        summaries=read_summaries(summaries),
        examples=tuple(read_examples(examples)),
        published="".join(published_page),
        probes="".join(probes_page),
        training=read_training(training),
        provenance=made_of | revisions,
        title=title,
        created=now(),
    )
    write_report(inputs, output)


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


def write_report(inputs: ReportInput, path: str | Path) -> None:
    """Write the page to ``path``, whole or not at all."""
    write_text(render_report(inputs), path)


def render_report(inputs: ReportInput) -> str:
    """Return the page as HTML: the same inputs give the same text.

    Tables without rows give a page that says so.

    Raises
    ------
    InputError
        If a frame does not follow its declared schema.
    """
    every = _each_table(inputs, _conformed)
    hidden = [name for ids in inputs.views.values() for name in ids.values()]
    shown = ~pl.col("benchmark").is_in(hidden)
    without_views = _each_table(every, lambda frame, _: frame.filter(shown)) if hidden else every
    return render("report.html", **_context(without_views, every.psi_table))


def _each_table(
    inputs: ReportInput, change: Callable[[pl.DataFrame, TableSpec], pl.DataFrame]
) -> ReportInput:
    """Return the same inputs with every table there is changed."""
    tables: Any = {name: change(getattr(inputs, name), spec) for name, spec in SPECS.items()}
    summaries = {
        name: change(frame, spec)
        for name, spec in SUMMARY_TABLES.items()
        if (frame := getattr(inputs.summaries, name)) is not None
    }
    return replace(inputs, **tables, summaries=replace(inputs.summaries, **summaries))


def _conformed(frame: pl.DataFrame, spec: TableSpec) -> pl.DataFrame:
    if frame.width == 0:
        return spec.empty()
    return pl.DataFrame(conform(frame, spec, where=f"report input {spec.name}"))


def _infos(inputs: ReportInput) -> tuple[list[BenchmarkInfo], list[ModelInfo]]:
    """Return every benchmark and model in page order; what only tables know with what they say."""
    known = {info.id: info for info in inputs.benchmarks}
    found = {
        one for name in SPECS if name != "comparisons" for one in getattr(inputs, name)["benchmark"]
    }
    benchmarks = [BenchmarkInfo(id=name, recipe="") for name in sorted(found - set(known))]
    models = {info.id: info for info in inputs.models}
    kinds = dict.fromkeys(inputs.bucket_scores["model"].unique(), "")
    kinds |= dict(inputs.psi_table.select("model", "kind").iter_rows())
    more = [ModelInfo(id=name, kind=kinds[name]) for name in sorted(kinds.keys() - set(models))]
    return [*known.values(), *benchmarks], [*models.values(), *more]


def _context(inputs: ReportInput, every: pl.DataFrame) -> dict[str, Any]:
    """Return what the template shows. Only SVG, style, script and JSON made here are unescaped.

    ``inputs`` are without views; ``every`` has the PSI rows of benchmarks and views.
    """
    benchmarks, models = _infos(inputs)
    languages = _languages(inputs.statistics)
    found = score_context(
        Scored(
            inputs.psi_table,
            inputs.bucket_scores,
            inputs.comparisons,
            benchmarks,
            models,
            languages,
            inputs.provenance,
            inputs.title,
            inputs.created,
        )
    )
    metric, styles = found["metric"], model_styles({model.id: model.control for model in models})
    pairs = [
        (
            info,
            pair_blocks(
                info,
                psi_table=inputs.psi_table,
                bucket_scores=inputs.bucket_scores,
                languages=_languages(inputs.statistics.filter(benchmark=info.id)),
                summaries=inputs.summaries,
                models=models,
                styles=styles,
                metric=metric,
            ),
        )
        for info in benchmarks
    ]
    known = PsiRows(every, metric, tuple(model.id for model in models), languages)
    return found | {
        "languages": [(info, blocks) for info, blocks in pairs if blocks],
        "leaderboards": leaderboard_table(inputs.summaries.leaderboards, benchmarks, metric=metric),
        "mitigations": mitigation_tables(inputs.summaries.mitigations, benchmarks, metric=metric),
        "data": _data(inputs, benchmarks, known),
        "training": training_blocks(inputs.training, benchmarks, metric=metric),
        "examples": example_section(inputs.examples, benchmarks),
        "published": inputs.published,
        "probes": inputs.probes,
    }


def _languages(statistics: pl.DataFrame) -> list[str]:
    """Return the languages of STATISTICS rows in their order."""
    return list(dict.fromkeys(statistics["language"]))


def _data(
    inputs: ReportInput, benchmarks: Sequence[BenchmarkInfo], psi_rows: PsiRows
) -> list[tuple[BenchmarkInfo, list[Block], list[Panel]]]:
    """Return each benchmark's tables and figures in page order, and its histograms."""
    order = psi_rows.languages
    leading = headlines(inputs.bucket_scores, order) | headlines(inputs.psi_table, order)
    facts = {fact.benchmark: fact for fact in inputs.languages}
    found = []
    for info in benchmarks:
        fact = facts.get(info.id, LanguageFacts(info.id))
        made = generation_tables(inputs.generation, info.id)
        views = inputs.views.get(info.id, {})
        # what there is, what came of the documents, what the filters did, how good the
        # translations are, then what the requests took
        blocks: list[Block] = [
            *_statistics_tables(inputs.statistics, info.id),
            *language_blocks(inputs.statistics, info, fact),
            *made[:1],
            *verification_blocks(inputs.verification, info, psi_rows=psi_rows, views=views),
            *quality_blocks(fact),
            *made[1:],
        ]
        histograms = _histograms(inputs.position_histogram, info.id, leading.get(info.id))
        found.append((info, blocks, histograms))
    return found


def _statistics_tables(statistics: pl.DataFrame, benchmark: str) -> list[Table]:
    """Return a benchmark's statistics: sizes, queries per bucket, and where evidence begins.

    Rows are language and domain in the order given, pooled ones first; names without a known
    meaning are shown as they are. What the tables of languages and domains show is left out. No
    rows give no table.
    """
    name = pl.col("statistic")
    elsewhere = name.is_in(DOMAIN_STATISTICS) | name.str.starts_with(QUERY_TYPE_PREFIX)
    mine = statistics.filter(pl.col("benchmark") == benchmark, ~elsewhere)
    values = {tuple(key): value for _, *key, value in mine.iter_rows()}
    groups = list(dict.fromkeys(mine.select("language", "domain").iter_rows()))
    groups.sort(key=lambda group: (group[0] != POOLED, group[1] != POOLED))
    tables = []
    for prefix, title in STATISTICS_TABLES.items():
        names = dict.fromkeys(mine["statistic"])
        chosen = [one for one in names if _prefix(one) == prefix]
        header = [statistic_text(one).removeprefix(prefix) for one in chosen]
        rows = []
        for group in groups:
            found = (values.get((*group, one)) for one in chosen)
            rows.append((*group, *(MISSING if value is None else count(value) for value in found)))
        if chosen:
            tables.append(Table(title, ("language", "domain", *header), tuple(rows)))
    return tables


def _prefix(statistic: str) -> str:
    """Return which of `STATISTICS_TABLES` a statistic is in."""
    return next((one for one in STATISTICS_TABLES if one and statistic.startswith(one)), "")


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
        edges = [(low, high) for low, high, _ in bins.iter_rows()]
        text = UNIT_TEXTS.get(unit, unit)
        drawn = draw_histogram(edges, list(bins["n_queries"]), x_text=text)
        caption = f"{count(int(bins['n_queries'].sum()))} queries by {text}"
        caption += "" if language == POOLED else f"; {language}"
        anchor, title = slug("histogram", benchmark, unit), f"Evidence positions in {benchmark}"
        svg = inline_svg(drawn, name=anchor, title=title, description=caption)
        found.append(Panel(svg, note=caption))
    return found
