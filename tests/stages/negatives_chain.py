"""A small benchmark on its way through the stages of false negatives, with scripted voters."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from psibench.config.rerankers import Bm25Reranker
from psibench.rerankers.protocols import Scores
from psibench.stages.negatives import run_judge_pairs, run_negative_candidates
from psibench.stages.remove_negatives import NegativesOutputs, run_remove_negatives
from psibench.stages.score_pairs import PairScoring, run_score_pairs
from psibench.tables import Provenance, read_table, write_table
from psibench.tables.schemas import SPECS

ENTRY = Bm25Reranker(backend="bm25", calibration={"midpoint": 0.5, "slope": 1.0})
SOURCE = Provenance("assemble", 1, queries_by="llm:stand-in/rules", llm_backend="stand-in")
OUTPUTS = ("corpus", "queries", "qrels", "judgements", "dropped", "flow", "savings")
OUTPUT_SPECS = {"dropped": "attrition", "savings": "scoring_savings"}


@dataclass
class Item:
    pair: tuple[str, str]
    n_tokens: int = 3


class PairReranker:
    """Scores pairs from a table, (query, document) -> score, or by a function of the two texts.

    Texts of the table are ``{id} text``. Keeps what it was asked, as ids.
    """

    max_tokens = None

    def __init__(self, name: str, known) -> None:
        self.name, self.known, self.fingerprint = name, known, f"{name:0<32}"
        self.asked: list[tuple[str, str]] = []
        self.n_loads = 0

    def tokenize(self, pairs):
        return [Item(pair) for pair in pairs]

    def visible_char_ends(self, pairs):
        return [len(text) for _, text in pairs]

    def score(self, items):
        self.asked += [tuple(text.split()[0] for text in item.pair) for item in items]
        values = np.array([self._value(item.pair) for item in items])
        return Scores(10 * values, values)

    def _value(self, pair) -> float:
        if callable(self.known):
            return self.known(*pair)
        return self.known[tuple(text.split()[0] for text in pair)]


class NegativesChain:
    """Tables of one benchmark in a folder; runs the stages on them, one after the other."""

    def __init__(self, folder: Path, section, *, documents, queries, recall, texts=None) -> None:
        """Write the raw tables.

        ``documents`` are ids, ``queries`` is {id: id of the positive}, ``recall`` (query,
        document) pairs; a text is ``{id} text`` unless ``texts`` has it.
        """
        self.folder, self.section = folder, section
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
        self.write("raw-corpus", "corpus", corpus)
        self.write("raw-queries", "queries", pl.DataFrame(asked))
        self.write("raw-qrels", "qrels", pl.DataFrame(labels))
        schema = {"query_id": pl.String, "doc_id": pl.String, "rank": pl.Int32, "score": pl.Float32}
        self.write("recall", "run", pl.DataFrame(ranked, schema=schema))

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"

    def write(self, name: str, spec: str, frame: pl.DataFrame) -> Path:
        write_table(frame, self.path(name), SPECS[spec], provenance=SOURCE)
        return self.path(name)

    def read(self, name: str, spec: str | None = None) -> pl.DataFrame:
        return read_table(self.path(name), SPECS[spec or OUTPUT_SPECS.get(name, name)])

    def score_one(self, reranker, *, panel, earlier, section=None) -> Path:
        def load(name, entry, *, device):
            reranker.n_loads += 1
            return reranker

        run_score_pairs(
            PairScoring(section or self.section, tuple(panel), ENTRY),
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
        for place, reranker in enumerate(rerankers, start=1):
            panel = [known.name for known in rerankers[:place]]
            made.append(self.score_one(reranker, panel=panel, earlier=list(made), section=section))
        return made

    def decide(self, scores, section=None) -> pl.DataFrame:
        run_negative_candidates(
            section or self.section,
            **self._raw("qrels", "queries"),
            recall=self.path("recall"),
            scores=scores,
            output=self.path("negatives"),
        )
        return self.read("negatives", "pair_decisions")

    def pairs_of_judge(self, number: int, earlier) -> pl.DataFrame:
        run_judge_pairs(
            self.section,
            number=number,
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
            made.append(self.write(f"judge_{number}", "grades", graded))
        return made

    def remove(self, scores, judged=(), section=None) -> None:
        run_remove_negatives(
            section or self.section,
            step=9,
            unit="questions",
            language="eng-Latn",
            domain="general",
            **self._raw("corpus", "queries", "qrels"),
            negatives=self.path("negatives"),
            scores=scores,
            judged=judged,
            outputs=NegativesOutputs(**{name: self.path(name) for name in OUTPUTS}),
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
