"""docs/psi*.md: the package reproduces the example, and measured numbers have a source."""

import re
import sys
from pathlib import Path

import numpy as np
import psi_figures
import pytest

from psibench.metrics.inference import (
    document_table,
    raw_profile,
    same_document_profile,
    slope_and_bend,
    within_documents,
)
from psibench.metrics.psi import position_sensitivity_index

DOCS = Path(__file__).parents[2] / "docs"
EASY = [("beginning", 1.0), ("beginning", 1.0), ("middle", 0.8), ("end", 0.5)]
HARD = [("beginning", 0.4), ("middle", 0.32), ("end", 0.2), ("end", 0.2)]
PLACES = ["beginning", "middle", "end"]


def example(times=1):
    """The documents of docs/psi.md, each so many times."""
    asked = [query for document in (EASY, EASY, HARD, HARD) * times for query in document]
    buckets = np.array([PLACES.index(place) for place, _ in asked])
    scores = np.array([score for _, score in asked])
    index = np.arange(len(asked))
    return document_table(scores, index // 4, index, buckets, n_buckets=3)


def slope_statistic(table):
    """Q of the slope, ``b' V^-1 b`` with one column."""
    along = (table.sums - table.counts * (table.document_totals / 4)[:, None]) @ [-1, 0, 1]
    return along.sum() ** 2 / (along**2).sum()


def numbers_of(section):
    return set(re.findall(r"\d+\.\d+", section))


def test_the_example_is_what_the_package_computes():
    table, ten = example(), example(times=10)
    plain, same = raw_profile(table), same_document_profile(table)
    assert same is not None
    relative = same.means / same.means[0]
    shares = table.counts * relative
    shares /= shares.sum(axis=1, keepdims=True)
    rows = table.sums - table.counts * (table.document_totals / table.document_sizes)[:, None]
    assert within_documents(table).p is None
    assert within_documents(table).statistic == pytest.approx(rows.sum(axis=0))
    trend = slope_statistic(ten)
    assert within_documents(ten).p_trend is not None
    found = within_documents(ten).statistic @ slope_and_bend(3)[:, 0]
    assert abs(found) == pytest.approx(10 * 2 * (0.675 + 0.28))
    computed = {
        "2": [*table.sums.ravel(), *table.document_totals, *table.sums.sum(axis=0)],
        "02": [table.sums.sum(), *plain.means, plain.means.min(), plain.means.max(), trend],
        "3": [
            position_sensitivity_index(plain.means),
            position_sensitivity_index(same.means),
            *shares.ravel(),
            *same.means,
            *(table.document_totals / table.document_sizes),
            *np.abs(rows).ravel(),
            *np.abs(rows @ [-1, 0, 1]),
            slope_statistic(table),
        ],
        "4": [table.mean],
        "1": [*relative, *(table.counts * relative).sum(axis=1)],
    }
    allowed = {f"{value:.{digits[-1]}f}" for digits, all_ in computed.items() for value in all_}
    pages = {
        "psi.md": "## An example to recompute",
        "psi-method.md": "### The test, by the example",
    }
    sections = [(DOCS / page).read_text("utf-8").split(title)[1] for page, title in pages.items()]
    written = numbers_of(" ".join(re.split("\n##+ ", section)[0] for section in sections))
    assert written <= allowed
    named = {"0.625", "0.500", "0.606", "0.357", "0.825", "0.350", "0.325", "3.416", "34.16"}
    assert named | {"0.5525", "0.725", "0.580", "0.362"} <= written


def test_each_measured_figure_of_the_pages_is_in_the_results():
    assert psi_figures.problems() == []


@pytest.fixture
def page(tmp_path, monkeypatch):
    """A page and results of three cells, in place of the repository's."""
    (tmp_path / "results.csv").write_text(
        "claim,cell,what,target,found,counted,replicates\n"
        '1,"squad, PSI .1",size,,0.028,1000,1000\n'
        '1,"squad, PSI .3",size,,0.0645,1000,1000\n'
        '1,"squad, PSI .5",size,,0.9,20,1000\n'
    )
    (tmp_path / "entries.yaml").write_text(
        'least: {cells: squad, what: size, take: min, form: "0.0 %"}\n'
        'most: {cells: squad, what: size, take: max, form: "+0.00"}\n'
        'of: {cells: "PSI {0}$", what: size, take: only, form: "0.000"}\n'
    )
    path = tmp_path / "page.md"
    monkeypatch.setattr(psi_figures, "RESULTS", tmp_path)
    monkeypatch.setattr(psi_figures, "ENTRIES", tmp_path / "entries.yaml")
    monkeypatch.setattr(psi_figures, "PAGES", [path])
    monkeypatch.setattr(sys, "argv", ["psi_figures.py"])
    psi_figures.entries.cache_clear()
    psi_figures.lines.cache_clear()
    yield path
    psi_figures.entries.cache_clear()
    psi_figures.lines.cache_clear()


def test_the_tool_writes_each_figure_as_its_entry_says(page):
    page.write_text(
        "## Limits\n\n…<!--least--> to 9<!--most-->, 1,000 %<!--of .1-->, …<!--of .7-->"
    )
    psi_figures.main()
    assert page.read_text("utf-8") == (
        "## Limits\n\n2.8 %<!--least--> to +0.06<!--most-->, 0.028<!--of .1-->, …<!--of .7-->"
    )
    assert psi_figures.problems() == ["page.md: of .7: no line of the results has it"]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("In 2.8 %<!--least--> of sets with a PSI of 0.3, of 30 %, at 0.05", []),
        ("In 2.8 %<!--least--> of sets, by up to 0.21", ["0.21"]),
        ("In 2.8 %<!--least--> of sets\n\nwith a PSI of 0.3", ["0.3"]),
        ("In 2.8 %<!--least--> of sets\n- and 12 %", ["12 %"]),
        ("Of 421,708 queries in 20 buckets, section 9.", []),
    ],
)
def test_a_figure_without_a_source_is_found(page, text, missing):
    assert psi_figures.without_source(f"## Limits\n\n{text}\n\n## Other\n\n0.77") == missing


def test_a_figure_that_differs_from_the_results_is_found(page):
    page.write_text("2.9 %<!--least--> +0.06<!--most--> 0.028<!--of .1--> <!--note-->")
    assert psi_figures.problems() == [
        "page.md: least is 2.8 %, but the page has 2.9 %",
        "page.md: a comment without a number before it",
    ]
