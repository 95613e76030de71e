import dataclasses
import re

import pytest
from report_tables import FORBIDDEN, bucket_rows, psi_row, report_input, undefined_row

from psibench.report.page import ReportInput, render_report
from psibench.report.views import BenchmarkInfo, ModelInfo

EVIL = """x"><script>alert(1)</script>&'$y_1$"""


def test_the_psi_table_shows_the_leading_rows(small_page: str) -> None:
    table = small_page.split('id="psi"')[1].split("</section>")[0]
    rows = [
        re.findall(r"<t[hd] [^>]*>(?:<bdi>)?([^<]*)", row)
        for row in re.findall("<tr>(.*?)</tr>", table, re.DOTALL)[1:]
    ]
    models = [("cut", "all"), ("alpha", "all"), ("alpha", "visible"), ("blind", "all")]
    assert [tuple(row[:2]) for row in rows] == [*models, ("beta", "all"), ("none", "all")]
    psi, same = "0.250", "0.220\n[0.170, 0.270]"  # p is not of the plain PSI's interval
    cost = "−0.100\n[−0.200, −0.050]"
    tested = ("0.002", "0.020", "90.0 %", cost, "0.220", "1,200", "500", "")
    assert rows[1] == ["alpha", "all", "0.500", psi, same, *tested]


def test_curves_with_verdicts_come_first(small_page: str) -> None:
    first = small_page.split('id="psi"')[0]
    heads = re.findall(
        r'panel-name"><bdi>(\w+) <span class="chip finding" [^>]*>([a-z ;]+)<', first
    )
    labels = [*["sensitive to position"] * 2, *["no effect found"] * 2, "not testable"]
    assert heads == list(zip(["cut", "alpha", "blind", "beta", "none"], labels, strict=True))
    assert "lowest for evidence at document ends" in first
    assert first.count("<img ") == 4  # of none there is no mean by bucket
    assert '<img alt="ndcg@10 by third of the passage: alpha sensitive to position" src=' in first
    assert "queries in at least two position buckets" in first
    assumed = "questions that are hard for the model are as hard for the control.</span></figcap"
    assert first.count(assumed) == 1


def test_the_page_names_disagreeing_schemes() -> None:
    rows = [psi_row("alpha", p_adjusted=0.3), psi_row("alpha", buckets="squad")]
    page = render_report(report_input(rows))
    verdicts = page.split('id="verdicts"')[1].split('id="psi"')[0]
    assert "Other bucket schemes (divisions into positions) disagree: squad p = 0.002." in verdicts
    assert "hard for the control</span>" not in verdicts  # no model is sensitive


def test_numbers_are_on_the_right_and_words_on_the_left(verified_page: str) -> None:
    table = verified_page.split("<h4>From documents to queries</h4>")[1].split("</table>")[0]
    cells = re.findall(r'<td class="(\w+)[^>]*>(.*?)</td>', table, re.DOTALL)
    assert all(bool(re.fullmatch("[0-9,]+", text)) == (css == "num") for css, text in cells)


def test_row_order_of_the_tables_does_not_matter(small: ReportInput, small_page: str) -> None:
    turned = dataclasses.replace(
        small, psi_table=small.psi_table.reverse(), bucket_scores=small.bucket_scores.reverse()
    )
    assert render_report(turned) == small_page


def test_a_notice_comes_before_the_verdicts():
    page = render_report(report_input([psi_row("alpha")], notice="Other <texts>."))
    assert "Other &lt;texts&gt;." in page.partition('id="verdicts"')[0]


def test_empty_tables_give_a_page_that_says_so() -> None:
    page = render_report(report_input())
    assert "The PSI table has no rows" in page
    assert "No benchmark was given" in page
    page = render_report(report_input(benchmarks=(BenchmarkInfo("later", "posir"),)))
    assert "No PSI row for this benchmark" in page


def test_rows_without_a_curve_keep_their_verdicts() -> None:
    page = render_report(report_input([psi_row("alpha"), undefined_row("none")]))
    verdicts = page.split('id="verdicts"')[1].split('id="psi"')[0]
    assert "No bucket has a mean to draw." in verdicts
    assert "lowest for evidence at" in verdicts


