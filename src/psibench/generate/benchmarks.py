"""Config sections of benchmarks of any recipe, and their places and views.

A place is one domain in one language, with its source of text. A view is a variant of a benchmark
with other queries or documents, evaluated under another id.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from psibench.config.sources import (
    BeirSource,
    DocumentSource,
    FarRelevantSource,
    PosirReleaseSource,
    QuestionSource,
)
from psibench.generate.base import GeneratedBenchmark, QuestionCorpus, TextCorpus
from psibench.generate.controlled import Controlled
from psibench.generate.fineweb_posq import FinewebPosq
from psibench.generate.loaders.beir import Beir
from psibench.generate.loaders.colder import Colder
from psibench.generate.loaders.documents import DocumentsBenchmark
from psibench.generate.loaders.far_relevant import FarRelevant
from psibench.generate.loaders.fineweb_posq_release import FinewebPosqRelease
from psibench.generate.loaders.known_item import KnownItem
from psibench.generate.loaders.posir_release import PosirRelease
from psibench.generate.loaders.squad_posq import SquadPosq
from psibench.generate.posir import Posir
from psibench.generate.sampling import Passages
from psibench.tables.slices import Slice

Benchmark = Annotated[
    Beir
    | Colder
    | DocumentsBenchmark
    | FarRelevant
    | FinewebPosqRelease
    | KnownItem
    | PosirRelease
    | SquadPosq
    | FinewebPosq
    | Posir
    | Controlled,
    Field(discriminator="recipe"),
]


def parse_benchmark(section: Mapping[str, Any]) -> Benchmark:
    """Return a benchmark's section from plain data, as a job receives it."""
    parsed: Benchmark = TypeAdapter(Benchmark).validate_python(section)
    return parsed


# Places

BenchmarkSource = (
    DocumentSource | QuestionSource | PosirReleaseSource | BeirSource | FarRelevantSource
)


@dataclass(frozen=True)
class Place:
    """One domain in one language; ``key`` is the config key of its source in the section."""

    language: str
    domain: str
    source: BenchmarkSource
    passages: Passages | None
    key: str


def places_of(section: Benchmark) -> list[Place]:
    """List the places that a benchmark is read from, in order, without translations.

    Raises
    ------
    InputError
        If the folders of a release cannot be listed.
    """
    if isinstance(section, PosirRelease):
        named = section.languages_and_domains()
        return [Place(*one, section.source, None, "source") for one in named]
    passages: Passages | None = getattr(section, "passages", None)
    corpora: Sequence[TextCorpus | QuestionCorpus] | None = getattr(section, "corpora", None)
    if corpora is None:
        assert section.source is not None
        return [Place(section.language, section.domain, section.source, passages, "source")]
    return [
        Place(
            corpus.language or section.language,
            corpus.domain,
            corpus.source,
            (isinstance(corpus, TextCorpus) and corpus.passages) or passages,
            f"corpora.{number}.source",
        )
        for number, corpus in enumerate(corpora)
    ]


DOCUMENTS_PER_PART = 150_000
"""Documents that one job holds in memory: at 1,300 tokens each, 0.8 GB of text."""
RELEASE_DOMAINS_PER_PART = 3
"""Domains of PosIR's release per job: a domain has on average 56,000 documents (17.3 million in
310)."""


def parts_of(section: "Benchmark", domains: Sequence[str]) -> dict[str, list[str]]:
    """Assign the domains of a language to jobs, in order.

    Returns
    -------
    Path suffix after the language -> its domains. The suffix is ``""`` if one job has all domains,
    else ``/1-of-2``, ``/2-of-2``.
    """
    count = section.parts
    if count is None and isinstance(section, PosirRelease):
        count = -(-len(domains) // RELEASE_DOMAINS_PER_PART)
    if count is None:
        sample = getattr(section, "sample", None)
        drawn = getattr(sample, "n_documents", None) or 0
        each = max(1, DOCUMENTS_PER_PART // drawn) if drawn else max(1, len(domains))
        count = -(-len(domains) // each)
    count = max(1, min(count, len(domains)))
    return {one.folder: one.cut(domains) for one in Slice.every(count)}


def section_at(section: Benchmark, place: Place) -> Benchmark:
    """Return a benchmark's section reduced to one place, without translations or pairs."""
    changed: dict[str, object] = {
        "language": place.language,
        "domain": place.domain,
        "source": place.source,
        "translate": None,
        "cross_lingual": None,
    }
    if isinstance(section, PosirRelease):
        changed |= {"languages": [place.language], "domains": [place.domain]}
    else:
        if hasattr(section, "corpora"):
            changed["corpora"] = None
        if hasattr(section, "passages"):
            changed["passages"] = place.passages
    return section.model_copy(update=changed)


# Views

RAW_VIEW, TINY_VIEW = "raw", "tiny"
"""Views: before false negatives were removed; a small subset."""


def view_id(benchmark: str, view: str) -> str:
    """Return the id under which a view of a benchmark is evaluated."""
    return f"{benchmark}-{view}"


def view_names(section: Benchmark) -> Iterator[str]:
    """Yield the views that a benchmark has."""
    if not isinstance(section, GeneratedBenchmark):
        return
    if section.false_negatives is not None:
        yield RAW_VIEW
    if section.tiny is not None:
        yield TINY_VIEW


def evaluated_views(section: Benchmark) -> list[str]:
    """List the views that have rows in the result tables."""
    negatives = section.false_negatives if isinstance(section, GeneratedBenchmark) else None
    is_raw_left_out = negatives is not None and not negatives.evaluate_raw
    return [view for view in view_names(section) if view != RAW_VIEW or not is_raw_left_out]
