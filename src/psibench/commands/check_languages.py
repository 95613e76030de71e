"""What `psibench check` says of a benchmark's languages, domains, pairs and translation."""

from collections.abc import Iterator, Sequence

from psibench.plan.plan import Plan
from psibench.translate.clean import Outliers
from psibench.translate.steps import Translate

MOST_NAMED = {"domain": 5}
"""Domains that are named; of more, these and how many there are. Of others:"""
USUALLY_NAMED = 10


def language_lines(plan: Plan, name: str) -> Iterator[str]:
    """Yield lines about one benchmark; none if it is one domain in one language.

    Nothing is said of a release whose folders are not there yet.
    """
    planned = plan.benchmarks[name]
    section, places = planned.section, planned.places
    if not places or (len(places) == 1 and section.translate is None):
        return
    for language, domains in planned.native.items():
        yield f"{language}: {_counted(domains, 'domain')}"
    alone, crossed = [], []
    for queries, documents in planned.pairs:
        if queries == documents:
            alone.append(queries)
        else:
            crossed.append(f"{queries} in {documents}")
    yield f"evaluated in {_counted(alone, 'language')}"
    if crossed:
        yield f"across languages: {_counted(crossed, 'pair')}"
    if section.translate is not None:
        steps = [*translation_chain(section.translate, section.language)]
        steps += [_evaluated(plan, name)] if section.translate.models is not None else []
        yield f"translated {', '.join(steps)}"


def _evaluated(plan: Plan, name: str) -> str:
    """Say which of the models that run on a benchmark run on its translations, and which do not."""
    planned = plan.benchmarks[name]
    source, target = planned.section.language, planned.translated[0]
    every = plan.models_of(name, source, source)
    chosen = plan.models_of(name, target, target)
    left_out = ", ".join(model for model in every if model not in chosen)
    said = f"evaluated with {_counted(chosen, 'model') if chosen else 'no model'}"
    return f"{said}; translate.models leaves out {left_out}" if left_out else said


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


def _bounds(outliers: Outliers) -> str:
    of = "" if outliers.of == "length" else "by the ratio to the original "
    return f"{of}(below Q1 - {outliers.low:g} IQR, above Q3 + {outliers.high:g} IQR)"


def _counted(names: Sequence[str], what: str) -> str:
    """Count names and give the first of them: ``2 domains (law, mining)``."""
    plural, most = "" if len(names) == 1 else "s", MOST_NAMED.get(what, USUALLY_NAMED)
    named = ", ".join(names[:most]) + (", ..." if len(names) > most else "")
    return f"{len(names)} {what}{plural} ({named})"
