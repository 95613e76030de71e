"""`psibench.evaluate`: any Python function, scored as a run of the same rankings is."""

import math

import polars as pl
import pyarrow.parquet as pq
import pytest
from built_benchmark import DOMAINS, make_benchmark, table
from language_tables import write_texts
from polars.testing import assert_frame_equal

import psibench
from psibench.cli import main
from psibench.errors import InputError
from psibench.tables import Provenance, read_table, write_table
from psibench.tables.schemas import QRELS, QUERIES


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return make_benchmark(tmp_path_factory.mktemp("evaluate") / "two-languages")


def shared_words(queries, corpus, *, k):
    """Rank by the number of words that query and document share."""
    bags = {doc_id: set(text.split()) for doc_id, text in corpus.texts.items()}
    found = {}
    for query_id, text in queries.items():
        counts = {doc_id: len(bag & set(text.split())) for doc_id, bag in bags.items()}
        best = sorted(counts, key=counts.get, reverse=True)[:k]
        found[query_id] = {doc_id: float(counts[doc_id]) for doc_id in best if counts[doc_id]}
    return found


def first_third(queries, corpus, *, k):
    """The same, by the first third of each document alone."""

    class Cut:
        texts = {i: " ".join(t.split()[:20]) for i, t in corpus.texts.items()}  # noqa: RUF012

    return shared_words(queries, Cut, k=k)


def test_the_tables_are_those_that_score_makes_of_the_same_rankings(tmp_path, results):
    found = psibench.evaluate(shared_words, results, model="words", languages=["eng-Latn"])
    run = found.run.select("query_id", "doc_id", "score")
    run.write_parquet(tmp_path / "words.parquet")
    data = results / "data" / "eng-Latn"
    options = ["--run", tmp_path / "words.parquet", "--out", tmp_path / "out", "--queries"]
    options += [data / domain / "queries.parquet" for domain in DOMAINS] + ["--qrels"]
    options += [data / domain / "qrels.parquet" for domain in DOMAINS]
    assert main(["score", *map(str, options)]) == 0
    for name, frame in (("psi_table", found.psi), ("bucket_scores", found.buckets)):
        scored = pl.read_parquet(tmp_path / "out" / f"{name}.parquet")
        labels = ("benchmark", "query_lang", "corpus_lang")
        assert_frame_equal(frame.drop(labels), scored.drop(labels), check_dtypes=False)
    assert found.psi["mean"][0] > 0.3


def test_what_a_retriever_does_not_read_shows_in_its_buckets(results):
    found = psibench.evaluate(first_third, results, control=shared_words, buckets=["thirds"])
    means = found.buckets.filter(metric="ndcg@10", model="retriever", corpus_lang="eng-Latn")
    by_third = dict(means.filter(evidence="all").select("bucket", "mean").iter_rows())
    assert by_third["beginning"] > 0.5 > by_third["end"]
    assert set(found.psi["corpus_lang"]) == {"deu-Latn", "eng-Latn"}
    assert set(found.psi["model"]) == {"retriever", "control"}
    assert set(found.comparisons["other"]) == {"control"}


def test_it_is_asked_domain_by_domain_with_that_domains_texts(results):
    calls = []

    def search(queries, corpus, *, k):
        calls.append((corpus.benchmark, corpus.language, corpus.domain, len(queries), k))
        assert (
            dict(pl.read_parquet(corpus.path, columns=["_id", "text"]).iter_rows()) == corpus.texts
        )
        return {query_id: {} for query_id in queries}

    options = {"languages": ["eng-Latn"], "metrics": ["ndcg@5", "mrr@2"], "by_domain": True}
    found = psibench.evaluate(search, results, k=5, **options)
    assert calls == [("two-languages", "eng-Latn", domain, 108, 5) for domain in DOMAINS]
    assert set(found.psi["domain"]) == {"all", *DOMAINS}
    assert found.psi["mean"].to_list() == [0.0] * found.psi.height  # no answer scores 0
    assert found.scores.height == table(results, "eng-Latn", "queries").height


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda q: {next(iter(q)): {"game/d99": 1.0}}, "document ids that the benchmark does not"),
        (lambda q: {"another": {"game/d1": 1.0}}, "query ids that the benchmark does not"),
        (lambda q: {next(iter(q)): {"game/d1": float("nan")}}, "the score nan"),
        (lambda q: [("game/d1", 1.0)], "got list"),
        (lambda q: {next(iter(q)): {"game/d1": "high"}}, "scores as numbers"),
        (lambda q: {next(iter(q)): ["game/d1"]}, "a retriever returns"),
    ],
)
def test_rankings_that_are_none_are_refused_with_where(results, answer, message):
    with pytest.raises(InputError, match=message) as refused:
        psibench.evaluate(
            lambda queries, corpus, *, k: answer(queries), results, domains=["game"], model="mine"
        )
    assert "mine, deu-Latn/game" in str(refused.value)


def test_what_an_earlier_run_left_behind_is_warned_of(tmp_path, caplog):
    results = make_benchmark(tmp_path / "renamed")
    folders = sorted((results / "data").glob("*/*/"))
    rows = [("renamed", f.parent.name, f.name, "n_queries", 1.0) for f in folders[1:]]
    columns = ["benchmark", "language", "domain", "statistic", "value"]
    pl.DataFrame(rows, columns, orient="row").write_parquet(results / "statistics.parquet")
    psibench.evaluate(shared_words, results)
    (warning,) = (one.getMessage() for one in caplog.records if one.name == "psibench")
    assert f"no part of the last one: {folders[0]}; delete" in warning


