import json
import re

import polars as pl
import pytest
from psi_rows import frame, psi_row

from psibench.cli import main
from psibench.tables import Provenance, write_table
from psibench.tables.schemas import BUCKET_SCORES, PSI_TABLE, QRELS


@pytest.fixture
def shown(tmp_path, capsys):
    def show(rows, *options, queries_by: str | None = "people") -> str:
        path = tmp_path / "psi_table.parquet"
        made = Provenance("collect", 1, queries_by=queries_by)
        write_table(frame(PSI_TABLE, rows), path, PSI_TABLE, provenance=made)
        assert main(["show", str(path), *options]) == 0
        return capsys.readouterr().out

    return show


def test_show_reads_the_results_folder_by_default(shown, tmp_path, capsys, monkeypatch):
    printed = shown([psi_row("m")])
    monkeypatch.chdir(tmp_path)
    assert main(["show"]) == 2
    assert "no results/psi_table.parquet and no results/probe_table" in capsys.readouterr().err
    (tmp_path / "results").mkdir()
    (tmp_path / "psi_table.parquet").rename(tmp_path / "results" / "psi_table.parquet")
    assert main(["show"]) == 0
    assert capsys.readouterr().out.splitlines()[:5] == printed.splitlines()[:5]


def test_each_model_has_a_row_and_a_line(shown, tmp_path):
    rows = [
        psi_row("m", seen=0.7, truncation=-0.2, truncation_low=-0.3, truncation_high=-0.1),
        psi_row("m", evidence="visible", p_adjusted=0.2),
        psi_row("few", p_adjusted=None, p_control_adjusted=None, n_informative_documents=12),
        psi_row("plain", psi_same=None, test="between"),
        psi_row("within", psi_same=None, p_control_adjusted=0.3, psi_same_corrected=0.1),
        psi_row("hidden-scheme", buckets="relative-20"),
        psi_row("hidden-length", length_bucket="Q1"),
        psi_row("hidden-metric", metric="mrr@10"),
    ]
    printed = shown(rows)
    assert "hidden" not in printed
    title, _, header, *table = printed.strip().splitlines()
    assert title == "docs: ndcg@10 by thirds (third of the passage)"
    assert header.split() == ["model", "mean", "documents", "p", "control", "in", "input"]
    assert [line.split() for line in table[:4]] == [
        "m 0.500 0.220 [0.170, 0.270] 0.002 0.020 70 % evidence cut off".split(),
        "plain 0.500 0.250 [0.200, 0.300]* 0.002 0.020 100 % sensitive to position".split(),
        "within 0.500 0.250* 0.002 0.300 100 % no more than the control".split(),
        "few 0.500 0.220 [0.000, 0.270] – – 100 % not testable".split(),
    ]
    notes = printed.split("* PSI of plain means, which mix position with document difficulty.")[1]
    assert notes.startswith(
        " Without an interval, p is from a test within documents.\n“Sensitive to position” assumes"
    )
    assert printed.count("questions that are hard for the model are as hard for the control") == 1
    assert "\nm       30.0 % of the evidence is cut off: use shorter passages" in printed
    assert "\nfew     Needs 30 documents that can show an effect (has 12)" in printed
    assert printed.splitlines()[-2].endswith("psi_table.parquet")
    (tmp_path / "psi_table.csv").touch()
    assert "psi_table.csv\n" in shown(rows)
    assert "\x1b" not in printed


def test_the_first_scheme_leads_and_disagreeing_schemes_are_named(shown):
    mine = {"p_adjusted": 0.4, "p_control_adjusted": 0.4}
    rows = [psi_row("m", **mine), psi_row("n")]
    rows += [psi_row("m", buckets="squad"), psi_row("n", buckets="squad")]
    rows += [psi_row("m", query_lang="deu-Latn", buckets="relative-20")]  # of another pair
    printed = shown(rows)
    assert re.search(r"m +0.500 +0.220 \[0.000, 0.270\] +0.400", printed)
    assert re.search(
        r"Other bucket schemes [(]divisions into positions[)] disagree: squad p = 0.002. *\n",
        printed,
    )
    assert "relative" not in printed


def test_few_clusters_are_named_for_other_languages(shown):
    other = {"query_lang": "deu-Latn", "corpus_lang": "deu-Latn", "n_queries": 900}
    printed = shown([psi_row("m"), psi_row("m", **other, flags="few_clusters")])
    assert "PSI 0.220 (m); only for these few clusters\n" in printed


def test_other_languages_and_views_have_one_line_each(shown):
    rows = [psi_row("m"), psi_row("few", p_adjusted=None)]
    other = {"query_lang": "deu-Latn", "corpus_lang": "deu-Latn", "n_queries": 900}
    rows += [row | other | {"psi_same": 0.3} for row in rows]
    rows += [row | {"benchmark": "docs-raw"} for row in rows]
    printed = shown([*rows, psi_row("c", benchmark="else")])
    assert "\ndocs, eng-Latn: ndcg@10 by thirds (third of the passage)\n" in printed
    assert "\nelse: ndcg@10 by thirds (third of the passage)\n" in printed
    text = "sensitive to position: 1, not testable: 1; largest PSI"
    assert f"\ndocs, deu-Latn: {text} 0.300 (m)\n" in printed
    assert f"\ndocs-raw, eng-Latn: {text} 0.220 (m)\n" in printed
    assert "docs-raw, deu-Latn" not in printed


