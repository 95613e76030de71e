"""The page with verification: what is on it, and that views have no section of their own."""

import dataclasses
import re

import polars as pl
from report_tables import psi_row
from test_report_html import EVIL
from verification_tables import INFOS, MARGIN_FACTS, POSQ_FACTS, savings, shifts, verified_input

from psibench.report.page import ReportInput, render_report

TABLES = [field.name for field in dataclasses.fields(MARGIN_FACTS)][3:]  # after the labels


def test_views_stand_beside_their_benchmark_and_nowhere_else(verified_page: str) -> None:
    assert verified_page.count("fineweb-raw") == verified_page.count("fineweb-tiny") == 0
    assert "2 benchmarks" in verified_page
    assert "12 PSI rows" in verified_page  # three models, two views of evidence, two benchmarks
    assert "False negatives: raw and clean labels" in verified_page
    assert "All queries and the tiny subset" in verified_page


def test_views_that_are_not_named_as_such_are_benchmarks() -> None:
    page = render_report(verified_input(views={}))
    assert 'id="data-fineweb-raw"' in page
    assert "False negatives: raw and clean labels" not in page


def test_panels_follow_the_flow_of_their_benchmark(verified_page: str) -> None:
    first, second = verified_page.split('<h3 id="data-fineweb"')
    order = ["From documents to queries", "Do the filters", "Margin: queries kept", "Audit of"]
    places = [first.index(f"{name}") for name in order]
    assert places == sorted(places)
    assert "Stages beside the published ones" in second
    assert "Margin: queries kept" not in second
    assert "Removed: 9 of 240 questions (3.75 %)." in second


def test_figure_has_a_table_of_its_numbers(verified_page: str) -> None:
    assert (
        'aria-label="Numbers of the figure Do the filters shift where the evidence is?"'
        in verified_page
    )


def test_group_headings_span_the_whole_table(verified_page: str) -> None:
    data = verified_page.split('id="data"')[1]
    tables = re.findall(r'<tr class="groups">.*?</tr>\n<tr>.*?</tr>', data)
    assert len(tables) == 6  # margin, cells, audit, stages, raw and clean, tiny
    for text in tables:
        top, bottom = text.split("\n")
        assert sum(map(int, re.findall(r'colspan="(\d+)"', top))) == bottom.count("<th")


def test_same_input_in_another_row_order_gives_the_same_page(verified_page: str) -> None:
    small = verified_input()
    turned = dataclasses.replace(small, psi_table=small.psi_table.reverse())
    assert render_report(turned) == verified_page


def test_every_text_of_verification_is_escaped() -> None:
    facts = dataclasses.replace(
        MARGIN_FACTS,
        language=EVIL,
        domain=EVIL,
        savings=savings(EVIL, (EVIL, 2, 1)),
        shift=shifts((EVIL, (9, 9, 9), (9, 1, 1))),
        cell_table=None,
    )
    other = dataclasses.replace(facts, domain=f"{EVIL}2")
    page = render_report(verified_input(verification=(facts, other, POSQ_FACTS)))
    assert "<script>alert" not in page


def test_verification_without_any_table_changes_nothing() -> None:
    plain = verified_input(verification=(), views={})
    empty = verified_input(
        verification=(dataclasses.replace(MARGIN_FACTS, **dict.fromkeys(TABLES)),), views={}
    )
    assert render_report(empty) == render_report(plain)


def test_benchmark_evaluated_only_as_a_view_has_a_table_without_rows() -> None:
    one = verified_input()
    raw = one.psi_table.filter(pl.col("benchmark") != "fineweb")
    page = render_report(dataclasses.replace(one, psi_table=raw))
    assert "False negatives: raw and clean labels" in page


def test_margin_threshold_and_unit_are_those_of_the_benchmark() -> None:
    info = dataclasses.replace(INFOS[0], margin_threshold=0.1, length_unit="words")
    page = render_report(_with_info(verified_input(), info))
    assert "m ≥ 0.1, kept" in page
    assert "length, words" in page


def _with_info(inputs: ReportInput, info) -> ReportInput:
    return dataclasses.replace(inputs, benchmarks=(info, INFOS[1]))


def test_models_of_a_view_alone_are_not_listed_as_models() -> None:
    inputs = verified_input()
    extra = pl.DataFrame(
        [psi_row("ghost", benchmark="fineweb-raw")], schema=inputs.psi_table.schema
    )
    page = render_report(
        dataclasses.replace(inputs, psi_table=pl.concat([inputs.psi_table, extra]))
    )
    assert "ghost" not in page