def test_what_is_not_there_cannot_be_evaluated(tmp_path, results):
    with pytest.raises(InputError, match="no folder data/LANGUAGE/DOMAIN"):
        psibench.evaluate(shared_words, tmp_path)
    folder = tmp_path / "data" / "eng-Latn" / "law"
    folder.mkdir(parents=True)
    target = f"results/{tmp_path.name}/data/eng-Latn/law"  # as a config's folder has it
    with pytest.raises(InputError, match=f"`psibench run CONFIG {target}/corpus.parquet {target}"):
        psibench.evaluate(shared_words, tmp_path)
    with pytest.raises(InputError, match="languages: no dataset of fra-Latn"):
        psibench.evaluate(shared_words, results, languages=["fra-Latn"])
    with pytest.raises(InputError, match="name of the control's rows"):
        psibench.evaluate(shared_words, results, model="control", control=shared_words)


def halves(queries, corpus, *, k):
    """Both halves of the documents of `shared_words`, the first one before the second."""
    found = shared_words(queries, corpus, k=k // 2)
    return {
        query_id: {
            place: 2 * score - (place[1] > 0)
            for doc_id, score in scored.items()
            for middle, end in [(len(corpus.texts[doc_id]) // 2, len(corpus.texts[doc_id]))]
            for place in ((doc_id, 0, middle), (doc_id, middle, end))
        }
        for query_id, scored in found.items()
    }


def test_a_retriever_of_chunks_is_scored_by_spans_too(results):
    options = {"languages": ["eng-Latn"], "buckets": ["thirds"]}
    found = psibench.evaluate(halves, results, chunks=True, **options)
    plain = psibench.evaluate(shared_words, results, k=50, **options)
    means, expected = (
        dict(one.psi.filter(length_bucket="all").select("metric", "mean").iter_rows())
        for one in (found, plain)
    )
    assert means["ndcg@10"] == expected["ndcg@10"]
    whole = psibench.evaluate(shared_words, results, k=50, chunks=True, **options)  # plain ids
    assert whole.psi.filter(metric="ndcg@10").equals(plain.psi.filter(metric="ndcg@10"))
    first = found.buckets.filter(metric="span-recall@1", length_bucket="all")
    by_third = dict(first.select("bucket", "mean").iter_rows())
    assert by_third["beginning"] > 0 == by_third["end"]  # the first chunk is a first half


def test_chunks_that_are_nowhere_are_refused(results):
    def search(queries, corpus, *, k):
        return {next(iter(queries)): {("game/d1", 5, 5): 1.0}}

    with pytest.raises(InputError, match="has the start 5 and the end 5"):
        psibench.evaluate(search, results, domains=["game"], chunks=True)
    with pytest.raises(InputError, match=r"with chunks .document id, start, end. for an id"):
        psibench.evaluate(search, results, domains=["game"])


@pytest.mark.parametrize("recipe", ["beir", "posir_release"])
def test_a_query_in_the_corpus_is_no_result_where_the_recipe_says_so(tmp_path, recipe):
    # Documents a and b are queries, too; a retriever finds each itself, then its answer.
    folder = tmp_path / "argu" / "data" / "eng-Latn" / "general"
    texts = {f"{q}{end}": f"text {q}{end}" for q in "ab" for end in ("", "-answer")}
    write_texts(folder, texts, {"a": "a", "b": "b"}, positives={q: f"{q}-answer" for q in "ab"})
    params = {"recipe": recipe} | ({"identical_ids": "auto"} if recipe == "beir" else {})
    source = Provenance(stage="build", stage_version=1, params=params)
    queries = read_table(folder / "queries.parquet", QUERIES)
    write_table(queries, folder / "queries.parquet", QUERIES, provenance=source)
    rows = {"query-id": ["a", "b"], "corpus-id": ["a-answer", "b-answer"], "score": [1, 1]}
    qrels = pl.DataFrame(rows, schema_overrides={"score": pl.Int32})
    write_table(qrels, folder / "qrels.parquet", QRELS, provenance=source)
    depths = []

    def search(asked, corpus, *, k):
        depths.append(k)
        ranking = {q: [q, f"{q}-answer", *(other for other in "ab" if other != q)] for q in asked}
        return {q: {d: 1.0 / n for n, d in enumerate(r[:k], 1)} for q, r in ranking.items()}

    asked = {"k": 2, "metrics": ["ndcg@2"], "buckets": ["thirds"]}
    found = psibench.evaluate(search, tmp_path / "argu", **asked)
    # BEIR's rule: one more is asked for, and two that are not the query's own are ranked.
    expected = (1.0, 3) if recipe == "beir" else (1 / math.log2(3), 2)
    assert (found.scores["ndcg@2"][0], depths[0]) == (pytest.approx(expected[0]), expected[1])
    assert found.run.height == 4
    out = tmp_path / "out"
    assert (
        main(["export", str(tmp_path / "argu"), str(out), "--layout", "mteb", "--licence", "mit"])
        == 0
    )
    schema = pq.read_schema(out / "eng-Latn" / "qrels" / "test.parquet")
    assert schema.metadata == {b"identical_ids_removed": str(recipe == "beir").encode()}