def test_what_is_undefined_simulated_or_unknown_is_said(small_page: str) -> None:
    for text in (
        'id="simulated"',
        "by a stand-in",
        "<bdi>oddity</bdi>",  # a statistic that no text is known of
        "<bdi>words per query, mean</bdi>",
    ):
        assert text in small_page
    for absent in ("languages", "training", "examples"):
        assert f'id="{absent}"' not in small_page
    assert not [words for words in FORBIDDEN if words in small_page.lower()]


def test_every_text_is_escaped() -> None:
    about = {"benchmark": EVIL, "buckets": EVIL}
    place = {"benchmark": EVIL, "language": EVIL, "domain": EVIL}
    inputs = report_input(
        [psi_row(EVIL, kind=EVIL, best_same=EVIL, flags=EVIL, **about)],
        bucket_rows(EVIL, (0.5, 0.4, 0.3), **about),
        [place | {"statistic": EVIL, "value": 1.0}],
        [place | {"unit": EVIL, "bin_low": 0.0, "bin_high": 1.0, "n_queries": 1}],
        benchmarks=(BenchmarkInfo(EVIL, EVIL, EVIL, EVIL, EVIL),),
        models=(ModelInfo(EVIL, EVIL, EVIL),),
        provenance={EVIL: EVIL},
        title=EVIL,
        created=EVIL,
    )
    assert "<script>alert" not in render_report(inputs)


@pytest.fixture(params=["small_page", "verified_page"])
def any_page(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


def test_page_loads_nothing(any_page: str) -> None:
    loads = r"""(?:src|href|xlink:href|action|data|poster)\s*=\s*["']?(?:https?:)?//"""
    assert not re.search(loads, any_page)
    assert not re.search(r"url\(\s*['\"]?(?!#)", any_page)
    assert not re.search(r"@import|<(link|script|iframe|object|base)\b", any_page)
    images = re.findall(r"<img [^>]*src=\"([^\"]*)", any_page)
    assert images
    assert all(src.startswith("data:image/svg+xml;base64,") for src in images)


def test_ids_are_unique_and_links_within_the_page_have_targets(any_page: str) -> None:
    ids = re.findall(r' id="([^"]+)"', any_page)
    assert len(ids) == len(set(ids))
    links = set(re.findall(r'<a [^>]*href="#?([^"]+)"', any_page))
    assert links <= {*ids, "psi_table.csv"}


def test_full_and_tiny_are_compared_only_when_both_are_there() -> None:
    squad = {"buckets": "squad"}
    both = [
        *bucket_rows("alpha", (0.5, 0.4, 0.3), benchmark="squad-full", **squad),
        *bucket_rows("alpha", (0.6, 0.4, 0.2), benchmark="squad-tiny", **squad),
    ]
    infos = (
        BenchmarkInfo("squad-tiny", "squad_posq", "tiny"),
        BenchmarkInfo("squad-full", "squad_posq", "full"),
    )
    psi = [psi_row("alpha", benchmark=info.id, **squad) for info in infos]
    assert 'id="comparison"' in render_report(report_input(psi, both, benchmarks=infos))
    assert 'id="comparison"' not in render_report(report_input(psi, both[:3], benchmarks=infos))


def test_curves_are_drawn_at_equal_documents_with_plain_means_beside() -> None:
    rows = [psi_row("alpha"), psi_row("beta")]
    equal = bucket_rows("alpha", (0.5, 0.4, 0.3))
    nothing = {"same_mean": None, "same_low": None, "same_high": None}
    plain = [row | nothing for row in bucket_rows("beta", (0.5, 0.4, 0.3))]
    page = render_report(report_input(rows, equal + plain)).split('id="psi"')[0]
    assert "Thick line: means at equal documents (as if each document had queries" in page
    assert "Grey lines: the other models" in page
    page = render_report(report_input(rows, plain)).split('id="psi"')[0]
    assert "means at equal documents cannot be computed" in page


def test_sections_below_the_first_table_are_folded() -> None:
    rows = [psi_row("m", buckets=scheme) for scheme in ("thirds", "squad")]
    page = render_report(report_input(rows, bucket_rows("m", (0.5, 0.4, 0.3))))
    assert page.count('<details class="folded" open>') == 1  # the table of the first scheme
    for name in ("reading", "provenance"):
        before = page.split(f'<div id="{name}">')[0]
        assert before.rstrip().endswith("</summary>")
        assert f'href="#{name}"' in page  # a link into a closed section opens it
