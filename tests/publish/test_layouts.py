"""Layouts for MTEB, BEIR and TREC hold what was built, language by language, and are read back."""

import json
import shutil

import polars as pl
import pytest
import yaml
from built_benchmark import DOMAINS, LANGUAGES, N_DOCUMENTS, SOURCE, make_benchmark, table

import psibench
from psibench.cli import main
from psibench.formats.beir import read_qrels, read_queries
from psibench.formats.runs import read_run
from psibench.publish.mteb import FIGURES, position_scores
from psibench.tables import write_table
from psibench.tables.schemas import QUERIES


def export(root, out, layout, *options):
    named = ["--layout", layout, "--licence", "cc-by-4.0", *options]
    return main(["export", str(root), str(out), *named])


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return make_benchmark(tmp_path_factory.mktemp("layouts") / "two-languages")


def front_matter(out):
    return yaml.safe_load((out / "README.md").read_text().split("---\n")[1])


def test_mteb_has_configs_for_each_language_and_no_file_of_two(tmp_path, results):
    assert export(results, tmp_path / "out", "mteb") == 0
    configs = front_matter(tmp_path / "out")["configs"]
    tables = ("corpus", "queries", "qrels")
    subsets = (*LANGUAGES, "deu-Latn-eng-Latn")  # a run of this pair was made
    named = {f"{subset}-{name}" for subset in subsets for name in tables}
    assert {one["config_name"] for one in configs} == named
    assert len(configs) == len(named)
    for one in configs:
        language, _, name = one["config_name"].rpartition("-")
        if language not in LANGUAGES:
            continue  # a pair, below
        frame = pl.read_parquet(tmp_path / "out" / one["data_files"][0]["path"])
        built = table(results, language, name)
        shared = [column for column in frame.columns if column in built.columns]
        assert set(shared) >= {"_id", "text"} or name == "qrels"
        assert frame.select(shared).rows() == built.select(shared).rows()
    queries = pl.read_parquet(tmp_path / "out" / LANGUAGES[0] / "queries" / "test.parquet")
    assert queries["domain"].unique(maintain_order=True).to_list() == list(DOMAINS)


def test_the_hub_is_told_of_the_tasks_that_mteb_has(tmp_path, results):
    assert export(results, tmp_path / "out", "mteb", "--by-domain", "--domains", "game") == 0
    registered = yaml.safe_load((tmp_path / "out" / "eval.yaml").read_text())
    subsets = ("deu-Latn-game", "eng-Latn-game", "deu-Latn-eng-Latn-game")
    assert list(registered) == ["name", "description", "evaluation_framework", "tasks"]
    assert registered["evaluation_framework"] == "mteb"
    assert registered["tasks"] == [
        {"id": "two-languages"},
        *(
            {"id": f"two-languages_{name}_test", "config": name, "split": "test"}
            for name in subsets
        ),
    ]
    assert export(results, tmp_path / "beir", "beir") == 0
    assert not (tmp_path / "beir" / "eval.yaml").exists()  # no framework of the hub's list has it


