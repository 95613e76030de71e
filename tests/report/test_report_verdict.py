"""The word and the advice follow from the figures of a row, and nothing else is said."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from report_tables import FORBIDDEN, psi_row, report_input, undefined_row

from psibench.metrics.psi import FLAGS
from psibench.report.page import render_report
from psibench.report.verdict import WORDS, Verdict, shown_interval, shown_psi, verdicts

TOO_FEW = {"p_adjusted": None, "n_informative_documents": 20}
BETWEEN = {"test": "between", "psi_same": None, "psi_same_high": None}
ALIKE = BETWEEN | {"p_control_adjusted": 0.06}
"""Between documents, and not shown to differ from the control."""
CUT = {"seen": 0.7, "truncation": -0.2, "truncation_low": -0.3, "truncation_high": -0.1}
UNCLEAR = CUT | {"truncation_high": 0.1}


def said(*rows: dict[str, Any]) -> Verdict:
    """Return the only verdict on some rows."""
    (found,) = verdicts(rows)
    return found


def visible(**changes: Any) -> dict[str, Any]:
    return psi_row("a", evidence="visible", n_queries=900) | changes


@pytest.mark.parametrize(
    ("changes", "of_visible", "word"),
    [
        ({}, None, "sensitive"),
        ({"p_control_adjusted": 0.06}, None, "not shown"),
        ({"control": None, "p_control_adjusted": None}, None, "not shown"),
        ({"p_adjusted": 0.06, **CUT}, {}, "not shown"),
        (BETWEEN, None, "sensitive"),
        (BETWEEN | {"p_adjusted": 0.9}, None, "sensitive"),
        (BETWEEN | {"p_adjusted": 0.9, "flags": "position_blind"}, None, "not shown"),
        (BETWEEN | {"p_adjusted": 0.9, **CUT}, None, "truncation"),
        (BETWEEN | {"p_adjusted": None}, None, "not testable"),
        (BETWEEN | {"flags": "at_floor"}, None, "not testable"),
        (BETWEEN | {"control": None, "p_control_adjusted": None}, None, "not shown"),
        (ALIKE, None, "not shown"),
        (CUT, None, "truncation"),
        (CUT, {"p_adjusted": 0.06}, "truncation"),
        (CUT, {"p_adjusted": None}, "truncation"),
        (CUT, {"p_control_adjusted": 0.06}, "truncation"),
        (CUT, {"test": "between"}, "sensitive"),
        (CUT, {"test": "between", "p_adjusted": 0.9}, "sensitive"),
        (CUT, {"test": "between", "p_control_adjusted": 0.06}, "truncation"),
        (CUT | {"p_control_adjusted": None}, None, "truncation"),
        (CUT, {}, "sensitive"),
        (UNCLEAR, {"p_adjusted": 0.06}, "sensitive"),
        (UNCLEAR | {"p_control_adjusted": 0.06}, {}, "sensitive"),
        (UNCLEAR | {"p_control_adjusted": 0.06}, {"p_control_adjusted": 0.06}, "not shown"),
        (TOO_FEW, None, "not testable"),
        ({"flags": "at_floor", **CUT}, {}, "not testable"),
        ({"psi": None}, None, "not testable"),
    ],
)
def test_a_row_comes_to_this_word(
    changes: dict[str, Any], of_visible: dict[str, Any] | None, word: str
) -> None:
    rows = [psi_row("a") | changes]
    rows += [] if of_visible is None else [visible(**of_visible)]
    assert said(*rows).word == word


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "Lowest in"),
        (CUT, "30.0 % of the evidence is cut: shorter passages"),
        (UNCLEAR, "30.0 % of the evidence is cut: give it more"),
        (ALIKE, "Depends on position, or on the document"),
        (
            BETWEEN,
            "end\u2069, beyond the control on the same documents (p = 0.020): measure windows",
        ),
        (BETWEEN, "(docs/mitigations.md). Its size cannot be told apart from the documents'"),
        (
            BETWEEN | {"p_position": 0.9, "p_adjusted": 0.9},
            "difficulty. The documents alone do not show it (p = 0.900).",
        ),
        (
            BETWEEN | {"p_adjusted": 0.06, "flags": "truncating", "seen": 0.6},
            "control on the same documents (p = 0.020). The documents alone do not show it (p = ",
        ),
        (
            BETWEEN | {"p_adjusted": 0.9, **CUT},
            "windows. Beyond the control on the same documents (p = 0.020). The documents alone",
        ),
        (
            {"flags": "few_clusters", "n_clusters": 4, "p_adjusted": 0.2},
            "This holds in these 4 clusters alone.",
        ),
        ({"control": None, "p_control_adjusted": None}, "add the position-blind control"),
        ({"p_control_adjusted": 0.06}, "not shown to exceed the control"),
        (
            {"p_adjusted": 0.06, "p_position": 0.06},
            "No evidence of an effect; a PSI above 0.270 is excluded.",
        ),
        (
            {"p_adjusted": 0.06, "p_position": 0.06, "psi_same_high": None},
            "No evidence of an effect; more documents",
        ),
        (TOO_FEW, "20 documents could show an effect, 30 are needed"),
        (
            {"p_adjusted": None, "n_informative_documents": 39, "n_clusters": 11},
            "Fewer than 5 clusters could show an effect, 5 are needed",
        ),
        ({"p_adjusted": None, "flags": "x, no_lengths"}, "Needs the documents' lengths"),
        ({"p_adjusted": None, "flags": "at_ceiling"}, "Finds nearly everything"),
        ({"flags": "position_blind"}, "the questions differ by position"),
        ({"flags": "position_blind", "p_adjusted": 0.4}, "no evidence that the questions differ"),
        ({"flags": "at_floor, position_blind"}, "Finds next to nothing"),
        ({"flags": "truncating", "seen": 0.6}, "late evidence is found worse, as it must be."),
        (
            {"flags": "truncating", "seen": 0.6, "drop_low": -0.1},
            "not of late evidence found worse",
        ),
        ({"flags": "truncating", "seen": 0.6, "p_adjusted": 0.4}, "could be missed, too"),
        ({"flags": "truncating"}, "too short here to cut anything"),
        ({"psi": None, "n_queries": 0, "n_buckets": 0}, "No query counts here."),
        ({"psi": None, "n_buckets": 1}, "All queries sit in one bucket"),
        ({"psi": None, "n_buckets": 2}, "Nothing is found in any bucket"),
    ],
)
def test_a_row_comes_to_this_advice(changes: dict[str, Any], text: str) -> None:
    assert text in said(psi_row("a", **changes)).advice


def test_both_p_are_named_where_only_that_of_the_model_alone_rejects() -> None:
    unclear = {"p_position": 0.03, "p_adjusted": 0.12, "p_control": 0.04, "psi_same_high": None}
    rows = [psi_row(name, **unclear, p_control_adjusted=0.08) for name in "abc"]
    rows += [psi_row("d", p_position=None, p_adjusted=None)]  # not tested: not adjusted for
    rows += [psi_row("e", p_position=0.001, p_adjusted=0.004, p_control=0.04)]
    rows[-1]["p_control_adjusted"] = 0.2
    rows += [psi_row("a", evidence="visible")]
    found = {one.model: one.advice for one in verdicts(rows)}
    assert found["a"] == (
        "No evidence of an effect (p = 0.030 of this model alone, 0.120 adjusted for 4 models); "
        "more documents would tell more."
    )
    assert "the control (p = 0.040 of this model alone, 0.200 adjusted for 5 models)" in found["e"]


def test_what_is_given_is_named_where_the_word_rests_on_it() -> None:
    unlike = {"p_control_adjusted": 0.004, "worst_same": "middle"}
    found = said(psi_row("a", **UNCLEAR, p_control_adjusted=0.3), visible(**unlike))
    assert found.word == "sensitive"
    lowest = "Lowest in \u2068middle\u2069 on the evidence given (against the control p = 0.004): "
    assert found.advice.startswith(lowest)


def other(scheme: str, **changes: Any) -> dict[str, Any]:
    return psi_row("a", buckets=scheme) | changes


@pytest.mark.parametrize(
    ("p", "others", "sentence"),
    [
        (
            0.09,
            [other("squad", p_adjusted=1e-5), other("relative-20", p_adjusted=0.01)],
            "By squad p < 0.001, by relative-20 p = 0.010: depends on position there.",
        ),
        (0.09, [other("squad", p_adjusted=0.6), other("b", p_adjusted=None)], ""),
        (0.09, [other("squad", evidence="visible"), other("squad", model="b")], ""),
        (0.09, [other("squad", flags="at_floor")], ""),
        (None, [other("squad", p_adjusted=0.01)], "By squad p = 0.010: depends on position there."),
        (
            0.2,
            [other("squad", test="between")],
            "By squad p = 0.002: depends on position, or on the document, there.",
        ),
        (
            0.01,
            [other("squad", p_adjusted=0.6), other("relative-20")],
            "By squad p = 0.600: not shown there.",
        ),
    ],
)
def test_bucket_schemes_that_disagree_are_named(
    p: float | None, others: list[dict[str, Any]], sentence: str
) -> None:
    rows = [psi_row("a", p_adjusted=p)]
    alone, (beside,) = said(*rows), verdicts(rows, others)
    assert beside.word == alone.word  # the first scheme leads
    assert beside.advice == f"{alone.advice} {sentence}".strip()
    assert beside.is_disputed == bool(sentence)


@pytest.mark.parametrize(
    ("changes", "of_same", "of_plain"),
    [
        ({}, "0.220 [0.170, 0.270]", "0.250"),  # of equal means: p is of another test
        ({"p_adjusted": 0.06}, "0.220 [0.000, 0.270]", "0.250"),
        ({"p_adjusted": None, "test": None}, "0.220 [0.000, 0.270]", "0.250"),
        ({"test": "between"}, "0.220 [0.170, 0.270]", "0.250 [0.200, 0.300]"),
        ({"test": "between", "p_adjusted": 0.06}, "0.220 [0.000, 0.270]", "0.250 [0.000, 0.300]"),
        ({"psi_same_low": 0.0}, "0.220", "0.250"),  # of another level than .05
        ({"psi_same_low": 0.0001}, "0.220 [<0.001, 0.270]", "0.250"),
        ({"psi_same_high": None, "psi": None}, "0.220", "–"),
    ],
)
def test_an_interval_is_shown_as_the_adjusted_p_says(
    changes: dict[str, Any], of_same: str, of_plain: str
) -> None:
    row = psi_row("a", **changes)
    assert shown_psi(row) == of_same
    assert shown_psi(row, "psi") == of_plain
    assert shown_interval(row)[0] is None or "[" in of_same


def documented(header: str) -> set[str]:
    """The first column of a table of docs/psi-reference.md."""
    page = (Path(__file__).parents[2] / "docs" / "psi-reference.md").read_text(encoding="utf-8")
    rows = page.split(header)[1].split("\n\n")[0].splitlines()[2:]
    return {normalised(row.split(" | ")[0].removeprefix("| ")) for row in rows}


def normalised(sentence: str) -> str:
    """A sentence with its figures and labels left out, as docs/psi-reference.md has it."""
    sentence = re.sub("\u2068[^\u2069]*\u2069", "…", sentence)
    sentence = re.sub(r"p [<=>] ?[\d.]+\d", "p …", sentence)
    return re.sub(r"\d[\d.,]*( %)?", "…", sentence)


BOTH_P = " (p … of this model alone, … adjusted for … models)"


def sentences(advice: str) -> list[str]:
    """The sentences of an advice as the page has them; an aside on both p by itself."""
    text = normalised(advice)
    aside = [BOTH_P.strip()] if BOTH_P in text else []
    text = re.sub(r"(do not show it.*?) [(]p …[)]", r"\1", text.replace(BOTH_P, ""))
    return re.split("(?<=[.]) (?=[A-Z…])", text) + aside


CUT_TOO = "… of the evidence is cut."


@pytest.mark.parametrize(
    ("seen", "mentioned"), [(None, False), (1.0, False), (0.96, False), (0.95, True), (0.56, True)]
)
def test_a_verdict_mentions_a_material_cut(seen: float | None, mentioned: bool) -> None:
    # sensitive on the evidence that was given, too: the advice is windows or a reranker
    advice = said(psi_row("a", seen=seen), visible()).advice
    assert advice.startswith("Lowest in")
    assert advice.endswith("% of the evidence is cut.") == mentioned


def test_the_page_names_each_advice_and_no_other_and_no_word_says_more_than_figures_bear() -> None:
    grid = product(
        (None, 0.01, 0.2),  # adjusted p
        (None, 0.01, 0.2),  # against the control
        ("within", "between"),
        (None, 0.5, 1.0),  # share given
        (None, 0.01, 0.2),  # of the evidence given
        (None, 0.01, 0.2),
        ("", "at_floor", "at_ceiling", "no_lengths"),
        ("", "position_blind", "truncating"),
        (0.001, 0.5),  # of this model alone, and against the control
        (
            {},
            {"control": None, "psi_same_high": None, "drop_low": -0.1}
            | {"n_informative_documents": 12},
        ),
        ((None, None, None), (-0.2, -0.3, -0.1)),  # truncation
    )
    advice = set()
    for p, against, test, seen, p_seen, against_seen, flags, control, alone, more, cost in grid:
        row = psi_row("a", p_adjusted=p, p_control_adjusted=against, test=test) | more
        row |= {"seen": seen, "flags": ", ".join((flags, control)), "p_position": alone}
        row["p_control"] = alone
        row |= dict(zip(("truncation", "truncation_low", "truncation_high"), cost, strict=True))
        seen_row = visible(p_adjusted=p_seen, p_control_adjusted=against_seen, test=test)
        found = said(row, seen_row)
        advice.update(sentences(found.advice))
        # Whatever the word, half of the evidence cut is mentioned.
        assert (seen == 0.5) == ("50.0 % of the evidence is cut" in found.advice)
        assert (found.word == "not testable") == (p is None or flags == "at_floor")
        if found.word == "sensitive" and test == "within":
            assert (0.01, 0.01) in ((p, against), (p_seen, against_seen))
        elif found.word == "sensitive":
            assert 0.01 in (against, against_seen)
    unlike = [other(name, p_adjusted=0.001) for name in ("squad", "relative-20")]
    silent = [one | {"p_adjusted": 0.6} for one in unlike]
    between = [one | {"test": "between"} for one in unlike]
    for p, others in ((0.5, unlike), (0.001, silent), (0.5, between)):
        advice.update(sentences(verdicts([psi_row("a", p_adjusted=p)], others)[0].advice))
    few = said(psi_row("a", flags="few_clusters", n_clusters=4))
    advice.update(sentences(few.advice))
    said_of_documents = documented("| advice | condition |")
    assert advice == said_of_documents
    assert not [words for words in FORBIDDEN if words in " ".join(advice).lower()]
    assert {f"*{word}*" for word in WORDS} == documented("| verdict | condition |")


def test_few_clusters_of_the_evidence_given_are_named() -> None:
    rows = [
        psi_row("a", p_adjusted=0.01, p_control_adjusted=0.5, seen=0.8, n_clusters=6),
        psi_row("a", evidence="visible", p_adjusted=0.01, p_control_adjusted=0.01,
                flags="few_clusters", n_clusters=4),
    ]  # fmt: skip
    (found,) = verdicts(rows)
    assert found.word == "sensitive"
    assert found.advice.endswith("This holds in these 4 clusters alone.")


def test_effects_come_first_and_what_finds_next_to_nothing_last() -> None:
    rows = [
        undefined_row("undefined"),
        psi_row("floor", flags="at_floor", psi_same_corrected=0.9),
        psi_row("untested", p_adjusted=None),
        psi_row("none", p_adjusted=0.5, psi_same_corrected=0.8),
        psi_row("small", psi_same_corrected=0.1),
        psi_row("large", psi_same_corrected=0.3),
    ]
    order = [found.model for found in verdicts(rows)]
    assert order == ["large", "small", "none", "untested", "floor", "undefined"]


def test_every_flag_is_shown_with_its_text() -> None:
    page = render_report(report_input([psi_row("a", flags=", ".join(FLAGS))]))
    for name, text in FLAGS.items():
        assert f"{name}</span> {text}</li>" in page
