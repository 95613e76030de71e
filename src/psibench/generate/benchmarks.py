"""A benchmark's config section, whatever its recipe, and what follows from it: places and views.

A place is one domain in one language, with the text it is made of. A view is another cut of a
benchmark's queries or documents, evaluated under an id of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from psibench.config.sources import BeirSource, DocumentSource, PosirReleaseSource, QuestionSource
from psibench.generate.base import Corpus, GeneratedBenchmark, QuestionCorpus
from psibench.generate.controlled import Controlled
from psibench.generate.fineweb_posq import FinewebPosq
from psibench.generate.loaders.beir import Beir
from psibench.generate.loaders.colder import Colder
from psibench.generate.loaders.documents import Documents
from psibench.generate.loaders.fineweb_posq_release import FinewebPosqRelease
from psibench.generate.loaders.known_item import KnownItem
from psibench.generate.loaders.posir_release import PosirRelease
from psibench.generate.loaders.squad_posq import SquadPosq
from psibench.generate.posir import Posir
from psibench.generate.sampling import Passages
from psibench.tables.slices import Slice

GENERATED_RECIPES: dict[str, type[GeneratedBenchmark]] = {
    "fineweb_posq": FinewebPosq,
    "posir": Posir,
    "controlled": Controlled,
}
Benchmark = Annotated[
    Beir
    | Colder
    | Documents
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
    """Make a benchmark section from plain data, as a job receives it."""
    parsed: Benchmark = TypeAdapter(Benchmark).validate_python(section)
    return parsed


# Places

Source = DocumentSource | QuestionSource | PosirReleaseSource | BeirSource


@dataclass(frozen=True)
class Place:
    """One domain in one language; ``key`` is where in the section its source is given."""

    language: str
    domain: str
    source: Source
    passages: Passages | None
    key: str


def places_of(section: Benchmark) -> list[Place]:
    """List the places a benchmark is read from, in order; translations are not among them.

    Raises
    ------
    InputError
        If the folders of a release have to be looked at and cannot be.
    """
    if isinstance(section, PosirRelease):
        named = section.languages_and_domains()
        return [Place(*one, section.source, None, "source") for one in named]
    passages: Passages | None = getattr(section, "passages", None)
    corpora: Sequence[Corpus | QuestionCorpus] | None = getattr(section, "corpora", None)
    if corpora is None:
        assert section.source is not None
        return [Place(section.language, section.domain, section.source, passages, "source")]
    return [
        Place(
            corpus.language or section.language,
            corpus.domain,
            corpus.source,
            (isinstance(corpus, Corpus) and corpus.passages) or passages,
            f"corpora.{number}.source",
        )
        for number, corpus in enumerate(corpora)
    ]


DOCUMENTS_PER_PART = 150_000
"""Of 1,300 tokens each they are 0.8 GB of text: what a job of some gigabytes can hold."""
RELEASE_DOMAINS_PER_PART = 3
"""Of PosIR's release: a domain has 56,000 documents in the mean (17.3 million in 310)."""


def parts_of(section: "Benchmark", domains: Sequence[str]) -> dict[str, list[str]]:
    """Cut the domains of a language into the parts that jobs go through, in order.

    Returns
    -------
    What comes after the language in the paths of a part -> its domains: ``""`` where one job has
    them all, else ``/1-of-2``, ``/2-of-2``.
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
    """Return a benchmark's section with one place alone, without translations or pairs."""
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

RAW, TINY = "raw", "tiny"
"""Before false negatives were removed; a small subset."""


def view_id(benchmark: str, view: str) -> str:
    """Return the id under which a view of a benchmark is evaluated."""
    return f"{benchmark}-{view}"


def view_names(section: Benchmark) -> Iterator[str]:
    """Yield the views that a benchmark has."""
    if not isinstance(section, GeneratedBenchmark):
        return
    if section.false_negatives is not None:
        yield RAW
    if section.tiny is not None:
        yield TINY


def evaluated_views(section: Benchmark) -> list[str]:
    """List the views that have rows in the result tables."""
    negatives = section.false_negatives if isinstance(section, GeneratedBenchmark) else None
    is_raw_left_out = negatives is not None and not negatives.evaluate_raw
    return [view for view in view_names(section) if view != RAW or not is_raw_left_out]