@pytest.mark.parametrize("domains", [("game", "mining"), ("game",)])
def test_a_pair_has_the_queries_of_one_language_and_the_corpus_of_the_other(
    tmp_path, results, domains
):
    """Evidence and grades are those of the searched documents; the corpus is there once."""
    by_domain = ["--by-domain"] if len(domains) == 1 else []
    asked, corpus, qrels = (
        table(results, language, name, domains)
        for language, name in (
            ("deu-Latn", "queries"),
            ("eng-Latn", "corpus"),
            ("eng-Latn", "qrels"),
        )
    )
    evidence = table(results, "eng-Latn", "queries", domains)
    assert asked["text"].to_list() != evidence["text"].to_list()
    tail = f"-{domains[0]}" if by_domain else ""
    out = tmp_path / "mteb"
    assert export(results, out, "mteb", *by_domain) == 0
    files = {
        one["config_name"]: out / one["data_files"][0]["path"]
        for one in front_matter(out)["configs"]
    }
    subset = f"deu-Latn-eng-Latn{tail}"
    assert files[f"{subset}-corpus"] == files[f"eng-Latn{tail}-corpus"]
    found = read_queries(files[f"{subset}-queries"])
    assert found["_id"].to_list() == asked["_id"].to_list()
    assert pl.read_parquet(files[f"{subset}-queries"])["text"].to_list() == asked["text"].to_list()
    for column in ("pos_corpus_id", "pos_char_span", "pos_char_length"):
        assert found[column].to_list() == evidence[column].to_list(), column
    assert pl.read_parquet(files[f"{subset}-qrels"]).rows() == qrels.rows()
    assert set(pl.read_parquet(files[f"{subset}-corpus"])["_id"]) == set(corpus["_id"])
    beir = tmp_path / "beir"
    assert export(results, beir, "beir", *by_domain) == 0
    lines = [json.loads(line) for line in (beir / subset / "queries.jsonl").open()]
    assert [line["text"] for line in lines] == asked["text"].to_list()
    assert read_qrels(beir / subset / "qrels" / "test.tsv").rows() == qrels.rows()
    assert not (beir / subset / "corpus.jsonl").exists()


def test_a_pair_without_a_run_is_not_written(tmp_path, results):
    alone = tmp_path / "alone"
    shutil.copytree(results, alone)
    shutil.rmtree(alone / "runs")
    assert export(alone, tmp_path / "out", "mteb") == 0
    named = [
        one["config_name"].rpartition("-")[0] for one in front_matter(tmp_path / "out")["configs"]
    ]
    assert set(named) == set(LANGUAGES)


def test_ids_that_domains_share_get_the_domain_in_front_in_every_table(tmp_path):
    results = make_benchmark(tmp_path / "clashing", prefix_ids=False)
    assert export(results, tmp_path / "out", "mteb") == 0
    folder = tmp_path / "out" / "eng-Latn"
    corpus, queries, qrels = (
        pl.read_parquet(folder / name / "test.parquet") for name in ("corpus", "queries", "qrels")
    )
    assert corpus["_id"].n_unique() == corpus.height == 2 * N_DOCUMENTS
    assert corpus["_id"].to_list()[::N_DOCUMENTS] == ["game/d0", "mining/d0"]
    assert set(qrels["query-id"]) == set(queries["_id"])
    assert qrels["corpus-id"].to_list() == queries["pos_corpus_id"].to_list()
    assert set(queries["pos_corpus_id"]) == set(corpus["_id"])
    # kept apart, ids are as they were
    assert export(results, tmp_path / "apart", "mteb", "--by-domain") == 0
    one = pl.read_parquet(tmp_path / "apart" / "eng-Latn-mining" / "corpus" / "test.parquet")
    assert one["_id"].to_list() == [f"d{i}" for i in range(N_DOCUMENTS)]


def test_evidence_that_mteb_cannot_batch_has_a_config_of_its_own(tmp_path):
    """MTEB puts all columns of queries into batches, and fails at nulls and ragged lists."""
    results = make_benchmark(tmp_path / "odd", languages=["eng-Latn"])
    path = results / "data" / "eng-Latn" / "game" / "queries.parquet"
    queries = pl.read_parquet(path)
    several = pl.lit([[0, 5], [300, 310]], pl.List(pl.List(pl.Int64)))
    first = pl.int_range(pl.len()) == 0
    odd = queries.with_columns(
        pos_char_span=pl.when(~first).then("pos_char_span"),
        pos_char_spans=pl.when(first).then(several),
    )
    write_table(odd, path, QUERIES, provenance=SOURCE)
    assert export(results, tmp_path / "out", "mteb") == 0
    folder = tmp_path / "out" / "eng-Latn"
    plain = pl.read_parquet(folder / "queries" / "test.parquet")
    assert plain.null_count().sum_horizontal().item() == 0
    assert {"pos_corpus_id", "pos_char_length", "domain"} < set(plain.columns)
    assert not {"pos_char_span", "pos_char_spans", "positions"} & set(plain.columns)
    evidence = read_queries(folder / "evidence" / "test.parquet")
    assert evidence["pos_char_spans"][0].to_list() == [[0, 5], [300, 310]]
    assert evidence["pos_char_span"].null_count() == 1
    assert evidence["_id"].to_list() == plain["_id"].to_list()
    named = [one["config_name"] for one in front_matter(tmp_path / "out")["configs"]]
    assert named[-1] == "eng-Latn-evidence"


