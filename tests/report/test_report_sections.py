"""Numbers in words, who wrote queries, statistics, notes, language pairs and training."""

import ast
import html
import re

import jinja2
import polars as pl
import pytest
from report_tables import bucket_rows, frame, psi_row, report_input, svg_texts

from psibench.report.languages import pair_tables
from psibench.report.page import render_report
from psibench.report.scores import chunk_table, psi_tables
from psibench.report.tables import TEMPLATES
from psibench.report.training import training_figures
from psibench.report.views import (
    BenchmarkInfo,
    author_texts,
    headline_metric,
    headlines,
    simulation_note,
)
from psibench.report.wording import change, count, interval, number_text, p_text, p_value, percent
from psibench.tables.schemas import PSI_TABLE
from psibench.train.results import TRAINING_TABLE


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (p_value(0.0004), "<0.001"),
        (p_value(0.0005), "0.001"),
        (p_value(None), "–"),
        (p_text(0.0001), "p < 0.001"),
        (number_text(0.12345), "0.123"),
        (number_text(-0.12345), "−0.123"),
        (number_text(-0.0001), "0.000"),
        (number_text(float("nan")), "–"),
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


@pytest.mark.parametrize(
    ("with_chunks", "metric"),
    [
        ((), "ndcg@10"),
        (("a",), "ndcg@10"),  # the other model has no chunks
        (("a", "b"), "span-recall@1000tokens"),
    ],
)
def test_span_metrics_lead_if_all_models_have_chunks(with_chunks, metric) -> None:
    rows = [psi_row(model) for model in ("a", "b")]
    rows += [psi_row(model, metric="span-recall@1000tokens") for model in with_chunks]
    assert headline_metric(frame(PSI_TABLE, rows)) == metric
    assert headline_metric(frame(PSI_TABLE, rows).clear()) == "ndcg@10"


def test_metrics_of_chunks_are_shown_by_position() -> None:
    info = BenchmarkInfo("docs", "known_item")
    names = ("benchmark", "evidence", "buckets", "metric", "model", "bucket", "n_queries")
    rows = [
        ("docs", "all", "thirds", metric, "m", bucket, 9, mean, 0.1, 0.9)
        for metric, mean in (("span-cut", 0.2), ("span-recall@5", 0.5), ("ndcg@10", 0.6))
        for bucket in ("beginning", "end")
    ]
    buckets = pl.DataFrame(rows, [*names, "mean", "low", "high"], orient="row")
    table = chunk_table(buckets, info)
    assert table is not None
    assert table.header == ("Metric", "Model", "beginning", "end")
    assert [row[:3] for row in table.rows] == [
        ("span-recall@5", "m", "0.500\n[0.100, 0.900]"),
        ("span-cut", "m", "0.200\n[0.100, 0.900]"),
    ]
    assert chunk_table(buckets.filter(metric="ndcg@10"), info) is None


def test_what_was_simulated_is_said_in_sentences() -> None:
    authors = ("llm:gpt-x", "llm:stand-in/rules", "people", "simulation", "translation:nllb")
    note = simulation_note(", ".join(authors))
    starts = ("Queries are written by stand-in/rules, a rule", "Queries are simulated known-item")
    found = author_texts("llm:gpt-x, translation:nllb, translation:stand-in/rules")
    assert list(found.values()) == [
        "Queries are written by gpt-x.",
        "Queries are translated by nllb.",
        "Queries are translated by stand-in/rules, a rule-based program that stands in for a "
        "translator.",
    ]
    for sentence, start in zip(note.removesuffix(".").split(". "), starts, strict=True):
        assert sentence.startswith(start)


def test_statistics_lead_with_pooled_groups_and_split_off_buckets() -> None:
    found = {"n_queries": (2.0, 5.0), "bucket:end": (1.0, 3.0)}
    # columns that the tables of domains need
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


# --- notes

MADE = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True)
NOTES = MADE.get_template("notes.html").make_module().notes


