"""`psibench publish results`: results as the hub's own library reads them back."""

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
def root(tmp_path_factory):
    """A benchmark of two languages and two domains."""
    return make_benchmark(tmp_path_factory.mktemp("publish") / "two")


@pytest.fixture(scope="module")
def psi(root):
    """The table of a retriever on it."""

    def shared(queries, corpus, *, k):
        bags = {i: set(t.split()) for i, t in corpus.texts.items()}
        return {
            q: {i: len(bag & set(t.split())) + len(i) / 99 for i, bag in bags.items()}
            for q, t in queries.items()
        }

    return psibench.evaluate(shared, root, model=MODEL, by_domain=True).psi


def publish(table, folder, *more, model=MODEL):
    """Run the command on a table; return its exit code and the entries it wrote."""
    path = folder / "psi_table.parquet"
    write_table(table, path, PSI_TABLE, provenance=SOURCE)
    code = main(["publish", "results", str(path), model, str(folder / "out"), *OPTIONS, *more])
    written = folder / "out" / ".eval_results" / "two.yaml"
    if code or not written.exists():
        return code, None
    return code, parse_eval_result_entries(yaml.safe_load(written.read_text()))


def test_each_corpus_has_its_score_and_its_psi_in_the_notes(tmp_path, psi):
    _, entries = publish(psi, tmp_path)
    rows = psi.filter(metric="ndcg@10", buckets="thirds", evidence="all", length_bucket="all")
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
        assert one.dataset_id == "me/two"


def test_the_tasks_are_those_that_the_exports_eval_yaml_registers(tmp_path, root, psi):
    for name, by_domain, pooled in (("own", ["--by-domain"], []), ("all", [], ["--pooled"])):
        (tmp_path / name).mkdir()
        out = tmp_path / name / "export"
        options = ["--layout", "mteb", "--licence", "mit", *by_domain]
        assert main(["export", str(root), str(out), *options]) == 0
        registered = {one["id"] for one in yaml.safe_load((out / "eval.yaml").read_text())["tasks"]}
        _, entries = publish(psi, tmp_path / name, *pooled)
        assert {one.task_id for one in entries} < registered


def test_a_corpus_asked_in_another_language_is_a_result_of_its_own(tmp_path, psi):
    """Named as `psibench export` names the pair, and so MTEB's task."""
    asked = psi.filter(corpus_lang="eng-Latn").with_columns(
        query_lang=pl.lit("deu-Latn"), mean=pl.col("mean") / 2
    )
    _, entries = publish(pl.concat([psi, asked]), tmp_path)
    values = {one.task_id: one.value for one in entries}
    assert len(values) == len(entries) == 6
    for domain in ("game", "mining"):
        own, pair = (values[f"two_{name}eng-Latn-{domain}_test"] for name in ("", "deu-Latn-"))
        assert pair == pytest.approx(own / 2, abs=1e-4)


@pytest.mark.parametrize(
    ("p_adjusted", "worded"), [(0.00001, "(adjusted p < 0.001)"), (None, "(no test)")]
)
def test_the_notes_have_the_adjusted_p_as_other_pages_word_it(tmp_path, psi, p_adjusted, worded):
    changed = psi.with_columns(p_position=0.012, p_adjusted=pl.lit(p_adjusted, pl.Float64))
    assert all(worded in one.notes for one in publish(changed, tmp_path)[1])


def test_rows_of_all_domains_are_a_corpus_only_where_that_is_said(tmp_path, psi, capsys):
    pooled = psi.filter(domain="all")
    assert publish(pooled, tmp_path) == (2, None)
    assert "searched as one corpus" in capsys.readouterr().err
    # Of a table that has both, too: the user says what was searched.
    for number, table in enumerate((pooled, psi)):
        (tmp_path / str(number)).mkdir()
        _, entries = publish(table, tmp_path / str(number), "--pooled")
        assert [one.task_id for one in entries] == ["two_deu-Latn_test", "two_eng-Latn_test"]


def test_a_language_of_one_domain_beside_one_of_two_is_a_corpus(tmp_path, psi):
    is_german = pl.col("corpus_lang") == "deu-Latn"
    _, entries = publish(psi.filter(~is_german | (pl.col("domain") == "all")), tmp_path)
    assert len(entries) == 3


@pytest.mark.parametrize(
    ("more", "model", "message"),
    [
        ([], "another", "models of the benchmark: by-length"),
        (["--dataset", "two"], MODEL, "as owner/name"),
        (["--benchmark", "three"], MODEL, "models of the benchmark: none"),
    ],
)
def test_what_the_table_does_not_have_is_refused(tmp_path, psi, capsys, more, model, message):
    assert publish(psi, tmp_path, *more, model=model) == (2, None)
    assert message in capsys.readouterr().err


def test_results_that_are_there_stay(tmp_path, psi, capsys):
    assert publish(psi, tmp_path)[0] == 0
    path = tmp_path / "out" / ".eval_results" / "two.yaml"
    before = path.read_text()
    assert publish(psi, tmp_path)[0] == 2
    assert "is there; remove it" in capsys.readouterr().err
    assert path.read_text() == before
