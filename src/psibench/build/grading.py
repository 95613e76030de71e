"""How candidates are checked by a judge's grades, by the rules that a config may name.

- ``segments``: the thirds of the document, the target graded high and above the others.
- ``span``: the document, graded high and above itself without the evidence.

Either rule needs two rounds at most: the targets (or the whole document), then, for candidates
still undecided, the other parts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from psibench.build.judging import all_parts, judge_grades, part_pairs, textless_grades
from psibench.build.rules import grades
from psibench.build.rules.cube import SPAN_PARTS
from psibench.build.verification import evidence_targets
from psibench.config.judging import Grade
from psibench.errors import InputError
from psibench.text.segments import POSITIONS


@dataclass(frozen=True)
class Grading:
    """How candidates are checked by one rule; its judge is the section's language model.

    Attributes
    ----------
    rule
        Name of the rule in decisions, and of its stage.
    parts
        Parts of the document that are graded, of those `part_text` knows.
    items
        Candidates -> what the rule decides on.
    next_gradings, decide
        The rule itself: (JUDGE_GRADES rows, items, judges, options) -> gradings, decisions.
    options
        Keys of the section that the rule takes.
    """

    rule: str
    parts: tuple[str, ...]
    items: Callable[[pl.DataFrame], pl.DataFrame]
    next_gradings: Callable[..., pl.DataFrame]
    decide: Callable[..., pl.DataFrame]
    options: tuple[str, ...]

    def wanted(self, known: pl.DataFrame, candidates: pl.DataFrame, section: Grade) -> pl.DataFrame:
        """List ``query_id``, ``judge`` and ``part`` of the gradings that the rule needs next."""
        return self.next_gradings(known, self.items(candidates), **self._given(section))

    def decisions(
        self, known: pl.DataFrame, candidates: pl.DataFrame, section: Grade
    ) -> pl.DataFrame:
        """Make DECISIONS rows from `known_grades`; raises InputError while a grade is missing."""
        return self.decide(known, self.items(candidates), **self._given(section))

    def _given(self, section: Grade) -> dict[str, object]:
        options = {name: getattr(section, name) for name in self.options}
        return {"judges": [section.llm], **options}


def round_pairs(
    grading: Grading,
    section: Grade,
    candidates: pl.DataFrame,
    documents: pl.DataFrame,
    graded: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Make the PAIRS that a round of grading asks about, in order of the candidates and parts.

    With ``section.complete`` the first round asks about every part that has text, decided or not.

    Parameters
    ----------
    documents
        ``_id`` and ``text``.
    graded
        GRADES of the rounds before; None in the first.
    """
    if graded is None and section.complete:
        return part_pairs(candidates, documents, all_parts(candidates, grading.parts))
    known = known_grades(grading, section, candidates, documents, graded)
    return part_pairs(candidates, documents, grading.wanted(known, candidates, section))


def known_grades(
    grading: Grading,
    section: Grade,
    candidates: pl.DataFrame,
    documents: pl.DataFrame,
    graded: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Give JUDGE_GRADES rows: those ``graded``, and a null for every part that has no text."""
    judge = section.llm
    without = textless_grades(candidates, documents, parts=grading.parts, judge=judge)
    return without if graded is None else pl.concat([judge_grades(graded, judge), without])


def find_grading(rule: str) -> Grading:
    """Return how candidates are checked by a rule of the config.

    Raises
    ------
    InputError
        If there is no such rule.
    """
    if rule not in GRADINGS:
        raise InputError(f"grading rule {rule!r}; allowed: {', '.join(GRADINGS)}")
    return GRADINGS[rule]


def _queries(candidates: pl.DataFrame) -> pl.DataFrame:
    return candidates.select(query_id="_id")


GRADINGS: Mapping[str, Grading] = {
    "segments": Grading(
        grades.RULE_SEGMENTS,
        POSITIONS,
        evidence_targets,
        grades.next_segment_gradings,
        grades.decide_segment_grades,
        ("min_grade", "min_lead"),
    ),
    "span": Grading(
        grades.RULE_SPAN,
        SPAN_PARTS,
        _queries,
        grades.next_span_gradings,
        grades.decide_span_grades,
        ("min_grade",),
    ),
}
