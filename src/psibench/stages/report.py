"""Stage ``report``: the HTML page over the result tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from psibench import __version__
from psibench.build.pooled_tables import pool_flow, pool_usage
from psibench.config.benchmarks import Benchmark, GeneratedBenchmark, SquadPosq
from psibench.config.corpora import POOLED
from psibench.config.llms import STAND_IN_PREFIX, Price, price_of
from psibench.config.models import ModelBase
from psibench.config.verification import VerifyMargin
from psibench.errors import InputError
from psibench.llm.usage import Usage
from psibench.report.examples import Example
from psibench.report.facts import LanguageFacts, Summaries
from psibench.report.generation import GenerationFacts
from psibench.report.html import write_report
from psibench.report.inputs import BenchmarkInfo, ModelInfo, ReportInput
from psibench.report.verification import VerificationFacts
from psibench.stages.tables import read_all
from psibench.tables import read_provenance, read_table
from psibench.tables.build_schemas import FLOW, LLM_USAGE
from psibench.tables.provenance import now
from psibench.tables.schemas import (
    ATTRITION,
    BUCKET_SCORES,
    COMPARISONS,
    POSITION_HISTOGRAM,
    PSI_TABLE,
    STATISTICS,
)

KNOWN_ITEM_NOTE = (
    "The queries are known-item queries drawn by a program from the evidence span itself "
    "(Azzopardi, de Rijke and Balog, SIGIR 2007), not written by people or a language model. "
    "They compare positions; being made of a passage's own words they favour lexical matching, so "
    "they do not compare models, and absolute scores say little about real users."
)
STAND_IN_NOTE = (
    "A rule-based stand-in answered in place of a language model, through the same requests: its "
    "queries are words of one sentence each. They compare positions; being made of a passage's "
    "own words they favour lexical matching, so they do not compare models. Name a language model "
    "in the benchmark's tasks to have real queries."
)


def run_report(
    *,
    psi_table: str | Path,
    bucket_scores: str | Path,
    comparisons: str | Path,
    statistics: Sequence[str | Path],
    histograms: Sequence[str | Path],
    generation: Sequence[GenerationFacts],
    benchmarks: Mapping[str, Benchmark],
    models: Mapping[str, ModelBase],
    title: str,
    output: str | Path,
    verification: Sequence[VerificationFacts] = (),
    views: Mapping[str, Mapping[str, str]] | None = None,
    languages: Sequence[LanguageFacts] = (),
    summaries: Summaries | None = None,
    examples: Sequence[Example] = (),
    published: str = "",
) -> None:
    """Write the report.

    Parameters
    ----------
    verification
        As `psibench.stages.report_verification.read_verification` returns it.
    views
        Per benchmark the ids of its views by sort, ``raw`` and ``tiny``, those that exist.
    languages, summaries, examples
        As the functions of `psibench.stages.report_languages` return them.
    published
        Address of the page of published figures, relative to ``output``; empty: no link.
    """
    table = read_table(psi_table, PSI_TABLE)
    authors = dict(table.select("benchmark", "queries_by").iter_rows())
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
        models=tuple(_model_info(name, entry) for name, entry in models.items()),
        generation=tuple(generation),
        verification=tuple(verification),
        views=views or {},
        languages=tuple(languages),
        summaries=summaries or Summaries(),
        examples=tuple(examples),
        published=published,
        provenance=_facts(psi_table),
        title=title,
        created=now(),
    )
    write_report(inputs, output)


def benchmark_info(name: str, section: Benchmark, *, queries_by: str) -> BenchmarkInfo:
    """Describe a benchmark for the report; ``queries_by`` is what its tables say."""
    note = KNOWN_ITEM_NOTE if queries_by == "simulation" else ""
    if f"llm:{STAND_IN_PREFIX}" in queries_by:
        note = STAND_IN_NOTE
    generated = section if isinstance(section, GeneratedBenchmark) else None
    verify = generated.verify if generated else None
    return BenchmarkInfo(
        id=name,
        recipe=section.recipe,
        subset=section.subset if isinstance(section, SquadPosq) else "",
        description=section.description,
        simulated=bool(note),
        note=note,
        length_unit=generated.sample.unit if generated and generated.sample else "",
        margin_threshold=verify.threshold if isinstance(verify, VerifyMargin) else None,
    )


def _model_info(name: str, entry: ModelBase) -> ModelInfo:
    return ModelInfo(name, entry.kind, entry.description, entry.control)  # type: ignore[attr-defined]


def read_generation(
    labels: Sequence[Mapping[str, str]],
    *,
    flow: Sequence[str | Path],
    usage: Sequence[str | Path],
    dropped: Sequence[str | Path],
    prices: Mapping[str, Any],
) -> list[GenerationFacts]:
    """Read how queries came about, language by language; ``labels`` name the domains.

    ``prices`` is a price table as plain data: what a run cost is told at the config's prices.
    """
    table = {name: Price.model_validate(entry) for name, entry in prices.items()}
    groups: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for name, *paths in zip(labels, flow, usage, dropped, strict=True):
        place = (name["benchmark"], name["lang"])
        groups.setdefault(place, []).append((name["domain"], *map(str, paths)))
    return [
        _generation_facts(benchmark, language, rows, table)
        for (benchmark, language), rows in groups.items()
    ]


def _generation_facts(
    benchmark: str, language: str, rows: Sequence[tuple[str, ...]], prices: Mapping[str, Price]
) -> GenerationFacts:
    """Read the tables of one language; those of several domains are added up."""
    domains, flow, usage, dropped = zip(*rows, strict=True)
    left_out = pl.concat(
        [read_table(path, ATTRITION).select("stage", "unit", "reason") for path in dropped]
    )
    return GenerationFacts(
        benchmark=benchmark,
        language=language,
        domain=domains[0] if len(domains) == 1 else POOLED,
        flow=pool_flow([read_table(path, FLOW) for path in flow]),
        usage=_with_money(pool_usage([read_table(path, LLM_USAGE) for path in usage]), prices),
        dropped=left_out.group_by("stage", "unit", "reason", maintain_order=True).agg(
            pl.len().alias("n_items")
        ),
    )


def _with_money(usage: pl.DataFrame, prices: Mapping[str, Price]) -> pl.DataFrame:
    money = [_money(row, prices) for row in usage.iter_rows(named=True)]
    schema = {"usd": pl.Float64, "estimated_usd": pl.Float64, "price_as_of": pl.String}
    return pl.concat([usage, pl.DataFrame(money, schema=schema)], how="horizontal")


def _money(row: Mapping[str, Any], prices: Mapping[str, Price]) -> dict[str, Any]:
    """Return what a task cost and was estimated to cost; nothing without a price."""
    try:
        price = price_of(row["model"], prices)
    except InputError:
        return {"usd": None, "estimated_usd": None, "price_as_of": ""}
    is_batch = row["backend"] == "openai-batch"
    used = Usage(row["input_tokens"], row["output_tokens"], row["cached_input_tokens"])
    expected = Usage(row["estimated_input_tokens"], row["estimated_output_tokens"])
    return {
        "usd": price.cost(used, is_batch=is_batch),
        "estimated_usd": price.cost(expected, is_batch=is_batch),
        "price_as_of": price.as_of.isoformat(),
    }


def _facts(psi_table: str | Path) -> dict[str, str]:
    """Name what a reader needs to make the same page again."""
    record = read_provenance(psi_table) or {}
    facts = {"psibench": __version__, "rows of the PSI table": str(record.get("rows_hash", ""))}
    facts["queries by"] = str(record.get("queries_by") or "not recorded")
    return facts | {name: str(value) for name, value in record.get("revisions", {}).items()}
