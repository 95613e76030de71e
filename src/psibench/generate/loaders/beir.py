"""BEIR datasets with the place of their evidence (Controlled, section 5, Tables 4 and 14).

Corpus, queries and qrels are BEIR's own, and as by BEIR the document that has a query's id is
removed from its ranking, so that nDCG@10 is what others report. The evidence of a query is found in
its relevant document by the annotation of the dataset it comes from (`sources.evidence`). A query
whose evidence is not found counts in the means and is in no position bucket: BEIR calls documents
relevant that hold no annotated sentence, too. Relevant documents that the corpus lacks count as not
found, as in BEIR, but for queries that have no other: these are dropped.
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
from psibench.config.sources import BeirSource, FilesSource, HubSource, RecordSource
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
from psibench.sources.batches import Row, batch_documents
from psibench.sources.checks import refuse_repeated, require_columns, require_id, require_text
from psibench.sources.evidence import Annotation, Evidence, page_key, read_evidence
from psibench.sources.local import dataset_revisions, local_files
from psibench.sources.records import source_records
from psibench.tables.dropped import Dropped, Flow, dropped_frame
from psibench.text.lengths import TokenCounter

logger = logging.getLogger("psibench")

STAGE = "beir"
TEXT_FILES = (".jsonl", ".jsonl.gz", ".parquet")
QRELS_FILES = (".tsv", ".jsonl", ".parquet")
NOT_ANNOTATED, ELSEWHERE, NOT_FOUND = "not_annotated", "not_in_positive", "not_found"
AMBIGUOUS = "ambiguous"
"""Why evidence has no place: none is annotated, none in a relevant document, its words are not, or
they stand there several times."""


class Beir(Loader):
    """A BEIR dataset, its evidence found by the annotation of the dataset it comes from."""

    recipe: Literal["beir"]
    source: BeirSource
    evidence: Evidence
    titles: bool = True
    """Documents begin with their title and a blank, as BEIR evaluates; places count from there."""
    relevant_only: bool = False
    """Keep only documents that are relevant to a query: enough for probes by cosine. nDCG is then
    of a search without the others."""
    identical_ids: IdenticalIds = "auto"
    """Whether rankings are without the document that has the query's own id, as BEIR's and mteb's
    are (in ArguAna and Quora queries are documents of the corpus). auto: removed; refused if such a
    document is relevant. remove: also then. keep: ids of queries and documents are unrelated."""
    queries_by: str | None = "people"
    """Who wrote the queries: people, or for example llm:NAME; null: not recorded."""
    buckets: BucketSchemes = Field(default=["thirds", "relative-20"], min_length=1)
    """Bucket schemes to report; the first one is the headline."""

    def files(self) -> list[str]:
        """List the files of a local dataset, and of its evidence; none of what is on the hub."""
        source, paths = self.source, list[str]()
        if Path(source.path).is_dir():
            for name, suffixes in (
                ("corpus", TEXT_FILES),
                ("queries", TEXT_FILES),
                (f"qrels/{source.split}", QRELS_FILES),
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

    def _check_identical_ids(
        self, queries: pl.Series, documents: pl.Series, qrels: pl.DataFrame
    ) -> None:
        """Refuse a relevant document that `auto` would remove; log how many queries are concerned.

        BEIR's `EvaluateRetrieval.evaluate` removes relevant ones too: no model could find them.
        """
        path, relevant = self.source.path, identical_positives(qrels)
        if len(relevant) and self.identical_ids == "auto":
            raise InputError(
                f"{path}: the relevant document has the query's own id: {name_some(relevant)}. "
                "BEIR removes such documents from rankings, so no model could find them. Set "
                "`identical_ids: keep` if ids of queries and documents are unrelated numbers, or "
                "`identical_ids: remove` for BEIR's figures"
            )
        n_identical = int(queries.is_in(documents.implode()).sum())
        if n_identical and self.identical_ids != "keep":
            logger.info(
                "%s: %d of %d queries have the id of a document; it is removed from their rankings "
                "(identical_ids: %s)",
                *(path, n_identical, len(queries), self.identical_ids),
            )

    def build(self, count_tokens: TokenCounter) -> Build:
        """Read a dataset and find its evidence.

        Of several relevant documents with evidence the first in the order of the annotation is the
        query's positive; of several pieces of evidence in it the first is the span.

        Raises
        ------
        InputError
            If a source cannot be read, or no query's evidence is found.
        """
        bad = BadRecords(self.source.max_bad_share)
        read = _qrels(self.source)
        where = f"{self.source.path}, qrels"
        judged = without_repeated_rows(read, source=where)
        positives: dict[str, list[str]] = {}
        for query_id, document, grade in judged.iter_rows():
            if grade > 0:
                positives.setdefault(query_id, []).append(document)
        corpus, known = _corpus(self, {one for ids in positives.values() for one in ids})
        queries = _queries(self.source, positives, bad)
        usable = qrels_of_corpus(judged, corpus["_id"], source=where)
        kept = usable.get_column("query-id").unique()
        lost = queries.filter(~pl.col("_id").is_in(kept.implode()))
        queries = queries.filter(pl.col("_id").is_in(kept.implode()))
        self._check_identical_ids(queries["_id"], corpus["_id"], usable)
        evidence: dict[str, list[Annotation]] = {}
        for one in read_evidence(self.evidence, set(queries.get_column("_id"))):
            evidence.setdefault(one.query_id, []).append(one)
        n_asked = queries.height + lost.height + len(bad.found)
        counts = [Flow("queries", n_asked, queries.height)]
        if judged.height < read.height:
            counts.append(Flow("qrels", read.height, judged.height))
        rows = []
        for query_id, text in queries.iter_rows():
            relevant = [one for one in positives[query_id] if one in known]
            rows.append((query_id, text, *_place(relevant, known, evidence.get(query_id, ()))))
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
                        Dropped(STAGE, "queries", key, positives[key][0], "positive_missing")
                        for key in lost.get_column("_id")
                    ),
                    *bad.dropped(STAGE, "queries"),
                    *_repeated(read),
                ]
            ),
            count_tokens=count_tokens,
            flow=[(STAGE, one) for one in counts],
        )


@dataclass(frozen=True)
class _Positive:
    """A relevant document: its title, its own text, and where that begins in the corpus's."""

    title: str
    text: str
    start: int


