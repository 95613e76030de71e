"""`psibench publish leaderboard`: several runs on one page."""

import html
import re

import polars as pl
import pytest
from psi_rows import frame, psi_row

from psibench.cli import main
from psibench.tables import Provenance, write_table
from psibench.tables.schemas import PSI_TABLE

SOURCE = Provenance("score", 2, queries_by="people")


def plain(text: str) -> str:
    return html.unescape(re.sub("<[^>]*>", "", text)).strip("\n")


class Page:
    """Links, and tables as benchmark, heading, whether it is open, and rows of texts."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.links = [link for link in re.findall('<a [^>]*href="([^"]*)', text) if link[0] != "#"]
        self.tables = [
            (
                *(benchmark, plain(re.findall("<h3>(.*?)</h3>", one)[0]), is_open != ""),
                [
                    [plain(cell) for cell in re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)]
                    for row in re.findall("<tr>(.*?)</tr>", one, re.S)
                ],
            )
            for benchmark, section in re.findall('<section id="(.*?)">(.*?)</section>', text, re.S)
            for is_open, one in re.findall("<details[^>]*?( open)?>(.*?)</details>", section, re.S)
        ]

    def table(self, place: int = 0) -> dict[str, dict[str, str]]:
        """Return the rows of a table by model name, without its labels."""
        header, *rows = self.tables[place][-1]
        return {row[0].split(" ")[0]: dict(zip(header, row, strict=True)) for row in rows}


def psi(*rows, **changes):
    rows = [psi_row(model, **{"queries_by": "people"} | changes | own) for model, own in rows]
    return frame(PSI_TABLE, rows)


def run(folder, table, *, page: bool = False, source=SOURCE):
    """Write a folder of results like `psibench score`."""
    folder.mkdir(parents=True)
    write_table(table, folder / "psi_table.parquet", PSI_TABLE, provenance=source)
    if page:
        (folder / "report.html").write_text("")
    return folder


def leaderboard(tmp_path, *folders, out="board.html"):
    path = tmp_path / out
    command = ["publish", "leaderboard", "--out", str(path), *map(str, folders)]
    assert main(command) == 0
    return Page(path.read_text(encoding="utf-8"))


def test_rows_of_all_runs_share_a_table(tmp_path, capsys):
    one = run(
        tmp_path / "a" / "results",
        psi(("alpha", {"mean": 0.7}), ("bm25", {"kind": "sparse", "p_adjusted": 0.4})),
        page=True,
    )
    lost = {"mean": 0.9, "p_control_adjusted": 0.01, "seen": 0.6, "truncation": -0.2}
    other = run(
        tmp_path / "b" / "results",
        psi(("gamma", lost | {"truncation_low": -0.3, "truncation_high": -0.1})),
    )
    page = leaderboard(tmp_path, one, other)
    assert page.tables[0][-1][0] == [
        *("Model", "Source", "Mean", "PSI at equal documents", "Published PSI", "Adjusted p"),
        *("p, control", "In input", "Verdict"),
    ]
    rows = page.table()
    assert list(rows) == ["gamma", "alpha", "bm25"]  # highest mean first
    assert [rows[m]["Verdict"] for m in rows] == [
        "evidence cut off",
        "sensitive to position",
        "no effect found",
    ]
    assert rows["alpha"]["PSI at equal documents"] == "0.220\n[0.170, 0.270]"
    assert (rows["alpha"]["Adjusted p"], rows["alpha"]["p, control"]) == ("0.002", "0.020")
    assert (rows["gamma"]["Source"], rows["gamma"]["In input"]) == ("b/results", "60.0 %")
    # Only the first run has a report; the page links it by a relative path.
    assert page.links == ["a/results/report.html"] * 2
    below = leaderboard(tmp_path, one, other, out="b/board.html")
    assert below.links == ["../a/results/report.html"] * 2
    assert capsys.readouterr().err == ""  # no model occurs twice


def test_interval_p_and_verdict_of_a_row_agree(tmp_path):
    between = {"test": "between", "psi_same": None, "p_adjusted": 0.9}
    given = {"p_control_adjusted": 0.4, "seen": 0.6}
    table = psi(
        *(("alone", {"p_adjusted": 0.07}), ("drawn", between), ("given", given)),
        *(("given", {"evidence": "visible"}), ("few", {"flags": "few_clusters"})),
    )
    page = leaderboard(tmp_path, run(tmp_path / "r", table))
    rows = page.table()
    assert rows["alone"]["PSI at equal documents"] == "0.220\n[0.000, 0.270]"
    assert rows["alone"]["Published PSI"] == "0.250"  # its interval belongs to another test
    assert rows["drawn"]["Published PSI"] == "0.250\n[0.000, 0.300]"
    words = {name: row["Verdict"] for name, row in rows.items()}
    assert (words["alone"], words["few"]) == ("no effect found", "sensitive to position")
    assert words["drawn"] == "sensitive to position against the control"
    assert words["given"] == "sensitive to position on evidence in input"
    assert [row[0] for row in page.tables[0][-1][1:]][-1] == "few dense few clusters"


def test_incomparable_means_are_in_separate_tables(tmp_path):
    folder = run(
        tmp_path / "r",
        psi(
            ("alpha", {}),
            ("alpha", {"length_bucket": "Q1", "n_queries": 300}),
            ("alpha", {"query_lang": "deu-Latn", "n_queries": 900}),
            ("alpha", {"evidence": "visible", "n_queries": 1100}),
            ("alpha", {"domain": "law", "n_queries": 700}),
            ("beta", {"kind": "sparse", "benchmark": "wiki"}),
        ),
    )
    again = run(tmp_path / "s", psi(("alpha", {"n_queries": 50})))  # other data with the same name
    page = leaderboard(tmp_path, folder, again)
    assert [one[:3] for one in page.tables] == [
        ("docs", "eng-Latn, all lengths", True),
        ("docs", "eng-Latn, Q1", False),
        ("docs", "eng-Latn, all lengths", True),
        ("docs", "deu-Latn → eng-Latn, all lengths", False),
        ("wiki", "eng-Latn, all lengths", True),
    ]
    assert all(len(rows) == 2 for *_, rows in page.tables)


def test_a_model_in_two_runs_is_labelled_with_the_run(tmp_path, capsys):
    one, two = (run(tmp_path / n / "results", psi(("bm25", {}))) for n in ("a", "b"))
    page = leaderboard(tmp_path, one, two)
    assert [row[0] for row in page.tables[0][-1][1:]] == [
        "bm25 (a/results) dense",
        "bm25 (b/results) dense",
    ]
    assert capsys.readouterr().err == (
        "bm25 is in 2 runs of docs; names on the page: bm25 (a/results), bm25 (b/results)\n"
    )


def test_a_table_without_a_language_is_labelled(tmp_path):
    unnamed = {"query_lang": "und", "corpus_lang": "und"}
    page = leaderboard(tmp_path, run(tmp_path / "scored", psi(("bm25", unnamed))))
    assert page.tables[0][1].startswith("no language given, all lengths")


def test_the_page_loads_nothing_and_escapes_names(tmp_path):
    """Names are not interpreted as HTML or addresses."""
    folder = run(tmp_path / "a&b", psi(("<img src=x>", {"kind": "<b>"})), page=True)
    page = leaderboard(tmp_path, folder)
    assert "<img" not in page.text
    assert "<b>" not in page.text
    assert page.links == ["a%26b/report.html"]
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", page.text)
    assert "<script" not in page.text


def test_simulated_queries_are_marked(tmp_path):
    page = leaderboard(tmp_path, run(tmp_path / "r", psi(("a", {"queries_by": "simulation"}))))
    assert "Simulated queries</strong> of <bdi>docs</bdi>" in page.text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder.mkdir(), "no psi_table.parquet there; use the results folder"),
        (
            lambda folder: (
                run(folder, psi(("a", {}))),
                pl.read_parquet(folder / "psi_table.parquet")
                .drop("p_bucket")
                .write_parquet(folder / "psi_table.parquet"),
            ),
            "psi_table.parquet has no p_bucket: another version of psibench made it (no version)",
        ),
        (lambda folder: run(folder, psi()), "the tables have no rows"),
        (
            lambda folder: run(folder, psi(("a", {"evidence": "visible"}))),
            "model 'a' has rows of visible evidence only; a leaderboard needs its row of evidence",
        ),
    ],
)
def test_a_folder_without_a_table_to_show_is_refused(tmp_path, capsys, make, message):
    make(tmp_path / "r")
    out = tmp_path / "board.html"
    assert main(["publish", "leaderboard", str(tmp_path / "r"), "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_the_page_has_the_notice_of_a_small_run(tmp_path):
    source = Provenance("summaries", 1, params={"notice": "Small run: & others"})
    small = run(tmp_path / "small", psi(("alpha", {})), source=source)
    assert "Small run: &amp; others" in leaderboard(tmp_path, small).text
    whole = run(tmp_path / "whole", psi(("alpha", {})))
    assert "Nothing is measured here" not in leaderboard(tmp_path, whole).text


def test_a_folder_given_twice_is_refused(tmp_path, capsys):
    folder = run(tmp_path / "r", psi(("a", {})))
    command = ["publish", "leaderboard", str(folder), str(folder / "psi_table.parquet")]
    assert main([*command, "--out", str(tmp_path / "board.html")]) == 2
    assert "r is given twice; use each run once" in capsys.readouterr().err
