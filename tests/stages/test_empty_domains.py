"""Domains without queries or documents stop no stage and change no number."""

import jobs
import pytest
from fake_reranker import ENTRY, PairReranker
from language_tables import SOURCE, write_texts

from psibench.config.models import Bm25Model, FusionModel, RerankModel, StaticModel
from psibench.config.registry import parse_model
from psibench.config.sections import Uncertainty
from psibench.encode.job import run_encode
from psibench.formats.import_run import run_import_run
from psibench.metrics.scoring import ScoredModel, run_score
from psibench.metrics.similarity import run_similarity
from psibench.metrics.statistics import run_statistics
from psibench.metrics.summaries import language_averages, position_trend
from psibench.rerankers.rerank import run_rerank
from psibench.search.fusion import run_fuse
from psibench.search.runs import run_lexical_search, run_vector_search
from psibench.tables import read_table, write_table
from psibench.tables.schemas import (
    BUCKET_SCORES,
    DOMAIN_SIMILARITY,
    PSI_TABLE,
    QRELS,
    QUERIES,
    RUN,
    STATISTICS,
)

STATIC = StaticModel(backend="static-embeddings", checkpoint="embedded:all-MiniLM-L6-v2")
BM25 = Bm25Model(backend="bm25s")
FUSED = FusionModel(backend="fusion", of=["bm25", "static"])
RERANKED = RerankModel(backend="rerank", reranker="a", depth=2)
LANGUAGE = "eng-Latn"
FULL = {"d1": "kings play chess", "d2": "go has stones", "d3": "dice are thrown"}
ASKED = {"q1": "who plays chess", "q2": "which game has stones"}
POSITIVES = {"q1": "d1", "q2": "d2"}


class Language:
    """Tables of the domains of one language, and all stages that use them."""

    def __init__(self, folder, domains):
        self.folder, self.domains = folder, list(domains)
        for name, (documents, questions) in domains.items():
            write_texts(folder / name, documents, questions, positives=POSITIVES)
            queries = read_table(folder / name / "queries.parquet", QUERIES)
            judged = queries.select(**{"query-id": "_id", "corpus-id": "pos_corpus_id"})
            rows = judged.with_columns(score=1).cast({"score": QRELS.empty().schema["score"]})
            write_table(rows, folder / name / "qrels.parquet", QRELS, provenance=SOURCE)

    def tables(self, name):
        return [self.folder / domain / f"{name}.parquet" for domain in self.domains]

    def path(self, name):
        return self.folder / f"{name}.parquet"

    def run(self, function, inputs, outputs, *, given=None, **values):
        """Run a stage; ``outputs`` maps names to file names."""
        written = {name: self.path(file) for name, file in outputs.items()}
        place = {"domains": self.domains, "query_lang": LANGUAGE, "corpus_lang": LANGUAGE}
        place |= {"benchmark": "b", "store": self.folder / "store"}
        jobs.run(function, inputs, written, given=given, **place | values)

    def search(self):
        texts = {"corpora": self.tables("corpus"), "queries": self.tables("queries")}
        both = texts | {"judged": self.tables("queries")}
        encodings = self.path("encodings")
        sides = {"query_encodings": encodings, "corpus_encodings": encodings}
        runs = {"runs": [self.path("bm25"), self.path("static")], "encodings": [encodings]}
        static = {"entry": STATIC, "model": "static"}
        self.run(run_lexical_search, texts, {"run": "bm25"}, entry=BM25, model="bm25", top_k=9)
        self.run(run_encode, texts, {"encodings": "encodings"}, device="cpu", **static)
        self.run(run_vector_search, sides, {"run": "static"}, top_k=9, block_mib=8, **static)
        fused = {"run": "fused", "seen": "fused.seen"}
        self.run(run_fuse, runs | both, fused, entry=FUSED, reads_all=True, top_k=9)
        self.run(
            run_rerank,
            {"first_stage": self.path("static")} | both,
            {"run": "reranked", "seen": "reranked.seen"},
            given={"load": lambda name, entry, *, device: PairReranker("a", lambda *_: 0.5)},
            entry=RERANKED,
            reranker=ENTRY,
            device="cpu",
            tokens_per_batch=64,
        )
        self.run(run_similarity, {"encodings": encodings}, {"similarity": "similarity"}, **static)

    def score(self):
        queries = self.tables("queries")
        models = ("bm25", "static", "fused", "reranked")
        self.run(
            run_score,
            {"asked": queries, "queries": queries, "qrels": self.tables("qrels")},
            {name: name for name in ("scores", "buckets", "psi", "comparisons")},
            models=[ScoredModel(model, "any", self.path(model)) for model in models],
            metrics=["ndcg@10"],
            psi_metrics=["ndcg@10"],
            schemes=["thirds"],
            length_buckets=True,
            uncertainty=Uncertainty(),
            control="bm25",
            windows=[],
        )
        return read_table(self.path("psi"), PSI_TABLE)

    def statistics(self):
        kinds = {"corpora": "corpus", "queries": "queries", "qrels": "qrels"}
        tables = {name: [*map(str, self.tables(kind))] for name, kind in kinds.items()}
        self.run(
            run_statistics,
            tables,
            {name: name for name in ("statistics", "histogram")},
            places=[{"lang": LANGUAGE, "domains": self.domains, **tables}],
            schemes=["thirds"],
            length_tokenizer="words",
        )
        table = read_table(self.path("statistics"), STATISTICS)
        return {(domain, name): value for _, _, domain, name, value in table.iter_rows()}


