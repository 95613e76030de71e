"""A reranker orders the best documents of a first stage."""

import jobs
import polars as pl
import pytest
from fake_reranker import ENTRY, PairReranker
from language_tables import write_texts

from psibench.config.model_params import retrieval_params
from psibench.config.models import RerankModel
from psibench.config.rerankers import reranker_params
from psibench.errors import InputError
from psibench.rerankers.protocols import Scores, sigmoid
from psibench.rerankers.rerank import run_rerank
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.schemas import RUN, SEEN

SOURCE = Provenance("search", 1)
FIRST = [("q1", "d1", 9.0), ("q1", "d2", 8.0), ("q1", "d3", 7.0), ("q1", "d4", 6.0)]
SECOND = [("q2", "e1", 3.0), ("q2", "e2", 2.0)]
SCORES = {("q1", "d1"): 0.1, ("q1", "d2"): 0.9, ("q2", "e1"): 0.5, ("q2", "e2"): 0.5}
POSITIVES = {"q1": "d3", "q2": "e2"}
DOMAINS = {"a": (["q1"], ["d1", "d2", "d3", "d4"]), "b": (["q2"], ["e1", "e2"])}


def texts_of(ids) -> dict[str, str]:
    return {name: f"{name} text" for name in ids}


class Project:
    """Two domains, a first stage's run, and a store."""

    def __init__(self, folder, *, texts=None, run=(*FIRST, *SECOND), domains=DOMAINS) -> None:
        self.folder, self.domains = folder, domains
        folder.mkdir(exist_ok=True)
        rows = [
            {"query_id": q, "doc_id": d, "rank": rank, "score": score}
            for query in ("q1", "q2")
            for rank, (q, d, score) in enumerate([r for r in run if r[0] == query], start=1)
        ]
        schema = {"query_id": pl.String, "doc_id": pl.String, "rank": pl.Int32, "score": pl.Float32}
        write_table(pl.DataFrame(rows, schema=schema), folder / "first", RUN, provenance=SOURCE)
        for name, (queries, documents) in domains.items():
            written = {
                one: (texts or {}).get(one, text) for one, text in texts_of(documents).items()
            }
            write_texts(folder / name, written, texts_of(queries), positives=POSITIVES)

    def rerank(self, reranker, *, depth=2, judged="") -> pl.DataFrame:
        def load(name, entry, *, device):
            reranker.n_loads += 1
            return reranker

        def tables(table, folder=self.folder):
            return [folder / name / f"{table}.parquet" for name in self.domains]

        jobs.run(
            run_rerank,
            {
                "first_stage": self.folder / "first",
                "corpora": tables("corpus"),
                "queries": tables("queries"),
                "judged": tables("queries", self.folder / judged),
            },
            {name: self.folder / name for name in ("run", "seen")},
            given={"load": load},
            entry=retrieval_params(RerankModel(backend="rerank", reranker="a", depth=depth)),
            reranker=reranker_params(ENTRY),
            domains=list(self.domains),
            store=self.folder / "store",
            device="cpu",
            tokens_per_batch=64,
        )
        return read_table(self.folder / "run", RUN)


def test_reranked_documents_precede_the_others_in_order(tmp_path):
    run = Project(tmp_path).rerank(PairReranker("a", SCORES))
    assert run.filter(query_id="q1").get_column("doc_id").to_list() == ["d2", "d1", "d3", "d4"]
    assert run.filter(query_id="q1").get_column("score").to_list() == pytest.approx(
        # Raw scores; each following document gets the last score minus 1 minus its rank.
        [9.0, 1.0, 1 - 1 - 3, 1 - 1 - 4]
    )
    for name in ("run", "seen"):
        provenance = read_provenance(tmp_path / name)
        assert provenance["params"]["entry"]["reranker"] == "a"
        assert "reranker:a" in provenance["revisions"]


class LogitReranker(PairReranker):
    """Scores pairs by the logistic curve of raw scores from a table."""

    def score(self, items):
        raw = super().score(items).score
        return Scores(raw, sigmoid(raw))


