"""False negatives by both protocols: scripted rerankers and judges, worked out by hand."""

import polars as pl
import pytest
from fake_reranker import ENTRY, PairReranker
from filter_tables import Folder
from jobs import run

from psibench.config.rerankers import reranker_params
from psibench.errors import InputError
from psibench.filters.negatives import (
    FinewebNegatives,
    PosirNegatives,
    run_judge_pairs,
    run_judgements,
    run_negatives,
    run_remove_negatives,
)
from psibench.filters.panel import run_score_pairs
from psibench.tables import read_provenance

OUTPUTS = ("corpus", "queries", "qrels", "dropped", "flow")
FINEWEB = FinewebNegatives(
    protocol="fineweb_posq",
    recall={"model": "bm25"},
    rerankers=["a", "b", "c"],
    judges=["x", "y", "z"],
)
POSIR = PosirNegatives(protocol="posir", recall={"model": "bm25"}, rerankers=["a", "b"])
QUERIES = {"q1": "d1", "q2": "d2", "q3": "d3", "q4": "d4"}
# Of q4 only its positive is recalled, so it has no pair; "other" is a query of another domain.
RECALL = [
    *(("q1", "d1"), ("q1", "d2"), ("q1", "d3")),
    *(("q2", "d2"), ("q2", "d1"), ("q2", "d3")),
    *(("q3", "d3"), ("q3", "d1")),
    *(("q4", "d4"), ("other", "far")),
]


class Chain(Folder):
    """A benchmark in a folder on its way through the stages; a text is ``{id} text``."""

    def __init__(self, folder, section, *, queries=QUERIES, recall=RECALL) -> None:
        super().__init__(folder)
        self.section = section
        documents = sorted(queries.values(), reverse=True)
        texts = {name: f"{name} text" for name in (*documents, *queries)}
        corpus = {"_id": documents, "text": [texts[name] for name in documents]}
        lengths = pl.col("text").str.len_chars().cast(pl.Int32)
        counts = {"char_length": lengths} | dict.fromkeys(
            ("word_count", "token_length"), pl.lit(2, pl.Int32)
        )
        self.write("raw-corpus", pl.DataFrame(corpus).with_columns(**counts), "corpus")
        asked = {
            "_id": list(queries),
            "text": [texts[name] for name in queries],
            "pos_corpus_id": list(queries.values()),
            "pos_char_span": [[0, 2]] * len(queries),
            "pos_char_length": [len(texts[name]) for name in queries.values()],
            "pos_token_length": [2] * len(queries),
            "target_position": ["beginning"] * len(queries),
        }
        self.write("raw-queries", asked, "queries")
        labels = {"query-id": list(queries), "corpus-id": list(queries.values())}
        self.write("raw-qrels", pl.DataFrame(labels).with_columns(score=pl.lit(1)), "qrels")
        run = pl.DataFrame(recall, ["query_id", "doc_id"], orient="row").with_columns(
            rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int32), score=pl.lit(1.0, pl.Float32)
        )
        self.write("recall", run, "run")

    def raw(self, *names):
        return {name: self.path(f"raw-{name}") for name in names}

    def decide(self, *panel: PairReranker) -> pl.DataFrame:
        """Let the rerankers score in turn, and decide on the pairs."""
        self.scores = []
        for reranker in panel:
            scores = self.path(f"scores-{reranker.name}")
            run(
                run_score_pairs,
                {
                    **self.raw("corpus", "queries", "qrels"),
                    "recall": self.path("recall"),
                    "earlier": list(self.scores),
                },
                {"scores": scores},
                scoring={"section": self.section.panel(), "entry": reranker_params(ENTRY)},
                reranker=reranker.name,
                store=self.folder / "store",
                device="cpu",
                tokens_per_batch=6,
                given={"load": lambda name, entry, *, device, chosen=reranker: chosen},
            )
            self.scores.append(scores)
        run(
            run_negatives,
            {**self.raw("qrels", "queries"), "recall": self.path("recall"), "scores": self.scores},
            {"negatives": self.path("negatives")},
            section=self.section.panel(),
        )
        return self.read("negatives", "pair_decisions")

    def remove(self, grades=None) -> None:
        """Ask every judge in turn, {(judge, query, document): grade}, and remove."""
        judged: dict = {}
        for number, judge in enumerate(self.section.judges if grades else (), start=1):
            run(
                run_judge_pairs,
                {**self.raw("corpus", "queries"), "negatives": self.path("negatives"), **judged},
                {"pairs": self.path(f"{judge}_pairs")},
                section=self.section.removal(),
            )
            of_judge = {f"{q}--{d}": grade for (by, q, d), grade in grades.items() if by == judge}
            self.judge(judge, of_judge)
            judged[f"judge_{number}"] = self.path(judge)
        run(
            run_judgements,
            {
                **self.raw("qrels"),
                "negatives": self.path("negatives"),
                "scores": self.scores,
                **judged,
            },
            {"judgements": self.path("judgements")},
            section=self.section.removal(),
        )
        run(
            run_remove_negatives,
            {
                **self.raw("corpus", "queries", "qrels"),
                "negatives": self.path("negatives"),
                **judged,
            },
            {name: self.path(name) for name in OUTPUTS},
            section=self.section.removal(),
            place={"unit": "questions", "step": 9},
        )

    def ids(self, name: str) -> list[str]:
        return self.read(name).get_column("_id").to_list()

    def dropped(self, *columns: str) -> list[tuple]:
        return self.read("dropped", "attrition").select(columns).rows()


