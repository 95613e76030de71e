"""Layouts for MTEB, BEIR and TREC have the benchmark's content and can be read back."""

import json
import shutil

import polars as pl
import pytest
import yaml
from built_benchmark import DATASET_TABLES, DOMAINS, LANGUAGES, change, make_benchmark, table

import psibench
from psibench.cli import main
from psibench.formats.beir import read_qrels, read_query_file
from psibench.formats.runs import read_run
from psibench.publish.mteb import FIGURES, position_scores


def export(root, out, layout, *options):
    named = ["--layout", layout, "--licence", "cc-by-4.0", *options]
    return main(["export", str(root), str(out), *named])


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return make_benchmark(tmp_path_factory.mktemp("layouts") / "two-languages")


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    """Two languages of one domain: corpora have the names of the languages."""
    return make_benchmark(tmp_path_factory.mktemp("layouts") / "one-domain", domains=("game",))


PAIR = "deu-Latn-eng-Latn"
"""A pair with a run."""


def front_matter(out):
    return yaml.safe_load((out / "README.md").read_text().split("---\n")[1])


def configs(out):
    """Return config -> path from the card."""
    named = front_matter(out)["configs"]
    found = {one["config_name"]: out / one["data_files"][0]["path"] for one in named}
    assert len(found) == len(named)
    return found


def test_mteb_has_configs_for_each_corpus_and_pair(tmp_path, results):
    assert export(results, tmp_path / "out", "mteb") == 0
    found, tables = configs(tmp_path / "out"), ("corpus", "queries", "qrels")
    subsets = (*LANGUAGES, PAIR)
    assert set(found) == {f"{s}-{d}-{name}" for s in subsets for d in DOMAINS for name in tables}
    for language in LANGUAGES:
        for domain in DOMAINS:
            for name in tables:
                frame = pl.read_parquet(found[f"{language}-{domain}-{name}"])
                built = table(results, language, name, domain)
                shared = [column for column in frame.columns if column in built.columns]
                assert set(shared) >= {"_id", "text"} or name == "qrels"
                assert frame.select(shared).rows() == built.select(shared).rows()


def test_eval_yaml_lists_the_tasks_of_mteb(tmp_path, game):
    assert export(game, tmp_path / "out", "mteb") == 0
    registered = yaml.safe_load((tmp_path / "out" / "eval.yaml").read_text())
    assert list(registered) == ["name", "description", "evaluation_framework", "tasks"]
    assert registered["evaluation_framework"] == "mteb"
    assert registered["tasks"] == [
        {"id": "one-domain"},
        *(
            {"id": f"one-domain_{name}_test", "config": name, "split": "test"}
            for name in ("deu-Latn", "eng-Latn", PAIR)
        ),
    ]
    assert export(game, tmp_path / "beir", "beir") == 0
    assert not (tmp_path / "beir" / "eval.yaml").exists()  # no framework of the hub's list has it


def test_a_pair_has_queries_and_corpus_of_different_languages(tmp_path, game):
    """Evidence and grades refer to the searched documents; the corpus is written once."""
    asked, evidence = (table(game, language, "queries") for language in LANGUAGES)
    qrels = table(game, "eng-Latn", "qrels")
    assert asked["text"].to_list() != evidence["text"].to_list()
    assert export(game, tmp_path / "mteb", "mteb") == 0
    files = configs(tmp_path / "mteb")
    assert files[f"{PAIR}-corpus"] == files["eng-Latn-corpus"]
    found = read_query_file(files[f"{PAIR}-queries"])
    assert found["_id"].to_list() == asked["_id"].to_list()
    assert pl.read_parquet(files[f"{PAIR}-queries"])["text"].to_list() == asked["text"].to_list()
    for column in ("pos_corpus_id", "pos_char_span", "pos_char_length"):
        assert found[column].to_list() == evidence[column].to_list(), column
    assert pl.read_parquet(files[f"{PAIR}-qrels"]).rows() == qrels.rows()
    beir = tmp_path / "beir" / PAIR
    assert export(game, tmp_path / "beir", "beir") == 0
    lines = [json.loads(line) for line in (beir / "queries.jsonl").open()]
    assert [line["text"] for line in lines] == asked["text"].to_list()
    assert read_qrels(beir / "qrels" / "test.tsv").rows() == qrels.rows()
    assert not (beir / "corpus.jsonl").exists()


