import dataclasses
import re
from html.parser import HTMLParser

import polars as pl
import pytest
from report_tables import bucket_rows, psi_row, report_input

from psibench.errors import InputError
from psibench.report import BenchmarkInfo, ModelInfo, ReportInput, render_report, write_report

EVIL = """x"><script>alert(1)</script>&'$y_1$"""


class Collector(HTMLParser):
    """Tags, ids and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if found.get("id"):
            self.ids.append(str(found["id"]))


def test_page_shows_psi_with_interval_null_and_p(small: ReportInput) -> None:
    page = render_report(small)
    assert "<b>0.250</b> <small>[0.200, 0.300]</small>" in page
    assert '<td class="c-psi_null_p95 num">0.080</td>' in page
    assert '<td class="c-psi_p num">0.400</td>' in page


def test_server_rendered_table_holds_only_pooled_rows_of_all_queries(small: ReportInput) -> None:
    body = render_report(small).split('id="psi-table"')[1].split("</table>")[0]
    assert body.count('<th scope="row"') == 5  # alpha, beta, blind, cut, none
    assert "0.125" not in body  # alpha on Q1


def test_undefined_psi_says_why(small: ReportInput) -> None:
    page = render_report(small)
    assert "only one bucket holds enough queries" in page


def test_same_input_gives_the_same_page(small: ReportInput) -> None:
    assert render_report(small) == render_report(small)


def test_row_order_of_the_tables_does_not_matter(small: ReportInput) -> None:
    turned = dataclasses.replace(
        small, psi_table=small.psi_table.reverse(), bucket_scores=small.bucket_scores.reverse()
    )
    assert render_report(turned) == render_report(small)


def test_empty_tables_give_a_page_that_says_so() -> None:
    page = render_report(report_input())
    assert "The PSI table has no rows" in page
    assert "nothing to draw" in page
    assert "No benchmark was given" in page


def test_frames_without_columns_count_as_empty() -> None:
    nothing = pl.DataFrame()
    page = render_report(ReportInput(nothing, nothing, nothing, nothing))
    assert "The PSI table has no rows" in page


def test_benchmark_without_rows_is_named_with_an_empty_verdict() -> None:
    page = render_report(report_input(benchmarks=(BenchmarkInfo("later", "posir"),)))
    assert "No PSI row for this benchmark" in page


def test_missing_column_is_an_input_error(small: ReportInput) -> None:
    broken = dataclasses.replace(small, psi_table=small.psi_table.drop("psi_p"))
    with pytest.raises(InputError, match="psi_p"):
        render_report(broken)


def test_simulated_benchmarks_are_announced_with_their_note(small: ReportInput) -> None:
    page = render_report(small)
    assert 'id="simulated"' in page
    assert "by a stand-in" in page


def test_unknown_statistics_are_shown_as_they_are(small: ReportInput) -> None:
    page = render_report(small)
    assert "<bdi>oddity</bdi>" in page
    assert "<bdi>words per query, mean</bdi>" in page


def test_every_text_is_escaped() -> None:
    inputs = report_input(
        [psi_row(EVIL, benchmark=EVIL, domain=EVIL, kind=EVIL, best_bucket=EVIL, buckets=EVIL)],
        [
            row | {"bucket": EVIL if row["bucket"] == "end" else row["bucket"]}
            for row in bucket_rows(EVIL, (0.5, 0.4, 0.3), benchmark=EVIL, domain=EVIL, buckets=EVIL)
        ],
        [{"benchmark": EVIL, "language": EVIL, "domain": EVIL, "statistic": EVIL, "value": 1.0}],
        [
            {"benchmark": EVIL, "language": EVIL, "domain": EVIL, "unit": EVIL}
            | {"bin_low": 0.0, "bin_high": 1.0, "n_queries": 1}
        ],
        benchmarks=(BenchmarkInfo(EVIL, EVIL, EVIL, EVIL, True, EVIL),),
        models=(ModelInfo(EVIL, EVIL, EVIL),),
        provenance={EVIL: EVIL},
        title=EVIL,
        created=EVIL,
    )
    page = render_report(inputs)
    assert "<script>alert" not in page
    scripts = [attrs for tag, attrs in Collector(page).tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "psi-data"}, {}]


def test_page_loads_nothing(small: ReportInput) -> None:
    page = render_report(small)
    loads = r"""(?:src|href|xlink:href|action|data|poster)\s*=\s*["']?(?:https?:)?//"""
    assert not re.search(loads, page)
    assert not re.search(r"url\(\s*['\"]?(?!#)", page)
    assert "@import" not in page
    assert not {"link", "img", "iframe", "object", "base"} & {t for t, _ in Collector(page).tags}


def test_ids_are_unique_and_links_within_the_page_have_targets(small: ReportInput) -> None:
    found = Collector(render_report(small))
    assert len(found.ids) == len(set(found.ids))
    links = {a["href"] for _, a in found.tags if a.get("href")}
    assert {str(link).removeprefix("#") for link in links} <= set(found.ids)
    labels = [str(a["aria-labelledby"]).split() for _, a in found.tags if "aria-labelledby" in a]
    assert {one for names in labels for one in names} <= set(found.ids)


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
    assert 'id="comparison"' in render_report(report_input([], both, benchmarks=infos))
    assert 'id="comparison"' not in render_report(report_input([], both[:3], benchmarks=infos))


def test_right_to_left_and_cjk_ids_are_isolated() -> None:
    page = render_report(report_input([psi_row("דגם-1"), psi_row("模型")]))
    assert "<bdi>דגם-1</bdi>" in page
    assert "<bdi>模型</bdi>" in page


def test_many_models_become_small_multiples() -> None:
    names = [f"m{i}" for i in range(7)]
    rows = [row for name in names for row in bucket_rows(name, (0.5, 0.4, 0.3))]
    page = render_report(report_input([psi_row(name) for name in names], rows))
    assert page.count('class="panel-name"') == 7


def test_written_page_is_whole_and_replaces_the_old_one(small: ReportInput, tmp_path) -> None:
    path = tmp_path / "folder" / "report.html"
    write_report(report_input(), path)
    write_report(small, path)
    assert path.read_text(encoding="utf-8") == render_report(small)
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
