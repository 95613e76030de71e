"""A small benchmark on its way through the stages of false negatives, with scripted voters."""

from pathlib import Path

import polars as pl
from fake_reranker import ENTRY, PairReranker
from filter_tables import Folder
from pydantic import TypeAdapter

from psibench.config.rerankers import reranker_params
from psibench.filters.decide import FlowStep
from psibench.filters.negatives import (
    FinewebNegatives,
    PanelProtocol,
    run_judge_pairs,
    run_negatives,
    run_remove_negatives,
)
from psibench.filters.panel import run_score_pairs

OUTPUTS = ("corpus", "queries", "qrels", "judgements", "dropped", "flow")
OUTPUT_SPECS = {"dropped": "attrition"}


class NegativesChain(Folder):
    """Tables of one benchmark in a folder; runs the stages on them, one after the other."""

    def __init__(self, folder: Path, section, *, documents, queries, recall, texts=None) -> None:
        """Write the raw tables.

        ``documents`` are ids, ``queries`` is {id: id of the positive}, ``recall`` (query,
        document) pairs; a text is ``{id} text`` unless ``texts`` has it.
        """
        super().__init__(folder)
        self.section = section
        known = texts or {}
        rows = [{"_id": d, "text": known.get(d, f"{d} text")} for d in documents]
        corpus = pl.DataFrame(rows).with_columns(
            char_length=pl.col("text").str.len_chars().cast(pl.Int32),
            word_count=pl.lit(2, pl.Int32),
            token_length=pl.lit(2, pl.Int32),
            topic=pl.lit("t"),
        )
        lengths = dict(corpus.select("_id", "char_length").iter_rows())
        asked = [
            {
                "_id": query,
                "text": known.get(query, f"{query} text"),
                "pos_corpus_id": positive,
                "pos_char_span": [0, 2],
                "pos_char_length": lengths[positive],
                "pos_token_length": 2,
                "target_position": "beginning",
                "answer": "a",
            }
            for query, positive in queries.items()
        ]
        labels = [{"query-id": q, "corpus-id": d, "score": 1} for q, d in queries.items()]
        ranked = [
            {"query_id": q, "doc_id": d, "rank": 1 + place, "score": 1.0}
            for place, (q, d) in enumerate(recall)
        ]
        self.write("raw-corpus", corpus, "corpus")
        self.write("raw-queries", asked, "queries")
        self.write("raw-qrels", labels, "qrels")
        schema = {"query_id": pl.String, "doc_id": pl.String, "rank": pl.Int32, "score": pl.Float32}
        self.write("recall", pl.DataFrame(ranked, schema=schema), "run")

    def read(self, name: str, spec: str | None = None) -> pl.DataFrame:
        return super().read(name, spec or OUTPUT_SPECS.get(name))

    def score_one(self, reranker, *, earlier=(), section=None) -> Path:
        def load(name, entry, *, device):
            reranker.n_loads += 1
            return reranker

        run_score_pairs(
            {
                "section": (section or self.section).panel(),
                "entry": reranker_params(ENTRY),
            },
            reranker=reranker.name,
            **self._raw("corpus", "queries", "qrels"),
            recall=self.path("recall"),
            earlier=earlier,
            store=self.folder / "store",
            device="cpu",
            tokens_per_batch=6,
            output=self.path(f"scores-{reranker.name}"),
            load=load,
        )
        return self.path(f"scores-{reranker.name}")

    def score(self, *rerankers: PairReranker, section=None) -> list[Path]:
        made: list[Path] = []
        for reranker in rerankers:
            made.append(self.score_one(reranker, earlier=list(made), section=section))
        return made

    def decide(self, scores, section=None) -> pl.DataFrame:
        run_negatives(
            TypeAdapter(PanelProtocol).validate_python((section or self.section).panel()),
            **self._raw("qrels", "queries"),
            recall=self.path("recall"),
            scores=scores,
            output=self.path("negatives"),
        )
        return self.read("negatives", "pair_decisions")

    def pairs_of_judge(self, number: int, earlier) -> pl.DataFrame:
        run_judge_pairs(
            FinewebNegatives.model_validate(self.section.removal()),
            **self._raw("corpus", "queries"),
            negatives=self.path("negatives"),
            earlier=earlier,
            output=self.path(f"judge_{number}_pairs"),
        )
        return self.read(f"judge_{number}_pairs", "pairs")

    def judge(self, grades) -> list[Path]:
        """Ask every judge in turn; ``grades`` is {(judge, query, document): grade or None}."""
        made: list[Path] = []
        for number, judge in enumerate(self.section.judges, start=1):
            pairs = self.pairs_of_judge(number, list(made))
            keys = pairs.select("query_id", "doc_id").iter_rows()
            said = pl.Series("grade", [grades[judge, *key] for key in keys], dtype=pl.Int32)
            graded = pairs.select("_id", "query_id", "doc_id", "part").with_columns(said)
            made.append(self.write(f"judge_{number}", graded, "grades"))
        return made

    def remove(self, scores, judged=(), section=None) -> None:
        chosen = section or self.section
        run_remove_negatives(
            type(chosen).model_validate(chosen.removal()),
            place=FlowStep("questions", 9, "eng-Latn", "general"),
            **self._raw("corpus", "queries", "qrels"),
            negatives=self.path("negatives"),
            scores=scores,
            judged=judged,
            outputs={name: self.path(name) for name in OUTPUTS},
        )

    def ids(self, name: str) -> list[str]:
        return self.read(name).get_column("_id").to_list()

    def check_ledger(self) -> None:
        """Kept + dropped = entered for every unit, with one row for each item dropped."""
        flow, dropped = self.read("flow"), self.read("dropped")
        assert set(dropped["unit"]) <= set(flow["unit"])
        for unit, entered, kept in flow.select("unit", "entered", "kept").iter_rows():
            table = "corpus" if unit == "documents" else "queries"
            gone = set(dropped.filter(unit=unit)["item_id"])
            assert entered == self.read(f"raw-{table}", table).height
            assert kept == self.read(table).height
            assert set(self.ids(table)) | gone == set(self.read(f"raw-{table}", table)["_id"])
            assert entered == kept + dropped.filter(unit=unit).height

    def _raw(self, *names: str) -> dict[str, Path]:
        return {name: self.path(f"raw-{name}") for name in names}
