"""Config of where a benchmark's text comes from: one corpus, or several domains and languages."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator

from psibench.config.base import Id, Language, Section
from psibench.config.sources import DocumentSource, QuestionSource
from psibench.generate.sampling import Passages
from psibench.tables.spec import POOLED


def _refuse_pooled(domain: str) -> str:
    if domain == POOLED:
        raise ValueError("'all' stands for all domains together; use another name")
    return domain


Domain = Annotated[Id, AfterValidator(_refuse_pooled)]


class Corpus(Section):
    """Text of one domain in one language."""

    domain: Domain
    """Name of the domain; a folder in results/."""
    language: Language | None = None
    """Language and script; null takes the benchmark's."""
    source: DocumentSource
    passages: Passages | None = None
    """Cut long documents into passages; without it a document is taken whole."""


class QuestionCorpus(Section):
    """Questions with answers of one domain in one language."""

    domain: Domain
    """Name of the domain; a folder in results/."""
    language: Language | None = None
    """Language and script; null takes the benchmark's."""
    source: QuestionSource


AnyCorpus = TypeVar("AnyCorpus", Corpus, QuestionCorpus)


def check_corpora(source: Any, corpora: Sequence[AnyCorpus] | None, language: str) -> None:
    """Raise ValueError unless there is one of ``source`` and ``corpora``, each place once."""
    if (source is None) == (corpora is None):
        raise ValueError("give either `source` (one corpus) or `corpora` (a list of them)")
    places = [(corpus.language or language, corpus.domain) for corpus in corpora or ()]
    repeated = sorted({place for place in places if places.count(place) > 1})
    if repeated:
        named = ", ".join(f"{domain} in {own}" for own, domain in repeated)
        raise ValueError(f"corpora: named more than once: {named}")
