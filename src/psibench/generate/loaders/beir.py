"""BEIR datasets with the positions of their evidence (Controlled, section 5, Tables 4 and 14).

Corpus, queries and qrels are BEIR's. As in BEIR, the document with a query's id is removed from its
ranking, so that nDCG@10 equals the published values. The dataset's own annotation
(`sources.evidence`) gives the evidence of a query in its relevant document. A query without located
evidence counts in the means but in no position bucket: BEIR also labels documents relevant that
have no annotated sentence. Relevant documents that the corpus lacks count as not found, as in BEIR;
a query without any other relevant document is dropped.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl
from pydantic import Field

from psibench.config.paths import workflow_path
from psibench.config.sources import (
    BeirSource,
    FarRelevantSource,
    FilesSource,
    HubSource,
    RecordSource,
)
from psibench.errors import InputError, MissingError
from psibench.formats.beir import read_qrels
from psibench.formats.checks import (
    IdenticalIds,
    identical_positives,
    qrels_of_corpus,
    without_repeated_rows,
)
from psibench.formats.posir import REPOSITORY
from psibench.generate.base import BucketSchemes, Build, complete_build
from psibench.generate.loaders import Loader
from psibench.metrics.buckets import UNKNOWN
from psibench.metrics.query_scores import name_some
from psibench.sources.bad_records import BadRecords
from psibench.sources.batches import DocumentRow, batch_documents
from psibench.sources.checks import refuse_repeated, require_columns, require_id, require_text
from psibench.sources.evidence import Annotation, Evidence, page_key, read_evidence
from psibench.sources.local import dataset_revisions, local_files
from psibench.sources.records import source_records
from psibench.tables.dropped import Dropped, Flow, dropped_frame
from psibench.text.lengths import TokenCounter

logger = logging.getLogger("psibench")

_TEXT_SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")
_QRELS_SUFFIXES = (".tsv", ".jsonl", ".parquet")
_NOT_ANNOTATED, _ELSEWHERE, _NOT_FOUND = "not_annotated", "not_in_positive", "not_found"
_AMBIGUOUS = "ambiguous"
"""Why evidence has no position: the query has no annotation, its annotation names no relevant
document, the document lacks the annotated text, or it has that text several times."""


class JudgedDataset(Loader):
    """Base of datasets with corpus, queries and qrels, and evidence from an annotation.

    Subclasses read its tables; ``path`` of the source names it in messages.
    """

    recipe: str
    source: BeirSource | FarRelevantSource
    relevant_only: bool = False
    """Keep only documents that are relevant to a query, which is enough for probes by cosine. nDCG
    then refers to a search without the other documents."""
    identical_ids: IdenticalIds = "auto"
    """Whether to remove the document that has the query's id from its ranking, as BEIR and mteb do
    (in ArguAna and Quora queries are also documents). auto: remove it; stop with an error if such a
    document is relevant. remove: remove it, even then. keep: ids of queries and documents are
    unrelated."""
    queries_by: str | None = "people"
    """Who wrote the queries, e.g. people or llm:NAME; null: not recorded."""
    buckets: BucketSchemes = Field(default=["thirds", "relative-20"], min_length=1)
    """Bucket schemes to report; the first one is the headline."""

    def judgements(self) -> pl.DataFrame:
        """Read QRELS rows."""
        raise NotImplementedError

    def records(self, table: Literal["corpus", "queries"]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (origin, record) with `_id` and `text`, of documents also `title` if they have it.

        Raises InputError if a record lacks a field.
        """
        raise NotImplementedError

    def annotations(self, positives: Mapping[str, Sequence[str]]) -> list[Annotation]:
        """Read the evidence of queries in their relevant documents (query id -> document ids)."""
        raise NotImplementedError

    @property
    def has_titles(self) -> bool:
        """Whether documents begin with their title."""
        return False

    def _check_identical_ids(
        self, queries: pl.Series, documents: pl.Series, qrels: pl.DataFrame
    ) -> None:
        """Refuse a relevant document that `auto` would remove; log how many queries are affected.

        BEIR's `EvaluateRetrieval.evaluate` removes relevant ones too, so no model could find them.
        """
        path, relevant = self.source.path, identical_positives(qrels)
        if len(relevant) and self.identical_ids == "auto":
            raise InputError(
                f"{path}: the relevant document has the query's own id: {name_some(relevant)}. "
                "BEIR removes such documents from rankings, so no model could find them. Set "
                "`identical_ids: keep` if ids of queries and documents are unrelated numbers, or "
                "`identical_ids: remove` to reproduce BEIR's values"
            )
        n_identical = int(queries.is_in(documents.implode()).sum())
        if n_identical and self.identical_ids != "keep":
            logger.info(
                "%s: %d of %d queries have the id of a document, which is removed from their "
                "rankings (identical_ids: %s)",
                *(path, n_identical, len(queries), self.identical_ids),
            )

    def build(self, count_tokens: TokenCounter) -> Build:
        """Read a dataset and locate its evidence.

        If several relevant documents have evidence, the query's positive is the first in the order
        of the annotation. If it has several pieces of evidence, the span is the first one.

        Raises
        ------
        InputError
            If a source cannot be read, or no query's evidence is found.
        """
        bad = BadRecords(self.source.max_bad_share)
        read = self.judgements()
        where = f"{self.source.path}, qrels"
        judged = without_repeated_rows(read, source=where)
        positives: dict[str, list[str]] = {}
        for query_id, document, grade in judged.iter_rows():
            if grade > 0:
                positives.setdefault(query_id, []).append(document)
        corpus, texts = _corpus(self, {one for ids in positives.values() for one in ids})
        queries = _queries(self, positives, bad)
        usable = qrels_of_corpus(judged, corpus["_id"], source=where)
        answerable = usable.get_column("query-id").unique()
        lost = queries.filter(~pl.col("_id").is_in(answerable.implode()))
        queries = queries.filter(pl.col("_id").is_in(answerable.implode()))
        self._check_identical_ids(queries["_id"], corpus["_id"], usable)
        evidence: dict[str, list[Annotation]] = {}
        asked = {key: positives[key] for key in queries.get_column("_id")}
        for one in self.annotations(asked):
            evidence.setdefault(one.query_id, []).append(one)
        n_read = queries.height + lost.height + len(bad.messages)
        counts = [Flow("queries", n_read, queries.height)]
        if judged.height < read.height:
            counts.append(Flow("qrels", read.height, judged.height))
        rows = []
        for query_id, text in queries.iter_rows():
            relevant = [one for one in positives[query_id] if one in texts]
            rows.append((query_id, text, *_locate(relevant, texts, evidence.get(query_id, ()))))
        _log(rows, where=self.source.path)
        schema: dict[str, Any] = {
            **dict.fromkeys(("_id", "text", "pos_corpus_id"), pl.String),
            "pos_char_span": pl.Array(pl.Int32, 2),
            **dict.fromkeys(("target_position", "without_place"), pl.String),
        }
        return complete_build(
            corpus,
            pl.DataFrame(rows, schema=schema, orient="row"),
            usable.filter(pl.col("query-id").is_in(queries["_id"].implode())),
            dropped_frame(
                [
                    *(
                        Dropped(self.recipe, "queries", key, positives[key][0], "positive_missing")
                        for key in lost.get_column("_id")
                    ),
                    *bad.dropped(self.recipe, "queries"),
                    *_repeated(read, self.recipe),
                ]
            ),
            count_tokens=count_tokens,
            flow=[(self.recipe, one) for one in counts],
        )