@pytest.mark.parametrize("scale", [1e-6, -1e9, 1e30])
def test_raw_scores_of_any_size_keep_the_remaining_order(tmp_path, scale):
    documents = [f"d{n:03d}" for n in range(300, 0, -1)]  # in reverse order of their ids
    first = [("q1", name, 1000.0 - place) for place, name in enumerate(documents)]
    logits = {("q1", name): scale * (1 + place) for place, name in enumerate(documents[:3])}
    domains = DOMAINS | {"a": (["q1"], [*documents, "d3"])}
    project = Project(tmp_path, run=(*first, *SECOND), domains=domains)
    logits |= {("q2", "e1"): 1.0, ("q2", "e2"): 0.0}
    run = project.rerank(LogitReranker("a", logits), depth=3).filter(query_id="q1")
    best = documents[:3] if scale < 0 else documents[2::-1]
    assert run.get_column("doc_id").to_list() == best + documents[3:]
    assert run.get_column("score").is_sorted(descending=True)
    assert run.get_column("score").n_unique() == 300


def test_stored_pairs_are_not_scored_again(tmp_path):
    project, again = Project(tmp_path), PairReranker("a", SCORES)
    first = project.rerank(PairReranker("a", SCORES))
    second = project.rerank(again)
    assert second.equals(first)
    assert again.asked == []
    assert again.n_loads == 1  # only to get the fingerprint of its stored scores


def test_blank_documents_rank_after_the_scored_ones(tmp_path):
    reranker = LogitReranker("a", SCORES | {("q1", "d3"): -5.0})
    run = Project(tmp_path, texts={"d1": "  ", "d2": "\n"}).rerank(reranker, depth=3)
    assert {document for _, document in reranker.asked} == {"d3", "e1", "e2"}
    first = run.filter(query_id="q1")
    assert first.get_column("doc_id").to_list() == ["d3", "d1", "d2", "d4"]
    assert first.get_column("score").to_list() == [-5.0, -7.0, -8.0, -10.0]


def test_a_query_without_pairs_loads_no_model(tmp_path):
    reranker = PairReranker("a", {})
    blank = dict.fromkeys(("d1", "d2", "d3", "d4", "e1", "e2"), " ")
    run = Project(tmp_path, texts=blank, run=(*reversed(FIRST), *SECOND)).rerank(reranker)
    assert run.filter(query_id="q1").get_column("doc_id").to_list() == ["d4", "d3", "d2", "d1"]
    assert run.filter(query_id="q1").get_column("score").to_list() == [-2.0, -3.0, -4.0, -5.0]
    assert reranker.n_loads == 0


def test_a_document_that_the_corpus_lacks_is_refused(tmp_path):
    project = Project(tmp_path, run=(("q1", "e1", 1.0), *SECOND))
    with pytest.raises(InputError, match="has no document 'e1'"):
        project.rerank(PairReranker("a", SCORES))


class ShortReader(PairReranker):
    """Reads ten characters of query and text together."""

    def visible_char_ends(self, pairs):
        return [min(len(text), max(0, 10 - len(query))) for query, text in pairs]


def seen_of(project, reranker, **options) -> dict:
    project.rerank(reranker, **options)
    rows = read_table(project.folder / "seen", SEEN).rows()
    return {query: (document, end) for query, document, end in rows}


def test_the_read_part_of_unfound_positives_is_recorded(tmp_path):
    # q1's positive d3 is third and only two are reranked; q2's is not in the first stage's run.
    project = Project(tmp_path, run=(*FIRST, ("q2", "e1", 1.0)))
    seen = seen_of(project, ShortReader("a", SCORES))
    assert seen == {"q1": ("d3", 10 - len("q1 text")), "q2": ("e2", 10 - len("q2 text"))}


def test_a_cross_lingual_positive_has_the_corpus_language(tmp_path):
    project = Project(tmp_path)
    write_texts(tmp_path / "judged" / "a", {}, {"q1": "longer text"}, positives={"q1": "d4"})
    write_texts(tmp_path / "judged" / "b", {}, {})
    seen = seen_of(project, ShortReader("a", SCORES), judged="judged")
    assert seen == {"q1": ("d4", 10 - len("q1 text"))}  # the query texts of this language
