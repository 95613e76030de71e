"""Language pairs side by side: order, marks, averages, trends, leaderboards."""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from language_inputs import LANGUAGES, MODELS, PAIRS, languages_input
from report_tables import bucket_rows, by_title, psi_row, report_input

from psibench.metrics.summaries import language_averages
from psibench.report import scores
from psibench.report.page import ReportInput, render_report
from psibench.report.pairs import leaderboard_table, pair_blocks, pairs_of
from psibench.report.plots import model_styles
from psibench.report.scores import fitting
from psibench.report.views import BenchmarkInfo, headlines, with_headline


def section(inputs: ReportInput) -> dict[str, Any]:
    """The blocks of the only benchmark by name."""
    models = inputs.models
    (info,) = inputs.benchmarks
    found = pair_blocks(
        info,
        psi_table=inputs.psi_table,
        bucket_scores=inputs.bucket_scores,
        languages=LANGUAGES,
        summaries=inputs.summaries,
        models=models,
        styles=model_styles({model.id: model.control for model in models}),
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
    assert crossed.header == ("model", "ara-Arab →\neng-Latn", "cmn-Hans →\neng-Latn")
    assert crossed.rows[1] == ("beta", "–", "–")  # not evaluated on them
    assert [row[0] for row in alone.rows] == [model.id for model in MODELS]


def test_averages_name_both_conventions_noise_and_equal_documents() -> None:
    table = section(languages_input())["Average over languages, monolingual"]
    assert table.groups == (
        ("", 1),
        ("ndcg@10, over queries", 1),
        ("ndcg@10, over buckets", 1),
        ("PSI", 2),
    )
    assert table.header == ("model", "All", "Q1", "All", "Q1")
    # (0.50 + 0.51 + 0.52) / 3; half of it over buckets
    psi = "0.250\nnoise 0.040\nequal docs 0.220"
    assert table.rows[2] == ("alpha", "0.510", "0.255", psi, psi)
    assert table.note.startswith("3 languages: ara-Arab, cmn-Hans, eng-Latn.")
    crossed = section(languages_input())["Average over languages, cross-lingual"]
    assert "ara-Arab → eng-Latn, cmn-Hans → eng-Latn" in crossed.note
    assert "PosIR" in crossed.note
    assert "PosIR" not in table.note  # said once


def test_an_average_of_fewer_languages_says_so() -> None:
    inputs = languages_input()
    averages = inputs.summaries["language_averages"]
    fewer = averages.with_columns(n_psi=pl.lit(2, pl.Int64))
    changed = replace(inputs, summaries={**inputs.summaries, "language_averages": fewer})
    table = section(changed)["Average over languages, monolingual"]
    assert table.rows[0][3].startswith("0.250 (2 of 3)\n")


def averages_without(wanted: pl.Expr) -> dict[str, Any]:
    """The blocks where the PSI table lacks some rows."""
    inputs = languages_input()
    averages = language_averages(inputs.psi_table.filter(~wanted))
    return section(replace(inputs, summaries={**inputs.summaries, "language_averages": averages}))


def test_a_model_that_lacks_a_language_has_a_dash_and_no_number() -> None:
    lacking = pl.col("model").is_in(["alpha", "beta"]) & (pl.col("corpus_lang") == "cmn-Hans")
    crossing = (pl.col("model") == "alpha") & (pl.col("query_lang") == "ara-Arab")
    crossing = crossing & (pl.col("corpus_lang") == "eng-Latn")
    blocks = averages_without(lacking | crossing)
    table = blocks["Average over languages, monolingual"]
    rows = {line[0]: line[1:] for line in table.rows}
    assert rows["alpha"] == rows["beta"] == ("–\n2 of 3 languages",) * 4
    assert rows["blind"][:2] == ("0.310", "0.155")
    assert table.note.startswith("3 languages: ara-Arab, cmn-Hans, eng-Latn.")
    crossed = blocks["Average over languages, cross-lingual"]
    assert {line[0]: line[1] for line in crossed.rows}["alpha"] == "–\n1 of 2 pairs"
    assert crossed.note.startswith("2 pairs (queries → documents): ara-Arab → eng-Latn, cmn-")


def test_a_length_that_a_language_lacks_altogether_is_told_from_the_caption() -> None:
    lacking = (pl.col("corpus_lang") == "cmn-Hans") & (pl.col("length_bucket") == "Q1")
    table = averages_without(lacking)["Average over languages, monolingual"]
    psi = "0.250\nnoise 0.040\nequal docs 0.220"
    q1 = "0.250 (2 of 3)\nnoise 0.040\nequal docs 0.220 (2 of 3)"
    assert table.rows[2] == ("alpha", "0.510", "0.253 (2 of 3)", psi, q1)  # (0.25 + 0.255) / 2


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


def test_leaderboards_follow_the_usual_convention_of_each_length() -> None:
    inputs = languages_input(alpha=3.0, beta=2.0, blind=1.0)
    boards = inputs.summaries["leaderboards"]
    is_mean = pl.col("average") == "mean"
    boards = boards.with_columns(
        spearman=pl.when(pl.col("spearman").is_not_null()).then(
            pl.when(is_mean).then(1.0).otherwise(0.5)
        )
    )
    inputs = replace(inputs, summaries={**inputs.summaries, "leaderboards": boards})
    table = leaderboard_table(boards, inputs.benchmarks, metric="ndcg@10")
    assert table.header == ("leaderboard", "benchmark", "setting", "All", "Q1")
    assert table.rows[0][:3] == ("board", "b", "monolingual")
    assert table.rows[0][3].startswith("+1.00\n")
    assert table.rows[0][3].endswith("3 models")
    assert table.rows[0][4].startswith("+0.50\n")
    assert table.rows[1][2:4] == ("cross-lingual", "–\n2 models")
    assert 'id="leaderboards"' in render_report(inputs)


def test_leading_slice_of_equal_languages_is_the_first_in_order() -> None:
    table = languages_input().psi_table
    assert headlines(table, LANGUAGES)["b"]["query_lang"] == "eng-Latn"
    assert headlines(table)["b"]["query_lang"] == "ara-Arab"  # by name
    more = psi_row(
        "x", benchmark="b", query_lang="ara-Arab", corpus_lang="eng-Latn", n_queries=9999
    )
    grown = pl.concat([table, pl.DataFrame([more], schema=table.schema)])
    assert headlines(grown, LANGUAGES)["b"]["query_lang"] == "eng-Latn"


@pytest.mark.parametrize(("limit", "domains"), [(20_000, {"all", "law"}), (10, {"all"})])
def test_page_of_too_many_rows_keeps_those_of_pooled_domains(limit: int, domains: set[str]) -> None:
    table = languages_input().psi_table
    marked = with_headline(table, headlines(table, LANGUAGES))
    assert set(fitting(marked, limit=limit)["domain"]) == domains


def test_benchmark_of_one_domain_keeps_its_rows() -> None:
    rows = [psi_row("m", benchmark="one", domain="law", length_bucket=b) for b in ("all", "Q1")]
    rows += [psi_row("m", benchmark="two", domain=d) for d in ("all", "law")]
    table = report_input(rows).psi_table
    kept = fitting(with_headline(table, headlines(table)), limit=1)
    found = kept.group_by("benchmark").len().sort("benchmark")
    assert found.rows() == [("one", 2), ("two", 1)]


def test_page_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "fitting", lambda table: fitting(table, limit=10))
    inputs = languages_input()
    page = render_report(inputs)
    assert f"{inputs.psi_table.height} PSI rows" in page
    assert "The other 13 rows, of one domain each" in page  # 5 + 3 + 5 pairs
    assert '"law"' not in page.split('id="psi-data">')[1].split("</script>")[0]


