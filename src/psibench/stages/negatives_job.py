"""What the rules of grades, audits and false negatives are given: parameters, and the way back."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from psibench.config.judging import (
    Audit,
    FinewebNegatives,
    Grade,
    NegativesProtocol,
    PosirNegatives,
)
from psibench.config.lookup import Lookup
from psibench.config.reranker_registry import parse_reranker, reranker_params
from psibench.rerankers.versions import RERANKER_VERSIONS
from psibench.stages.score_pairs import PairScoring

NO_JUDGES = {"judges": ["none"], "needed": 1, "min_grade": 3, "prompt": None}
"""Stands for the judges where rerankers score: they decide no score."""


def pair_params(lookup: Lookup, benchmark: str, reranker: str) -> dict[str, Any]:
    """Return the parameters of a ``score_pairs`` job: what decides its scores."""
    section = _negatives(lookup, benchmark)
    panel = lookup.pair_panel_until(benchmark, reranker)
    if section["complete"]:  # then neither the rule nor the others decide what is scored
        section |= {"threshold": 0.5} if "threshold" in section else {"under": "any"}
        panel = [reranker]
        section |= {"rerankers": panel}
    if "judges" in section:
        section |= NO_JUDGES
    entry = lookup.rerankers[reranker]
    return {
        "section": section,
        "panel": panel,
        "entry": reranker_params(entry),
        "reranker_version": RERANKER_VERSIONS[entry.backend],
    }


def pair_scoring_of(params: Mapping[str, Any]) -> PairScoring:
    """Return what a ``score_pairs`` job scores, from its parameters."""
    return PairScoring(
        section=negatives_of(params["section"]),
        panel=tuple(params["panel"]),
        entry=parse_reranker(params["entry"]),
    )


def negatives_params(lookup: Lookup, benchmark: str) -> dict[str, Any]:
    """Return the section of a benchmark's false negatives, less what the template says."""
    section = _negatives(lookup, benchmark)
    return section | {"prompt": None} if "prompt" in section else section


def _negatives(lookup: Lookup, benchmark: str) -> dict[str, Any]:
    """Return a benchmark's section of false negatives, less what decides no row of it."""
    return lookup.dump(lookup.negatives(benchmark)) | {"evaluate_raw": True}


def candidate_params(lookup: Lookup, benchmark: str) -> dict[str, Any]:
    """Return what of a section of false negatives decides the rerankers' part."""
    section = _negatives(lookup, benchmark)
    return section | NO_JUDGES if "judges" in section else section


def judge_params(lookup: Lookup, benchmark: str, number: str) -> dict[str, Any]:
    """Return what decides which pairs a judge grades: for the first one no grade does."""
    section = negatives_params(lookup, benchmark)
    return section | {"needed": 1, "min_grade": 3} if number == "1" else section


def round_params(lookup: Lookup, benchmark: str, name: str) -> dict[str, Any]:
    """Return what decides which parts a round of grading asks about: no grade in the first."""
    section = lookup.grade_params(benchmark)
    return section | {"min_grade": 3, "min_lead": 1} if name == "grade_first" else section


def removal_params(lookup: Lookup, benchmark: str) -> dict[str, Any]:
    """Return the parameters of a ``remove_negatives`` job."""
    return {
        "section": negatives_params(lookup, benchmark),
        "unit": lookup.unit(benchmark),
        "step": lookup.step(benchmark, "false_negatives"),
    }


def negatives_of(section: Mapping[str, Any]) -> FinewebNegatives | PosirNegatives:
    """Return a section of false negatives from a job's parameters."""
    parsed: FinewebNegatives | PosirNegatives = TypeAdapter(NegativesProtocol).validate_python(
        section
    )
    return parsed


def grade_params(lookup: Lookup, benchmark: str) -> dict[str, Any]:
    """Return the parameters of a ``grade`` job."""
    return {
        "section": lookup.grade_params(benchmark),
        "unit": lookup.unit(benchmark),
        "step": lookup.step(benchmark, "grade"),
    }


def grade_of(section: Mapping[str, Any]) -> Grade:
    """Return a section of grades from a job's parameters."""
    return Grade.model_validate(section)


def audit_params(lookup: Lookup, benchmark: str) -> dict[str, Any]:
    """Return the section of a benchmark's audit, less what the template says."""
    section = lookup.generated(benchmark).audit
    return lookup.dump(section) | {"prompt": None}


def audit_of(section: Mapping[str, Any]) -> Audit:
    """Return a section of an audit from a job's parameters."""
    return Audit.model_validate(section)