def _place(
    positives: Sequence[str], known: Mapping[str, _Positive], evidence: Sequence[Annotation]
) -> tuple[str, list[int] | None, str | None, str | None]:
    """Return a query's positive and the span in it; without one a class and the reason."""
    reason = NOT_ANNOTATED
    for annotation in evidence:
        if not annotation.numbers and not annotation.quotes:
            continue
        names = {one: (page_key(one), page_key(known[one].title)) for one in positives}
        named = [one for one in positives if annotation.document in names[one]][:1]
        for found in positives if annotation.is_passage else named:
            places = annotation.locate(known[found].text)
            if places:
                return found, [place + known[found].start for place in places[0]], None, None
            reason = AMBIGUOUS if places is None or reason == AMBIGUOUS else NOT_FOUND
        reason = ELSEWHERE if reason == NOT_ANNOTATED else reason
    return positives[0], None, UNKNOWN, reason


def _log(rows: Sequence[tuple[Any, ...]], *, where: str) -> None:
    reasons = Counter(row[-1] for row in rows)
    if reasons[None] == 0:
        raise InputError(
            f"{where}: the evidence of none of {len(rows)} queries was found: "
            f"{dict(reasons)}. Is `evidence` of this dataset, and of this split?"
        )
    logger.info("%s: evidence of %d of %d queries was found", where, reasons.pop(None), len(rows))
    for reason, count in reasons.most_common():
        logger.warning("%s: %d queries are in no position bucket: %s", where, count, reason)


# --- Reading BEIR's three tables


