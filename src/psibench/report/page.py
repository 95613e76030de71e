"""Stage ``report``: one self-contained HTML file of the result tables.

The stage reads the data once; `scores`, `languages`, `filters` and `examples` build the sections
of the page, and ``templates/report.html`` combines them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from psibench.report.beside import Reference, beside_panel, read_references
from psibench.report.examples import read_examples
from psibench.report.filters import (
    FilterFacts,
    generation_tables,
    read_generation,
    read_verification,
    verification_tables,
)
from psibench.report.languages import (
    LanguageTables,
    language_blocks,
    pair_tables,
    quality_blocks,
    read_languages,
)
from psibench.report.plots import as_image, draw_histogram
from psibench.report.scores import Scored, score_context
from psibench.report.tables import FigureView, PageBlock, Panel, Table, render_page, table_of
from psibench.report.training import training_figures
from psibench.report.views import BenchmarkInfo, ModelInfo, simulation_note
from psibench.report.wording import STATISTIC_TEXTS, count
from psibench.tables import read_provenance, read_table
from psibench.tables.atomic import write_text
from psibench.tables.build_schemas import FLOW
from psibench.tables.domains import by_place
from psibench.tables.job import Job
from psibench.tables.ledger import uneven_cells
from psibench.tables.provenance import now
from psibench.tables.schemas import (
    ATTRITION,
    BUCKET_SCORES,
    POSITION_HISTOGRAM,
    PSI_TABLE,
    STATISTICS,
)
from psibench.tables.spec import ALL
from psibench.tables.stage import stage
from psibench.train.results import TRAINING_TABLE

STATISTICS_TABLES = {
    "": "Sizes",
    "bucket:": "Queries per bucket",
    START_PREFIX: "Start of the evidence: mean of start / length, and shares by third",
}
"""Title of a statistics table, by the prefix of its statistics' names."""
UNIT_TEXTS = {
    "start_char": "start of the evidence, characters",
    "relative": "middle of the evidence / length of the passage",
}


@dataclass(frozen=True, kw_only=True)
class ReportInput(Scored):
    """The content of the page: scores, and descriptions of the data.

    The frames follow their schemas and may be empty. The page has the order of ``benchmarks`` and
    ``models``, and leaves out rows of other benchmarks (e.g. views).

    ``languages`` has tables by benchmark and name, ``generation`` tables of all benchmarks by name,
    ``training`` TRAINING_TABLE rows, ``examples`` the result of `read_examples`, ``references``
    published tables for comparison, and ``links`` the names of other pages by relative address.
    """

    statistics: pl.DataFrame
    position_histogram: pl.DataFrame
    generation: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    left_out: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """Rows of `uneven_cells` by benchmark."""
    verification: Sequence[FilterFacts] = ()
    languages: Mapping[str, LanguageTables] = field(default_factory=dict)
    training: pl.DataFrame = field(default_factory=TRAINING_TABLE.empty)
    examples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    references: Sequence[Reference] = ()
    links: Mapping[str, str] = field(default_factory=dict)


@stage("report", version=12)
def run_report(job: Job) -> None:
    """Write the report.

    Inputs: ``psi_table`` and ``bucket_scores``; ``statistics`` and ``histograms``; ``flow``,
    ``usage`` and ``attrition`` of each benchmark in the order of ``benchmarks``; ``training``, a
    TRAINING_TABLE; ``published``, the files of the references.

    The values ``verification``, ``languages``, ``examples`` and ``references`` go to
    `read_verification`, `read_languages`, `read_examples` and `read_references`. ``links`` has the
    names of other pages by address, ``notice`` the first text of the page.
    """
    table, benchmarks = (
        job.read("psi_table", PSI_TABLE),
        job.value("benchmarks", dict[str, Benchmark]),
    )
    authors = dict(table.select("benchmark", "queries_by").iter_rows())
    record = read_provenance(job.path("psi_table")) or {}
    made_of = {"rows of the PSI table": str(record.get("rows_hash", ""))}
    made_of["queries by"] = str(record.get("queries_by") or "not recorded")
    made_of |= {name: str(value) for name, value in record.get("revisions", {}).items()}
    ledger = {
        name: dict(zip(benchmarks, job.paths(name), strict=True))
        for name in ("flow", "usage", "attrition")
    }
    generation = read_generation(**ledger)
    counted = job.read("statistics", STATISTICS)
    inputs = ReportInput(
        psi_table=table,
        bucket_scores=job.read("bucket_scores", BUCKET_SCORES),
        statistics=counted,
        position_histogram=job.read("histograms", POSITION_HISTOGRAM),
        benchmarks=[
            benchmark_info(name, section, queries_by=authors.get(name, ""))
            for name, section in benchmarks.items()
        ],
        models=[
            ModelInfo(name, entry.kind, entry.description, entry.control)
            for name, entry in job.value("models", dict[str, Model]).items()
        ],
        generation=generation,
        left_out={
            name: uneven_cells(
                counted.filter(benchmark=name),
                read_table(ledger["flow"][name], by_place(FLOW)),
                read_table(ledger["attrition"][name], ATTRITION),
            )
            for name in benchmarks
        },
        verification=read_verification(
            job.value("verification"), flow=generation["flow"], attrition=ledger["attrition"]
        ),
        languages=read_languages(job.value("languages")),
        examples=read_examples(job),
        references=read_references(job.value("references"), job.paths("published")),
        links=job.value("links"),
        training=job.read("training", TRAINING_TABLE),
        provenance=made_of,
        title=job.value("title"),
        notice=job.value("notice", default=""),
        created=now(),
    )
    write_text(render_report(inputs), str(job.outputs["page"]))


