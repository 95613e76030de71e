"""What the rules of verification are given: parameters, and their way back into sections.

A threshold, balancing and its seed decide no score, so they are no parameters of the scoring
rule; the batch size decides nothing and is a resource.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from psibench.config.lookup import Lookup
from psibench.config.reranker_registry import parse_reranker, reranker_params
from psibench.config.verification import Verify, VerifySection
from psibench.rerankers.versions import RERANKER_VERSIONS
from psibench.stages.score_parts import Scoring


def score_params(
    lookup: Lookup, benchmark: str, reranker: str, *, complete: bool = False
) -> dict[str, Any]:
    """Return the parameters of a ``score_parts`` job: what decides its scores.

    ``complete`` scores everything, whatever the section says.
    """
    section = lookup.verify_section(benchmark)
    entry = lookup.rerankers[reranker]
    is_complete = complete or section.complete
    return {
        "rule": section.rule,
        "panel": [reranker] if is_complete else lookup.panel_until(benchmark, reranker),
        "entry": reranker_params(entry),
        "reranker_version": RERANKER_VERSIONS[entry.backend],
        "complete": is_complete,
        "floor": None if is_complete else section.floor,
    }


def scoring_of(params: Mapping[str, Any]) -> Scoring:
    """Return what a ``score_parts`` job scores, from its parameters."""
    return Scoring(
        rule=params["rule"],
        panel=tuple(params["panel"]),
        entry=parse_reranker(params["entry"]),
        complete=params["complete"],
        floor=params["floor"],
    )


def scoring_tokens(lookup: Lookup, reranker: str) -> int:
    """Return the padded tokens in one forward pass of a reranker: its own, or the settings'."""
    return lookup.rerankers[reranker].tokens_per_batch or lookup.config.encoding.tokens_per_batch


def verify_params(lookup: Lookup, benchmark: str) -> dict[str, Any]:
    """Return the parameters of a ``verify`` job."""
    return {
        "section": lookup.dump(lookup.verify_section(benchmark)),
        "unit": lookup.unit(benchmark),
        "step": lookup.step(benchmark, "verify"),
    }


def verified_of(params: Mapping[str, Any]) -> VerifySection:
    """Return a ``verify`` job's section, from its parameters."""
    section: VerifySection = TypeAdapter(Verify).validate_python(params["section"])
    return section
