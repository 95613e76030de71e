"""Each peer's loader reads an export, and its scorer agrees on a run."""

import polars as pl
import pytest
from built_benchmark import LANGUAGES, table

from psibench.metrics.query_scores import query_scores

LANGUAGE, DOMAIN = LANGUAGES[1], "game"


@pytest.fixture(scope="module")
def texts(built):
    """Documents, queries and qrels of a language as they were built: by id."""
    corpus, queries, qrels = (
        table(built, LANGUAGE, n, DOMAIN) for n in ("corpus", "queries", "qrels")
    )
    judged: dict[str, dict[str, int]] = {}
    for query, document, grade in qrels.iter_rows():
        judged.setdefault(query, {})[document] = grade
    pairs = (dict(one.select("_id", "text").iter_rows()) for one in (corpus, queries))
    return *pairs, judged


@pytest.fixture(scope="module")
def bm25(built):
    """psibench's nDCG@10 of each query, of the run of BM25."""
    queries, qrels = (table(built, LANGUAGE, name, DOMAIN) for name in ("queries", "qrels"))
    run = pl.read_parquet(built / "runs" / "bm25" / f"{LANGUAGE}-{LANGUAGE}.parquet")
    run = run.filter(pl.col("query_id").is_in(queries["_id"].implode()))
    scored = query_scores(run, queries, qrels, domain=DOMAIN)
    return dict(scored.select("query_id", "ndcg@10").iter_rows())


def test_beir_loads_the_folder_of_a_language(peer, exported, texts):
    loader = peer("beir.datasets.data_loader").GenericDataLoader
    corpus, queries, judged = loader(str(exported("beir") / LANGUAGE)).load(split="test")
    assert {key: one["text"] for key, one in corpus.items()} == texts[0]
    assert {one["title"] for one in corpus.values()} == {""}
    assert (queries, judged) == texts[1:]


def test_beir_loads_a_pair_by_its_files(peer, exported, built, texts):
    loader = peer("beir.datasets.data_loader").GenericDataLoader
    folder = exported("beir")
    pair = folder / f"{LANGUAGES[0]}-{LANGUAGE}"
    corpus, queries, judged = loader(
        corpus_file=str(folder / LANGUAGE / "corpus.jsonl"),
        query_file=str(pair / "queries.jsonl"),
        qrels_file=str(pair / "qrels" / "test.tsv"),
    ).load_custom()
    assert {key: one["text"] for key, one in corpus.items()} == texts[0]
    asked = table(built, LANGUAGES[0], "queries", DOMAIN)
    assert queries == dict(asked.select("_id", "text").iter_rows())
    assert judged == texts[2]


def test_ranx_reads_qrels_and_run_and_scores_them_as_psibench_does(peer, exported, bm25):
    ranx = peer("ranx")
    folder = exported("trec") / LANGUAGE
    qrels = ranx.Qrels.from_file(str(folder / "qrels.trec"), kind="trec")
    run = ranx.Run.from_file(str(folder / "runs" / "bm25.trec"), kind="trec")
    assert run.name == "bm25"
    found = ranx.evaluate(qrels, run, "ndcg@10", make_comparable=True, return_mean=False)
    expected = [bm25[query] for query in sorted(bm25)]
    assert found.tolist() == pytest.approx(expected, abs=1e-6)


def test_ir_measures_reads_qrels_and_run_and_scores_them_as_psibench_does(peer, exported, bm25):
    measures = peer("ir_measures")
    folder = exported("trec") / LANGUAGE
    found = measures.iter_calc(
        [measures.nDCG @ 10],
        measures.read_trec_qrels(str(folder / "qrels.trec")),
        measures.read_trec_run(str(folder / "runs" / "bm25.trec")),
    )
    per_query = {one.query_id: one.value for one in found}
    assert per_query == pytest.approx(bm25, abs=1e-9)


def test_pyterrier_reads_topics_qrels_and_run_without_java(peer, exported, bm25, texts):
    io = peer("pyterrier.io")
    evaluate = peer("pyterrier").Evaluate
    folder = exported("trec") / LANGUAGE
    topics = io.read_topics(str(folder / "topics.tsv"), format="singleline", tokenise=False)
    assert dict(zip(topics["qid"], topics["query"], strict=True)) == {
        query: " ".join(text.split()) for query, text in texts[1].items()
    }
    qrels = io.read_qrels(str(folder / "qrels.trec"))
    run = io.read_results(str(folder / "runs" / "bm25.trec"))
    found = evaluate(run, qrels, metrics=["ndcg_cut_10"], perquery=True)
    assert not peer("pyterrier").java.started()
    per_query = {query: scores["ndcg_cut_10"] for query, scores in found.items()}
    assert per_query == pytest.approx(bm25, abs=1e-6)


def test_datasets_loads_every_config_of_the_card(peer, exported, built):
    datasets = peer("datasets")
    for layout in ("mteb", "posir"):
        folder = str(exported(layout))
        configs = datasets.get_dataset_config_names(folder)
        assert len(configs) == {"mteb": 9, "posir": 6}[layout]
        for config in configs:
            loaded = datasets.load_dataset(folder, config, split="test")
            language, name = config[:8], config.rpartition("-")[2]
            if config == "deu-Latn-eng-Latn-corpus":
                language = "eng-Latn"
            key = "query-id" if name == "qrels" else "text"
            expected = table(built, language, name, DOMAIN)[key]
            if layout == "posir":  # its ids lose the domain
                expected = expected.str.strip_prefix(f"{DOMAIN}/")
            assert list(loaded[key]) == expected.to_list(), config
