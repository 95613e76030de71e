"""The planted set through the real stages: what became of every document and query."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from planted_set import Planted, PlantedSet

from psibench.models.counting import token_counter
from psibench.tables import Provenance, read_table, write_table
from psibench.tables.build_schemas import (
    REFUSAL_SUSPECTS,
    REFUSAL_VERDICTS,
    TEXT_PARTS,
    TRANSLATED,
    TRANSLATIONS,
)
from psibench.tables.job import Job
from psibench.tables.schemas import ATTRITION, CORPUS, QRELS, QUERIES
from psibench.tables.spec import TableSpec
from psibench.tables.stage import version_of
from psibench.text.lengths import with_lengths
from psibench.text.phrases import fold
from psibench.translate.clean import (
    PREFIXES,
    Measure,
    Outliers,
    run_clean_translations,
    run_mark_translations,
)
from psibench.translate.refusals import REFUSALS, read_refusals

TOKENIZER = "embedded:all-MiniLM-L6-v2"
JUDGED_CHARS = 200
"""The rule that judges: a suspect is a refusal if a listed phrase is in its first characters."""

Bounds = tuple[float, float]


@dataclass(frozen=True)
class Outcome:
    """The outcome of one item: prefix removed, suspicion, reason of the drop; None if not."""

    planted: Planted
    prefix: str | None
    text: str | None
    suspect: str | None
    reason: str | None


class Cleaner:
    """A folder in which one planted set is cleaned, with any bounds."""

    def __init__(self, planted: PlantedSet, *, target: str) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="psibench-cleaning-")
        self.folder = Path(self._temporary.name)
        self.planted, self.target = planted, target
        self._write_tables()
        self._mark()
        self._judge()

    def outcomes(self, bounds: Bounds, *, of: Measure = "length") -> list[Outcome]:
        """Return the outcomes of documents and queries with bounds (low, high) of a measure."""
        dropped = self.folder / "clean.dropped.parquet"
        inputs = {f"source_{name}": name for name in ("corpus", "queries", "qrels")}
        outputs = {name: f"clean_{name}" for name in ("corpus", "queries", "qrels")}
        job = self._job(
            "clean_translations",
            inputs | {name: name for name in ("translated", "verdicts")},
            outputs | {name: f"clean.{name}" for name in ("dropped", "flow")},
            section=Outliers(of=of, low=bounds[0], high=bounds[1]),
            length_tokenizer=TOKENIZER,
        )
        run_clean_translations(job)
        gone = read_table(dropped, ATTRITION).select("unit", "item_id", "reason").rows()
        reasons = {(unit, item_id): reason for unit, item_id, reason in gone}
        marked = {
            (row["kind"], row["_id"]): row for row in self._translated().iter_rows(named=True)
        }
        return [
            Outcome(
                one,
                marked[kind, one.item_id]["prefix"],
                marked[kind, one.item_id]["text"],
                marked[kind, one.item_id]["suspect"],
                reasons.get((unit, one.item_id)),
            )
            for kind, unit, items in (
                ("document", "documents", self.planted.documents),
                ("query", "queries", self.planted.queries),
            )
            for one in items
        ]

    def _translated(self) -> pl.DataFrame:
        return read_table(self._path("translated"), TRANSLATED)

    def _job(
        self, stage: str, inputs: dict[str, str], outputs: dict[str, str], **values: Any
    ) -> Job:
        """Make a stage's job on tables of the folder, which are given without their suffix."""
        place = {"lang": self.target, "domains": ["xquad"], "place": {"unit": "queries", "step": 0}}
        return Job(
            stage,
            version_of(stage),
            inputs={name: str(self._path(file)) for name, file in inputs.items()},
            outputs={name: str(self._path(file)) for name, file in outputs.items()},
            values=place | values,
        )

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"

    def _write(self, name: str, frame: pl.DataFrame, spec: TableSpec) -> None:
        write_table(frame, self._path(name), spec, provenance=Provenance("build", 1))

    def _write_tables(self) -> None:
        paragraphs = self.planted.source
        documents = pl.DataFrame(
            [(p.id, p.text) for p in paragraphs], schema=["_id", "text"], orient="row"
        )
        lengths = with_lengths(documents, count_tokens=token_counter(TOKENIZER))
        self._write("corpus", lengths, CORPUS)
        rows = [
            (q.id, q.text, p.id, list(q.span), len(p.text), None, None)
            for p in paragraphs
            for q in p.questions
        ]
        schema = dict.fromkeys(("_id", "text", "pos_corpus_id"), pl.String)
        schema |= {"pos_char_span": pl.Array(pl.Int32, 2), "pos_char_length": pl.Int32}
        schema |= {"pos_token_length": pl.Int32, "target_position": pl.String}
        queries = pl.DataFrame(rows, schema=schema, orient="row")
        self._write("queries", queries, QUERIES)
        pairs = queries.select(
            pl.col("_id").alias("query-id"), pl.col("pos_corpus_id").alias("corpus-id")
        )
        self._write("qrels", pairs.with_columns(score=pl.lit(1, pl.Int32)), QRELS)
        positives = dict(queries.select("_id", "pos_corpus_id").iter_rows())
        parts = [
            (f"{kind[0]}:{one.item_id}:0", doc_id, one.item_id, kind, 0, 1, "-", "", one.text)
            for kind, items in (
                ("document", self.planted.documents),
                ("query", self.planted.queries),
            )
            for one in items
            for doc_id in [positives.get(one.item_id, one.item_id)]
        ]
        columns = [*TEXT_PARTS.column_names, "reply"]
        frame = pl.DataFrame(parts, schema=columns, orient="row")
        self._write("text_parts", frame.drop("reply"), TEXT_PARTS)
        self._write("translations", frame.select("_id", text="reply"), TRANSLATIONS)

    def _mark(self) -> None:
        inputs = ("corpus", "queries", "text_parts", "translations")
        job = self._job(
            "mark_translations",
            {name: name for name in inputs},
            {name: name for name in ("translated", "suspects")}
            | {name: f"mark.{name}" for name in ("dropped", "flow")},
            prefixes=True,
            unusable=False,
            refusals=True,
        )
        lists = {"prefix_list": str(PREFIXES), "refusal_list": str(REFUSALS)}
        run_mark_translations(job.after(**lists))

    def _judge(self) -> None:
        """Judge as a program can: by a phrase at the beginning, or by the language."""
        patterns = read_refusals()
        marked = self._translated().select("_id", "kind", "suspect").iter_rows()
        suspicions = {f"{kind[0]}:{item_id}": suspect for item_id, kind, suspect in marked}
        suspects = read_table(self._path("suspects"), REFUSAL_SUSPECTS)
        verdicts = [
            suspicions[suspect_id] == "language"
            or any(pattern.search(fold(text[:JUDGED_CHARS])) for pattern in patterns)
            for suspect_id, text in suspects.select("_id", "text").iter_rows()
        ]
        frame = suspects.select("_id", "item_id", "kind").with_columns(
            pl.Series("is_refusal", verdicts, dtype=pl.Boolean)
        )
        self._write("verdicts", frame, REFUSAL_VERDICTS)
