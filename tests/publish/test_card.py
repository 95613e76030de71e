"""The card of an export says what was counted and measured."""

import pytest
import yaml
from built_benchmark import SOURCE, make_benchmark
from psi_rows import frame, psi_row

from psibench.cli import main
from psibench.tables import Provenance, read_provenance, write_table
from psibench.tables.schemas import PSI_TABLE


@pytest.fixture
def results(tmp_path):
    return make_benchmark(tmp_path / "results" / "small")


def export(results, out, *options):
    return main(["export", str(results), str(out), "--layout", "mteb", *options])


def test_the_card_counts_what_filters_dropped_and_why(tmp_path, results):
    assert export(results, tmp_path / "out", "--licence", "cc-by-4.0") == 0
    card = (tmp_path / "out" / "README.md").read_text()
    # two languages of two domains each: 160 queries entered, 16 were dropped
    why = "margin_below_threshold 8, no_margin 4, target_not_first 4"
    row = f"| margin | queries | 160 | 144 | 16 | {why} |"
    assert row in card
    assert export(results, tmp_path / "one", "--licence", "mit", "--languages", "eng-Latn") == 0
    assert "| margin | queries | 80 | 72 | 8 |" in (tmp_path / "one" / "README.md").read_text()


def test_the_card_has_the_controls_or_says_that_none_was_run(tmp_path, results):
    assert export(results, tmp_path / "without", "--licence", "mit") == 0
    assert "None was run" in (tmp_path / "without" / "README.md").read_text()
    known = {"benchmark": "small", "n_queries": 72, "mean": 0.6, "psi": 0.05, "psi_same": 0.07}
    row = psi_row("static", **known, psi_same_low=0.02, psi_same_high=0.16, p_adjusted=0.06)
    path = results / "tables" / "eng-Latn-eng-Latn.psi.parquet"
    write_table(frame(PSI_TABLE, [row | {"kind": "control"}]), path, PSI_TABLE, provenance=SOURCE)
    assert export(results, tmp_path / "with", "--licence", "mit") == 0
    card = (tmp_path / "with" / "README.md").read_text()
    row = "| eng-Latn | static | 72 | 0.600 | 0.050 | 0.070 [0.000, 0.160] | 0.060 |"
    assert row in card


def test_scores_of_other_queries_than_those_that_are_there_are_refused(tmp_path, results, capsys):
    queries = results / "data" / "eng-Latn" / "queries.parquet"
    path = results / "tables" / "eng-Latn-eng-Latn.psi.parquet"
    rows = frame(PSI_TABLE, [psi_row("bm25")])
    for rows_hash, code in ((read_provenance(queries)["rows_hash"], 0), ("rows:0", 2)):
        made_of = {queries.relative_to(tmp_path).as_posix(): rows_hash}
        scored = Provenance("score", 12, queries_by="people", inputs=made_of)
        write_table(rows, path, PSI_TABLE, provenance=scored)
        assert export(results, tmp_path / str(code), "--licence", "mit") == code
    assert "other queries than those that were scored" in capsys.readouterr().err
    assert not (tmp_path / "2").exists()


def test_a_benchmark_without_a_ledger_has_a_card_that_says_so(tmp_path, results):
    (results / "attrition.parquet").unlink()
    assert export(results, tmp_path / "out", "--licence", "mit") == 0
    assert "Not recorded: the benchmark" in (tmp_path / "out" / "README.md").read_text()


def test_the_licence_is_asked_for(tmp_path, results, capsys):
    with pytest.raises(SystemExit) as stopped:
        export(results, tmp_path / "out")
    assert stopped.value.code == 2
    assert "--licence" in capsys.readouterr().err
    for given, message in (("CC BY 4.0!", "as the hub spells it"), ("other", "--licence-link")):
        assert export(results, tmp_path / "out", "--licence", given) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    link = "https://example.org/terms"
    assert export(results, tmp_path / "out", "--licence", "other", "--licence-link", link) == 0
    front = yaml.safe_load((tmp_path / "out" / "README.md").read_text().split("---\n")[1])
    assert (front["license"], front["license_link"]) == ("other", link)
    assert front["language"] == ["deu", "eng"]
    assert front["size_categories"] == ["n<1K"]
