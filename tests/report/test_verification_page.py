"""The page with verification: what is on it, and that views have no section of their own."""

import re


def test_views_stand_beside_their_benchmark_and_nowhere_else(verified_page: str) -> None:
    assert verified_page.count("fineweb-raw") == verified_page.count("fineweb-tiny") == 0
    assert "2 benchmarks" in verified_page
    assert "12 PSI rows" in verified_page  # three models, two views of evidence, two benchmarks
    assert "False negatives: raw and clean labels" in verified_page
    assert "All queries and the tiny subset" in verified_page


def test_panels_follow_the_flow_of_their_benchmark(verified_page: str) -> None:
    first, second = verified_page.split('<h3 id="data-fineweb"')
    order = ["From documents to queries", "Do the filters", "Margin: queries kept", "Audit of"]
    places = [first.index(f"{name}") for name in order]
    assert places == sorted(places)
    assert "Stages beside the published ones" in second
    assert "Margin: queries kept" not in second
    assert "Removed: 9 of 240 questions (3.75 %)." in second


def test_group_headings_span_the_whole_table(verified_page: str) -> None:
    data = verified_page.split('id="data"')[1]
    tables = re.findall(r'<tr class="groups">.*?</tr>\n<tr>.*?</tr>', data)
    assert len(tables) == 6  # twice positions; margin, cells, audit; stages
    for text in tables:
        top, bottom = text.split("\n")
        assert sum(map(int, re.findall(r'colspan="(\d+)"', top))) == bottom.count("<th")
