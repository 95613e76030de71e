"""What a report is made of: declared tables and the facts they do not carry."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import polars as pl

from psibench.report.facts import LanguageFacts, Summaries
from psibench.tables.io import conform
from psibench.tables.schemas import (
    BUCKET_SCORES,
    COMPARISONS,
    POSITION_HISTOGRAM,
    PSI_TABLE,
    STATISTICS,
    TableSpec,
)

if TYPE_CHECKING:
    from psibench.report.examples import Example
    from psibench.report.generation import GenerationFacts
    from psibench.report.verification import VerificationFacts

Control = Literal["position-blind", "truncating"]


@dataclass(frozen=True)
class BenchmarkInfo:
    """One benchmark: what it is, and whether anything in it was simulated.

    ``recipe`` and ``subset`` decide which figures apply (``squad_posq`` in two subsets gives the
    comparison of the full set with the tiny one); ``note`` says what was simulated and how.
    ``length_unit`` is what length bins count, ``margin_threshold`` the margin that queries were
    kept from; both as far as they apply.
    """

    id: str
    recipe: str
    subset: str = ""
    description: str = ""
    simulated: bool = False
    note: str = ""
    length_unit: str = ""
    margin_threshold: float | None = None


@dataclass(frozen=True)
class ModelInfo:
    """One model: its kind, what it is, and which of the two controls it is, if any."""

    id: str
    kind: str
    description: str = ""
    control: Control | None = None


@dataclass(frozen=True)
class ReportInput:
    """All that is shown on one page.

    The frames follow ``PSI_TABLE``, ``BUCKET_SCORES``, ``STATISTICS``, ``POSITION_HISTOGRAM`` and
    ``COMPARISONS``; each may have no rows. ``created`` is printed as given. The order of
    ``benchmarks`` and ``models`` is the order on the page; ids that only the tables know follow
    in sorted order.

    ``views`` names, per benchmark, the ids of its views by sort: ``raw`` (before false negatives
    were removed) and ``tiny``. A view is shown beside its benchmark and has no section of its own.

    ``languages`` and ``summaries`` tell of language pairs, translations and domains; ``examples``
    are queries with their evidence; ``published`` is the address of the page of published figures,
    relative to this one, or empty.
    """

    psi_table: pl.DataFrame
    bucket_scores: pl.DataFrame
    statistics: pl.DataFrame
    position_histogram: pl.DataFrame
    comparisons: pl.DataFrame = field(default_factory=pl.DataFrame)
    benchmarks: tuple[BenchmarkInfo, ...] = ()
    models: tuple[ModelInfo, ...] = ()
    generation: tuple["GenerationFacts", ...] = ()
    verification: tuple["VerificationFacts", ...] = ()
    views: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    languages: tuple[LanguageFacts, ...] = ()
    summaries: Summaries = field(default_factory=Summaries)
    examples: tuple["Example", ...] = ()
    published: str = ""
    provenance: Mapping[str, str] = field(default_factory=dict)
    title: str = "Position bias of retrievers"
    created: str = ""


def checked(inputs: ReportInput) -> ReportInput:
    """Return the same inputs with every frame cast to its declared schema.

    Raises
    ------
    InputError
        If a frame with rows lacks a column, has one too many, or has one of another type.
    """
    return replace(
        inputs,
        psi_table=_conformed(inputs.psi_table, PSI_TABLE),
        bucket_scores=_conformed(inputs.bucket_scores, BUCKET_SCORES),
        statistics=_conformed(inputs.statistics, STATISTICS),
        position_histogram=_conformed(inputs.position_histogram, POSITION_HISTOGRAM),
        comparisons=_conformed(inputs.comparisons, COMPARISONS),
        summaries=inputs.summaries.checked(),
    )


def without_views(inputs: ReportInput) -> ReportInput:
    """Return the same inputs with the rows of the views left out of every table."""
    hidden = {name for ids in inputs.views.values() for name in ids.values()}
    if not hidden:
        return inputs
    shown = ~pl.col("benchmark").is_in(hidden)
    return replace(
        inputs,
        psi_table=inputs.psi_table.filter(shown),
        bucket_scores=inputs.bucket_scores.filter(shown),
        statistics=inputs.statistics.filter(shown),
        position_histogram=inputs.position_histogram.filter(shown),
        comparisons=inputs.comparisons.filter(shown),
        summaries=inputs.summaries.without(sorted(hidden)),
    )


def _conformed(frame: pl.DataFrame, spec: TableSpec) -> pl.DataFrame:
    if frame.width == 0:
        return pl.DataFrame(spec.schema.empty_table())
    return pl.DataFrame(conform(frame, spec, where=f"report input {spec.name}"))


def benchmark_infos(inputs: ReportInput) -> tuple[BenchmarkInfo, ...]:
    """Return every benchmark of the page, in page order; unknown ones with their id only."""
    known = {info.id: info for info in inputs.benchmarks}
    found = set(inputs.psi_table["benchmark"]) | set(inputs.bucket_scores["benchmark"])
    found |= set(inputs.statistics["benchmark"]) | set(inputs.position_histogram["benchmark"])
    extra = tuple(BenchmarkInfo(id=name, recipe="") for name in sorted(found - set(known)))
    return tuple(known.values()) + extra


def model_infos(inputs: ReportInput) -> tuple[ModelInfo, ...]:
    """Return every model of the page, in page order; unknown ones with the table's kind."""
    known = {info.id: info for info in inputs.models}
    kinds = dict(inputs.psi_table.select("model", "kind").iter_rows())
    kinds = dict.fromkeys(inputs.bucket_scores["model"].unique(), "") | kinds
    extra = tuple(ModelInfo(id=n, kind=kinds[n]) for n in sorted(kinds.keys() - set(known)))
    return tuple(known.values()) + extra
