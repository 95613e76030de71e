"""The places of a benchmark: its languages and domains, each with the text it is made of."""

from collections.abc import Sequence
from dataclasses import dataclass

from psibench.config.benchmarks import Benchmark, PosirRelease
from psibench.config.corpora import Corpus, QuestionCorpus
from psibench.config.release import PosirReleaseSource
from psibench.config.sources import DocumentSource, QuestionSource
from psibench.errors import InputError
from psibench.generate.sampling import Passages

Source = DocumentSource | QuestionSource | PosirReleaseSource


@dataclass(frozen=True)
class Place:
    """One domain in one language.

    Attributes
    ----------
    key
        Where in the benchmark's section its source is given.
    """

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
        return _release_places(section)
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


def section_at(section: Benchmark, place: Place) -> Benchmark:
    """Return a benchmark's section as if one place were all of it, and nothing else made of it."""
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


def _release_places(section: PosirRelease) -> list[Place]:
    from psibench.formats.posir import discover

    languages, domains = section.languages, section.domains
    if languages is not None and domains is not None:
        named = {language: list(domains) for language in languages}
    else:
        found = discover(section.source.path)
        _refuse_absent("languages", languages, list(found))
        _refuse_absent("domains", domains, [name for own in found.values() for name in own])
        named = {
            language: [name for name in own if domains is None or name in domains]
            for language, own in found.items()
            if languages is None or language in languages
        }
    return [
        Place(language, domain, section.source, None, "source")
        for language, own in named.items()
        for domain in own
    ]


def _refuse_absent(key: str, wanted: Sequence[str] | None, found: Sequence[str]) -> None:
    absent = [name for name in wanted or () if name not in found]
    if absent:
        there = ", ".join(dict.fromkeys(found)) or "none"
        raise InputError(f"no {key} {', '.join(absent)} in the release; it has {there}")
