"""Candidates under a scripted judge: what is asked in which round, kept, dropped and counted."""

import polars as pl
import pytest
from scripted_judge import judge, say

from psibench.config.judging import Grade
from psibench.errors import InputError
from psibench.recipes.judging import grading_task
from psibench.stages.grade import GradeOutputs, run_grade, run_grade_pairs
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.schemas import SPECS
from psibench.text.segments import POSITIONS

SOURCE = Provenance("gather", 1, queries_by="llm:the-author", llm_backend="stand-in")
TEXTS = {"nine": "aaabbbccc", "two": "xy"}  # thirds: aaa, bbb, ccc; "", "", xy
GRADE = Grade(llm="judge")


def candidate(name, targets=("middle",), *, doc_id="nine", span=(3, 6)):
    return {
        "_id": name,
        "text": f"{name}?",
        "pos_corpus_id": doc_id,
        "pos_char_span": list(span),
        "target_position": targets[0] if len(targets) == 1 else None,
        "answer": "x",
        "positions": list(targets),
    }


class Chain:
    """One benchmark's candidates in a folder, graded by a table of (query, part) -> grade."""

    def __init__(self, folder, rule, candidates, grades=None, *, section=GRADE, columns=()):
        self.folder, self.rule, self.section = folder, rule, section
        self.grades, self.asked = grades or {}, {}
        rows = [
            {"_id": doc_id, "text": text, "origin": "o", "length_bin": "0-9"}
            for doc_id, text in TEXTS.items()
        ]
        self._write("documents", pl.DataFrame(rows))
        schema = {"_id": pl.String, "text": pl.String, "pos_corpus_id": pl.String}
        schema |= {"pos_char_span": pl.Array(pl.Int32, 2), "target_position": pl.String}
        schema |= {"answer": pl.String, "positions": pl.List(pl.String)}
        frame = pl.DataFrame(candidates, schema=schema)
        self._write("candidates", frame.drop(columns))

    def path(self, name):
        return self.folder / f"{name}.parquet"

    def _write(self, name, frame):
        write_table(frame, self.path(name), SPECS[name], provenance=SOURCE)

    def round(self, number, *, name=None):
        name = name or ("grade_first", "grade_rest")[number - 1]
        pairs = self.path(f"{name}_pairs")
        run_grade_pairs(
            self.section,
            self.rule,
            number=number,
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
        names = ("rows", "decisions", "savings", "dropped", "flow")
        run_grade(
            self.section,
            self.rule,
            unit=unit,
            step=7,
            language="eng-Latn",
            domain="general",
            documents=self.path("documents"),
            candidates=self.path("candidates"),
            grades=[self.path(name) for name in rounds or ("grade_first", "grade_rest")],
            outputs=GradeOutputs(**{name: self.path(name) for name in names}),
        )
        return self

    def run(self):
        self.round(1)
        self.round(2)
        return self.decide()

    def read(self, name, spec):
        return read_table(self.path(name), SPECS[spec])

    @property
    def decisions(self):
        columns = ("item_id", "kept", "reason", "score")
        return self.read("decisions", "decisions").select(columns).rows()

    @property
    def kept(self):
        return self.read("rows", "candidates")["_id"].to_list()

    @property
    def counts(self):
        """Gradings of everything, made and saved, of all judges."""
        table = self.read("savings", "scoring_savings").filter(scorer="all")
        return table.select("n_complete", "n_scored", "n_saved").row(0)


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
    assert chain.decisions == [
        ("kept", True, "", 3.0),
        ("low", False, "grade_low", 2.0),
        ("equal", False, "grade_not_above_others", 0.0),
        ("unsaid", False, "no_grade", None),
        ("late", False, "no_grade", None),
        ("lead", True, "", 1.0),
    ]
    assert chain.kept == ["kept", "lead"]
    assert chain.read("decisions", "decisions")["decided_by"].to_list() == ["judge"] * 6
    assert chain.counts == (18, 14, 4)  # low and unsaid: two thirds each


def test_what_is_dropped_stands_in_the_ledger_under_the_rules_name(tmp_path):
    chain = Chain(tmp_path, "segments", SIX, SIX_GRADES).run()
    columns = ("stage", "unit", "item_id", "doc_id", "reason", "detail", "score")
    assert chain.read("dropped", "attrition").select(columns).rows() == [
        ("segment_grades", "questions", "low", "nine", "grade_low", "by judge", 2.0),
        ("segment_grades", "questions", "equal", "nine", "grade_not_above_others", "by judge", 0.0),
        ("segment_grades", "questions", "unsaid", "nine", "no_grade", "by judge", None),
        ("segment_grades", "questions", "late", "nine", "no_grade", "by judge", None),
    ]
    columns = ("target_position", "char_length", "language", "domain")
    assert chain.read("dropped", "attrition").select(columns).row(0) == (
        "middle",
        9,
        "eng-Latn",
        "general",
    )
    columns = ("stage", "step", "unit", "entered", "kept", "dropped")
    assert chain.read("flow", "flow").select(columns).rows() == [
        ("segment_grades", 7, "questions", 6, 2, 4)
    ]


def test_thresholds_are_those_of_the_section(tmp_path):
    grades = thirds({"a": (2, 0, 0), "b": (2, 1, 0), "c": (1, 0, 0)})
    asked = [candidate(name, ["beginning"]) for name in "abc"]
    section = Grade(llm="judge", min_grade=2, min_lead=2)
    chain = Chain(tmp_path, "segments", asked, grades, section=section).run()
    assert chain.decisions == [
        ("a", True, "", 2.0),
        ("b", False, "grade_not_above_others", 1.0),
        ("c", False, "grade_low", 1.0),
    ]


def test_of_two_targets_both_are_graded_first_and_the_best_one_counts(tmp_path):
    asked = [candidate("q1", ["beginning", "middle"]), candidate("q2", ["middle", "end"])]
    grades = thirds({"q1": (1, 4, 3), "q2": (3, 0, 3)})
    chain = Chain(tmp_path, "segments", asked, grades).run()
    assert chain.asked == {
        "grade_first": ["q1--beginning", "q1--middle", "q2--middle", "q2--end"],
        "grade_rest": ["q1--end", "q2--beginning"],
    }
    assert chain.decisions == [
        ("q1", True, "", 1.0),
        ("q2", False, "grade_not_above_others", 0.0),
    ]
    # A chunk with two tags is counted under the one of the single-tag rule, as everywhere.
    assert chain.read("dropped", "attrition")["target_position"].to_list() == ["middle"]


def test_without_listed_positions_the_target_is_the_one_asked_for(tmp_path):
    asked = [candidate("q1", ["end"])]
    grades = thirds({"q1": (0, 0, 4)})
    chain = Chain(tmp_path, "segments", asked, grades, columns=("positions",)).run()
    assert (chain.asked["grade_first"], chain.kept) == (["q1--end"], ["q1"])


@pytest.mark.parametrize(
    ("targets", "reason"), [((), "no_target"), (POSITIONS, "no_other_segment")]
)
def test_where_there_is_nothing_to_compare_nothing_is_asked(tmp_path, targets, reason):
    chain = Chain(tmp_path, "segments", [candidate("q1", targets)]).run()
    assert chain.asked == {"grade_first": [], "grade_rest": []}
    assert chain.decisions == [("q1", False, reason, None)]


# The document "xy" has no text in its first two thirds.
@pytest.mark.parametrize(
    ("target", "asked"), [("beginning", []), ("middle", []), ("end", ["q1--end"])]
)
def test_a_document_of_two_characters_is_dropped_without_a_grade(tmp_path, target, asked):
    rows = [candidate("q1", [target], doc_id="two", span=(0, 1))]
    chain = Chain(tmp_path, "segments", rows, {("q1", "end"): 4}).run()
    assert chain.asked == {"grade_first": asked, "grade_rest": []}
    assert chain.decisions == [("q1", False, "no_grade", None)]
    # A third without text counts as known: of the three, only the end can be saved.
    assert chain.counts == (3, 2 + len(asked), 1 - len(asked))


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
    assert chain.decisions == [
        ("needed", True, "", 1.0),
        ("low", False, "grade_low", 2.0),
        ("useless", False, "grade_not_above_others", 0.0),
        ("unsaid", False, "no_grade", None),
        ("whole", False, "no_grade", None),
        ("short", True, "", 3.0),
    ]
    assert chain.read("flow", "flow")["stage"].to_list() == ["span_grades"]
    assert chain.counts == (12, 11, 1)  # low without its evidence


@pytest.mark.parametrize(
    ("rule", "rows", "grades"), [("segments", SIX, SIX_GRADES), ("span", SPANS, SPAN_GRADES)]
)
def test_complete_grading_asks_all_in_the_first_round_and_keeps_the_same(
    tmp_path, rule, rows, grades
):
    (tmp_path / "short").mkdir()
    short = Chain(tmp_path / "short", rule, rows, grades).run()
    section = Grade(llm="judge", complete=True)
    grades = {("low", "removed"): 0, **grades}
    chain = Chain(tmp_path, rule, rows, grades, section=section).run()
    assert set(chain.asked["grade_first"]) > set(short.asked["grade_first"])
    assert chain.asked["grade_rest"] == []
    assert chain.kept == short.kept
    assert chain.counts[2] == 0
    assert chain.decisions == short.decisions


def test_a_second_round_has_nothing_to_ask_once_all_is_decided(tmp_path):
    grades = thirds({"q1": (0, 2, 0), "q2": (0, None, 0)})
    chain = Chain(tmp_path, "segments", [candidate("q1"), candidate("q2")], grades).run()
    assert chain.read("grade_rest_pairs", "pairs").is_empty()
    assert chain.read("grade_rest", "grades").is_empty()
    assert chain.kept == []


def test_grades_that_are_missing_are_told_not_taken_for_null(tmp_path):
    chain = Chain(tmp_path, "segments", SIX, SIX_GRADES)
    chain.round(1)
    with pytest.raises(InputError, match=r"of judge 'judge' for part 'middle' of .*'kept'"):
        chain.decide("grade_first")


def test_without_candidates_all_tables_are_empty(tmp_path):
    chain = Chain(tmp_path, "span", []).run()
    assert (chain.decisions, chain.kept) == ([], [])
    assert chain.read("flow", "flow").select("entered", "kept").rows() == [(0, 0)]
    assert chain.counts == (0, 0, 0)


def test_the_candidates_kept_have_all_their_columns(tmp_path):
    chain = Chain(tmp_path, "segments", SIX, SIX_GRADES).run()
    given = chain.read("candidates", "candidates")
    assert chain.read("rows", "candidates").equals(given[[0, 5]])


def test_a_judge_does_not_become_an_author_of_the_queries(tmp_path):
    chain = Chain(tmp_path, "segments", SIX, SIX_GRADES).run()
    for name in ("grade_rest_pairs", "rows", "decisions", "dropped", "flow", "savings"):
        record = read_provenance(chain.path(name))
        assert (name, record["queries_by"]) == (name, "llm:the-author")
    assert record["params"]["llm"] == "judge"


@pytest.mark.parametrize(("number", "first"), [(1, "x"), (2, None), (0, None), (3, "x")])
def test_a_round_that_does_not_fit_its_grades_is_refused(tmp_path, number, first):
    chain = Chain(tmp_path, "segments", SIX)
    with pytest.raises(InputError, match=rf"round {number} of grading"):
        run_grade_pairs(
            GRADE,
            "segments",
            number=number,
            documents=chain.path("documents"),
            candidates=chain.path("candidates"),
            first=first,
            output=chain.path("pairs"),
        )


def test_an_unknown_rule_is_refused(tmp_path):
    with pytest.raises(InputError, match="rule 'spans'; allowed: segments, span"):
        Chain(tmp_path, "spans", SIX).round(1)
