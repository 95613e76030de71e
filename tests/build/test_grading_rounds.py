"""Two rounds of grading against a judge who knows all grades."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rule_tables import examples

from psibench.build.grading import find_grading, known_grades, round_pairs
from psibench.build.verification import part_text
from psibench.config.judging import Grade
from psibench.errors import InputError
from psibench.tables.build_schemas import GRADES
from psibench.text.segments import POSITIONS

TEXTS = {"nine": "aaabbbccc", "two": "xy"}  # thirds: aaa, bbb, ccc; "", "", xy
DOCUMENTS = pl.DataFrame({"_id": list(TEXTS), "text": list(TEXTS.values())})
SCHEMA = {
    "_id": pl.String,
    "text": pl.String,
    "pos_corpus_id": pl.String,
    "pos_char_span": pl.List(pl.Int32),
    "positions": pl.List(pl.String),
}

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


def two_rounds(grading, section, candidates, grades):
    """Give the candidates kept, and the pairs asked about in each round."""
    first = round_pairs(grading, section, candidates, DOCUMENTS)
    found = graded(first, grades)
    rest = round_pairs(grading, section, candidates, DOCUMENTS, found)
    found = pl.concat([found, graded(rest, grades)])
    known = known_grades(grading, section, candidates, DOCUMENTS, found)
    decisions = grading.decisions(known, candidates, section)
    assert grading.wanted(known, candidates, section).is_empty()
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
    grading = find_grading(rule)
    rows, grades, expected = [], {}, []
    for number, (targets, (doc_id, span), said) in enumerate(drawn):
        name = f"q{number}"
        rows.append((name, f"{name}?", doc_id, span, targets))
        own = dict(zip(grading.parts, said, strict=False))
        grades |= {(name, part): value for part, value in own.items()}
        shown = {part: part_text(TEXTS[doc_id], span, part) for part in grading.parts}
        known = [own[part] if shown[part] else None for part in grading.parts]
        is_target = [part == "document" or part in targets for part in grading.parts]
        lead = min_lead if rule == "segments" else 1
        if keeps(known, is_target, min_grade=min_grade, min_lead=lead):
            expected.append(name)
    candidates = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    limits = {"llm": "judge", "min_grade": min_grade, "min_lead": min_lead}
    kept, first, rest = two_rounds(grading, Grade(**limits), candidates, grades)
    whole = two_rounds(grading, Grade(**limits, complete=True), candidates, grades)
    assert kept == whole[0] == expected
    assert whole[2].is_empty()
    assert not set(first) & set(rest)
    assert {*first, *rest} <= set(whole[1])


def test_an_unknown_rule_is_refused():
    with pytest.raises(InputError, match="rule 'spans'; allowed: segments, span"):
        find_grading("spans")
