"""ColDeR: a question and two documents that differ in only one respect (Fayyaz et al., ACL 2025).

A record has a `query`, a `document_1` that a biased retriever prefers, and a `document_2` without
the preferred feature. In `position_bias` both have the same sentences, with the evidence first or
last. Each is the positive of a separate query, so that scores by position refer to the same
questions and words. The other subsets have one query per pair, whose positive is the document that
should rank first, as in MTEB's `ColDeRReranking`; only their mean is informative. The search covers
all documents of a subset, not only the two of a pair.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import polars as pl
from pydantic import Field

from psibench.config.sources import RecordSource
from psibench.errors import InputError
from psibench.generate.base import BucketSchemes, Build, complete_build, qrels_of_positives
from psibench.generate.loaders import Loader
from psibench.metrics.buckets import UNKNOWN
from psibench.reading import shown
from psibench.sources.checks import require_columns, require_text
from psibench.sources.records import source_name, source_records
from psibench.tables.dropped import Dropped, Flow, dropped_frame
from psibench.text.lengths import TokenCounter
from psibench.text.locate import locate_quote

_STAGE = "colder"
_FIRST, _SECOND = "document_1", "document_2"
_TEXT_FIELDS = ("query", _FIRST, _SECOND)
_POSITIVES: dict[str, dict[str, str | None]] = {
    "position_bias": {_FIRST: "beginning", _SECOND: "end"},
    "brevity_bias": {_SECOND: None},
    "literal_bias": {_SECOND: None},
    "repetition_bias": {_SECOND: None},
    "foil": {_SECOND: None},
    "poison": {_SECOND: None},
    "answer_importance": {_FIRST: None},
}
"""Subset -> documents of a pair that are positives -> position of their evidence, None if
unknown."""


class Colder(Loader):
    """ColDeR: pairs of documents with evidence first or last, and pairs of five other kinds."""

    recipe: Literal["colder"]
    source: RecordSource
    """The file of the subset: `data_files: [test/position_bias.jsonl]` on the hub, or a local
    copy."""
    subset: Literal[
        "position_bias",
        "brevity_bias",
        "literal_bias",
        "repetition_bias",
        "foil",
        "poison",
        "answer_importance",
    ]
    """Subset that the file has; it decides which document of a pair is the positive."""
    queries_by: str | None = "templates"
    """Who wrote the questions: the authors' templates, one for each relation, filled with names."""
    buckets: BucketSchemes = Field(default=["thirds"], min_length=1)
    """Bucket schemes to report; the first one is the headline."""

    def build(self, count_tokens: TokenCounter) -> Build:
        """Read the pairs and make their documents and queries.

        If two pairs share a text, it becomes one document. Documents of one article are a cluster.
        A pair of identical texts is dropped (``same_documents``). The order of a pair's ids
        alternates, because ids break ties: BM25, for example, scores the same words in another
        order equally.

        Raises
        ------
        InputError
            If the source cannot be read, a record lacks a text, or no pair is left.
        """
        read = list(_pairs(self.source))
        pairs = [pair for pair in read if pair.texts[_FIRST] != pair.texts[_SECOND]]
        if not pairs:
            raise InputError(
                f"{source_name(self.source)}: the two documents are identical in all {len(read)} "
                "records; expected ColDeR's pairs"
            )
        documents: dict[str, tuple[str, str]] = {}
        for pair in pairs:
            for name in (_FIRST, _SECOND):
                documents.setdefault(pair.texts[name], (pair.document_id(name), pair.article))
        rows = []
        for pair in pairs:
            for name, position in _POSITIVES[self.subset].items():
                text = pair.texts[name]
                span = locate_quote(text, pair.evidence).span
                target = position if position or span else UNKNOWN
                query_id = f"{pair.id}-{name[-1]}"
                rows.append((query_id, pair.texts["query"], documents[text][0], span, target))
        queries = pl.DataFrame(
            rows,
            schema={
                **dict.fromkeys(("_id", "text", "pos_corpus_id"), pl.String),
                "pos_char_span": pl.Array(pl.Int32, 2),
                "target_position": pl.String,
            },
            orient="row",
        )
        ids, articles = zip(*documents.values(), strict=True)
        return complete_build(
            pl.DataFrame({"_id": ids, "text": list(documents), "origin": articles}),
            queries,
            qrels_of_positives(queries),
            dropped_frame(
                Dropped(_STAGE, "pairs", pair.id, None, "same_documents")
                for pair in read
                if pair.texts[_FIRST] == pair.texts[_SECOND]
            ),
            count_tokens=count_tokens,
            flow=[(_STAGE, Flow("pairs", len(read), len(pairs)))],
        )


class _Pair(NamedTuple):
    """A record: its texts by `_TEXT_FIELDS`, their article, and the evidence sentence."""

    id: str
    texts: dict[str, str]
    article: str
    evidence: str

    def document_id(self, name: str) -> str:
        """Return the id of a document: the first has `a` in every other pair, else `b`."""
        is_first = (name == _FIRST) == (int(self.id[1:]) % 2 == 0)
        return f"{self.id}-{'a' if is_first else 'b'}"


def _pairs(source: RecordSource) -> Iterator[_Pair]:
    """Read the records; `title` names the article, the first of `evidence_sents` is evidence."""
    columns = (*_TEXT_FIELDS, "title", "evidence_sents")
    for number, (origin, record) in enumerate(source_records(source, columns)):
        require_columns(record, _TEXT_FIELDS, origin)
        texts = {
            name: require_text(record[name], name, origin=origin).strip() for name in _TEXT_FIELDS
        }
        if blank := [name for name, text in texts.items() if not text]:
            raise InputError(f"{origin}: {', '.join(blank)} is blank; a pair needs all its texts")
        name = f"p{number:05d}"
        evidence = _joined(record.get("evidence_sents") or [[]], origin)
        yield _Pair(name, texts, str(record.get("title") or name), evidence)


def _joined(sentences: Any, origin: str) -> str:
    """Join the words of the first sentence with spaces, as in the documents."""
    words = sentences[0] if isinstance(sentences, list) else None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InputError(
            f"{origin}: evidence_sents is {shown(sentences)}; expected sentences as lists of words"
        )
    return " ".join(words).strip()