def test_pairs_without_a_run_or_domain_are_omitted(tmp_path, results):
    uneven = shutil.copytree(results, tmp_path / "uneven")
    for name in DATASET_TABLES:
        change(uneven, "deu-Latn", name, "mining", lambda rows: rows.clear())
    assert export(uneven, tmp_path / "out", "trec") == 0
    asked = {path.parent.name for path in (tmp_path / "out").glob("*/topics.tsv")}
    own = {"deu-Latn-game", "eng-Latn-game", "eng-Latn-mining"}
    assert asked == own | {f"{PAIR}-game"}
    shutil.rmtree(uneven / "runs")
    assert export(uneven, tmp_path / "alone", "trec") == 0
    assert {path.parent.name for path in (tmp_path / "alone").glob("*/topics.tsv")} == own


def test_evidence_that_mteb_cannot_batch_has_a_separate_config(tmp_path):
    """MTEB puts all columns of queries into batches and fails on nulls and ragged lists."""
    results = make_benchmark(tmp_path / "odd", languages=["eng-Latn"], domains=("game",))
    several = pl.lit([[0, 5], [300, 310]], pl.List(pl.List(pl.Int64)))
    first = pl.int_range(pl.len()) == 0
    odd = {
        "pos_char_span": pl.when(~first).then("pos_char_span"),
        "pos_char_spans": pl.when(first).then(several),
    }
    change(results, "eng-Latn", "queries", "game", lambda rows: rows.with_columns(**odd))
    assert export(results, tmp_path / "out", "mteb") == 0
    folder = tmp_path / "out" / "eng-Latn"
    plain = pl.read_parquet(folder / "queries" / "test.parquet")
    assert plain.null_count().sum_horizontal().item() == 0
    assert {"pos_corpus_id", "pos_char_length", "domain"} < set(plain.columns)
    assert not {"pos_char_span", "pos_char_spans", "positions"} & set(plain.columns)
    evidence = read_query_file(folder / "evidence" / "test.parquet")
    assert evidence["pos_char_spans"][0].to_list() == [[0, 5], [300, 310]]
    assert evidence["pos_char_span"].null_count() == 1
    assert evidence["_id"].to_list() == plain["_id"].to_list()
    assert list(configs(tmp_path / "out"))[-1] == "eng-Latn-evidence"


def test_an_mteb_task_gives_the_same_scores_as_evaluate(tmp_path):
    """The task's scores of MTEB's ranking, without MTEB."""
    results = make_benchmark(tmp_path / "one", languages=["eng-Latn"], domains=("game",))
    run = pl.read_parquet(results / "runs" / "bm25" / "eng-Latn-eng-Latn.parquet")
    ranking: dict[str, dict[str, float]] = {}
    for query, document, score in run.select("query_id", "doc_id", "score").iter_rows():
        ranking.setdefault(query, {})[document] = score
    assert export(results, tmp_path / "out", "mteb") == 0
    qrels = table(results, "eng-Latn", "qrels")
    judged = {query: {document: grade} for query, document, grade in qrels.iter_rows()}
    queries = read_query_file(tmp_path / "out" / "eng-Latn" / "queries" / "test.parquet")
    found = position_scores(ranking, queries, judged)
    own = psibench.evaluate(
        lambda queries, corpus, *, k: ranking, results, buckets=["thirds"], metrics=["ndcg@10"]
    )
    row = own.psi.row(0, named=True)
    for name in FIGURES:
        assert found.get(name) == row[name], name  # null values are omitted
    means = dict(own.buckets.select("bucket", "mean").iter_rows())
    assert {f"ndcg_at_10_{bucket}": mean for bucket, mean in means.items()} == {
        name: value for name, value in found.items() if name not in FIGURES
    }


