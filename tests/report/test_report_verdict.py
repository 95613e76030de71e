"""The label and the advice of a verdict follow from the numbers of its rows."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from report_tables import FORBIDDEN, psi_row, report_input, undefined_row

from psibench.metrics.psi import FLAGS
from psibench.report.page import render_report
from psibench.report.scores import card_facts
from psibench.report.verdict import (
    CONTROL,
    CUT_OFF,
    NO_CONTROL,
    NO_EFFECT,
    NO_MORE,
    NOT_TESTABLE,
    SENSITIVE,
    VERDICT_LABELS,
    ModelVerdict,
    shown_interval,
    shown_psi,
    verdicts,
)

TOO_FEW = {"p_adjusted": None, "n_informative_documents": 20}
BETWEEN = {"test": "between", "psi_same": None, "psi_same_high": None}
ALIKE = BETWEEN | {"p_control": 0.06, "p_control_adjusted": 0.06}
"""Between documents, with no difference from the control."""
CUT = {"seen": 0.7, "truncation": -0.2, "truncation_low": -0.3, "truncation_high": -0.1}
UNCLEAR = CUT | {"truncation_high": 0.1}


def only_verdict(*rows: dict[str, Any]) -> ModelVerdict:
    (found,) = verdicts(rows)
    return found


def visible(**changes: Any) -> dict[str, Any]:
    return psi_row("a", evidence="visible", n_queries=900) | changes


@pytest.mark.parametrize(
    ("changes", "of_visible", "label"),
    [
        ({}, None, SENSITIVE),
        ({"p_control_adjusted": 0.06}, None, NO_MORE),
        ({"control": None, "p_control_adjusted": None}, None, NO_CONTROL),
        ({"p_adjusted": 0.06, **CUT}, {}, NO_EFFECT),
        (BETWEEN, None, SENSITIVE),
        (BETWEEN | {"p_adjusted": 0.9}, None, SENSITIVE),
        (BETWEEN | {"p_adjusted": 0.9, "flags": "position_blind"}, None, CONTROL),
        (BETWEEN | {"p_adjusted": 0.9, **CUT}, None, CUT_OFF),
        (BETWEEN | {"p_adjusted": None}, None, NOT_TESTABLE),
        (BETWEEN | {"flags": "at_floor"}, None, NOT_TESTABLE),
        (BETWEEN | {"control": None, "p_control_adjusted": None}, None, NO_CONTROL),
        (ALIKE, None, NO_MORE),
        (CUT, None, CUT_OFF),
        (CUT, {"p_adjusted": 0.06}, CUT_OFF),
        (CUT, {"p_adjusted": None}, CUT_OFF),
        (CUT, {"p_control_adjusted": 0.06}, CUT_OFF),
        (CUT, {"test": "between"}, SENSITIVE),
        (CUT, {"test": "between", "p_adjusted": 0.9}, SENSITIVE),
        (CUT, {"test": "between", "p_control_adjusted": 0.06}, CUT_OFF),
        (CUT | {"p_control_adjusted": None}, None, CUT_OFF),
        (CUT | {"flags": "truncating"}, None, CONTROL),
        (CUT, {}, SENSITIVE),
        (UNCLEAR, {"p_adjusted": 0.06}, SENSITIVE),
        (UNCLEAR | {"p_control_adjusted": 0.06}, {}, SENSITIVE),
        (UNCLEAR | {"p_control_adjusted": 0.06}, {"p_control_adjusted": 0.06}, NO_MORE),
        (TOO_FEW, None, NOT_TESTABLE),
        ({"flags": "at_floor", **CUT}, {}, NOT_TESTABLE),
        ({"psi": None}, None, NOT_TESTABLE),
    ],
)
def test_rows_lead_to_this_label(
    changes: dict[str, Any], of_visible: dict[str, Any] | None, label: str
) -> None:
    rows = [psi_row("a") | changes]
    rows += [] if of_visible is None else [visible(**of_visible)]
    assert only_verdict(*rows).label == label


MIXED = "Positions differ mostly between documents, so difficult documents may look like an effect"
MISSED = "Control: its known loss of late evidence was not detected"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "Scores are lowest for evidence at document ends: try windows, fusion or a reranker"),
        (
            {"worst_same": "100-200"},
            "Scores are lowest for evidence in bucket \u2068100-200\u2069: try windows",
        ),
        (CUT, "30.0 % of the evidence is cut off: use shorter passages"),
        (
            UNCLEAR,
            "Scores are lowest for evidence at document ends; 30.0 % of the evidence is cut off:",
        ),
        (
            ALIKE,
            f"no more than the control's; the questions may be the cause. {MIXED}",
        ),
        (
            BETWEEN | {"p_adjusted": 0.9},
            "at document ends (against the control on the same documents, p = 0.020): try",
        ),
        (BETWEEN, f"(docs/mitigations.md). {MIXED}"),
        (
            BETWEEN | {"p_adjusted": 0.9, **CUT},
            "cut off (against the control on the same documents, p = 0.020): use shorter",
        ),
        (
            {"flags": "few_clusters", "n_clusters": 4, "p_adjusted": 0.2},
            "This holds only for these 4 clusters (e.g. articles or sites).",
        ),
        ({"control": None, "p_control_adjusted": None}, "add a control that ignores position"),
        (
            {"p_control": 0.06, "p_control_adjusted": 0.06},
            "Scores depend on position no more than the control's; the questions may be the cause.",
        ),
        (
            {"p_adjusted": 0.06, "p_position": 0.06},
            "No effect found: PSI is below 0.270 (95 % bound).",
        ),
        (
            {"p_adjusted": 0.06, "p_position": 0.06, "psi_same_high": None},
            "No effect found; use more documents to get an upper bound of PSI.",
        ),
        (TOO_FEW, "Needs 30 documents that can show an effect (has 20) to test position."),
        (
            {"p_adjusted": None, "n_informative_documents": 39, "n_clusters": 11},
            "Needs 5 clusters that can show an effect to test position.",
        ),
        ({"p_adjusted": None, "flags": "x, no_lengths"}, "Needs document lengths"),
        ({"p_adjusted": None, "flags": "at_ceiling"}, "Finds nearly everything"),
        ({"flags": "position_blind"}, "Control: it ignores position, so the questions cause"),
        ({"flags": "position_blind", "p_adjusted": 0.4}, "No effect found"),
        ({"flags": "at_floor, position_blind"}, "Finds almost nothing"),
        (
            {"flags": "truncating", "seen": 0.6},
            "position effect found, as expected (40.0 % of the evidence is cut off).",
        ),
        (
            BETWEEN | {"p_adjusted": 0.06, "flags": "truncating", "seen": 0.6},
            "position effect found, as expected (40.0 % of the evidence is cut off).",
        ),
        ({"flags": "truncating", "seen": 0.6, "drop_low": -0.1}, MISSED),
        ({"flags": "truncating", "seen": 0.6, "p_adjusted": 0.4}, MISSED),
        ({"flags": "truncating"}, f"{MISSED} (0.0 % of the evidence is cut off)"),
        ({"psi": None, "n_queries": 0, "n_buckets": 0}, "at least two position buckets"),
        ({"psi": None, "n_buckets": 1}, "at least two position buckets"),
        ({"psi": None, "n_buckets": 2}, "Finds almost nothing"),
    ],
)
def test_a_row_leads_to_this_advice(changes: dict[str, Any], text: str) -> None:
    assert text in only_verdict(psi_row("a", **changes)).advice


def test_both_p_are_named_if_only_the_unadjusted_one_rejects() -> None:
    unclear = {"p_position": 0.03, "p_adjusted": 0.12, "p_control": 0.04, "psi_same_high": None}
    rows = [psi_row(name, **unclear, p_control_adjusted=0.08) for name in "abc"]
    rows += [psi_row("d", p_position=None, p_adjusted=None)]  # not tested: not adjusted for
    rows += [psi_row("e", p_position=0.001, p_adjusted=0.004, p_control=0.04)]
    rows[-1]["p_control_adjusted"] = 0.2
    rows += [psi_row("a", evidence="visible")]
    found = {one.model: one.advice for one in verdicts(rows)}
    assert found["a"] == (
        "No effect found (p = 0.030 before and 0.120 after adjusting for 4 models); use more "
        "documents to get an upper bound of PSI."
    )
    assert "the control's (p = 0.040 before and 0.200 after adjusting for 5 models);" in found["e"]


def test_visible_evidence_is_named_if_the_verdict_uses_it() -> None:
    unlike = {"p_control_adjusted": 0.004, "worst_same": "middle"}
    found = only_verdict(psi_row("a", **UNCLEAR, p_control_adjusted=0.3), visible(**unlike))
    assert found.label == SENSITIVE
    basis = "(evidence inside the input; against the control, p = 0.004)"
    assert found.advice.startswith(
        f"Scores are lowest for evidence in document middles {basis}: try windows"
    )


def other(scheme: str, **changes: Any) -> dict[str, Any]:
    return psi_row("a", buckets=scheme) | changes


@pytest.mark.parametrize(
    ("p", "others", "sentence"),
    [
        (
            0.09,
            [other("squad", p_adjusted=1e-5), other("relative-20", p_adjusted=0.01)],
            "Other bucket schemes (divisions into positions) disagree: squad p < 0.001, "
            "relative-20 p = 0.010.",
        ),
        (0.09, [other("squad", p_adjusted=0.6), other("b", p_adjusted=None)], ""),
        (0.09, [other("squad", evidence="visible"), other("squad", model="b")], ""),
        (0.09, [other("squad", flags="at_floor")], ""),
        (
            None,
            [other("squad", p_adjusted=0.01)],
            "Other bucket schemes (divisions into positions) disagree: squad p = 0.010.",
        ),
        (
            0.01,
            [other("squad", p_adjusted=0.6), other("relative-20")],
            "Other bucket schemes (divisions into positions) disagree: squad p = 0.600.",
        ),
    ],
)
def test_disagreeing_bucket_schemes_are_named(
    p: float | None, others: list[dict[str, Any]], sentence: str
) -> None:
    rows = [psi_row("a", p_adjusted=p)]
    without, (found,) = only_verdict(*rows), verdicts(rows, others)
    assert found.label == without.label  # the first scheme leads
    assert found.advice == f"{without.advice} {sentence}".strip()


@pytest.mark.parametrize(
    ("changes", "of_same", "of_plain"),
    [
        ({}, "0.220 [0.170, 0.270]", "0.250"),  # p is from a test other than equal means
        ({"p_adjusted": 0.06}, "0.220 [0.000, 0.270]", "0.250"),
        ({"p_adjusted": None, "test": None}, "0.220 [0.000, 0.270]", "0.250"),
        ({"test": "between"}, "0.220 [0.170, 0.270]", "0.250 [0.200, 0.300]"),
        ({"test": "between", "p_adjusted": 0.06}, "0.220 [0.000, 0.270]", "0.250 [0.000, 0.300]"),
        ({"psi_same_low": 0.0}, "0.220", "0.250"),  # of another level than .05
        ({"psi_same_low": 0.0001}, "0.220 [<0.001, 0.270]", "0.250"),
        ({"psi_same_high": None, "psi": None}, "0.220", "–"),
    ],
)
def test_a_printed_interval_agrees_with_the_adjusted_p(
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


NEEDS = re.compile(r"Needs (.+?) to test position[.]")
LOWEST_CUT = re.compile(r"^Scores are lowest [^.]*?; (?=… of the evidence)")


def normalised(sentence: str) -> str:
    """A sentence as docs/psi-reference.md has it: without numbers, labels and parentheses."""
    sentence = re.sub("(at document ends|in bucket \u2068[^\u2069]*\u2069)", "…", sentence)
    sentence = re.sub(r" [(](p [<=>]|against|evidence|\d[\d.]* %|has)[^)]*[)]", "", sentence)
    sentence = re.sub(r"(disagree: ).*[.]", r"\1….", sentence)
    sentence = re.sub(r"PSI is below \S+", "PSI is below …", sentence)
    sentence = re.sub(r"\d[\d.]* % of the evidence", "… of the evidence", sentence)
    sentence = re.sub(r"these \d+ clusters", "these … clusters", sentence)
    return LOWEST_CUT.sub("", NEEDS.sub("Needs … to test position.", sentence))


def sentences(advice: str) -> list[str]:
    return [normalised(one) for one in re.split(r"(?<=[.]) (?=[A-Z\d])", advice)]


@pytest.mark.parametrize(
    ("seen", "mentioned"), [(None, False), (1.0, False), (0.96, False), (0.95, True), (0.56, True)]
)
def test_a_verdict_mentions_a_material_cut(seen: float | None, mentioned: bool) -> None:
    # also sensitive on visible evidence: the advice is windows or a reranker
    advice = only_verdict(psi_row("a", seen=seen), visible()).advice
    assert advice.startswith("Scores are lowest for evidence at document ends: try windows")
    assert ("% of the evidence is cut off: use" in advice) == mentioned


@pytest.mark.parametrize(("p", "said"), [(None, False), (0.06, False), (0.02, True)])
def test_a_cut_does_not_hide_an_effect_inside_the_input(p: float | None, said: bool) -> None:
    inside = visible(p_adjusted=p, p_control_adjusted=0.06)
    verdict = only_verdict(psi_row("a") | CUT, inside)
    assert verdict.label == CUT_OFF
    text = "Scores depend on position inside the input, too (p = 0.020); the questions may be"
    assert (text in verdict.advice) == said


def test_documented_sentences_cover_all_verdicts() -> None:
    grid = product(
        (None, 0.01, 0.2),  # adjusted p
        (None, 0.01, 0.2),  # against the control
        ("within", "between"),
        (None, 0.5, 1.0),  # share in the input
        (None, 0.01, 0.2),  # both p of visible evidence
        (None, 0.01, 0.2),
        ("", "at_floor", "at_ceiling", "no_lengths"),
        ("", "position_blind", "truncating"),
        (0.001, 0.5),  # p before adjustment
        (
            {},
            {"control": None, "psi_same_high": None, "drop_low": -0.1}
            | {"n_informative_documents": 12},
        ),
        ((None, None, None), (-0.2, -0.3, -0.1)),  # truncation
    )
    advice = set()
    for p, against, test, seen, p_seen, against_seen, flags, control, before, more, cost in grid:
        row = psi_row("a", p_adjusted=p, p_control_adjusted=against, test=test) | more
        row |= {"seen": seen, "flags": ", ".join((flags, control)), "p_position": before}
        row["p_control"] = before
        row |= dict(zip(("truncation", "truncation_low", "truncation_high"), cost, strict=True))
        seen_row = visible(p_adjusted=p_seen, p_control_adjusted=against_seen, test=test)
        found = only_verdict(row, seen_row)
        advice.update(sentences(found.advice))
        # Each verdict mentions that half of the evidence is cut off.
        assert (seen == 0.5) == ("50.0 % of the evidence is cut off" in found.advice)
        assert (found.label == NOT_TESTABLE) == (p is None or flags == "at_floor")
        if found.label == SENSITIVE and test == "within":
            assert (0.01, 0.01) in ((p, against), (p_seen, against_seen))
        elif found.label == SENSITIVE:
            assert 0.01 in (against, against_seen)
    unlike = [other("squad", p_adjusted=0.001)]
    advice.update(sentences(verdicts([psi_row("a", p_adjusted=0.5)], unlike)[0].advice))
    advice.update(sentences(only_verdict(psi_row("a", flags="few_clusters", n_clusters=4)).advice))
    advice.update(sentences(only_verdict(psi_row("a", flags="sections")).advice))
    assert advice == documented("| sentence | condition |")
    assert not [words for words in FORBIDDEN if words in " ".join(advice).lower()]
    assert {f"*{label}*" for label in VERDICT_LABELS} == documented("| verdict | condition |")


def test_few_clusters_of_visible_evidence_are_named() -> None:
    rows = [
        psi_row("a", p_adjusted=0.01, p_control_adjusted=0.5, seen=0.8, n_clusters=6),
        psi_row("a", evidence="visible", p_adjusted=0.01, p_control_adjusted=0.01,
                flags="few_clusters", n_clusters=4),
    ]  # fmt: skip
    (found,) = verdicts(rows)
    assert found.label == SENSITIVE
    assert found.advice.endswith("This holds only for these 4 clusters (e.g. articles or sites).")


def test_effects_come_first_and_rows_without_psi_last() -> None:
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


def test_controls_come_last_in_verdicts_and_on_the_page() -> None:
    rows = [
        psi_row("blind", flags="position_blind", psi_same_corrected=0.9),
        psi_row("short", flags="truncating", kind="control", psi_same_corrected=0.8),
        psi_row("none", p_adjusted=0.5, p_control_adjusted=0.5),
        psi_row("effect"),
    ]
    order = ["effect", "none", "blind", "short"]
    assert [found.model for found in verdicts(rows)] == order
    page = render_report(report_input(rows)).split('id="psi"')[0]
    names = re.findall(r'class="panel-name"><bdi>(\w+) ', page)
    assert names == order


def test_a_card_has_mean_psi_p_and_share_in_input() -> None:
    rows = [psi_row("m", seen=0.56, mean=0.7), psi_row("blind", control=None, seen=None)]
    rows[1] |= {"p_control": None, "p_control_adjusted": None}
    first, second = (card_facts(row, has_control=True) for row in rows)
    assert first == (
        ("Mean ndcg@10", "0.700"),
        ("In input", "56 %"),
        ("PSI by thirds", "0.220 [0.170, 0.270]"),
        ("p", "0.002"),
        ("p against control", "0.020"),
    )
    assert dict(second)["In input"] == dict(second)["p against control"] == "–"
    plain = card_facts(psi_row("m", psi_same=None, test="between"), has_control=False)
    assert plain[2:] == (("Published PSI by thirds", "0.250 [0.200, 0.300]"), ("p", "0.002"))


def test_every_flag_is_shown_with_its_text() -> None:
    page = render_report(report_input([psi_row("a", flags=", ".join(FLAGS))]))
    for name, text in FLAGS.items():
        assert f"{name}</span> {text}</li>" in page