def _corpus(section: Beir, wanted: set[str]) -> tuple[pl.DataFrame, dict[str, _Positive]]:
    """Read `_id` and `text` of the documents; of those wanted also what these are made of."""
    source = _part(section.source, "corpus")
    known: dict[str, _Positive] = {}

    def rows() -> Iterator[Row]:
        for origin, record in source_records(source, ("_id", "title", "text")):
            require_columns(record, ("_id", "text"), origin)
            key = require_id(record["_id"], "_id", origin=origin)
            text = require_text(record["text"], "text", origin=origin).strip()
            title = require_text(record.get("title") or "", "title", origin=origin).strip()
            whole = f"{title} {text}".strip() if section.titles else text
            if key in wanted and whole:
                known[key] = _Positive(title, text, len(whole) - len(text))
            if key in wanted or not section.relevant_only:
                yield key, whole, origin

    batches = list(batch_documents(rows()))
    if not batches:
        raise InputError(f"{section.source.path}: every document is empty; expected text")
    documents = pl.concat(batches)
    refuse_repeated(documents, where=section.source.path)
    return documents.select("_id", "text"), known


def _repeated(qrels: pl.DataFrame) -> Iterator[Dropped]:
    """Yield a row for each further time that a pair is judged with one grade."""
    counts = qrels.group_by("query-id", "corpus-id", maintain_order=True).len()
    for query_id, document, count in counts.filter(pl.col("len") > 1).iter_rows():
        for number in range(2, count + 1):
            name, detail = f"{query_id} {document} {number}", f"row {number} of {count}"
            yield Dropped(STAGE, "qrels", name, document, "repeated_row", detail)


def _queries(source: BeirSource, judged: Mapping[str, object], bad: BadRecords) -> pl.DataFrame:
    """Read `_id` and `text` of the queries that have a positive, in file order.

    One without text, or without a record, is bad and left out.
    """
    rows: list[tuple[str, str]] = []
    for origin, record in source_records(_part(source, "queries"), ("_id", "text")):
        require_columns(record, ("_id", "text"), origin)
        key = require_id(record["_id"], "_id", origin=origin)
        if key not in judged:
            continue
        try:
            text = require_text(record["text"], "text", origin=origin)
            if not text.strip():
                raise InputError(f"{origin}: query {key!r} has a blank text")
        except InputError as error:
            bad.add(key, error)
            continue
        bad.n_good += 1
        rows.append((key, text))
    found = pl.DataFrame(rows, schema={"_id": pl.String, "text": pl.String}, orient="row")
    if found.get_column("_id").is_duplicated().any():
        odd = found.filter(pl.col("_id").is_duplicated())["_id"].to_list()
        raise InputError(
            f"{source.path}: twice the text of query {odd[0]!r} ({len(odd)} such queries)"
        )
    for key in sorted(judged.keys() - set(found.get_column("_id")) - bad.found.keys()):
        bad.add(key, InputError(f"{source.path}: no text of query {key!r}, which qrels judge"))
    bad.refuse_many(where=f"{source.path}, queries", unit="queries")
    return found


def _qrels(source: BeirSource) -> pl.DataFrame:
    """Read QRELS rows of the split."""
    if Path(source.path).is_dir():
        found = read_qrels(_file(source, f"qrels/{source.split}", QRELS_FILES))
    else:
        hub = HubSource(
            kind="hub", name=source.path, revision=source.revision, splits=[source.split]
        )
        columns = ("query-id", "corpus-id", "score")
        rows = []
        for origin, record in source_records(hub, columns):
            require_columns(record, columns, origin)
            rows.append(tuple(str(record[name]) for name in columns))
        found = pl.DataFrame(rows, schema=columns, orient="row")
    return found.select("query-id", "corpus-id", pl.col("score").cast(pl.Float64).cast(pl.Int32))


def _part(source: BeirSource, table: str) -> RecordSource:
    if Path(source.path).is_dir():
        return FilesSource(kind="files", paths=[str(_file(source, table, TEXT_FILES))])
    return HubSource(
        kind="hub", name=source.path, config=table, revision=source.revision, splits=[table]
    )


def _file(source: BeirSource, name: str, suffixes: Sequence[str]) -> Path:
    paths = [Path(source.path) / f"{name}{suffix}" for suffix in suffixes]
    for path in paths:
        if path.is_file():
            return path
    raise MissingError(f"{paths[0]}: no such file; allowed endings: {', '.join(suffixes)}")