# Above 0.5 is a vote for the pair; two of three decide. Entries that nobody asks for are absent.
A = {("q1", "d2"): 0.75, ("q1", "d3"): 0.5, ("q2", "d1"): 1, ("q2", "d3"): 0.5, ("q3", "d1"): 0.5}
B = {("q1", "d2"): 0.75, ("q1", "d3"): 0.25, ("q2", "d1"): 0, ("q2", "d3"): 1, ("q3", "d1"): 0.75}
C = {("q2", "d1"): 0.75, ("q2", "d3"): 0.5, ("q3", "d1"): 0.75}
# Grades of 3 and 4 are votes for the pair; two of three decide. None is no usable reply.
GRADES = {
    **{("x", "q1", "d2"): 3, ("x", "q2", "d1"): None, ("x", "q3", "d1"): 2},
    **{("y", "q1", "d2"): 4, ("y", "q2", "d1"): 3, ("y", "q3", "d1"): 2},
    **{("z", "q2", "d1"): 2},
}


@pytest.fixture
def fineweb(tmp_path) -> Chain:
    chain = Chain(tmp_path, FINEWEB)
    chain.decide(*(PairReranker(name, known) for name, known in (("a", A), ("b", B), ("c", C))))
    chain.remove(GRADES)
    return chain


def test_a_confirmed_question_is_dropped_but_passages_are_kept(fineweb):
    assert fineweb.ids("queries") == ["q2", "q3", "q4"]
    assert fineweb.ids("corpus") == ["d4", "d3", "d2", "d1"]
    assert fineweb.read("qrels").rows() == [("q2", "d2", 1), ("q3", "d3", 1), ("q4", "d4", 1)]
    columns = ("stage", "unit", "item_id", "doc_id", "reason", "detail", "score")
    assert fineweb.dropped(*columns, "target_position", "char_length", "language", "domain") == [
        (
            *("false_negatives", "questions", "q1", "d1", "false_negative", "by d2", 4.0),
            *("beginning", 7, "eng-Latn", "general"),
        )
    ]
    columns = ("stage", "step", "unit", "entered", "kept", "dropped")
    assert fineweb.read("flow").select(columns).rows() == [
        ("false_negatives", 9, "questions", 4, 3, 1)
    ]


def test_judgements_list_the_votes_on_each_pair(fineweb):
    """Decided pairs are not judged again; a judge sees whole documents."""
    shown = fineweb.read("x_pairs", "pairs").row(0)
    assert shown == ("q1--d2", "q1", "d2", "document", "q1 text", "d2 text")
    found = fineweb.read("judgements")
    columns = ("query_id", "doc_id", "kind", "scorer", "score", "raw", "grade", "vote")
    assert found.select(columns).rows() == [
        ("q1", "d2", "reranker", "a", 0.75, 7.5, None, True),
        ("q1", "d2", "reranker", "b", 0.75, 7.5, None, True),
        ("q1", "d2", "judge", "x", None, None, 3, True),
        ("q1", "d2", "judge", "y", None, None, 4, True),
        ("q2", "d1", "reranker", "a", 1.0, 10.0, None, True),
        ("q2", "d1", "reranker", "b", 0.0, 0.0, None, False),
        ("q2", "d1", "reranker", "c", 0.75, 7.5, None, True),
        ("q2", "d1", "judge", "x", None, None, None, None),
        ("q2", "d1", "judge", "y", None, None, 3, True),
        ("q2", "d1", "judge", "z", None, None, 2, False),
        ("q3", "d1", "reranker", "a", 0.5, 5.0, None, False),
        ("q3", "d1", "reranker", "b", 0.75, 7.5, None, True),
        ("q3", "d1", "reranker", "c", 0.75, 7.5, None, True),
        ("q3", "d1", "judge", "x", None, None, 2, False),
        ("q3", "d1", "judge", "y", None, None, 2, False),
    ]
    verdicts = found.select("query_id", "is_false_negative", "reason").unique(maintain_order=True)
    assert verdicts.rows() == [
        ("q1", True, "judged_relevant"),
        ("q2", False, "unusable_vote"),  # one vote for it, one against, one unusable
        ("q3", False, ""),
    ]


