"""`psibench.publish.mteb_task`: MTEB evaluates a model and reports the PSI of each language."""

import json
import shutil

import polars as pl
import pytest
import yaml
from built_benchmark import LANGUAGES, make_benchmark, table

import psibench
from psibench.cli import main
from psibench.errors import InputError
from psibench.publish import mteb_task

PAIR = "deu-Latn-eng-Latn"


@pytest.fixture(scope="module")
def one_domain(tmp_path_factory):
    """A benchmark of two languages and one domain, and its export: one corpus a language."""
    folder = tmp_path_factory.mktemp("mteb-task")
    results = make_benchmark(folder / "two-languages", domains=("game",), n_documents=60)
    options = ["--layout", "mteb", "--licence", "cc-by-4.0"]
    assert main(["export", str(results), str(folder / "out"), *options]) == 0
    return results, folder / "out"


@pytest.fixture(scope="module")
def random_model(one_domain):
    """A model of random vectors for the words of the benchmark, summed over the first 30."""
    import numpy as np
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    texts = [
        text for language in LANGUAGES for text in table(one_domain[0], language, "corpus")["text"]
    ]
    words = sorted({word for text in texts for word in text.split()})
    tokenizer = Tokenizer(
        models.WordLevel({w: i for i, w in enumerate(["[UNK]", *words])}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(30)  # half of a document: a position effect
    weights = np.random.default_rng(1).normal(size=(len(words) + 1, 64)).astype(np.float32)
    weights[0] = 0  # of tokens that are no word of a document
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)])


def searching(model):
    """The same model, asked by psibench: cosines of its vectors."""

    def search(queries, corpus, *, k):
        texts = corpus.texts
        asked = model.encode(list(queries.values()), normalize_embeddings=True)
        found = asked @ model.encode(list(texts.values()), normalize_embeddings=True).T
        return {
            query: dict(zip(texts, map(float, row), strict=True))
            for query, row in zip(queries, found, strict=True)
        }

    return search


def test_mteb_reports_psibenchs_figures_for_each_language(
    peer, one_domain, random_model, tmp_path, capsys
):
    mteb = peer("mteb")
    results, folder = one_domain
    task = mteb_task(folder)
    evaluated = mteb.evaluate(
        random_model,
        [task],
        cache=mteb.ResultCache(tmp_path),
        overwrite_strategy="always",
        prediction_folder=tmp_path / "predictions",
    )
    (found,) = evaluated.task_results
    scores = {one["hf_subset"]: one for one in found.scores["test"]}
    assert set(scores) == {*LANGUAGES, PAIR}
    own = psibench.evaluate(searching(random_model), results, buckets=["thirds"], k=100)
    for language in LANGUAGES:
        one = scores[language]
        rows = own.psi.filter(corpus_lang=language, metric="ndcg@10", evidence="all")
        row = rows.row(0, named=True)
        assert one["languages"] == [language]
        assert one["ndcg_at_10"] == pytest.approx(row["mean"], abs=1e-5)  # 5 digits
        for name in ("psi", "psi_low", "psi_high", "psi_same", "psi_same_high", "n_queries"):
            assert one[name] == pytest.approx(row[name], abs=1e-6), name
        means = own.buckets.filter(corpus_lang=language, metric="ndcg@10", evidence="all")
        for bucket, mean in means.select("bucket", "mean").iter_rows():
            assert one[f"ndcg_at_10_{bucket}"] == pytest.approx(mean, abs=1e-6)
        assert one["ndcg_at_10_beginning"] > one["ndcg_at_10_end"] + 0.2  # not read
    printed = capsys.readouterr().out
    for subset, one in scores.items():
        assert f"two-languages, {subset}: PSI {one['psi']:.3f}" in printed
    # MTEB's rankings, scored by the command
    (predictions,) = (tmp_path / "predictions").rglob("*.json")
    tables = folder / PAIR
    files = {name: tables / name / "test.parquet" for name in ("queries", "qrels")}
    command = ["score", "--run", predictions, "--run-part", f"{PAIR}/test", "--out", tmp_path / "s"]
    command += ["--queries", files["queries"], "--qrels", files["qrels"], "--buckets", "thirds"]
    assert main(list(map(str, command))) == 0
    rows = pl.read_parquet(tmp_path / "s" / "psi_table.parquet").filter(metric="ndcg@10")
    (psi,) = rows.filter(evidence="all", length_bucket="all")["psi"]
    assert psi == pytest.approx(scores[PAIR]["psi"], abs=1e-6)
    # the file that a leaderboard reads
    (file,) = tmp_path.rglob("two-languages.json")
    stored = json.loads(file.read_text())
    assert stored["task_name"] == "two-languages"
    for one in stored["scores"]["test"]:
        assert one["psi"] == pytest.approx(scores[one["hf_subset"]]["psi"], abs=1e-5)
        assert one["main_score"] == one["ndcg_at_10"]


def test_the_hub_is_told_what_mteb_would_tell_it(peer, one_domain):
    peer("mteb")
    written = yaml.safe_load((one_domain[1] / "eval.yaml").read_text())
    config = mteb_task(one_domain[1])._create_task_hf_config()
    assert written == config.model_dump(exclude_none=True)


def test_other_data_and_other_buckets_are_not_answered_from_the_cache(peer, one_domain, tmp_path):
    """MTEB keeps results by name and revision."""
    peer("mteb")
    folder = one_domain[1]
    other = shutil.copytree(folder, tmp_path / "other")
    path = next(other.rglob("*.parquet"))
    pl.read_parquet(path).reverse().write_parquet(path)
    tasks = [mteb_task(folder), mteb_task(folder), mteb_task(other)]
    tasks.append(mteb_task(folder, buckets="relative-20"))
    assert [task.metadata.name for task in tasks[2:]] == [
        "two-languages",
        "two-languages-relative-20",
    ]
    kept = [(task.metadata.name, task.metadata.dataset["revision"]) for task in tasks]
    assert kept[0] == kept[1]
    assert len(set(kept)) == 3


def test_folders_that_are_no_export_for_mteb_are_refused(peer, tmp_path, exported):
    peer("mteb")
    for folder in (tmp_path, exported("beir")):
        with pytest.raises(InputError, match=r"no eval.yaml; use a folder"):
            mteb_task(folder)
    (tmp_path / "eval.yaml").write_text("- id: a")
    with pytest.raises(InputError, match="no name and tasks"):
        mteb_task(tmp_path)
