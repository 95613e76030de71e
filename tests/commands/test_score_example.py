"""`psibench score --example` and `--report`: the first thing that a newcomer sees."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import pytrec_eval

from psibench.cli import main
from psibench.commands.score_example import EXAMPLE_FOLDER
from psibench.tables import read_table
from psibench.tables.schemas import PSI_TABLE, QRELS, RUN

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The output folder of the command, and its printed text."""
    place = tmp_path_factory.mktemp("example")
    code = "import sys; from psibench.cli import main; sys.exit(main(['score', '--example']))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=place, capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    return place / "psibench-example", done.stdout


def test_the_example_prints_verdicts_and_the_author(example):
    _, printed = example
    assert len(printed.splitlines()) <= 20
    for said in (
        "79 %  evidence cut off",
        "all-minilm-l6-v2  20.9 % of the evidence is cut off",
        "Queries are written by stand-in/rules, a rule-based program",
        "psibench-example/psi_table.csv",
        "Page written to psibench-example/report.html",
    ):
        assert said in printed


def test_the_example_means_equal_pytrec_eval(example):
    folder, _ = example
    table = read_table(folder / "psi_table.parquet", PSI_TABLE).filter(evidence="all")
    judged: dict[str, dict[str, int]] = {}
    for query, document, grade in read_table(EXAMPLE_FOLDER / "qrels.parquet", QRELS).iter_rows():
        judged.setdefault(query, {})[document] = grade
    measured = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10"})
    assert table["model"].to_list() == ["bm25", "all-minilm-l6-v2", "minilm-maxp", "minilm-static"]
    for model, mean in table.select("model", "mean").iter_rows():
        run: dict[str, dict[str, float]] = {query: {} for query in judged}
        for query, document, score in (
            read_table(EXAMPLE_FOLDER / "runs" / f"{model}.parquet", RUN)
            .select("query_id", "doc_id", "score")
            .iter_rows()
        ):
            run[query][document] = score
        found = [one["ndcg_cut_10"] for one in measured.evaluate(run).values()]
        assert mean == pytest.approx(sum(found) / len(judged), abs=1e-9)


def test_models_that_chose_the_examples_queries_are_flagged(example):
    folder, _ = example
    table = read_table(folder / "psi_table.parquet", PSI_TABLE).filter(evidence="all")
    flagged = [
        name for name, flags in table.select("model", "flags").rows() if "filter_panel" in flags
    ]
    assert flagged == ["bm25", "all-minilm-l6-v2", "minilm-maxp"]
    seen = dict(table.select("model", "seen").iter_rows())
    assert seen["all-minilm-l6-v2"] < 1 == seen["minilm-maxp"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--example", "--run", "a.trec"], "--example sets --run; leave out"),
        (["--example", "--qrels", "q", "--max-tokens", "9"], "sets --qrels, --max-tokens"),
        (["--run", "a.trec"], "missing --queries, --qrels"),
        ([], "try --example"),
    ],
)
def test_files_of_ones_own_or_the_example(options, said, capsys):
    assert main(["score", *options]) == 2
    assert said in capsys.readouterr().err


def test_docs_show_the_table_of_the_example(example):
    _, printed = example
    page = (REPOSITORY / "docs" / "psi.md").read_text("utf-8")
    block = page.split("```\n")[1]
    shown = [line.split() for line in printed.splitlines()]
    assert block.count("\n") == 6
    assert all(line.split() in shown for line in block.splitlines())


def test_the_example_is_scored_with_length_edges(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["score", "--example", "--length-edges", "100"]) == 0
    lengths = read_table("psibench-example/psi_table.parquet", PSI_TABLE)["length_bucket"].unique()
    assert sorted(lengths) == ["L1 1-100", "L2 above 100", "all"]