def benchmark_info(name: str, section: Benchmark, *, queries_by: str) -> BenchmarkInfo:
    """Return the description of a benchmark; ``queries_by`` has the recorded authors."""
    generated = section if isinstance(section, GeneratedBenchmark) else None
    verify = generated.verify if generated else None
    return BenchmarkInfo(
        id=name,
        recipe=section.recipe,
        subset=section.subset if isinstance(section, SquadPosq | FinewebPosqRelease) else "",
        description=section.description,
        note=simulation_note(queries_by),
        length_unit=generated.sample.unit if generated and generated.sample else "",
        margin_threshold=verify.threshold if isinstance(verify, VerifyMargin) else None,
    )


def render_report(inputs: ReportInput) -> str:
    """Return the page as HTML; the same inputs give the same text.

    The page names tables without rows.
    """
    ids = [info.id for info in inputs.benchmarks]
    tables = ("psi_table", "bucket_scores", "statistics", "position_histogram")
    shown: dict[str, Any] = {
        name: getattr(inputs, name).filter(pl.col("benchmark").is_in(ids)) for name in tables
    }
    inputs = replace(inputs, **shown)
    benchmarks, found = inputs.benchmarks, score_context(inputs)
    metric = found["metric"]
    pairs = [(info, pair_tables(info, inputs.psi_table, metric=metric)) for info in benchmarks]
    found |= {
        "languages": [two for two in pairs if two[1]],
        "data": [(info, _data(inputs, info)) for info in benchmarks],
        "training": training_figures(inputs.training, benchmarks, metric=metric),
        "examples": inputs.examples,
        "links": inputs.links.items(),
    }
    return render_page("report.html", **found)


def _data(inputs: ReportInput, info: BenchmarkInfo) -> list[PageBlock]:
    """Return a benchmark's tables and figures in page order."""
    tables = inputs.languages.get(info.id, {})
    made = generation_tables(inputs.generation, info.id)
    # sizes, generated queries, filters, quality of translations, then requests
    return [
        *_statistics_tables(inputs.statistics, info.id),
        *_left_out(inputs.left_out.get(info.id)),
        *_histograms(inputs.position_histogram.filter(benchmark=info.id)),
        *language_blocks(inputs.statistics, info, tables, inputs.references),
        *made[:1],
        *verification_tables(inputs.verification, info, inputs.references),
        *quality_blocks(tables, beside_panel(inputs.references, "agreement", info.recipe)),
        *made[1:],
    ]


def _left_out(cells: pl.DataFrame | None) -> list[Table]:
    if cells is None or cells.is_empty():
        return []
    title = "Left out of all results: rows over all domains and averages do not include these"
    return [table_of(title, cells, prose=(2,))]


def _statistics_tables(statistics: pl.DataFrame, benchmark: str) -> list[Table]:
    """Return a benchmark's tables of sizes, queries per bucket, and start of the evidence.

    Rows are languages and domains, pooled rows first. Statistics of the tables of languages and
    domains are left out. A table without rows is left out.
    """
    name = pl.col("statistic")
    elsewhere = name.is_in(DOMAIN_STATISTICS) | name.str.starts_with(QUERY_TYPE_PREFIX)
    mine = statistics.filter(pl.col("benchmark") == benchmark, ~elsewhere).sort(
        pl.col("language") != ALL, pl.col("domain") != ALL, maintain_order=True
    )
    tables = []
    for prefix, title in STATISTICS_TABLES.items():
        others = [one for one in STATISTICS_TABLES if one != prefix]
        is_mine = pl.lit(True) if prefix else ~pl.any_horizontal(*map(name.str.starts_with, others))
        rows = mine.filter(name.str.starts_with(prefix), is_mine).with_columns(
            name.replace(STATISTIC_TEXTS).str.strip_prefix(prefix)
        )
        shown = rows.pivot("statistic", index=["language", "domain"], values="value")
        forms = dict.fromkeys(shown.columns[2:], count)
        tables += [table_of(title, shown, forms=forms)] if shown.height else []
    return tables


def _histograms(table: pl.DataFrame) -> list[FigureView]:
    """Return a histogram of evidence positions per unit, for the language with most queries."""
    found = []
    for (unit,), rows in table.sort("unit", descending=True).group_by("unit", maintain_order=True):
        sizes = rows.group_by("language").agg(pl.col("n_queries").sum())
        language = sizes.sort("n_queries", "language", descending=[True, False])["language"][0]
        is_of_all = pl.col("domain") == ALL
        rows = rows.filter(is_of_all | ~is_of_all.any(), language=language)
        bins = rows.group_by("bin_low", "bin_high").agg(pl.col("n_queries").sum()).sort("bin_low")
        text = UNIT_TEXTS.get(str(unit), str(unit))
        caption = f"{count(sum(bins['n_queries']))} queries by {text}; {language}"
        drawn = draw_histogram(bins, x_text=text)
        found.append(FigureView("Position of the evidence", caption, (Panel(as_image(drawn)),)))
    return found
