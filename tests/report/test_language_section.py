"""Language pairs side by side: order, marks, trends."""

from dataclasses import replace
from typing import Any

import polars as pl
from language_inputs import LANGUAGES, MODELS, PAIRS, languages_input
from report_tables import bucket_rows, by_title, psi_row, report_input

from psibench.report.page import ReportInput, render_report
from psibench.report.pairs import pair_blocks, pairs_of
from psibench.report.views import BenchmarkInfo, headlines


def section(inputs: ReportInput) -> dict[str, Any]:
    """The blocks of the only benchmark by name."""
    models = inputs.models
    (info,) = inputs.benchmarks
    found = pair_blocks(
        info,
        psi_table=inputs.psi_table,
        bucket_scores=inputs.bucket_scores,
        position_trend=inputs.position_trend,
        languages=LANGUAGES,
        models=models,
        metric="ndcg@10",
    )
    return by_title(found)


def test_pairs_of_one_language_go_first_in_the_order_of_the_statistics() -> None:
    table = languages_input().psi_table
    assert tuple(pairs_of(table, "b", LANGUAGES)) == PAIRS
    assert tuple(pairs_of(table.reverse(), "b", LANGUAGES)) == PAIRS
    assert pairs_of(table, "b", ())[:3] == [(one, one) for one in sorted(LANGUAGES)]


def test_scores_and_psi_of_every_pair_are_marked_where_the_test_finds_an_effect() -> None:
    blocks = section(languages_input())
    alone = blocks["Queries and documents in one language"]
    crossed = blocks["Queries in another language than the documents"]
    assert alone.header == ("model", *LANGUAGES)
    psis = "\n0.250\n0.220"
    assert alone.rows[2] == ("alpha", f"0.500{psis} ○", f"0.510{psis} ●", f"0.520{psis} ●")
    assert crossed.header == ("model", "ara-Arab → eng-Latn", "cmn-Hans → eng-Latn")
    assert crossed.rows[1] == ("beta", "–", "–")  # not evaluated on them
    assert [row[0] for row in alone.rows] == [model.id for model in MODELS]


def test_panels_carry_the_trend_of_a_model_that_has_every_pair() -> None:
    figure = section(languages_input())["By position in every language pair"]
    # blind and alpha have all five pairs; blind is a control
    assert figure.caption.startswith("Plain means of ndcg@10 of alpha,")
    assert [panel.name for panel in figure.panels][:4] == [*LANGUAGES, "ara-Arab → eng-Latn"]
    # 0.1 less per third, whose centres are a third apart
    assert {panel.note for panel in figure.panels} == {"slope −0.300, Spearman −1.00"}


def test_panels_are_at_most_eighteen() -> None:
    codes = [f"a{first}{second}-Latn" for first in "abcde" for second in "abcd"]
    rows = [
        row
        for code in codes
        for row in bucket_rows(
            "alpha", (0.5, 0.4, 0.3), benchmark="b", query_lang=code, corpus_lang=code
        )
    ]
    psi = [psi_row("alpha", benchmark="b", query_lang=code, corpus_lang=code) for code in codes]
    infos, models = (BenchmarkInfo("b", "controlled"),), (MODELS[2],)
    inputs = report_input(psi, rows, benchmarks=infos, models=models)
    figure = section(inputs)["By position in every language pair"]
    assert len(figure.panels) == 18
    assert "The first 18 of 20 pairs." in figure.caption


def test_page_with_languages_shows_the_leading_pair() -> None:
    page = render_report(languages_input())
    assert 'id="languages"' in page
    assert '<span class="chip" title="languages of queries and documents">eng-Latn</span>' in page


def test_leading_slice_of_equal_languages_is_the_first_in_order() -> None:
    table = languages_input().psi_table
    assert headlines(table, LANGUAGES)["b"]["query_lang"] == "eng-Latn"
    assert headlines(table)["b"]["query_lang"] == "ara-Arab"  # by name
    more = psi_row(
        "x", benchmark="b", query_lang="ara-Arab", corpus_lang="eng-Latn", n_queries=9999
    )
    grown = pl.concat([table, pl.DataFrame([more], schema=table.schema)])
    assert headlines(grown, LANGUAGES)["b"]["query_lang"] == "eng-Latn"


def test_page_of_published_figures_is_linked_where_there_is_one(
    small: ReportInput, small_page: str
) -> None:
    assert "published.html" not in small_page
    assert 'href="published.html"' in render_report(replace(small, published="published.html"))