def test_a_name_with_brackets_is_printed_whole(shown):
    rows = [psi_row("m[bold]"), psi_row("m[bold]", query_lang="deu-Latn", corpus_lang="deu-Latn")]
    printed = shown(rows)
    assert "\nm[bold]  " in printed
    assert "largest PSI 0.220 (m[bold])" in printed


@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_terminal_has_colour_unless_it_is_not_wanted(shown, monkeypatch, is_wanted):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color" if is_wanted else "dumb")
    monkeypatch.setenv("FORCE_COLOR", "1")
    printed = shown([psi_row("m\x1b[8m")])
    assert ("\x1b[1;31msensitive" in printed) == is_wanted
    assert "\x1b[8m" not in printed  # which would hide the rest


def test_the_authors_of_the_queries_are_named(shown):
    said = [line for line in shown([psi_row("m")], queries_by="llm:x").splitlines() if line]
    assert said[-1] == "Queries are written by x."


def test_a_table_of_another_sort_ends_with_code_2(tmp_path, capsys):
    frame = pl.DataFrame({"query-id": ["q"], "corpus-id": ["d"], "score": [1]})
    write_table(frame, tmp_path / "q.parquet", QRELS, provenance=Provenance("build", 1))
    assert main(["show", str(tmp_path / "q.parquet")]) == 2
    error = capsys.readouterr().err
    assert "q.parquet: not a 'psi_table' table: missing columns: benchmark" in error


@pytest.fixture
def scored_folder(tmp_path):
    """A folder with both result tables of one model."""
    row = psi_row("m_1")
    labels = {name: row[name] for name in BUCKET_SCORES.column_names if name in row}
    buckets = [
        labels | {"bucket": name, "bucket_low": low, "bucket_high": low + 0.3, "n_queries": 400}
        for low, name in enumerate(("beginning", "middle", "end"))
    ]
    for spec, rows in ((PSI_TABLE, [row]), (BUCKET_SCORES, buckets)):
        made = Provenance("collect", 1, queries_by="people")
        path = tmp_path / f"{spec.name}.parquet"
        write_table(frame(spec, rows), path, spec, provenance=made)
    return tmp_path


def test_show_prints_a_table_for_a_paper(scored_folder, capsys):
    path = str(scored_folder / "psi_table.parquet")
    assert main(["show", path, "--format", "latex"]) == 0
    printed = capsys.readouterr().out
    assert r"m\_1 & 50.00 & 50.00 & 50.00 & 50.00 & 0.250 \\" in printed
    assert main(["show", path, "--format", "markdown", "--intervals", "--equal-documents"]) == 0
    assert r"0.220 \[0.170, 0.270\] |" in capsys.readouterr().out


def test_show_json_has_verdict_and_bucket_means(scored_folder, capsys):
    assert main(["show", str(scored_folder / "psi_table.parquet"), "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["results"]
    (model,) = found.pop("models")
    assert found == {
        "benchmark": "docs",
        "query_lang": "eng-Latn",
        "corpus_lang": "eng-Latn",
        "metric": "ndcg@10",
        "buckets": "thirds",
    }
    assert (model["verdict"], model["psi_same_low"]) == ("sensitive to position", 0.17)
    assert [one["bucket"] for one in model["buckets"]] == ["beginning", "middle", "end"]


def test_show_prints_published_tables(capsys):
    assert main(["show", "shipped:published/posq_table1.csv", "--format", "json"]) == 0
    values = json.loads(capsys.readouterr().out)["published"]
    assert {"model_name": "BM25", "column": "0-100"}.items() <= values[0].items()
    assert values[0]["published"] == 0.7662


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--intervals"], "--intervals needs --format latex or markdown"),
        (["--buckets", "thirds"], "--buckets needs --format latex or markdown or json"),
        (["--format", "latex", "--buckets", "squad"], "no rows of --buckets squad; found: thirds"),
        (["--format", "latex", "--metric", "mrr@10"], "no rows of --metric mrr@10; found: ndcg@10"),
        (["--format", "json", "--intervals"], "--intervals needs --format latex or markdown"),
    ],
)
def test_options_that_do_not_fit_the_format_are_refused(scored_folder, capsys, options, message):
    assert main(["show", str(scored_folder / "psi_table.parquet"), *options]) == 2
    out, err = capsys.readouterr()
    assert (out, message in err) == ("", True)


def test_formats_need_the_table_of_bucket_means(scored_folder, capsys):
    (scored_folder / "bucket_scores.parquet").unlink()
    assert main(["show", str(scored_folder / "psi_table.parquet"), "--format", "latex"]) == 2
    assert "bucket_scores.parquet: --format latex needs this table" in capsys.readouterr().err


def test_an_effect_without_a_known_input_has_a_note(shown):
    note = "An effect may come from text that the model did not read"
    assert note in shown([psi_row("m", seen=None)])
    assert note not in shown([psi_row("m")])
    assert note not in shown([psi_row("m", seen=None, p_adjusted=0.5, p_control_adjusted=0.5)])
