"""`psibench publish results`: results as the hub's own library reads them back."""

import json

import polars as pl
import pytest
import yaml
from built_benchmark import SOURCE, make_benchmark
from huggingface_hub._eval_results import parse_eval_result_entries

import psibench
from psibench.cli import main
from psibench.tables import write_table
from psibench.tables.schemas import PSI_TABLE

MODEL = "by-length"
OPTIONS = ["--benchmark", "two", "--dataset", "me/two", "--source", "https://example.org/r"]


@pytest.fixture(scope="module")
def psi(tmp_path_factory):
    """The table of a retriever on a benchmark of two languages, English with two domains."""
    root = make_benchmark(tmp_path_factory.mktemp("publish") / "two")

    def shared(queries, corpus, *, k):
        bags = {i: set(t.split()) for i, t in corpus.texts.items()}
        return {
            q: {i: len(bag & set(t.split())) + len(i) / 99 for i, bag in bags.items()}
            for q, t in queries.items()
        }

    found = psibench.evaluate(shared, root, model=MODEL, by_domain=True)
    path = root.parent / "psi_table.parquet"
    write_table(found.psi, path, PSI_TABLE, provenance=SOURCE)
    return path, found.psi


def test_each_corpus_has_its_score_and_its_psi_in_the_notes(tmp_path, psi):
    path, table = psi
    assert (
        main(["publish", "results", str(path), MODEL, str(tmp_path), *OPTIONS, "--revision", "abc"])
        == 0
    )
    entries = parse_eval_result_entries(
        yaml.safe_load((tmp_path / ".eval_results" / "two.yaml").read_text())
    )
    rows = table.filter(metric="ndcg@10", buckets="thirds", evidence="all", length_bucket="all")
    by_subset = {
        f"two_{row['corpus_lang']}-{row['domain']}_test": row
        for row in rows.iter_rows(named=True)
        if row["domain"] != "all"  # psibench searches each domain by itself
    }
    assert [one.task_id for one in entries] == list(by_subset)
    assert len(entries) == 4
    for one in entries:
        row = by_subset[one.task_id]
        assert one.value == pytest.approx(100 * row["mean"], abs=1e-5)
        assert f"PSI by thirds {row['psi']:.3f}, at equal documents" in one.notes
        assert one.notes.endswith("108 queries by llm:writer-1")
        assert (one.dataset_id, one.dataset_revision) == ("me/two", "abc")
    json.dumps([one.notes for one in entries])


def test_a_corpus_asked_in_another_language_is_a_result_of_its_own(tmp_path, psi):
    """Named as `psibench export` names the pair, and so MTEB's task."""
    _, table = psi
    asked = table.filter(corpus_lang="eng-Latn").with_columns(
        query_lang=pl.lit("deu-Latn"), mean=pl.col("mean") / 2
    )
    path = tmp_path / "psi_table.parquet"
    write_table(pl.concat([table, asked]), path, PSI_TABLE, provenance=SOURCE)
    assert main(["publish", "results", str(path), MODEL, str(tmp_path), *OPTIONS]) == 0
    written = yaml.safe_load((tmp_path / ".eval_results" / "two.yaml").read_text())
    values = {one["dataset"]["task_id"]: one["value"] for one in written}
    assert len(values) == len(written) == 6
    for domain in ("game", "mining"):
        own, pair = (values[f"two_{name}eng-Latn-{domain}_test"] for name in ("", "deu-Latn-"))
        assert pair == pytest.approx(own / 2, abs=1e-4)


def notes_of(psi, folder, *, change=None):
    """The notes of each result of a table, with some columns set to other values."""
    path = folder / "psi_table.parquet"
    changed = psi.with_columns(**{n: pl.lit(v, pl.Float64) for n, v in (change or {}).items()})
    write_table(changed, path, PSI_TABLE, provenance=SOURCE)
    assert main(["publish", "results", str(path), MODEL, str(folder / "out"), *OPTIONS]) == 0
    written = yaml.safe_load((folder / "out" / ".eval_results" / "two.yaml").read_text())
    return [one["notes"] for one in written]


@pytest.mark.parametrize(
    ("p_adjusted", "worded"),
    [
        (0.00001, "(adjusted p < 0.001)"),
        (0.0312, "(adjusted p = 0.031)"),
        (None, "(no test)"),
    ],
)
def test_the_notes_have_the_adjusted_p_as_other_pages_word_it(tmp_path, psi, p_adjusted, worded):
    for notes in notes_of(psi[1], tmp_path, change={"p_position": 0.012, "p_adjusted": p_adjusted}):
        assert worded in notes


def test_rows_of_all_domains_are_a_corpus_only_where_that_is_said(tmp_path, psi, capsys):
    path, pooled = tmp_path / "psi_table.parquet", psi[1].filter(domain="all")
    write_table(pooled, path, PSI_TABLE, provenance=SOURCE)
    command = ["publish", "results", str(path), MODEL, str(tmp_path / "out"), *OPTIONS]
    assert main(command) == 2
    assert "searched as one corpus" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main([*command, "--pooled"]) == 0
    # Of a table that has both, too: the user says what was searched.
    assert (
        main(
            ["publish", "results", str(psi[0]), MODEL, str(tmp_path / "both"), *OPTIONS, "--pooled"]
        )
        == 0
    )
    for folder in ("out", "both"):
        written = yaml.safe_load((tmp_path / folder / ".eval_results" / "two.yaml").read_text())
        tasks = [one["dataset"]["task_id"] for one in written]
        assert tasks == ["two_deu-Latn_test", "two_eng-Latn_test"]


def test_a_language_of_one_domain_beside_one_of_two_is_a_corpus(tmp_path, psi):
    is_german = pl.col("corpus_lang") == "deu-Latn"
    notes = notes_of(psi[1].filter(~is_german | (pl.col("domain") == "all")), tmp_path)
    assert len(notes) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "another"}, "models of the benchmark: by-length"),
        ({"--dataset": "two"}, "as owner/name"),
        ({"--benchmark": "three"}, "models of the benchmark: none"),
    ],
)
def test_what_the_table_does_not_have_is_refused(tmp_path, psi, capsys, change, message):
    options = dict(zip(OPTIONS[::2], OPTIONS[1::2], strict=True))
    options |= {name: value for name, value in change.items() if name != "model"}
    named = [word for pair in options.items() for word in pair]
    model = change.get("model", MODEL)
    assert main(["publish", "results", str(psi[0]), model, str(tmp_path / "out"), *named]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_results_that_are_there_stay(tmp_path, psi, capsys):
    assert main(["publish", "results", str(psi[0]), MODEL, str(tmp_path), *OPTIONS]) == 0
    path = tmp_path / ".eval_results" / "two.yaml"
    before = path.read_text()
    assert main(["publish", "results", str(psi[0]), MODEL, str(tmp_path), *OPTIONS]) == 2
    assert "is there; remove it" in capsys.readouterr().err
    assert path.read_text() == before
