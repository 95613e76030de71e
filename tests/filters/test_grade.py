"""Grading under a scripted judge: requests per round, kept and dropped candidates, counts."""

import polars as pl
import pytest
from filter_tables import Folder, candidates_frame, decision_rows
from filter_tables import candidate as plain_candidate
from jobs import run

from psibench.filters.grade import Grade, decide_grades, run_grade, run_grade_pairs
from psibench.text.segments import POSITIONS

TEXTS = {"nine": "aaabbbccc", "two": "xy"}  # thirds: aaa, bbb, ccc; "", "", xy
GRADE = Grade(llm="judge")


def candidate(name, targets=("middle",), *, doc_id="nine", span=(3, 6)):
    targets = list(targets)
    return plain_candidate(name, targets, span, pos_corpus_id=doc_id, positions=targets)


class Chain(Folder):
    """One benchmark's candidates in a folder, graded by a table of (query, part) -> grade."""

    def __init__(self, folder, rule, candidates, grades, *, section=GRADE):
        super().__init__(folder)
        self.section = Grade.model_validate(section.model_dump(mode="json") | {"rule": rule})
        self.grades = {"--".join(key): grade for key, grade in grades.items()}
        documents = {"_id": list(TEXTS), "text": list(TEXTS.values())}
        self.write("documents", pl.DataFrame(documents).with_columns(origin=pl.lit("o")))
        self.write("candidates", candidates)

    def run(self):
        given = {name: self.path(name) for name in ("documents", "candidates")}
        self.asked = {}
        for name, first in (("grade_first", None), ("grade_rest", self.path("grade_first"))):
            pairs = {"pairs": self.path(f"{name}_pairs")}
            section = self.section.model_dump(mode="json")
            run(run_grade_pairs, {**given, "first": first}, pairs, section=section)
            self.asked[name] = self.judge(name, self.grades)
        run(
            run_grade,
            {**given, "grades": [self.path(name) for name in self.asked]},
            {name: self.path(name) for name in ("rows", "dropped", "flow")},
            section=section,
            place={"unit": "questions", "step": 7},
        )
        return self

    @property
    def dropped(self):
        columns = ("item_id", "reason", "score")
        return self.read("dropped", "attrition").select(columns).rows()

    @property
    def kept(self):
        return self.read("rows", "candidates")["_id"].to_list()


def thirds(grades):
    return {
        (query, part): value
        for query, values in grades.items()
        for part, value in zip(POSITIONS, values, strict=True)
    }


SIX = [
    candidate("kept", ["beginning"]),
    candidate("low", ["middle"]),
    candidate("equal", ["end"]),
    candidate("unsaid", ["middle"]),  # no grade of the target
    candidate("late", ["beginning"]),  # and of another third
    candidate("lead", ["end"]),
    candidate("textless", ["middle"], doc_id="two", span=(0, 1)),  # its first two thirds are empty
]
SIX_GRADES = thirds(
    {
        "kept": (4, 1, 0),
        "low": (0, 2, 0),
        "equal": (4, 0, 4),
        "unsaid": (0, None, 0),
        "late": (3, None, 0),
        "lead": (0, 2, 3),
    }
)


def test_targets_are_graded_before_the_other_thirds(tmp_path):
    chain = Chain(tmp_path, "segments", SIX, SIX_GRADES).run()
    assert chain.asked["grade_first"] == [
        "kept--beginning",
        "low--middle",
        "equal--end",
        "unsaid--middle",
        "late--beginning",
        "lead--end",
    ]
    assert chain.asked["grade_rest"] == [
        f"{query}--{part}"
        for query, parts in {
            "kept": ("middle", "end"),
            "equal": ("beginning", "middle"),
            "late": ("middle", "end"),
            "lead": ("beginning", "middle"),
        }.items()
        for part in parts
    ]
    assert chain.kept == ["kept", "lead"]
    assert chain.dropped == [
        ("low", "grade_low", 2.0),
        ("equal", "grade_not_above_others", 0.0),
        ("unsaid", "no_grade", None),
        ("late", "no_grade", None),
        ("textless", "no_grade", None),
    ]
    columns = ("stage", "unit", "doc_id", "detail", "target_position", "char_length", "domain")
    assert chain.read("dropped", "attrition").select(columns).row(0) == (
        *("segment_grades", "questions", "nine", "by judge", "middle", 9, "general"),
    )
    assert chain.read("flow", "flow").row(0)[:2] == ("segment_grades", 7)


