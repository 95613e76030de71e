"""The card of an export: counts, licence and origin."""

import polars as pl
import pytest
import yaml
from built_benchmark import change, make_benchmark

from psibench.cli import main


@pytest.fixture
def results(tmp_path):
    return make_benchmark(tmp_path / "results" / "small")


def export(results, out, *options):
    return main(["export", str(results), str(out), "--layout", "mteb", *options])


def test_the_card_counts_queries_by_the_third_of_their_evidence(tmp_path, results):
    # 36 documents with a query on each third; the first three lose their span
    first = pl.int_range(pl.len())
    declared = pl.when(first == 0).then(pl.lit("end")).when(first < 3).then(pl.lit("mixed"))
    odd = {"pos_char_span": pl.when(first >= 3).then("pos_char_span")}
    odd["target_position"] = declared.otherwise("target_position")
    change(results, "eng-Latn", "queries", "game", lambda rows: rows.with_columns(**odd))
    assert export(results, tmp_path / "out", "--licence", "cc-by-4.0") == 0
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| deu-Latn | game | 36 | 108 | 108 | 36 | 36 | 36 | 0 |" in card
    assert "| eng-Latn | game | 36 | 108 | 108 | 35 | 35 | 36 | 2 |" in card
    assert "| all | 4 datasets | 144 | 432 | 432 | 143 | 143 | 144 | 2 |" in card
    assert "- Queries by: llm:writer-1." in card


def test_an_export_needs_a_licence(tmp_path, results, capsys):
    with pytest.raises(SystemExit) as stopped:
        export(results, tmp_path / "out")
    assert stopped.value.code == 2
    assert "--licence" in capsys.readouterr().err
    for given, message in (
        ("CC BY 4.0!", "use an identifier of the hub"),
        ("other", "--licence-link"),
    ):
        assert export(results, tmp_path / "out", "--licence", given) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    link = "https://example.org/terms"
    assert export(results, tmp_path / "out", "--licence", "other", "--licence-link", link) == 0
    front = yaml.safe_load((tmp_path / "out" / "README.md").read_text().split("---\n")[1])
    assert (front["license"], front["license_link"]) == ("other", link)
    assert front["language"] == ["deu", "eng"]
    assert front["size_categories"] == ["n<1K"]
