"""What is said of a row follows from its figures, and nothing else is said."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from report_tables import FORBIDDEN, psi_row, report_input, undefined_row

from psibench.metrics.psi import FLAGS
from psibench.report.page import render_report
from psibench.report.verdict import WORDS, Verdict, verdicts

TOO_FEW = {"p_adjusted": None, "n_informative_documents": 20}
BETWEEN = {"test": "between", "flags": "between_documents", "psi_same": None} | {
    "psi_same_low": None,
    "psi_same_high": None,
    "psi_same_corrected": None,
}


def said(*rows: dict[str, Any], **controls: str) -> Verdict:
    """Return the only verdict on some rows."""
    (found,) = verdicts(rows, controls=controls)
    return found


def visible(**changes: Any) -> dict[str, Any]:
    return psi_row("a", evidence="visible", n_queries=900) | changes


@pytest.mark.parametrize(
    ("changes", "answer", "text"),
    [
        (
            {},
            "depends",
            "Scores depend on where in the document the evidence is (adjusted p = 0.002)",
        ),
        (
            {},
            "beyond",
            "The model is position-sensitive beyond the position-blind control "
            "(adjusted p = 0.020).",
        ),
        (
            {"p_control_adjusted": 0.06},
            "beyond",
            "No evidence that it goes beyond the position-blind control",
        ),
        ({"p_control_adjusted": None}, "beyond", "cannot be compared with the position-blind"),
        ({"control": None}, "beyond", "No position-blind control was run"),
        (
            {"p_adjusted": 0.06, "p_position": 0.06},
            "depends",
            "No evidence of a position effect (adjusted p = 0.060); a PSI above 0.270 is excluded.",
        ),
        (
            {"p_adjusted": 0.06, "p_position": 0.03},
            "depends",
            "No evidence of a position effect (adjusted p = 0.060, of this model alone p = 0.030);",
        ),
        (BETWEEN, "depends", "Compared between documents, adjusted for length only: scores differ"),
        (
            BETWEEN | {"test": None, "p_adjusted": None, "flags": "between_documents, no_lengths"},
            "depends",
            "Not tested: documents would have to be compared with each other, for which their "
            "lengths have to be known.",
        ),
        (
            {"seen": None, "truncation": None, "flags": "unplaced, given_unknown"},
            "truncation",
            "Evidence is labelled by class, without spans: how much of it the model was given, "
            "and what truncation costs, is not known.",
        ),
        (
            BETWEEN | {"length_imbalance": 0.2},
            "depends",
            "which cannot be separated from document length",
        ),
        (
            BETWEEN,
            "beyond",
            "Compared between documents, it differs by position from the",
        ),
        (BETWEEN, "size", "at equal documents it cannot be told"),
        (BETWEEN | {"psi_low": None, "psi_high": None}, "size", "Published PSI 0.250; at equal"),
        (
            {"p_adjusted": None, "test": None, "n_informative_documents": 12}
            | {"flags": "too_few_documents"},
            "depends",
            "Not tested: the data leave 12 documents that could show an effect, and 30 are needed.",
        ),
        (
            {"p_adjusted": None, "test": None, "n_informative_documents": 39, "n_clusters": 11}
            | {"flags": "too_few_documents"},
            "depends",
            "the data leave fewer than 10 clusters that could show an effect, and 10 are needed.",
        ),
        (
            {"flags": "confounded"},
            "size",
            "Published PSI 0.250 [0.200, 0.300] mixes position with document.",
        ),
        ({"flags": "at_floor", "mean": 0.02}, "depends", "Finds next to nothing here (mean 0.020)"),
        (
            {"seen": 0.985},
            "truncation",
            "It was given the whole evidence of 98.5 % of the queries.",
        ),
        ({}, "truncation", "nothing here is truncation"),
        ({"seen": None}, "truncation", "is not known"),
        (
            {"seen": 0.16},
            "depends",
            "; of 84.0 % of the queries it is not wholly inside the model's input.",
        ),
        ({"seen": 0.16}, "truncation", "Shorter passages (passages.max_words), more max_tokens"),
        (
            {"seen": 0.7, "truncation": -0.2, "truncation_low": -0.3, "truncation_high": -0.1},
            "truncation",
            "evidence that is not wholly inside its input costs 0.200 of the score",
        ),
        (
            {"seen": 0.7, "truncation": -0.2, "truncation_low": -0.5, "truncation_high": 0.1},
            "truncation",
            "What truncation costs cannot be told from nothing",
        ),
    ],
)
def test_a_row_is_put_in_these_words(changes: dict[str, Any], answer: str, text: str) -> None:
    assert text in getattr(said(psi_row("a", **changes)), answer)


@pytest.mark.parametrize(("seen", "control"), [(1.0, None), (0.95, None), (0.3, "truncating")])
def test_a_model_that_was_given_most_or_is_to_be_cut_off_gets_no_advice(
    seen: float, control: str | None
) -> None:
    controls = {"a": control} if control else {}
    assert "max_tokens" not in said(psi_row("a", seen=seen), visible(), **controls).truncation


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "beyond the position-blind control (adjusted p = 0.020): neglect."),
        (
            {"p_control_adjusted": 0.2},
            "without evidence that it goes beyond the position-blind control",
        ),
        ({"p_control_adjusted": None}, "neglect, unless it is the questions"),
        (
            {"p_adjusted": 0.2, "p_position": 0.2},
            "no evidence of a position effect (adjusted p = 0.200); a PSI above 0.270",
        ),
        (TOO_FEW, "position is not tested: 20 documents could show an effect"),
        ({"test": "between"}, "positions within documents cannot be compared."),
    ],
)
def test_evidence_that_was_given_is_put_in_these_words(changes: dict[str, Any], text: str) -> None:
    assert text in said(psi_row("a", seen=0.7), visible(**changes)).truncation


@pytest.mark.parametrize(
    ("of_visible", "of_whole", "text"),
    [
        (
            0.2,
            {},
            "whole there is evidence of a position effect (adjusted p = 0.002), beyond the pos",
        ),
        (
            0.2,
            {"p_control_adjusted": 0.7},
            "effect (adjusted p = 0.002), without evidence that it goes beyond the position-blind",
        ),
        (
            0.2,
            {"p_control_adjusted": None},
            "whole there is evidence of a position effect (adjusted p = 0.002).",
        ),
        (None, {}, "In the documents it read whole there is evidence of a position effect"),
        (0.2, {"p_adjusted": 0.3}, ""),
        (0.2, {"test": "between"}, ""),
        (0.01, {}, ""),
    ],
)
def test_documents_read_whole_that_tell_more_than_what_was_given_are_not_passed_over(
    of_visible: float | None, of_whole: dict[str, Any], text: str
) -> None:
    whole = psi_row("a", evidence="whole", n_queries=500) | of_whole
    found = said(psi_row("a", seen=0.7), visible(p_adjusted=of_visible), whole).truncation
    assert text in found
    assert bool(text) == ("it read whole" in found)


def test_every_combination_of_figures_says_no_more_than_they_bear() -> None:
    grid = product(
        (None, 0.01, 0.2),  # adjusted p
        (None, 0.01, 0.2),  # against the control
        ("within", "between"),
        (None, 0.5, 1.0),  # share given
        (None, 0.01, 0.2),  # the same on the evidence given
        (None, 0.01, 0.2),
        ("within", "between"),
        ("", "at_floor", "at_ceiling", "confounded"),
        (None, "position-blind", "truncating"),
    )
    for p, against, test, seen, p_seen, against_seen, test_seen, flags, control in grid:
        row = psi_row("a", p_adjusted=p, p_control_adjusted=against, test=test) | {
            "seen": seen,
            "flags": flags,
        }
        seen_row = visible(p_adjusted=p_seen, p_control_adjusted=against_seen, test=test_seen)
        found = said(row, seen_row, a=control)  # type: ignore[arg-type]
        text = " ".join(found.sentences)
        assert not [words for words in FORBIDDEN if words in text.lower()]
        if "neglect" in text:
            assert (p_seen, test_seen) == (0.01, "within")
            assert against_seen != 0.2
            assert seen == 0.5
            assert control != "position-blind"
            assert flags != "at_floor"
            assert (p, against_seen) != (0.01, 0.01) or found.word == "sensitive"
        if "position-sensitive beyond" in text:
            assert (p, against, test) == (0.01, 0.01, "within")
            assert found.word == "sensitive"
        assert (found.word == "not testable") == (p is None or flags == "at_floor")
        if found.word == "sensitive":
            beyond = (p, against, test), (p_seen, against_seen, test_seen)
            assert (0.01, 0.01, "within") in beyond
        if "Scores depend on where in the document" in text:
            assert (p, test) == (0.01, "within")
            assert flags != "at_floor"
        if "no evidence of a position effect" in found.depends.lower():
            assert p == 0.2


def normalised(sentence: str) -> str:
    """A sentence with its figures and labels left out, as docs/psi.md has it."""
    sentence = re.sub("\u2068[^\u2069]*\u2069", "…", sentence)
    sentence = re.sub(r"p [<=>] ?[\d.]+\d", "p …", sentence)
    return re.sub(r"\d[\d.,]*\d( %)?", "…", re.sub(r"\[[^]]*\]", "[…]", sentence))


def test_the_page_names_each_sentence_and_no_other() -> None:
    grid = product(
        (None, 0.01, 0.2),  # adjusted p
        (None, 0.01, 0.2),  # against the control
        ("within", "between"),
        (None, 0.5, 1.0),  # share given
        (None, 0.01, 0.2),  # of the evidence given, and of documents read whole
        ("within", "between"),
        ("", "at_floor", "at_ceiling", "confounded", "given_unknown", "no_lengths"),
        (None, "position-blind", "truncating"),
        (0.001, 0.5),  # of this model alone
        (
            {},
            {"control": None, "psi_same": None, "psi_same_high": None}
            | {"drop_low": -0.1, "length_imbalance": 0.3, "n_informative_documents": 12},
        ),
        ((None, None, None), (-0.2, -0.3, -0.1), (-0.2, -0.5, 0.1)),  # truncation
    )
    found, advice = set(), set()
    for p, against, test, seen, p_seen, test_seen, flags, control, alone, changes, cost in grid:
        row = psi_row("a", p_adjusted=p, p_control_adjusted=against, test=test) | changes
        row |= {"seen": seen, "flags": flags, "p_position": alone}
        row |= dict(zip(("truncation", "truncation_low", "truncation_high"), cost, strict=True))
        seen_row = visible(p_adjusted=p_seen, p_control_adjusted=against, test=test_seen)
        seen_row["p_position"] = alone
        seen_row["n_informative_documents"] = row["n_informative_documents"]
        whole = psi_row("a", evidence="whole", p_control_adjusted=against)
        one = said(row, seen_row, whole, **({"a": control} if control else {}))
        found |= {
            normalised(text) for text in re.split(r"(?<=[.])\s(?=[A-Z])", " ".join(one.sentences))
        }
        advice.add(normalised(one.advice))
    assert found == documented("| said | rests on |")
    assert advice == documented("| what to do | said of |")
    assert {f"*{word}*" for word in WORDS} == documented("| word | rests on |")


def documented(header: str) -> set[str]:
    """The first column of a table of docs/psi.md."""
    page = (Path(__file__).parents[2] / "docs" / "psi.md").read_text(encoding="utf-8")
    rows = page.split(header)[1].split("\n\n")[0].splitlines()[2:]
    return {row.split(" | ")[0].removeprefix("| ") for row in rows}


CUT = {"seen": 0.7, "truncation": -0.2, "truncation_low": -0.3, "truncation_high": -0.1}
UNCLEAR = CUT | {"truncation_high": 0.1}


@pytest.mark.parametrize(
    ("changes", "of_visible", "word"),
    [
        ({}, None, "sensitive"),
        ({"p_control_adjusted": 0.06}, None, "not shown"),
        ({"control": None, "p_control_adjusted": None}, None, "not shown"),
        ({"p_adjusted": 0.06}, None, "not shown"),
        ({"p_adjusted": 0.06, **CUT}, {}, "not shown"),
        (BETWEEN, None, "not shown"),
        (CUT, None, "truncation"),
        (CUT, {"p_adjusted": 0.06}, "truncation"),
        (CUT, {"p_adjusted": None, "flags": "too_few_documents, at_ceiling"}, "truncation"),
        (CUT, {"p_control_adjusted": 0.06}, "truncation"),
        (CUT, {"test": "between"}, "truncation"),
        (CUT | {"p_control_adjusted": None}, None, "truncation"),
        (CUT, {}, "sensitive"),
        (UNCLEAR, {"p_adjusted": 0.06}, "sensitive"),
        (UNCLEAR | {"p_control_adjusted": 0.06}, {}, "sensitive"),
        (UNCLEAR | {"p_control_adjusted": 0.06}, {"p_control_adjusted": 0.06}, "not shown"),
        ({"p_adjusted": None, "test": None, "flags": "too_few_documents"}, None, "not testable"),
        ({"p_adjusted": None, "flags": "too_few_documents, at_ceiling"}, None, "not testable"),
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


def test_effects_come_first_and_what_finds_next_to_nothing_last() -> None:
    rows = [
        undefined_row("undefined"),
        psi_row("floor", flags="at_floor", psi_same_corrected=0.9),
        psi_row("untested", p_adjusted=None),
        psi_row("none", p_adjusted=0.5, psi_same_corrected=0.8),
        psi_row("small", psi_same_corrected=0.1),
        psi_row("large", psi_same_corrected=0.3),
    ]
    order = [found.model for found in verdicts(rows, controls={})]
    assert order == ["large", "small", "none", "untested", "floor", "undefined"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"n_queries": 0, "n_buckets": 0}, "No query counts here."),
        ({"n_buckets": 1}, "All queries sit in one bucket"),
        ({"n_buckets": 3}, "Nothing is found in any bucket"),
    ],
)
def test_row_without_a_psi_says_why(changes: dict[str, Any], text: str) -> None:
    assert text in said(undefined_row("a", **changes)).depends


@pytest.mark.parametrize(
    ("control", "changes", "text"),
    [
        ("position-blind", {}, "the questions differ by position"),
        ("position-blind", {"p_adjusted": 0.4}, "no evidence that the questions differ"),
        ("position-blind", TOO_FEW, "20 documents could show an effect"),
        ("position-blind", {"flags": "at_floor"}, "Finds next to nothing"),
        ("truncating", {"seen": 0.6}, "late evidence is found worse, as it must be."),
        ("truncating", {"seen": 0.6, "drop_low": -0.1}, "not of late evidence found worse"),
        ("truncating", {"seen": 0.6, "p_adjusted": 0.4}, "could be missed, too"),
        ("truncating", {}, "too short here to cut anything"),
        ("truncating", TOO_FEW, "20 documents could show an effect"),
        ("truncating", {"psi": None}, "Nothing is found in any bucket"),
    ],
)
def test_controls_are_read_in_words(control: str, changes: dict[str, Any], text: str) -> None:
    assert text in said(psi_row("c", **changes), c=control).advice


def test_every_flag_is_shown_with_its_text() -> None:
    page = render_report(report_input([psi_row("a", flags=", ".join(FLAGS))]))
    for name, text in FLAGS.items():
        assert f"{name}</span> {text}</li>" in page


def test_model_that_chose_the_queries_is_marked_in_the_answers() -> None:
    page = render_report(report_input([psi_row("a", flags="filter_panel")]))
    chip = '<span class="chip warn" title="this retriever also chose which queries'
    assert chip in page.split('id="psi"')[0]