def test_the_figures_of_an_mteb_task_are_those_of_evaluate(tmp_path):
    """What the task computes of MTEB's ranking, without MTEB."""
    results = make_benchmark(tmp_path / "one", languages=["eng-Latn"], domains=("game",))
    run = pl.read_parquet(results / "runs" / "bm25" / "eng-Latn-eng-Latn.parquet")
    ranking: dict[str, dict[str, float]] = {}
    for query, document, score in run.select("query_id", "doc_id", "score").iter_rows():
        ranking.setdefault(query, {})[document] = score
    assert export(results, tmp_path / "out", "mteb") == 0
    qrels = table(results, "eng-Latn", "qrels", ("game",))
    judged = {query: {document: grade} for query, document, grade in qrels.iter_rows()}
    queries = read_queries(tmp_path / "out" / "eng-Latn" / "queries" / "test.parquet")
    found = position_scores(ranking, queries, judged)
    own = psibench.evaluate(
        lambda queries, corpus, *, k: ranking, results, buckets=["thirds"], metrics=["ndcg@10"]
    )
    row = own.psi.row(0, named=True)
    for name in FIGURES:
        assert found.get(name) == row[name], name  # what is null is left out
    means = dict(own.buckets.select("bucket", "mean").iter_rows())
    assert {f"ndcg_at_10_{bucket}": mean for bucket, mean in means.items()} == {
        name: value for name, value in found.items() if name not in FIGURES
    }


def test_beir_files_hold_the_texts(tmp_path, results):
    """Their evidence and grades are scored below."""
    assert export(results, tmp_path / "out", "beir") == 0
    for language in LANGUAGES:
        folder = tmp_path / "out" / language
        for name in ("queries", "corpus"):
            built = table(results, language, name).select("_id", "text")
            lines = [json.loads(line) for line in (folder / f"{name}.jsonl").open()]
            assert [(line["_id"], line["text"]) for line in lines] == built.rows()
        assert {line["title"] for line in lines} == {""}  # BEIR's models join it to the text


@pytest.mark.parametrize("subset", ["eng-Latn", "deu-Latn-eng-Latn"])
def test_trec_files_hold_topics_and_runs(tmp_path, results, subset):
    """Qrels and evidence are scored below; a pair has the topics of the other language."""
    assert export(results, tmp_path / "out", "trec") == 0
    folder = tmp_path / "out" / subset
    topics = [line.split("\t") for line in (folder / "topics.tsv").read_text().splitlines()]
    asked = table(results, subset[:8], "queries")
    assert topics == [[key, " ".join(text.split())] for key, text in asked["_id", "text"].rows()]
    assert (folder / "corpus.jsonl").exists() == (subset == "eng-Latn")
    run = read_run(folder / "runs" / "bm25.trec")
    was = pl.read_parquet(results / "runs" / "bm25" / f"{subset[:8]}-eng-Latn.parquet")
    assert run.frame.select("query_id", "doc_id").rows() == was.select("query_id", "doc_id").rows()
    assert run.frame["score"].cast(pl.Float32).to_list() == was["score"].to_list()  # every bit
    assert run.ranks.to_list() == was["rank"].to_list()


def test_domains_kept_apart_have_their_own_part_of_a_run(tmp_path, results):
    assert export(results, tmp_path / "out", "trec", "--by-domain") == 0
    parts = [
        read_run(tmp_path / "out" / f"eng-Latn-{domain}" / "runs" / "bm25.trec").frame
        for domain in DOMAINS
    ]
    was = pl.read_parquet(results / "runs" / "bm25" / "eng-Latn-eng-Latn.parquet")
    assert sum(part.height for part in parts) == was.height
    for domain, part in zip(DOMAINS, parts, strict=True):
        assert part["doc_id"].str.starts_with(domain).all()


