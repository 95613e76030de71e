"""Verification of candidates: which texts are scored, and what the scores decide.

- ``agreement``: the thirds of the document, the target above the others.
- ``necessity``: the document with and without the evidence.
- ``margin``: the thirds of the document, the consensus margin.

After each of them the positions may be balanced.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from psibench.build.rules import agreement, margin, necessity, sampling_cells
from psibench.build.rules.cube import SPAN_PARTS
from psibench.build.rules.targets import targets_of
from psibench.config.verification import VerifyMargin, VerifySection
from psibench.errors import InputError
from psibench.text.segments import POSITIONS, equal_segments

Scorings = list[tuple[str, str]]
"""What to score: (query id, part)."""
Decided = Iterator[tuple[str, pl.DataFrame]]
"""Each rule's name and DECISIONS rows, in order."""


@dataclass(frozen=True)
class Verification:
    """How candidates are checked by one rule.

    Attributes
    ----------
    rule
        Name of the rule in decisions, and of its stage.
    parts
        Parts of the document that are scored, of those `part_text` knows.
    items
        Candidates -> TARGETS rows.
    missing
        (scores, items, rerankers, floor) -> the scorings that the rule still needs.
    decide
        (scores, items, section) -> decisions.
    """

    rule: str
    parts: tuple[str, ...]
    items: Callable[[pl.DataFrame], pl.DataFrame]
    missing: Callable[[pl.DataFrame, pl.DataFrame, Sequence[str], float | None], pl.DataFrame]
    decide: Callable[[pl.DataFrame, pl.DataFrame, Any], pl.DataFrame]


def part_text(text: str, span: Sequence[int], part: str) -> str:
    """Return a part of a document: a third of it, ``document``, or ``removed``.

    ``removed`` is the document without the characters of ``span``, [start, end); the two sides
    are joined as they are.
    """
    if part == "document":
        return text
    if part == "removed":
        return text[: span[0]] + text[span[1] :]
    start, end = equal_segments(len(text))[POSITIONS.index(part)]
    return text[start:end]


def wanted_scorings(
    found: Verification,
    candidates: pl.DataFrame,
    scores: pl.DataFrame,
    *,
    rerankers: Sequence[str],
    complete: bool = False,
    floor: float | None = None,
) -> Scorings:
    """List what the last reranker has to score, in order of the candidates and the parts.

    Parameters
    ----------
    scores
        SEGMENT_SCORES rows of all rerankers before the last.
    rerankers
        The panel up to the one that scores now.
    complete
        List every part of every candidate, decided or not.
    floor
        For margins: a query whose lead is below it under one reranker is not scored further.
    """
    if complete:
        return [(query, part) for query in candidates.get_column("_id") for part in found.parts]
    missing = found.missing(scores, found.items(candidates), rerankers, floor)
    return list(missing.filter(reranker=rerankers[-1]).select("query_id", "part").iter_rows())


def margins_of(scores: pl.DataFrame, items: pl.DataFrame, section: VerifyMargin) -> pl.DataFrame:
    """Compute the MARGINS rows of all candidates."""
    return margin.consensus_margins(scores, items, rerankers=section.rerankers, floor=section.floor)


def find_verification(rule: str) -> Verification:
    """Return how candidates are checked by a rule of the config.

    Raises
    ------
    InputError
        If there is no such rule.
    """
    if rule not in VERIFICATIONS:
        raise InputError(f"verification rule {rule!r}; allowed: {', '.join(VERIFICATIONS)}")
    return VERIFICATIONS[rule]


def decide_all(scores: pl.DataFrame, candidates: pl.DataFrame, section: VerifySection) -> Decided:
    """Yield each rule's name and decisions: the section's, then balancing where it asks for it.

    A rule decides on what the one before it kept.
    """
    found = find_verification(section.rule)
    decisions = found.decide(scores, found.items(candidates), section)
    yield found.rule, decisions
    if section.balance:
        kept = decisions.filter("kept").select(_id="item_id")
        left = candidates.join(kept, on="_id", how="semi", maintain_order="left")
        balanced = sampling_cells.balance_positions(evidence_targets(left), seed=section.seed)
        yield sampling_cells.RULE_BALANCE, balanced


def evidence_targets(candidates: pl.DataFrame) -> pl.DataFrame:
    """Make TARGETS rows: all thirds of the chunk where the recipe lists them, else the target.

    Under ``tagging: myopic`` a chunk may have two.
    """
    listed = "positions" in candidates.columns
    return targets_of(candidates, "positions" if listed else "target_position")


def _spans(candidates: pl.DataFrame) -> pl.DataFrame:
    return candidates.select(query_id="_id")


def _missing_of(rule: Callable[..., pl.DataFrame]) -> Callable[..., pl.DataFrame]:
    def missing(
        scores: pl.DataFrame, items: pl.DataFrame, rerankers: Sequence[str], _: float | None
    ) -> pl.DataFrame:
        return rule(scores, items, rerankers=rerankers)

    return missing


def _missing_margins(
    scores: pl.DataFrame, items: pl.DataFrame, rerankers: Sequence[str], floor: float | None
) -> pl.DataFrame:
    return margin.next_margin_scorings(scores, items, rerankers=rerankers, floor=floor)


def _decide_agreement(
    scores: pl.DataFrame, items: pl.DataFrame, section: VerifySection
) -> pl.DataFrame:
    return agreement.decide_agreement(scores, items, rerankers=section.rerankers)


def _decide_necessity(
    scores: pl.DataFrame, items: pl.DataFrame, section: VerifySection
) -> pl.DataFrame:
    return necessity.decide_necessity(scores, items, rerankers=section.rerankers)


def _decide_margin(
    scores: pl.DataFrame, items: pl.DataFrame, section: VerifyMargin
) -> pl.DataFrame:
    margins = margins_of(scores, items, section)
    return margin.decide_margin(margins, threshold=section.threshold)


VERIFICATIONS: Mapping[str, Verification] = {
    "agreement": Verification(
        agreement.RULE,
        POSITIONS,
        evidence_targets,
        _missing_of(agreement.next_agreement_scorings),
        _decide_agreement,
    ),
    "necessity": Verification(
        necessity.RULE,
        SPAN_PARTS,
        _spans,
        _missing_of(necessity.next_necessity_scorings),
        _decide_necessity,
    ),
    "margin": Verification(
        margin.RULE, POSITIONS, evidence_targets, _missing_margins, _decide_margin
    ),
}
