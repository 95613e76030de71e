"""Stages ``grade_pairs`` and ``grade``: a language model's grades filter the candidates.

They are asked for in two rounds: the first decides most candidates, the second asks for the parts
that the others still need.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from psibench.build.grading import find_grading, known_grades, round_pairs
from psibench.build.rules.drops import kept_items
from psibench.build.rules.layouts import grade_layout
from psibench.build.rules.savings import count_savings
from psibench.config.judging import Grade
from psibench.errors import InputError
from psibench.stages.decided import candidate_facts, write_decided
from psibench.stages.tables import derived, queries_by, read_all
from psibench.tables import Provenance, read_table, write_table
from psibench.tables.build_schemas import CANDIDATES, GRADES, PAIRS
from psibench.tables.schemas import DOCUMENTS
from psibench.tables.verify_report_schemas import SCORING_SAVINGS
from psibench.tables.verify_schemas import DECISIONS


@dataclass(frozen=True)
class GradeOutputs:
    """Paths of what the stage writes."""

    rows: str | Path
    decisions: str | Path
    savings: str | Path
    dropped: str | Path
    flow: str | Path


def run_grade_pairs(
    section: Grade,
    rule: str,
    *,
    number: int,
    documents: str | Path,
    candidates: str | Path,
    first: str | Path | None,
    output: str | Path,
) -> None:
    """Write the PAIRS that a round of grading asks about.

    Round 1: the targets (rule ``segments``) or the whole documents (``span``); all parts with
    ``complete``. Round 2: what the rule still needs, given the grades of round 1. A part without
    text is never asked about: it counts as having no grade.

    Parameters
    ----------
    rule
        segments or span.
    number
        1 or 2.
    first
        GRADES of round 1; None in round 1.

    Raises
    ------
    InputError
        If ``number`` and ``first`` do not go together, or the rule is unknown.
    """
    if (number, first is None) not in ((1, True), (2, False)):
        raise InputError(
            f"round {number} of grading with first={first}; allowed: round 1 without the grades of "
            "round 1, round 2 with them"
        )
    asked, texts = read_table(candidates, CANDIDATES), read_table(documents, DOCUMENTS)
    graded = None if first is None else read_table(first, GRADES)
    pairs = round_pairs(find_grading(rule), section, asked, texts, graded)
    inputs = [documents] if first is None else [documents, first]
    params = _params(section, rule) | {"round": number}
    source = _source("grade_pairs", candidates, inputs, params)
    write_table(pairs, output, PAIRS, provenance=source)


def run_grade(
    section: Grade,
    rule: str,
    *,
    unit: str,
    step: int,
    language: str,
    domain: str,
    documents: str | Path,
    candidates: str | Path,
    grades: Sequence[str | Path],
    outputs: GradeOutputs,
) -> None:
    """Decide on every candidate and write those kept, the decisions, the dropped, the counts.

    Parameters
    ----------
    rule
        segments or span.
    unit
        What a candidate is called in FLOW.
    step
        Place in the recipe, for FLOW.
    grades
        GRADES of the rounds.

    Raises
    ------
    InputError
        If a grade that a decision needs is missing: two rounds are enough for every rule.
    """
    grading = find_grading(rule)
    asked, texts = read_table(candidates, CANDIDATES), read_table(documents, DOCUMENTS)
    known = known_grades(grading, section, asked, texts, read_all(grades, GRADES))
    decisions = grading.decisions(known, asked, section)
    source = _source("grade", candidates, [documents, *grades], _params(section, rule))
    write_decided(
        [(grading.rule, decisions)],
        candidate_facts(asked, texts),
        unit=unit,
        step=step,
        language=language,
        domain=domain,
        dropped=outputs.dropped,
        flow=outputs.flow,
        source=source,
    )
    savings = count_savings(
        grading.rule,
        known,
        asked.select(query_id="_id"),
        grade_layout("query_id"),
        scorers=[section.llm],
        parts=grading.parts,
    )
    write_table(decisions, outputs.decisions, DECISIONS, provenance=source)
    write_table(savings, outputs.savings, SCORING_SAVINGS, provenance=source)
    write_table(kept_items(asked, decisions), outputs.rows, CANDIDATES, provenance=source)


def _params(section: Grade, rule: str) -> dict[str, object]:
    return section.model_dump(mode="json", exclude={"prompt"}) | {"rule": rule}


def _source(
    stage: str, candidates: str | Path, others: Sequence[str | Path], params: dict[str, object]
) -> Provenance:
    """Make the provenance of an output: a judge is no author of the queries it judges."""
    made = derived(stage, [candidates, *others], params=params)
    return replace(made, queries_by=queries_by(candidates))
