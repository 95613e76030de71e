"""Numbers in words, who wrote queries, and statistics."""

import re

import pytest
from report_tables import report_input

from psibench.report.page import render_report
from psibench.report.views import simulation_note
from psibench.report.wording import change, count, interval, number, p_text, p_value, percent


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (p_value(0.0004), "<0.001"),
        (p_value(0.0005), "0.001"),
        (p_value(None), "–"),
        (p_text(0.0001), "p < 0.001"),
        (number(0.12345), "0.123"),
        (number(-0.12345), "−0.123"),
        (number(-0.0001), "0.000"),
        (number(float("nan")), "–"),
        (interval(0.1, 0.2), "[0.100, 0.200]"),
        (interval(None, 0.2), ""),
        (interval(float("-inf"), float("inf")), "[−∞, ∞]"),
        (count(1234.0), "1,234"),
        (count(10.234), "10.23"),
        (change(0.0104), "+0.010"),
        (change(-0.0004), "0.000"),
        (percent(0.12345, 2), "12.35 %"),
    ],
)
def test_figures_are_written_alike_everywhere(shown: str, text: str) -> None:
    assert shown == text


def test_what_was_simulated_is_said_in_sentences() -> None:
    note = simulation_note("llm:gpt-x, llm:stand-in/rules, people, simulation")
    starts = ("Queries are written by stand-in/rules, a rule", "Queries are simulated known-item")
    for sentence, start in zip(note.removesuffix(".").split(". "), starts, strict=True):
        assert sentence.startswith(start)


def test_statistics_lead_with_pooled_groups_and_split_off_buckets() -> None:
    found = {"n_queries": (2.0, 5.0), "bucket:end": (1.0, 3.0)}
    # what the tables of domains need
    found |= dict.fromkeys(("passage_tokens_mean", "passage_tokens_max", "n_passages"), (1.0, 1.0))
    rows = [
        {"benchmark": "x", "statistic": name, "language": "eng-Latn", "domain": d, "value": value}
        for name, values in found.items()
        for d, value in zip(("art", "all"), values, strict=True)
    ]
    page = render_report(report_input([], [], rows))
    sizes, buckets = page.split("<h4>Sizes</h4>")[1].split("<h4>Queries per bucket</h4>")
    cells = [re.findall(r"<t[hd] [^>]*>(?:<bdi>)?([^<]+)", one) for one in (sizes, buckets)]
    shown = []
    for found in cells:
        n = found.index("eng-Latn")  # columns
        shown += [found[n * row : n * row + 3] for row in (0, 1, 2)]
    assert shown == [
        ["language", "domain", "queries"],
        ["eng-Latn", "all", "5"],
        ["eng-Latn", "art", "2"],
        ["language", "domain", "end"],
        ["eng-Latn", "all", "3"],
        ["eng-Latn", "art", "1"],
    ]