def test_a_domain_that_the_queries_language_lacks_has_no_topics_of_it(tmp_path):
    results = make_benchmark(tmp_path / "uneven")
    shutil.rmtree(results / "data" / "deu-Latn" / "mining")
    assert export(results, tmp_path / "apart", "trec", "--by-domain") == 0
    asked = {path.parent.name for path in (tmp_path / "apart").glob("*/topics.tsv")}
    own = {"deu-Latn-game", "eng-Latn-game", "eng-Latn-mining"}
    assert asked == own | {"deu-Latn-eng-Latn-game"}  # the run is of both domains
    assert export(results, tmp_path / "pooled", "trec") == 0
    topics = (tmp_path / "pooled" / "deu-Latn-eng-Latn" / "topics.tsv").read_text()
    assert {line.split("/")[0] for line in topics.splitlines()} == {"game"}


def test_a_run_scores_the_same_on_what_was_built_and_on_what_was_exported(tmp_path, results):
    """The figures of `psibench score`: the files of TREC and of BEIR against the built tables."""
    assert export(results, tmp_path / "trec", "trec") == 0
    assert export(results, tmp_path / "beir", "beir") == 0
    data, run = results / "data" / "eng-Latn", results / "runs/bm25/eng-Latn-eng-Latn.parquet"
    trec, beir = tmp_path / "trec" / "eng-Latn", tmp_path / "beir" / "eng-Latn"
    sources = {
        "built": (
            [data / d / "queries.parquet" for d in DOMAINS],
            [data / d / "qrels.parquet" for d in DOMAINS],
            run,
        ),
        "trec": ([trec / "queries.jsonl"], [trec / "qrels.trec"], trec / "runs" / "bm25.trec"),
        "beir": ([beir / "queries.jsonl"], [beir / "qrels" / "test.tsv"], run),
    }
    found = {}
    for name, (queries, qrels, path) in sources.items():
        options = ["--queries", *queries, "--qrels", *qrels, "--run", path]
        out = tmp_path / f"scored-{name}"
        assert main(["score", *map(str, options), "--out", str(out)]) == 0
        psi = pl.read_parquet(out / "psi_table.parquet").drop("queries_by", "model")
        found[name] = psi.rows()
    assert 0.05 < pl.read_parquet(tmp_path / "scored-built/psi_table.parquet")["mean"][0] < 1
    assert found["trec"] == found["built"]
    assert found["beir"] == found["built"]


def test_pooled_domains_are_said_to_be_another_task(tmp_path, results, capsys):
    assert export(results, tmp_path / "out", "beir") == 0
    assert "not what psibench's own tables say" in capsys.readouterr().out
    assert "are one corpus here" in (tmp_path / "out" / "README.md").read_text()
    assert export(results, tmp_path / "apart", "beir", "--by-domain") == 0
    assert "not what psibench's own tables say" not in capsys.readouterr().out
    assert "are one corpus here" not in (tmp_path / "apart" / "README.md").read_text()


@pytest.mark.parametrize(
    ("layout", "ids", "message"),
    [
        ("trec", "my file {}", "ids with white space have no place in the layout trec"),
        ("beir", 'd"{}', "ids with tabs, quotes or line ends have no place in the layout beir"),
    ],
)
def test_ids_that_a_layout_cannot_hold_are_refused_and_nothing_is_left(
    tmp_path, capsys, layout, ids, message
):
    results = make_benchmark(tmp_path / "odd", languages=["eng-Latn"], ids=ids)
    assert export(results, tmp_path / "out", layout) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["odd"]
    assert export(results, tmp_path / "out", "mteb") == 0


@pytest.mark.parametrize(("layout", "option"), [("mteb", "--extra"), ("posir", "--by-domain")])
def test_an_option_of_another_layout_is_refused(tmp_path, results, capsys, layout, option):
    assert export(results, tmp_path / "out", layout, option) == 2
    assert f"{option} is no option of the layout {layout}" in capsys.readouterr().err