def test_beir_files_hold_the_texts(tmp_path, game):
    """A test below scores their evidence and grades."""
    assert export(game, tmp_path / "out", "beir") == 0
    for name in ("queries", "corpus"):
        built = table(game, "eng-Latn", name).select("_id", "text")
        lines = [json.loads(line) for line in (tmp_path / f"out/eng-Latn/{name}.jsonl").open()]
        assert [(line["_id"], line["text"]) for line in lines] == built.rows()
    assert {line["title"] for line in lines} == {""}  # BEIR's models join it to the text


@pytest.mark.parametrize("subset", ["eng-Latn", PAIR])
def test_trec_files_hold_topics_and_runs_of_their_domain(tmp_path, results, subset):
    """A test below scores qrels and evidence; a pair has the topics of the other language."""
    assert export(results, tmp_path / "out", "trec") == 0
    folder = tmp_path / "out" / f"{subset}-mining"
    topics = [line.split("\t") for line in (folder / "topics.tsv").read_text().splitlines()]
    asked = table(results, subset[:8], "queries", "mining")
    assert topics == [[key, " ".join(text.split())] for key, text in asked["_id", "text"].rows()]
    assert (folder / "corpus.jsonl").exists() == (subset == "eng-Latn")
    run = read_run(folder / "runs" / "bm25.trec")
    was = pl.read_parquet(results / "runs" / "bm25" / f"{subset[:8]}-eng-Latn.parquet")
    was = was.filter(pl.col("query_id").is_in(asked["_id"].implode()))
    assert run.frame.select("query_id", "doc_id").rows() == was.select("query_id", "doc_id").rows()
    assert run.frame["score"].cast(pl.Float32).to_list() == was["score"].to_list()  # every bit
    assert run.ranks.to_list() == was["rank"].to_list()


def test_a_run_scores_the_same_on_benchmark_and_export(tmp_path, game):
    """`psibench score` gives the same numbers for TREC and BEIR files as for the benchmark."""
    assert export(game, tmp_path / "trec", "trec") == 0
    assert export(game, tmp_path / "beir", "beir") == 0
    data, run = game / "data" / "eng-Latn", game / "runs/bm25/eng-Latn-eng-Latn.parquet"
    trec, beir = tmp_path / "trec" / "eng-Latn", tmp_path / "beir" / "eng-Latn"
    sources = {
        "built": (data / "queries.parquet", data / "qrels.parquet", run),
        "trec": (trec / "queries.jsonl", trec / "qrels.trec", trec / "runs" / "bm25.trec"),
        "beir": (beir / "queries.jsonl", beir / "qrels" / "test.tsv", run),
    }
    found = {}
    for name, (queries, qrels, path) in sources.items():
        options = ["--queries", queries, "--qrels", qrels, "--run", path]
        out = tmp_path / f"scored-{name}"
        assert main(["score", *map(str, options), "--out", str(out)]) == 0
        psi = pl.read_parquet(out / "psi_table.parquet").drop("queries_by", "model")
        found[name] = psi.rows()
    assert 0.05 < pl.read_parquet(tmp_path / "scored-built/psi_table.parquet")["mean"][0] < 1
    assert found["trec"] == found["built"]
    assert found["beir"] == found["built"]


@pytest.mark.parametrize(
    ("layout", "ids", "message"),
    [
        ("trec", "my file {}", "layout trec cannot hold ids that are empty or have white space"),
        (
            "beir",
            'd"{}',
            "layout beir cannot hold ids that are empty or have tabs, quotes or line ends",
        ),
    ],
)
def test_ids_that_a_layout_cannot_hold_are_refused(tmp_path, capsys, layout, ids, message):
    results = make_benchmark(tmp_path / "odd", languages=["eng-Latn"], ids=ids)
    assert export(results, tmp_path / "out", layout) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["odd"]
    assert export(results, tmp_path / "out", "mteb") == 0


def test_an_option_of_another_layout_is_refused(tmp_path, results, capsys):
    assert export(results, tmp_path / "out", "mteb", "--extra") == 2
    assert "--extra does not apply to the layout mteb" in capsys.readouterr().err
