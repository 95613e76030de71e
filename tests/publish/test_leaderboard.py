"""`psibench publish leaderboard`: many runs and published figures on one page."""

import re
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest
from psi_rows import frame, psi_row

from psibench.cli import main
from psibench.report.published import compare, published_figures
from psibench.tables import Provenance, write_table
from psibench.tables.schemas import BUCKET_SCORES, PSI_TABLE, PUBLISHED_COMPARISON, QUERY_SCORES

SOURCE = Provenance("score", 2, queries_by="people")
N_DOCUMENTS = 60


class Page(HTMLParser):
    """Tables, each as what it is of and rows of texts; links; the choices of the filters."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.rows = text, [[""]]
        self.tables: list[tuple[dict, list[list[str]]]] = []
        self.links: list[str] = []
        self.options: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "table":
            self.rows = []
        if tag == "details":
            self.tables.append((given, []))
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")
        if tag == "select":
            self.options[given["name"]] = []
        if tag == "option":
            list(self.options.values())[-1].append(given["value"])
        if tag == "a" and not given["href"].startswith("#"):
            self.links.append(given["href"])

    def handle_endtag(self, tag):
        if tag == "details":
            self.tables[-1][1].extend(self.rows)
            self.rows = [[""]]

    def handle_data(self, data):
        if self.rows and data.strip("\n"):
            self.rows[-1][-1] += data

    def table(self, place: int = 0) -> dict[str, dict[str, str]]:
        """Rows of a table by the name of the model, without its labels."""
        header, *rows = self.tables[place][1]
        return {row[0].split(" ")[0]: dict(zip(header, row, strict=True)) for row in rows}


def psi(*rows, **changes):
    rows = [psi_row(model, **{"queries_by": "people"} | changes | own) for model, own in rows]
    return frame(PSI_TABLE, rows)


def run(folder, table, *, page: bool = False):
    """A folder of results as `psibench score` writes it."""
    folder.mkdir(parents=True)
    write_table(table, folder / "psi_table.parquet", PSI_TABLE, provenance=SOURCE)
    if page:
        (folder / "report.html").write_text("")
    return folder


def scores(folder, **means):
    """Per-query scores of models: two queries a document, and noise of their own."""
    n = 2 * N_DOCUMENTS
    for seed, (model, mean) in enumerate(means.items()):
        own = pl.DataFrame(
            {
                "model": model,
                "query_id": [f"q{i:03d}" for i in range(n)],
                "domain": "all",
                "document_id": [f"d{i // 2:02d}" for i in range(n)],
                "target_position": "end",
                "target_positions": "end",
                "ndcg@10": mean + np.random.default_rng(seed).uniform(-0.1, 0.1, n),
            },
        )
        whole = pl.concat([QUERY_SCORES.empty(), own], how="diagonal_relaxed")
        path = folder / f"query_scores-{model}.parquet"
        write_table(whole, path, QUERY_SCORES, provenance=SOURCE)


def leaderboard(tmp_path, *folders, options=(), out="board.html"):
    path = tmp_path / out
    command = ["publish", "leaderboard", *map(str, folders), "--out", str(path), *options]
    assert main(command) == 0
    return Page(path.read_text(encoding="utf-8"))


def test_rows_of_all_runs_stand_in_one_table_with_figures_and_a_word(tmp_path, capsys):
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
    assert page.tables[0][1][0] == [
        *("Model", "Source", "Mean", "PSI at equal documents", "Published PSI", "Adjusted p"),
        *("p, control", "Given", "Word"),
    ]
    rows = page.table()
    assert list(rows) == ["gamma", "alpha", "bm25"]  # highest mean first
    assert [rows[m]["Word"] for m in rows] == ["truncation", "sensitive", "not shown"]
    assert rows["alpha"]["PSI at equal documents"] == "0.220\n[0.170, 0.270]"
    assert (rows["alpha"]["Adjusted p"], rows["alpha"]["p, control"]) == ("0.002", "0.020")
    assert (rows["gamma"]["Source"], rows["gamma"]["Given"]) == ("b/results", "60.0 %")
    # Only the first run has a report; the page leads to it from where it lies.
    assert page.links == ["a/results/report.html"] * 2
    below = leaderboard(tmp_path, one, other, out="b/board.html")
    assert below.links == ["../a/results/report.html"] * 2
    assert capsys.readouterr().err == ""


def test_tables_are_apart_where_means_do_not_compare_and_filters_name_them(tmp_path):
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
    again = run(tmp_path / "s", psi(("alpha", {"n_queries": 50})))  # other data by that name
    page = leaderboard(tmp_path, folder, again)
    of = [
        (one["data-benchmark"], one["data-pair"], one["data-length"], "open" in one)
        for one, _ in page.tables
    ]
    assert of == [
        ("docs", "eng-Latn", "all", True),
        ("docs", "eng-Latn", "Q1", False),
        ("docs", "eng-Latn", "all", True),
        ("docs", "deu-Latn → eng-Latn", "all", False),
        ("wiki", "eng-Latn", "all", True),
    ]
    assert all(len(rows) == 2 for _, rows in page.tables)
    assert page.options == {
        "benchmark": ["", "docs", "wiki"],
        "pair": ["", "deu-Latn → eng-Latn", "eng-Latn"],
        "length": ["", "all", "Q1"],
        "kind": ["", "kind-dense", "kind-sparse"],
    }


def test_means_not_told_apart_share_a_letter_across_runs(tmp_path):
    """alpha and beta have one mean, up to noise; gamma is far below, and none is kept of delta."""
    n = {"n_queries": 2 * N_DOCUMENTS}
    one = run(tmp_path / "a", psi(("alpha", {"mean": 0.8}), ("gamma", {"mean": 0.4}), **n))
    two = run(tmp_path / "b", psi(("beta", {"mean": 0.79}), ("delta", {"mean": 0.1}), **n))
    scores(one, alpha=0.8, gamma=0.4)
    scores(two, beta=0.8)
    rows = leaderboard(tmp_path, one, two).table()
    groups = {model: row["Group"] for model, row in rows.items()}
    assert groups == {"alpha": "a", "beta": "a", "gamma": "b", "delta": "–"}
    assert re.fullmatch(r"0\.800\n\[0\.7\d\d, 0\.8\d\d\]", rows["alpha"]["Mean"])
    assert rows["delta"]["Mean"] == "0.100"


def test_queries_that_are_not_the_same_are_not_compared(tmp_path):
    n = {"n_queries": 2 * N_DOCUMENTS}
    one, two = (run(tmp_path / name, psi((name, {}), **n)) for name in ("alpha", "beta"))
    scores(one, alpha=0.8)
    scores(two, beta=0.8)
    path = two / "query_scores-beta.parquet"
    moved = pl.read_parquet(path).with_columns(pl.format("x{}", "query_id").alias("query_id"))
    write_table(moved, path, QUERY_SCORES, provenance=SOURCE)
    page = leaderboard(tmp_path, one, two)
    assert "Group" not in page.table()["alpha"]
    assert "Not all were asked the same queries" in page.text


def test_a_model_of_two_runs_has_the_run_behind_its_name(tmp_path, capsys):
    one, two = (run(tmp_path / n / "results", psi(("bm25", {}))) for n in ("a", "b"))
    page = leaderboard(tmp_path, one, two)
    assert [row[0] for row in page.tables[0][1][1:]] == [
        "bm25 (a/results) dense",
        "bm25 (b/results) dense",
    ]
    assert capsys.readouterr().err == (
        "bm25 is on docs in 2 runs; on the page: bm25 (a/results), bm25 (b/results)\n"
    )


@pytest.mark.parametrize("options", [[], ["--example"]])
def test_without_runs_the_page_is_of_the_papers(tmp_path, options):
    page = leaderboard(tmp_path, options=options)
    names = [
        (one["data-benchmark"], one["data-pair"], one["data-length"]) for one, _ in page.tables
    ]
    place = names.index(("posir", "eng-Latn", "Q4"))
    rows = page.table(place)
    # PosIR, table 11: 63.61 and 0.15
    assert list(rows["inf-retriever-v1"].values())[1:] == ["0.636", "0.150"]
    assert list(next(iter(rows.values()))) == ["Model", "Mean", "Published PSI"]
    for _, (_, *of_models) in page.tables:
        assert all(row[0].endswith(" published") and "[" not in "".join(row) for row in of_models)
    # PosQ, table 1: BM25's mean is that of its six buckets, its PSI as printed.
    squad = page.table(names.index(("squad-posq", "eng-Latn", "all")))
    assert (squad["BM25"]["Mean"], squad["BM25"]["Published PSI"]) == ("0.798", "0.059")
    assert page.options["kind"] == [
        *("", "kind-dense", "kind-late-interaction", "kind-reranker", "kind-sparse"),
    ]
    assert page.links == []


def test_published_rows_stand_beside_a_run_of_the_papers_own_data(tmp_path):
    """A run of the 92,749 queries of SQuAD-PosQ; one of fewer has a table of its own."""
    own = psi(("bm25", {"n_queries": 92_749}), benchmark="squad", buckets="squad")
    folder = run(tmp_path / "r", own)
    facts = {"squad": {"data": "squad_posq", "differs": ""}}
    found = compare(
        published_figures(),
        psi_table=own,
        bucket_scores=BUCKET_SCORES.empty(),
        facts=facts,
    ).select(PUBLISHED_COMPARISON.column_names)
    path = folder / "published_comparison.parquet"
    write_table(found, path, PUBLISHED_COMPARISON, provenance=SOURCE)
    rows = leaderboard(tmp_path, folder, options=["--example"]).table()
    assert (rows["bm25"]["Source"], rows["BM25"]["Source"]) == ("r", "PosQ, table 1")
    assert (rows["BM25"]["Word"], rows["BM25"]["PSI at equal documents"]) == ("–", "–")
    assert len(rows) == 12


def test_the_page_loads_nothing_and_names_are_text(tmp_path):
    """What a name would do as HTML or as an address it does not."""
    folder = run(tmp_path / "a&b", psi(("<img src=x>", {"kind": "<b>"})), page=True)
    page = leaderboard(tmp_path, folder)
    assert "<img" not in page.text
    assert "<b>" not in page.text
    assert page.links == ["a%26b/report.html"]
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", page.text)
    assert len(re.findall(r"<script>", page.text)) == 1
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" in (
        page.text
    )


def test_simulated_queries_are_said_to_be(tmp_path):
    page = leaderboard(tmp_path, run(tmp_path / "r", psi(("a", {"queries_by": "simulation"}))))
    assert "Simulated queries</strong> of <bdi>docs</bdi>" in page.text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder.mkdir(), "no psi_table.parquet there; name the results folder"),
        (
            lambda folder: (
                run(folder, psi(("a", {}))),
                pl.read_parquet(folder / "psi_table.parquet")
                .drop("p_bucket")
                .write_parquet(folder / "psi_table.parquet"),
            ),
            "psi_table.parquet has no p_bucket: another psibench made it (it says no version)",
        ),
        (lambda folder: run(folder, psi()), "no row to show"),
    ],
)
def test_a_folder_without_a_table_to_show_is_refused(tmp_path, capsys, make, message):
    make(tmp_path / "r")
    out = tmp_path / "board.html"
    assert main(["publish", "leaderboard", str(tmp_path / "r"), "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_a_folder_named_twice_is_refused_and_a_table_names_its_folder(tmp_path, capsys):
    folder = run(tmp_path / "r", psi(("a", {})))
    command = ["publish", "leaderboard", str(folder), str(folder / "psi_table.parquet")]
    assert main([*command, "--out", str(tmp_path / "board.html")]) == 2
    assert "r is given twice; name each run once" in capsys.readouterr().err
