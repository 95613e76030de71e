"""What `psibench check` says of a benchmark's languages, domains, pairs and translation."""

from collections.abc import Iterator, Sequence

from psibench.config.lookup_places import PlaceLookup
from psibench.config.places import places_of
from psibench.config.settings import Config
from psibench.config.translation import Outliers, Translate
from psibench.errors import InputError

MOST_NAMED = {"domain": 5}
"""Domains that are named; of more, these and how many there are. Of others:"""
USUALLY_NAMED = 10


def language_lines(config: Config, name: str) -> Iterator[str]:
    """Yield lines about one benchmark; none if it is one domain in one language.

    Nothing is said of a release whose folders are not there yet.

    Raises
    ------
    InputError
        If a cross-lingual pair or a translation is of a language that the benchmark does not have.
    """
    section = config.benchmarks[name]
    try:
        places_of(section)
    except InputError:
        return
    lookup = PlaceLookup(config.model_copy(update={"benchmarks": {name: section}}))
    if len(lookup.places(name)) == 1 and section.translate is None:
        return
    for language in lookup.native_languages(name):
        domains = lookup.domains_in(name, language)
        yield f"{language}: {_counted(domains, 'domain')}"
    alone, crossed = [], []
    for queries, documents in lookup.pairs(name):
        if queries == documents:
            alone.append(queries)
        else:
            crossed.append(f"{queries} in {documents}")
    yield f"evaluated in {_counted(alone, 'language')}"
    if crossed:
        yield f"across languages: {_counted(crossed, 'pair')}"
    if section.translate is not None:
        yield f"translated {', '.join(translation_chain(section.translate, section.language))}"


def translation_chain(section: Translate, source: str) -> Iterator[str]:
    """Yield the steps of a translation, in their order."""
    yield f"from {source} to {' '.join(section.to)} by {section.llm}"
    yield f"in parts of {section.max_part_tokens:,} tokens"
    clean = section.clean
    if clean.prefixes:
        yield "prefixes removed"
    if clean.refusals is not None:
        yield f"refusals judged by {clean.refusals.llm}"
    if section.relocate is not None and section.relocate.llm is not None:
        yield f"spans quoted by {section.relocate.llm}"
    if clean.outliers is not None:
        yield f"outliers removed {_bounds(clean.outliers)}"
    if section.relocate is not None and section.relocate.llm is None:
        yield "spans found by aligned sentences"
    if section.quality is not None:
        yield f"quality graded by {section.quality.llm}, {section.quality.per_stratum} per stratum"
    if section.models is not None:
        yield f"evaluated with {_counted(section.models, 'model')}"


def _bounds(outliers: Outliers) -> str:
    of = "" if outliers.of == "length" else "by the ratio to the original "
    return f"{of}(below Q1 - {outliers.low:g} IQR, above Q3 + {outliers.high:g} IQR)"


def _counted(names: Sequence[str], what: str) -> str:
    """Count names and give the first of them: ``2 domains (law, mining)``."""
    plural, most = "" if len(names) == 1 else "s", MOST_NAMED.get(what, USUALLY_NAMED)
    named = ", ".join(names[:most]) + (", ..." if len(names) > most else "")
    return f"{len(names)} {what}{plural} ({named})"
