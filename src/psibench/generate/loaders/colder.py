"""ColDeR: a question and two documents that differ in one thing alone (Fayyaz et al., ACL 2025).

A record has a `query`, a `document_1` that a biased retriever prefers and a `document_2` that does
without what is preferred. In `position_bias` both are the same sentences, the evidence first or
last, and each is the positive of a query of its own: scores by position are of the same questions
and words. Elsewhere there is one query a pair, of the document that ought to come first, as in
MTEB's `ColDeRReranking`, and its mean alone says something. All documents of a subset are searched,
not the two of a pair.
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
from psibench.sources.records import place_of, source_records
from psibench.tables.dropped import Dropped, Flow, dropped_frame
from psibench.text.lengths import TokenCounter
from psibench.text.locate import locate_quote

STAGE = "colder"
FIRST, SECOND = "document_1", "document_2"
TEXTS = ("query", FIRST, SECOND)
ASKED: dict[str, dict[str, str | None]] = {
    "position_bias": {FIRST: "beginning", SECOND: "end"},
    "brevity_bias": {SECOND: None},
    "literal_bias": {SECOND: None},
    "repetition_bias": {SECOND: None},
    "foil": {SECOND: None},
    "poison": {SECOND: None},
    "answer_importance": {FIRST: None},
}
"""Which documents of a pair are asked for, by subset, and where their evidence is if that is
known."""


class Colder(Loader):
    """ColDeR: pairs of documents with evidence first or last, and pairs of five other kinds."""

    recipe: Literal["colder"]
    source: RecordSource
    """The file of the subset: `data_files: [test/position_bias.jsonl]` on the hub, or a copy."""
    subset: Literal[
        "position_bias",
        "brevity_bias",
        "literal_bias",
        "repetition_bias",
        "foil",
        "poison",
        "answer_importance",
    ]
    """Which subset the file is: it says which document of a pair is asked for."""
    queries_by: str | None = "templates"
    """Who wrote the questions: the authors' templates, one for each relation, filled with names."""
    buckets: BucketSchemes = Field(default=["thirds"], min_length=1)
    """Bucket schemes to report; the first one is the headline."""

    def build(self, count_tokens: TokenCounter) -> Build:
        """Read the pairs and make their documents and queries.

        A text that two pairs share is one document. Documents of one article are a cluster. A pair
        of two texts that are the same is dropped (``same_documents``). Which document of a pair
        comes first by id alternates: a retriever that scores both alike, as BM25 does the same
        words in another order, has neither first more often.

        Raises
        ------
        InputError
            If the source cannot be read, a record lacks a text, or no pair is left.
        """
        read = list(_pairs(self.source))
        pairs = [pair for pair in read if pair.texts[FIRST] != pair.texts[SECOND]]
        if not pairs:
            raise InputError(
                f"{place_of(self.source)}: no pair of documents that differ in {len(read)} records"
            )
        documents: dict[str, tuple[str, str]] = {}
        for pair in pairs:
            for name in (FIRST, SECOND):
                documents.setdefault(pair.texts[name], (pair.document_id(name), pair.article))
        rows = []
        for pair in pairs:
            for name, place in ASKED[self.subset].items():
                text = pair.texts[name]
                span = locate_quote(text, pair.evidence).span
                known = place if place or span else UNKNOWN
                asked = f"{pair.id}-{name[-1]}"
                rows.append((asked, pair.texts["query"], documents[text][0], span, known))
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
                Dropped(STAGE, "pairs", pair.id, None, "same_documents")
                for pair in read
                if pair.texts[FIRST] == pair.texts[SECOND]
            ),
            count_tokens=count_tokens,
            flow=[(STAGE, Flow("pairs", len(read), len(pairs)))],
        )


class _Pair(NamedTuple):
    """A record: its texts by `TEXTS`, the article they are of, and the evidence as it is there."""

    id: str
    texts: dict[str, str]
    article: str
    evidence: str

    def document_id(self, name: str) -> str:
        """Name one of its documents: the first is `a` in every other pair, else `b`."""
        is_first = (name == FIRST) == (int(self.id[1:]) % 2 == 0)
        return f"{self.id}-{'a' if is_first else 'b'}"


def _pairs(source: RecordSource) -> Iterator[_Pair]:
    """Read the records; articles are known by `title`, evidence by the first `evidence_sents`."""
    columns = (*TEXTS, "title", "evidence_sents")
    for number, (origin, record) in enumerate(source_records(source, columns)):
        require_columns(record, TEXTS, origin)
        texts = {name: require_text(record[name], name, origin=origin).strip() for name in TEXTS}
        if blank := [name for name, text in texts.items() if not text]:
            raise InputError(f"{origin}: {', '.join(blank)} is blank; a pair needs all its texts")
        name = f"p{number:05d}"
        evidence = _joined(record.get("evidence_sents") or [[]], origin)
        yield _Pair(name, texts, str(record.get("title") or name), evidence)


def _joined(sentences: Any, origin: str) -> str:
    """Join the words of the first sentence with spaces, as the documents are written."""
    words = sentences[0] if isinstance(sentences, list) else None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InputError(
            f"{origin}: evidence_sents is {shown(sentences)}; expected sentences as lists of words"
        )
    return " ".join(words).strip()
