"""Candidates under a scripted judge: what is asked in which round, kept, dropped and counted."""

import polars as pl
import pytest
from filter_tables import Folder, candidates_frame, decision_rows, examples
from filter_tables import candidate as plain_candidate
from hypothesis import given
from hypothesis import strategies as st
from scripted_judge import judge, say

from psibench.filters.decide import FlowStep, part_text
from psibench.filters.grade import (
    Grade,
    decide_grades,
    grading_task,
    known_grades,
    round_pairs,
    run_grade,
    run_grade_pairs,
    wanted_gradings,
)
from psibench.tables.build_schemas import GRADES
from psibench.text.segments import POSITIONS

TEXTS = {"nine": "aaabbbccc", "two": "xy"}  # thirds: aaa, bbb, ccc; "", "", xy
GRADE = Grade(llm="judge")


def candidate(name, targets=("middle",), *, doc_id="nine", span=(3, 6)):
    targets = list(targets)
    return plain_candidate(name, targets, span, pos_corpus_id=doc_id, positions=targets)


class Chain(Folder):
    """One benchmark's candidates in a folder, graded by a table of (query, part) -> grade."""

    def __init__(self, folder, rule, candidates, grades=None, *, section=GRADE):
        super().__init__(folder)
        self.params = section.model_dump(mode="json") | {"rule": rule}
        self.grades, self.asked = grades or {}, {}
        rows = [
            {"_id": doc_id, "text": text, "origin": "o", "length_bin": "0-9"}
            for doc_id, text in TEXTS.items()
        ]
        self.write("documents", rows)
        schema = {"_id": pl.String, "text": pl.String, "pos_corpus_id": pl.String}
        schema |= {"pos_char_span": pl.Array(pl.Int32, 2), "target_position": pl.String}
        schema |= {"answer": pl.String, "positions": pl.List(pl.String)}
        frame = pl.DataFrame(candidates, schema=schema)
        self.write("candidates", frame)

    def round(self, number, *, name=None):
        name = name or ("grade_first", "grade_rest")[number - 1]
        pairs = self.path(f"{name}_pairs")
        run_grade_pairs(
            Grade.model_validate(self.params),
            documents=self.path("documents"),
            candidates=self.path("candidates"),
            first=None if number == 1 else self.path("grade_first"),
            output=pairs,
        )
        self.asked[name] = judge(
            grading_task(name),
            lambda pair: say("grade", self.grades[tuple(pair.split("--"))]),
            documents=self.path("documents"),
            pairs=pairs,
            output=self.path(name),
        )

    def decide(self, *rounds, unit="questions"):
        names = ("rows", "dropped", "flow")
        run_grade(
            Grade.model_validate(self.params),
            place=FlowStep(unit, 7, "eng-Latn", "general"),
            documents=self.path("documents"),
            candidates=self.path("candidates"),
            grades=[self.path(name) for name in rounds or ("grade_first", "grade_rest")],
            outputs={name: self.path(name) for name in names},
        )
        return self

    def run(self):
        self.round(1)
        self.round(2)
        return self.decide()

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
    candidate("unsaid", ["middle"]),  # the judge says 3.5 of the target
    candidate("late", ["beginning"]),  # and of another third
    candidate("lead", ["end"]),
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


def test_targets_are_graded_first_and_the_others_only_where_the_query_is_open(tmp_path):
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
    ]
    columns = ("stage", "unit", "doc_id", "detail", "target_position", "char_length", "domain")
    assert chain.read("dropped", "attrition").select(columns).row(0) == (
        *("segment_grades", "questions", "nine", "by judge", "middle", 9, "general"),
    )
    assert chain.read("flow", "flow").row(0)[:2] == ("segment_grades", 7)


# The document "xy" has no text in its first two thirds.
@pytest.mark.parametrize(
    ("target", "asked"), [("beginning", []), ("middle", []), ("end", ["q1--end"])]
)
def test_a_document_of_two_characters_is_dropped_without_a_grade(tmp_path, target, asked):
    rows = [candidate("q1", [target], doc_id="two", span=(0, 1))]
    chain = Chain(tmp_path, "segments", rows, {("q1", "end"): 4}).run()
    assert chain.asked == {"grade_first": asked, "grade_rest": []}
    assert chain.dropped == [("q1", "no_grade", None)]


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


def test_documents_are_graded_first_and_without_the_evidence_where_they_are_good(tmp_path):
    chain = Chain(tmp_path, "span", SPANS, SPAN_GRADES).run()
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