EMPTY = {"no queries": (FULL, {}), "no documents": ({}, {})}


@pytest.mark.parametrize("kind", EMPTY)
def test_an_empty_domain_does_not_change_other_domains(tmp_path, kind):
    uneven = Language(tmp_path / "uneven", {"a": EMPTY[kind], "b": (FULL, ASKED)})
    by_hand = Language(tmp_path / "hand", {"b": (FULL, ASKED)})
    for one in (uneven, by_hand):
        one.search()
    for name in ("bm25", "static", "fused", "reranked"):
        assert read_table(uneven.path(name), RUN).equals(read_table(by_hand.path(name), RUN))
    psi = uneven.score()
    assert psi.equals(by_hand.score())
    assert set(psi["domain"]) == {"all"}  # only one domain has queries
    counts = uneven.statistics()
    assert (counts["a", "n_queries"], counts["all", "n_queries"]) == (0, 2)
    similar = read_table(uneven.path("similarity"), DOMAIN_SIMILARITY)
    between = similar.filter(domain_a="a", domain_b="b")["cosine"].to_list()
    assert between == ([None] if kind == "no documents" else [pytest.approx(1.0)])


@pytest.mark.parametrize("kind", EMPTY)
def test_averages_omit_languages_without_queries(tmp_path, kind):
    language = Language(tmp_path / "empty", {"a": EMPTY[kind], "b": EMPTY[kind]})
    language.search()
    psi = language.score()
    assert set(psi["n_queries"]) == {0}
    assert psi["mean"].null_count() == psi["psi"].null_count() == psi.height
    buckets = read_table(language.path("buckets"), BUCKET_SCORES)
    assert buckets["mean"].null_count() == buckets.height
    assert position_trend(buckets)["slope"].null_count() == psi.height
    averages = language_averages(psi)
    assert set(averages["n_languages"]) == set(averages["n_all_languages"]) == {0}
    assert averages["mean"].null_count() == averages.height
    assert language.statistics()["all", "n_queries"] == 0


def test_an_empty_domain_of_a_users_run_is_skipped(tmp_path):
    language = Language(tmp_path / "x", {"a": (FULL, {}), "b": (FULL, ASKED)})
    for domain, rows in {"a": "", "b": "q1 Q0 d1 1 2.0 m\n"}.items():
        (tmp_path / f"{domain}.trec").write_text(rows)
    queries = language.tables("queries")
    jobs.run(
        run_import_run,
        {"queries": queries, "judged": queries},
        {"run": tmp_path / "run.parquet"},
        entry=parse_model({"backend": "runs", "path": f"{tmp_path}/{{domain}}.trec"}),
        model="m",
        benchmark="b",
        query_lang=LANGUAGE,
        corpus_lang=LANGUAGE,
        domains=language.domains,
        prefix_ids=False,
        top_k=9,
        remove_identical_ids=False,
    )
    run = read_table(tmp_path / "run.parquet", RUN)
    assert run.select("query_id", "doc_id").rows() == [("q1", "d1")]
