"""Stage ``report``: the HTML page over the result tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from psibench import __version__
from psibench.config.benchmarks import Benchmark, SquadPosq
from psibench.config.models import ModelBase
from psibench.recipes.registry import QUERIES_BY
from psibench.report import BenchmarkInfo, ModelInfo, ReportInput, write_report
from psibench.stages.tables import read_all
from psibench.tables import read_provenance, read_table
from psibench.tables.provenance import now
from psibench.tables.schemas import BUCKET_SCORES, POSITION_HISTOGRAM, PSI_TABLE, STATISTICS

SIMULATED_NOTE = (
    "The queries are known-item queries drawn by a program from the evidence span itself "
    "(Azzopardi, de Rijke and Balog, SIGIR 2007), not written by people or a language model. "
    "They compare positions; being made of a passage's own words they favour lexical matching, so "
    "they do not compare models, and absolute scores say little about real users."
)


def run_report(
    *,
    psi_table: str | Path,
    bucket_scores: str | Path,
    statistics: Sequence[str | Path],
    histograms: Sequence[str | Path],
    benchmarks: Mapping[str, Benchmark],
    models: Mapping[str, ModelBase],
    title: str,
    output: str | Path,
) -> None:
    """Write the report."""
    inputs = ReportInput(
        psi_table=read_table(psi_table, PSI_TABLE),
        bucket_scores=read_table(bucket_scores, BUCKET_SCORES),
        statistics=read_all(statistics, STATISTICS),
        position_histogram=read_all(histograms, POSITION_HISTOGRAM),
        benchmarks=tuple(benchmark_info(name, section) for name, section in benchmarks.items()),
        models=tuple(
            ModelInfo(name, entry.kind, entry.description, entry.control)  # type: ignore[attr-defined]
            for name, entry in models.items()
        ),
        provenance=_facts(psi_table),
        title=title,
        created=now(),
    )
    write_report(inputs, output)


def benchmark_info(name: str, section: Benchmark) -> BenchmarkInfo:
    """Describe a benchmark for the report."""
    simulated = QUERIES_BY[section.recipe] == "simulation"
    return BenchmarkInfo(
        id=name,
        recipe=section.recipe,
        subset=section.subset if isinstance(section, SquadPosq) else "",
        description=section.description,
        simulated=simulated,
        note=SIMULATED_NOTE if simulated else "",
    )


def _facts(psi_table: str | Path) -> dict[str, str]:
    """Name what a reader needs to make the same page again."""
    record = read_provenance(psi_table) or {}
    facts = {"psibench": __version__, "rows of the PSI table": str(record.get("rows_hash", ""))}
    facts["queries by"] = str(record.get("queries_by") or "not recorded")
    return facts | {name: str(value) for name, value in record.get("revisions", {}).items()}