SPANS = [
    candidate("needed"),
    candidate("low"),
    candidate("useless"),
    candidate("unsaid"),
    candidate("whole", span=(0, 9)),
    candidate("short", doc_id="two", span=(0, 1)),
]
SPAN_GRADES = {
    ("needed", "document"): 3,
    ("needed", "removed"): 2,
    ("low", "document"): 2,
    ("useless", "document"): 4,
    ("useless", "removed"): 4,
    ("unsaid", "document"): 4,
    ("unsaid", "removed"): None,
    ("whole", "document"): 4,
    ("short", "document"): 4,
    ("short", "removed"): 1,
}


def test_documents_are_graded_before_their_removed_part(tmp_path):
    section = Grade(llm="judge", min_lead=4)  # for spans any lead is enough
    chain = Chain(tmp_path, "span", SPANS, SPAN_GRADES, section=section).run()
    names = [row["_id"] for row in SPANS]
    assert sorted(chain.asked["grade_first"]) == sorted(f"{name}--document" for name in names)
    # Nothing is left of the document without "whole".
    assert sorted(chain.asked["grade_rest"]) == sorted(
        f"{name}--removed" for name in ("needed", "useless", "unsaid", "short")
    )
    shown = chain.read("grade_rest_pairs", "pairs").select("query_id", "text").rows()
    assert dict(shown) == {
        "needed": "aaaccc",
        "useless": "aaaccc",
        "unsaid": "aaaccc",
        "short": "y",
    }
    assert chain.kept == ["needed", "short"]
    assert chain.dropped == [
        ("low", "grade_low", 2.0),
        ("useless", "grade_not_above_others", 0.0),
        ("unsaid", "no_grade", None),
        ("whole", "no_grade", None),
    ]
    assert chain.read("flow", "flow")["stage"].to_list() == ["span_grades"]


# targets, grades of beginning, middle, end, and (kept, reason, score); beside the chain above.
SEGMENTS = [
    (["beginning"], (3, 2, 0), (True, "", 1.0)),
    (["middle"], (4, 3, 0), (False, "grade_not_above_others", -1.0)),
    # A low grade is the first reason, even if another part leads.
    (["middle"], (4, 2, 4), (False, "grade_low", 2.0)),
    # Two targets: only the best one counts.
    (["beginning", "middle"], (0, 4, 3), (True, "", 1.0)),
    # No usable grade of one that is not needed.
    (["beginning"], (2, None, 0), (False, "grade_low", 2.0)),
    ([], (4, 0, 0), (False, "no_target", None)),
    ([*POSITIONS], (4, 0, 0), (False, "no_other_segment", None)),
]


@pytest.mark.parametrize(("targets", "grades", "expected"), SEGMENTS)
def test_the_target_needs_a_high_and_leading_grade(targets, grades, expected):
    known = grades_frame({("q", p): v for p, v in zip(POSITIONS, grades, strict=True)})
    decided = decide_grades(GRADE, known, candidates_frame({"q": targets}))
    by = None if expected[1] in ("no_target", "no_other_segment") else "judge"
    assert decision_rows(decided) == {"q": (*expected, by)}


def grades_frame(grades) -> pl.DataFrame:
    schema = {"query_id": pl.String, "part": pl.String, "grade": pl.Int32}
    return pl.DataFrame([(*k, v) for k, v in grades.items()], schema=schema, orient="row")