def test_long_tables_are_folded() -> None:
    rows = [
        {"benchmark": "b", "language": "eng-Latn", "domain": f"d{i:02}"}
        | {"statistic": "bucket:end", "value": 1.0}
        for i in range(41)
    ]
    infos = (BenchmarkInfo("b", "controlled"),)
    sizes = [row | {"statistic": name} for row in rows for name in ("n_passages", "n_queries")]
    sizes += [
        row | {"statistic": f"passage_tokens_{name}"} for row in rows for name in ("mean", "max")
    ]
    page = render_report(report_input([], [], [*rows, *sizes], benchmarks=infos))
    assert "<summary><h4>Queries per bucket</h4>" in page
    assert "41 rows" in page
    page = render_report(report_input([], [], rows[:1], benchmarks=infos))
    assert "<h4>Queries per bucket</h4>" in page
    assert "<summary><h4>" not in page


def test_page_of_published_figures_is_linked_where_there_is_one(
    small: ReportInput, small_page: str
) -> None:
    assert "published.html" not in small_page
    assert 'href="published.html"' in render_report(replace(small, published="published.html"))


def test_views_are_in_no_summary() -> None:
    inputs = replace(languages_input(alpha=1.0, beta=2.0), views={"x": {"raw": "b"}})
    page = render_report(replace(inputs, benchmarks=()))
    assert 'id="leaderboards"' not in page
    assert 'id="languages"' not in page