class Beir(JudgedDataset):
    """A BEIR dataset, with evidence from the annotation of its original dataset."""

    recipe: Literal["beir"]
    source: BeirSource
    evidence: Evidence
    titles: bool = True
    """Documents begin with their title and a blank, as BEIR evaluates; positions include the
    title."""

    def files(self) -> list[str]:
        """List the local files of the dataset and of its evidence; none for datasets on the hub."""
        source, paths = self.source, list[str]()
        if Path(source.path).is_dir():
            for name, suffixes in (
                ("corpus", _TEXT_SUFFIXES),
                ("queries", _TEXT_SUFFIXES),
                (f"qrels/{source.split}", _QRELS_SUFFIXES),
            ):
                paths.append(workflow_path(str(_file(source, name, suffixes))))
        elif not re.match(REPOSITORY, source.path):
            raise MissingError(f"{source.path}: no such folder in {Path.cwd()}")
        return paths + [path for one in self._annotation() for path in local_files(one)]

    def revisions(self) -> dict[str, str]:
        """Return the pinned revisions of the dataset and of its evidence."""
        found = super().revisions()
        for one in self._annotation():
            found |= dataset_revisions(one)
        return found

    def _annotation(self) -> list[RecordSource]:
        both = (self.evidence.source, self.evidence.documents)
        return [one for one in both if one is not None]

    @property
    def has_titles(self) -> bool:
        """Whether documents begin with their title."""
        return self.titles

    def judgements(self) -> pl.DataFrame:
        """Read the qrels of the split."""
        return _qrels(self.source)

    def records(self, table: Literal["corpus", "queries"]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the records of a table."""
        further = ("title",) if table == "corpus" else ()
        columns = ("_id", *further, "text")
        for origin, record in source_records(_table(self.source, table), columns):
            require_columns(record, ("_id", "text"), origin)
            yield origin, record

    def annotations(self, positives: Mapping[str, Sequence[str]]) -> list[Annotation]:
        """Read the evidence of the queries."""
        return read_evidence(self.evidence, set(positives))


@dataclass(frozen=True)
class _Positive:
    """A relevant document: its title, its text, and where the text starts in the corpus text."""

    title: str
    text: str
    start: int


def _locate(
    positives: Sequence[str], texts: Mapping[str, _Positive], evidence: Sequence[Annotation]
) -> tuple[str, list[int] | None, str | None, str | None]:
    """Return a query's positive and its span; if there is no span, a class and the reason."""
    reason = _NOT_ANNOTATED
    for annotation in evidence:
        if not annotation.numbers and not annotation.quotes:
            continue
        names = {one: (page_key(one), page_key(texts[one].title)) for one in positives}
        annotated = [one for one in positives if annotation.document in names[one]][:1]
        for positive in positives if annotation.is_passage else annotated:
            spans = annotation.locate(texts[positive].text)
            if spans:
                shift = texts[positive].start
                return positive, [offset + shift for offset in spans[0]], None, None
            reason = _AMBIGUOUS if spans is None or reason == _AMBIGUOUS else _NOT_FOUND
        reason = _ELSEWHERE if reason == _NOT_ANNOTATED else reason
    return positives[0], None, UNKNOWN, reason


def _log(rows: Sequence[tuple[Any, ...]], *, where: str) -> None:
    reasons = Counter(row[-1] for row in rows)
    if reasons[None] == 0:
        raise InputError(
            f"{where}: found no evidence for any of the {len(rows)} queries: "
            f"{dict(reasons)}. Check that `evidence` belongs to this dataset and split"
        )
    logger.info("%s: found evidence for %d of %d queries", where, reasons.pop(None), len(rows))
    for reason, count in reasons.most_common():
        logger.warning("%s: %d queries are in no position bucket: %s", where, count, reason)


# --- Reading BEIR's three tables


def _corpus(section: JudgedDataset, wanted: set[str]) -> tuple[pl.DataFrame, dict[str, _Positive]]:
    """Read `_id` and `text` of the documents, and title and text of the ``wanted`` ones."""
    positives: dict[str, _Positive] = {}

    def rows() -> Iterator[DocumentRow]:
        for origin, record in section.records("corpus"):
            key = require_id(record["_id"], "_id", origin=origin)
            text = require_text(record["text"], "text", origin=origin).strip()
            title = require_text(record.get("title") or "", "title", origin=origin).strip()
            whole = f"{title} {text}".strip() if section.has_titles else text
            if key in wanted and whole:
                positives[key] = _Positive(title, text, len(whole) - len(text))
            if key in wanted or not section.relevant_only:
                yield key, whole, origin

    batches = list(batch_documents(rows()))
    if not batches:
        raise InputError(f"{section.source.path}: every document is empty; expected text")
    documents = pl.concat(batches)
    refuse_repeated(documents, where=section.source.path)
    return documents.select("_id", "text"), positives


def _repeated(qrels: pl.DataFrame, stage: str) -> Iterator[Dropped]:
    """Yield a row for each repetition of a judged pair."""
    counts = qrels.group_by("query-id", "corpus-id", maintain_order=True).len()
    for query_id, document, count in counts.filter(pl.col("len") > 1).iter_rows():
        for number in range(2, count + 1):
            name, detail = f"{query_id} {document} {number}", f"row {number} of {count}"
            yield Dropped(stage, "qrels", name, document, "repeated_row", detail)


def _queries(section: JudgedDataset, judged: Mapping[str, object], bad: BadRecords) -> pl.DataFrame:
    """Read `_id` and `text` of the queries that have a positive, in file order.

    A judged query without a text or a record is a bad record and left out.
    """
    rows: list[tuple[str, str]] = []
    for origin, record in section.records("queries"):
        key = require_id(record["_id"], "_id", origin=origin)
        if key not in judged:
            continue
        try:
            text = require_text(record["text"], "text", origin=origin)
            if not text.strip():
                raise InputError(f"{origin}: query {key!r} has a blank text; expected a question")
        except InputError as error:
            bad.add(key, error)
            continue
        bad.n_good += 1
        rows.append((key, text))
    queries = pl.DataFrame(rows, schema={"_id": pl.String, "text": pl.String}, orient="row")
    if queries.get_column("_id").is_duplicated().any():
        repeated = queries.filter(pl.col("_id").is_duplicated())["_id"].to_list()
        raise InputError(
            f"{section.source.path}: query id {repeated[0]!r} occurs more than once "
            f"({len(repeated)} rows with repeated ids); query ids must be unique"
        )
    for key in sorted(judged.keys() - set(queries.get_column("_id")) - bad.messages.keys()):
        bad.add(
            key, InputError(f"{section.source.path}: query {key!r} is in the qrels but has no text")
        )
    bad.refuse_many(where=f"{section.source.path}, queries", unit="queries")
    return queries


def _qrels(source: BeirSource) -> pl.DataFrame:
    """Read QRELS rows of the split."""
    if Path(source.path).is_dir():
        qrels = read_qrels(_file(source, f"qrels/{source.split}", _QRELS_SUFFIXES))
    else:
        hub = HubSource(
            kind="hub", name=source.path, revision=source.revision, splits=[source.split]
        )
        columns = ("query-id", "corpus-id", "score")
        rows = []
        for origin, record in source_records(hub, columns):
            require_columns(record, columns, origin)
            rows.append(tuple(str(record[name]) for name in columns))
        qrels = pl.DataFrame(rows, schema=columns, orient="row")
    return qrels.select("query-id", "corpus-id", pl.col("score").cast(pl.Float64).cast(pl.Int32))


def _table(source: BeirSource, table: str) -> RecordSource:
    if Path(source.path).is_dir():
        return FilesSource(kind="files", paths=[str(_file(source, table, _TEXT_SUFFIXES))])
    return HubSource(
        kind="hub", name=source.path, config=table, revision=source.revision, splits=[table]
    )


def _file(source: BeirSource, name: str, suffixes: Sequence[str]) -> Path:
    paths = [Path(source.path) / f"{name}{suffix}" for suffix in suffixes]
    for path in paths:
        if path.is_file():
            return path
    raise MissingError(f"{paths[0]}: no such file; allowed endings: {', '.join(suffixes)}")