# targets, grades of beginning, middle, end, and (kept, reason, score).
SEGMENTS = [
    (["beginning"], (3, 2, 0), (True, "", 1.0)),
    (["end"], (3, 0, 4), (True, "", 1.0)),
    # The grade itself, 3 being the least.
    (["beginning"], (2, 0, 0), (False, "grade_low", 2.0)),
    # Equal to another segment, or below it.
    (["beginning"], (3, 3, 0), (False, "grade_not_above_others", 0.0)),
    (["middle"], (4, 3, 0), (False, "grade_not_above_others", -1.0)),
    # A low grade is told first, even where another one leads.
    (["middle"], (4, 2, 4), (False, "grade_low", 2.0)),
    # Two targets: the best of them, whatever the other one.
    (["beginning", "middle"], (0, 4, 3), (True, "", 1.0)),
    # No usable grade: of the target, of another one, of one that is not needed.
    (["beginning"], (None, 0, 0), (False, "no_grade", None)),
    (["beginning"], (4, None, 0), (False, "no_grade", None)),
    (["beginning"], (2, None, 0), (False, "grade_low", 2.0)),
    ([], (4, 0, 0), (False, "no_target", None)),
    ([*POSITIONS], (4, 0, 0), (False, "no_other_segment", None)),
]


@pytest.mark.parametrize(("targets", "grades", "expected"), SEGMENTS)
def test_the_target_has_to_be_graded_three_or_more_and_above_the_others(targets, grades, expected):
    known = grades_frame({("q", p): v for p, v in zip(POSITIONS, grades, strict=True)})
    decided = decide_grades(GRADE, known, candidates_frame({"q": targets}))
    by = None if expected[1] in ("no_target", "no_other_segment") else "judge"
    assert decision_rows(decided) == {"q": (*expected, by)}


def grades_frame(grades) -> pl.DataFrame:
    schema = {"query_id": pl.String, "part": pl.String, "grade": pl.Int32}
    return pl.DataFrame([(*k, v) for k, v in grades.items()], schema=schema, orient="row")


DOCUMENTS = pl.DataFrame({"_id": list(TEXTS), "text": list(TEXTS.values())})
SCHEMA = dict.fromkeys(("_id", "text", "pos_corpus_id"), pl.String)
SCHEMA |= {"pos_char_span": pl.List(pl.Int32), "positions": pl.List(pl.String)}
some_targets = st.lists(st.sampled_from(POSITIONS), unique=True)
some_evidence = st.sampled_from(
    [("nine", [3, 6]), ("nine", [0, 9]), ("two", [0, 1]), ("two", [0, 2])]
)
some_grades = st.tuples(*[st.sampled_from([0, 1, 2, 3, 3, 4, 4, 4, None])] * 3)


def graded(pairs, grades):
    """GRADES of the pairs, by (query, part)."""
    rows = [
        (pair_id, query, doc_id, part, grades[query, part])
        for pair_id, query, doc_id, part in pairs.select(GRADES.column_names[:4]).iter_rows()
    ]
    schema = dict.fromkeys(GRADES.column_names, pl.String) | {"grade": pl.Int32}
    return pl.DataFrame(rows, schema=schema, orient="row")


def two_rounds(section, candidates, grades):
    """Give the candidates kept, and the pairs asked about in each round."""
    first = round_pairs(section, candidates, DOCUMENTS)
    found = graded(first, grades)
    rest = round_pairs(section, candidates, DOCUMENTS, found)
    found = pl.concat([found, graded(rest, grades)])
    known = known_grades(section, candidates, DOCUMENTS, found)
    decisions = decide_grades(section, known, candidates)
    assert wanted_gradings(section, known, candidates).is_empty()
    assert decisions["item_id"].to_list() == candidates["_id"].to_list()
    return decisions.filter("kept")["item_id"].to_list(), first["_id"].to_list(), rest["_id"]


def keeps(grades, is_target, *, min_grade, min_lead):
    """Say what the rule does, read off the papers; ``grades`` of all parts, None without one."""
    inside = [grade for grade, wanted in zip(grades, is_target, strict=True) if wanted]
    outside = [grade for grade, wanted in zip(grades, is_target, strict=True) if not wanted]
    if not inside or not outside or None in grades:
        return False
    return max(inside) >= min_grade and all(max(inside) - other >= min_lead for other in outside)


@examples
@given(
    rule=st.sampled_from(["segments", "span"]),
    drawn=st.lists(st.tuples(some_targets, some_evidence, some_grades), max_size=6),
    min_grade=st.integers(0, 4),
    min_lead=st.integers(1, 4),
)
def test_two_rounds_keep_what_the_rule_keeps_when_it_knows_all_grades(
    rule, drawn, min_grade, min_lead
):
    section = Grade(llm="judge", rule=rule, min_grade=min_grade, min_lead=min_lead)
    rows, grades, expected = [], {}, []
    for number, (targets, (doc_id, span), said) in enumerate(drawn):
        name = f"q{number}"
        rows.append((name, f"{name}?", doc_id, span, targets))
        own = dict(zip(section.parts, said, strict=False))
        grades |= {(name, part): value for part, value in own.items()}
        shown = {part: part_text(TEXTS[doc_id], span, part) for part in section.parts}
        known = [own[part] if shown[part] else None for part in section.parts]
        is_target = [part == "document" or part in targets for part in section.parts]
        lead = min_lead if rule == "segments" else 1
        if keeps(known, is_target, min_grade=min_grade, min_lead=lead):
            expected.append(name)
    candidates = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    kept, first, rest = two_rounds(section, candidates, grades)
    assert kept == expected
    assert not set(first) & set(rest)