def test_provenance_has_rerankers_judges_and_thresholds(fineweb):
    record = read_provenance(fineweb.path("judgements"))
    assert set(record["revisions"]) == {"reranker:a", "reranker:b", "reranker:c"}
    assert (record["queries_by"], record["llm_backend"]) == ("llm:the-author", "stand-in")
    known = {"judges": ["x", "y", "z"], "needed": 2, "min_grade": 3, "threshold": 0.5}
    assert known.items() <= record["params"].items()
    assert read_provenance(fineweb.path("scores-a"))["params"]["fingerprint"] == f"{'a':0<32}"


# By PosIR's protocol d2 is above q1's positive under a, d1 above q3's under b; d3 is as high as
# q1's under both.
ABOVE_A = {
    **{("q1", "d1"): 0.5, ("q1", "d2"): 0.75, ("q1", "d3"): 0.5},
    **{("q2", "d2"): 0.75, ("q2", "d1"): 0.25, ("q2", "d3"): 0.25},
    **{("q3", "d3"): 0.5, ("q3", "d1"): 0.5},
}
ABOVE_B = ABOVE_A | {("q1", "d2"): 0.25, ("q3", "d1"): 0.75}


def test_removed_documents_also_remove_their_queries(tmp_path):
    chain = Chain(tmp_path, POSIR)
    decided = chain.decide(PairReranker("a", ABOVE_A), PairReranker("b", ABOVE_B))
    columns = ("query_id", "doc_id", "is_positive", "score", "decided_by")
    assert decided.select(columns).rows() == [
        ("q1", "d2", True, 0.25, "a"),
        ("q1", "d3", False, 0.0, "b"),  # equal is not above
        ("q2", "d1", False, -0.5, "b"),
        ("q2", "d3", False, -0.5, "b"),
        ("q3", "d1", True, 0.25, "b"),
    ]
    # Positives are scored before the documents compared with them; d2 is above q1's under a
    # already.
    positives = [("q1", "d1"), ("q2", "d2"), ("q3", "d3")]
    first, second = (
        chain.read(f"scores-{name}", "pair_scores").select("query_id", "doc_id").rows()
        for name in "ab"
    )
    others = [("q1", "d3"), ("q2", "d1"), ("q2", "d3"), ("q3", "d1")]
    assert first == [*positives, ("q1", "d2"), *others]
    assert second == [*positives, *others]
    chain.remove()
    assert chain.ids("corpus") == ["d4", "d3"]
    assert chain.ids("queries") == ["q3", "q4"]
    assert chain.read("qrels").rows() == [("q3", "d3", 1), ("q4", "d4", 1)]
    assert chain.dropped("unit", "item_id", "doc_id", "reason", "detail", "score") == [
        ("documents", "d2", "d2", "false_negative", "by q1", 0.25),
        ("documents", "d1", "d1", "false_negative", "by q3", 0.25),
        ("questions", "q1", "d1", "positive_removed", "by d1", 0.25),
        ("questions", "q2", "d2", "positive_removed", "by d2", 0.25),
    ]
    assert chain.read("flow").select("stage", "step", "unit", "entered", "kept").rows() == [
        ("false_negatives", 9, "documents", 4, 2),
        ("false_negatives", 9, "questions", 4, 2),
    ]


COPIES = {("q1", "d1"): 0.5, ("q1", "d2"): 0.75, ("q2", "d2"): 0.5, ("q2", "d1"): 0.75}


@pytest.mark.parametrize(
    ("section", "grades", "advice"),
    [
        (FINEWEB, {(by, *pair): 4 for by in "xyz" for pair in COPIES}, "raise false_negatives.thr"),
        (POSIR, None, "set false_negatives.under"),
    ],
    ids=["fineweb_posq", "posir"],
)
def test_an_empty_result_is_refused_with_advice(tmp_path, section, grades, advice):
    queries, recall = {"q1": "d1", "q2": "d2"}, [("q1", "d2"), ("q2", "d1")]
    chain = Chain(tmp_path, section, queries=queries, recall=recall)
    chain.decide(*(PairReranker(name, COPIES) for name in section.rerankers))
    with pytest.raises(InputError, match=f"none of 2 queries is left; {advice}"):
        chain.remove(grades)
    assert not chain.path("corpus").exists()