def test_every_note_is_of_a_title_that_a_page_has() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in TEMPLATES.parent.glob("*.py")]
    texts = [n.value for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    titles = {text.split(": ")[0] for text in texts if isinstance(text, str)}
    assert NOTES.keys() <= titles


def test_tables_of_a_page_have_their_notes_below(verified_page: str) -> None:
    below = (
        r"<h4>([^<]*)</h4>((?:(?!<h4>).)*?</table>\s*</div>\s*)(?:<p class=\"note\">([^<]*)</p>)?"
    )
    found = {
        title: html.unescape(note) for title, _, note in re.findall(below, verified_page, re.S)
    }
    known = {title: NOTES.get(title.split(": ")[0], "") for title in found}
    assert found == known
    assert sum(map(bool, known.values())) == 6


# --- language pairs

PAIRS = (("ara-Arab", "eng-Latn"), ("ara-Arab", "ara-Arab"), ("eng-Latn", "eng-Latn"))
PSI = [
    psi_row(model, query_lang=asked, corpus_lang=read, psi_same=psi and psi + place / 10)
    for model, psi in (("alpha", 0.1), ("between", None))
    for place, (asked, read) in enumerate(PAIRS)
]
INFO = BenchmarkInfo("docs", "controlled")


def test_monolingual_pairs_come_first() -> None:
    more = [PSI[0] | changes for changes in ({"domain": "law"}, {"evidence": "visible"})]
    more += [row | {"model": "lost", "flags": "too_few_documents, at_floor"} for row in PSI[:1]]
    table = frame(PSI_TABLE, [*PSI, *more])
    (shown,) = pair_tables(INFO, table, metric="ndcg@10")
    assert shown.header == ("model", "ara-Arab", "eng-Latn", "ara-Arab → eng-Latn")
    # The published PSI without one at equal documents; null if almost nothing is found.
    assert shown.rows == (
        ("alpha", "0.200", "0.300", "0.100"),
        ("between", "0.250", "0.250", "0.250"),
        ("lost", "–", "–", "–"),
    )
    assert pair_tables(INFO, table.filter(query_lang="eng-Latn"), metric="ndcg@10") == []


def test_the_page_leads_with_the_largest_monolingual_pair() -> None:
    rows = bucket_rows("alpha", (0.5, 0.4, 0.3), query_lang="eng-Latn", corpus_lang="eng-Latn")
    page = render_report(report_input([*reversed(PSI)], rows))
    assert 'id="languages"' in page
    assert '<span class="chip" title="languages of queries and documents">eng-Latn</span>' in page
    table = frame(PSI_TABLE, PSI)
    assert headlines(table)["docs"]["query_lang"] == "ara-Arab"  # of a tie the first
    more = frame(PSI_TABLE, [PSI[0] | {"n_queries": 9999}, PSI[2] | {"n_queries": 1300}])
    assert headlines(table.vstack(more))["docs"]["query_lang"] == "eng-Latn"


# --- training

ROWS = [
    {"benchmark": "b", "query_lang": "eng-Latn", "corpus_lang": "eng-Latn", "training": "t"}
    | {"metric": "ndcg@10", "buckets": "thirds", "evidence": evidence, "base": base}
    | {"distribution": name, "bucket": label, "bucket_low": i / 3, "bucket_high": (i + 1) / 3}
    | {"n_queries": 9, "mean": 0.5, "low": 0.4, "high": 0.6}
    for base in ("one", "two")
    for name in ("begin", "uniform")
    for i, label in enumerate(("beginning", "middle", "end"))
    for evidence in ("all", "visible")
]
ROWS += [{**ROWS[0], "bucket": "all", "bucket_low": None, "bucket_high": None}]
TRAINED = pl.DataFrame(ROWS, schema=TRAINING_TABLE.empty().schema)


def test_trained_models_have_a_panel_per_base():
    infos = [BenchmarkInfo(id=name, recipe="controlled") for name in ("pool", "b")]
    ((info, (curves,)),) = training_figures(TRAINED, infos, metric="ndcg@10")
    assert info.id == "b"
    assert [panel.name for panel in curves.panels] == ["one", "two"]
    assert {"begin", "uniform"} <= set(svg_texts(curves.panels[0].image))
    assert training_figures(TRAINED.clear(), infos, metric="ndcg@10") == []


@pytest.mark.parametrize("n", [29, None])
def test_psi_table_counts_the_clusters_that_tests_use(n):
    rows = [psi_row("a", n_clusters=n)]
    (table,) = psi_tables(frame(PSI_TABLE, rows), BenchmarkInfo("docs", ""))
    shown = dict(zip(table.header, table.rows[0], strict=True))
    assert str(shown.get("Clusters")) == str(n)
    assert list(shown)[-1] == "Flags"


def test_psi_table_has_no_rows_without_new_queries():
    views = {"all": 30, "visible": 12, "whole": 0}
    rows = [psi_row("a", evidence=view, n_queries=n) for view, n in views.items()]
    rows += [psi_row("b", evidence=view, n_queries=30) for view in views]
    (table,) = psi_tables(frame(PSI_TABLE, rows), BenchmarkInfo("docs", ""))
    assert [tuple(row[:2]) for row in table.rows] == [("a", "all"), ("a", "visible"), ("b", "all")]
