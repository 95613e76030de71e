import polars as pl
import pytest

from psibench.cli import main
from psibench.tables import Provenance, write_table
from psibench.tables.schemas import PSI_TABLE, QRELS


def psi_row(benchmark="b", model="m", **more):
    """Row of a model whose scores depend on position, on queries of many documents."""
    row = dict.fromkeys(PSI_TABLE.column_names) | {
        "benchmark": benchmark,
        "query_lang": "eng-Latn",
        "corpus_lang": "eng-Latn",
        "domain": "all",
        "length_bucket": "all",
        "model": model,
        "kind": "dense",
        "metric": "ndcg@10",
        "buckets": "thirds",
        "evidence": "all",
        "n_queries": 300,
        "n_buckets": 3,
        "smallest_bucket": 90,
        "mean": 0.5,
        "mean_of_buckets": 0.5,
        "psi": 0.1234,
        "psi_low": 0.05,
        "psi_high": 0.2,
        "psi_corrected": 0.1,
        "best_bucket": "beginning",
        "worst_bucket": "end",
        "psi_same": 0.1111,
        "psi_same_low": 0.04,
        "psi_same_high": 0.19,
        "psi_same_corrected": 0.09,
        "best_same": "beginning",
        "worst_same": "end",
        "drop": 0.11,
        "drop_low": 0.04,
        "drop_high": 0.19,
        "test": "within",
        "p_position": 0.001,
        "p_shape": 0.001,
        "p_bucket": 0.001,
        "p_trend": 0.001,
        "p_adjusted": 0.002,
        "n_documents": 100,
        "n_effective_documents": 98.0,
        "n_informative_documents": 80,
        "info_min": 0.8,
        "info_shape": 0.9,
        "flags": "",
        "queries_by": "people",
    }
    return row | more


@pytest.fixture
def shown(tmp_path, capsys):
    def show(rows, *options, queries_by: str | None = "people") -> str:
        path = tmp_path / "psi_table.parquet"
        schema = pl.DataFrame(pl.from_arrow(PSI_TABLE.schema.empty_table())).schema
        frame = pl.DataFrame(rows, schema=schema)
        made = Provenance("collect", 1, queries_by=queries_by)
        write_table(frame, path, PSI_TABLE, provenance=made)
        assert main(["show", str(path), *options]) == 0
        return capsys.readouterr().out

    return show


def test_each_benchmark_gets_its_headline_rows(shown):
    rows = [
        psi_row(),
        psi_row(buckets="relative-20", model="hidden-scheme"),
        psi_row(length_bucket="Q1", model="hidden-length"),
        psi_row("c", "other"),
    ]
    printed = shown(rows)
    assert "hidden" not in printed
    blocks = printed.split("\n\n")
    assert blocks[0].startswith("\nb\n")
    assert "0.123     0.111  0.040-0.190  0.002" in blocks[0]
    # A benchmark's table is followed by what may be said of each model.
    assert blocks[1].startswith("m: Scores depend on where in the document the evidence is")
    assert blocks[2].startswith("c\n")
    assert "Queries: questions written by people." in printed


def test_verdicts_of_several_metrics_are_told_apart(shown):
    printed = shown([psi_row(metric="ndcg@10"), psi_row(metric="mrr@10")])
    scheme = psi_row()["buckets"]
    assert printed.count("\nm: Scores depend") == 2
    for metric in ("ndcg@10", "mrr@10"):
        assert f"\n{metric} by {scheme}:\nm: Scores depend" in printed


def test_all_shows_every_row(shown):
    printed = shown(
        [psi_row(), psi_row(buckets="relative-20"), psi_row(length_bucket="Q1")], "--all"
    )
    assert "relative-20" in printed
    assert "Q1" in printed


def test_a_row_of_all_that_was_given_is_not_shown_where_everything_was(shown):
    """The view of visible evidence repeats the row above it if nothing was cut."""
    repeated = psi_row(evidence="visible", seen=1.0)
    other = psi_row(evidence="whole", n_queries=200, mean=0.625)
    printed = shown([psi_row(seen=1.0), repeated, other])
    assert "visible" not in printed
    assert printed.count(" 0.625 ") == 1
    assert " 100% " in printed


def test_flags_are_explained_once(shown):
    printed = shown([psi_row(flags="confounded, small_buckets"), psi_row("c", flags="confounded")])
    assert printed.count("confounded: the published PSI mixes position with document") == 1
    assert printed.count("small_buckets: a bucket has few queries") == 1
    assert "at_floor" not in printed


@pytest.mark.parametrize(
    ("queries_by", "expected"),
    [
        ("people, simulation", ["questions written by people", "simulated known-item queries"]),
        ("llm:x", ["Queries: written by x."]),
        ("llm:stand-in/rules", ["Queries: stand-in/rules, a rule-based program"]),
        (None, []),
    ],
)
def test_the_authors_of_the_queries_are_named(shown, queries_by, expected):
    printed = shown([psi_row()], queries_by=queries_by)
    assert printed.count("Queries: ") == len(expected)
    assert all(text in printed for text in expected)


def test_a_table_of_another_sort_ends_with_code_2(tmp_path, capsys):
    frame = pl.DataFrame({"query-id": ["q"], "corpus-id": ["d"], "score": [1]})
    write_table(frame, tmp_path / "q.parquet", QRELS, provenance=Provenance("build", 1))
    assert main(["show", str(tmp_path / "q.parquet")]) == 2
    error = capsys.readouterr().err
    assert "q.parquet: not a 'psi_table' table: missing columns: benchmark" in error
    assert "Traceback" not in error
