"""Evidence of BEIR's queries, from the annotation of their original datasets.

BEIR labels relevant documents; the original datasets label the evidence sentences in them. SciFact
and FEVER give sentence numbers of abstracts and pages, which come from separate files. HotpotQA
gives the paragraphs with its questions, and Climate-FEVER quotes its sentences. MS MARCO has
documents and passages for the same queries: psibench searches a query's relevant passage in its
relevant document. Records are as in the tables on the hub. The additional layout ``quotes``
annotates any other dataset: a query, a document, and one or several quotes from it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from unicodedata import normalize

from pydantic import model_validator

from psibench.config.base import Section
from psibench.config.sources import RecordSource
from psibench.errors import InputError
from psibench.reading import whole_number
from psibench.sources.checks import require_id
from psibench.sources.records import source_records
from psibench.text.locate import (
    QUOTE_AMBIGUOUS,
    Located,
    locate_quote,
    locate_sentences,
    unescape_brackets,
)

Layout = Literal["scifact", "fever", "hotpotqa", "climate-fever", "msmarco", "quotes"]


class Evidence(Section):
    """Which sentences of relevant documents are evidence, in the layout of the original dataset."""

    layout: Layout
    """scifact: claims; fever: claims; hotpotqa: questions with paragraphs; climate-fever: claims
    with quotes; msmarco: qrels of the passages, as in MTEB; quotes: records of `query_id`,
    `document_id` and `quotes`, a text or a list of texts."""
    source: RecordSource
    """The annotation: the tables of the dataset on the hub, or copies as jsonl or parquet files."""
    documents: RecordSource | None = None
    """The documents with the numbered sentences: SciFact's corpus or FEVER's pages. For MS MARCO,
    the passages."""

    @model_validator(mode="after")
    def _has_documents(self) -> "Evidence":
        if (self.documents is not None) != (self.layout in _DOCUMENT_READERS):
            needs = "needs" if self.documents is None else "has no"
            raise ValueError(
                f"layout {self.layout} {needs} `documents`; only layouts whose annotation has no "
                f"text need it: {', '.join(_DOCUMENT_READERS)}"
            )
        return self


@dataclass
class Annotation:
    """The evidence of a query in one document.

    Attributes
    ----------
    query_id, document
        The query's id in the dataset, and the `page_key` of the document's id or title.
    numbers, quotes
        Numbers of the evidence sentences, from 0, and quoted evidence.
    sentences
        All sentences of the document in order; empty if the dataset lacks the document.
    is_passage
        Whether ``document`` is a passage, which any relevant document of the query may contain.
    """

    query_id: str
    document: str
    numbers: list[int] = field(default_factory=list)
    quotes: list[str] = field(default_factory=list)
    sentences: tuple[str, ...] = ()
    is_passage: bool = False

    def locate(self, text: str) -> list[tuple[int, int]] | None:
        """Return the spans of the evidence in the document's text, in order, adjacent ones joined.

        Returns None if a piece of evidence occurs several times, since the annotated one is then
        unknown.
        """
        pieces: list[Located] = []
        quotes = dict.fromkeys(self.quotes)
        if self.is_passage:
            quotes |= dict.fromkeys(self.sentences)
        else:
            located = locate_sentences(text, self.sentences)
            pieces = [located[number] for number in set(self.numbers) if number < len(located)]
        pieces += [locate_quote(text, quote, letters_only=True) for quote in quotes]
        if any(one.reason == QUOTE_AMBIGUOUS for one in pieces):
            return None
        joined: list[tuple[int, int]] = []
        for start, end in sorted(one.span for one in pieces if one.span is not None):
            if joined and not any(char.isalnum() for char in text[joined[-1][1] : start]):
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((start, end))
        return joined


def page_key(name: str) -> str:
    """Return a key that is the same for all spellings of a document's id or title.

    FEVER's files and pages differ in the normal form of letters; ids have underscores instead of
    blanks.
    """
    return normalize("NFC", unescape_brackets(name)).replace("_", " ").strip()


def read_evidence(section: Evidence, query_ids: Collection[str]) -> list[Annotation]:
    """Read the evidence of the given queries, in the order of the files.

    Each pair of query and document is returned once, with the evidence of all its records.

    Raises InputError if a source cannot be read or a record is not in the layout.
    """
    read, columns = _ANNOTATION_READERS[section.layout]
    of_queries: dict[str, dict[str, Annotation]] = {}
    for origin, record in source_records(section.source, columns):
        for one in _in_layout(section.layout, read, record, origin):
            if one.query_id in query_ids:
                first = of_queries.setdefault(one.query_id, {}).setdefault(one.document, one)
                if first is not one:
                    first.numbers += one.numbers
                    first.quotes += one.quotes
    every = [one for by_document in of_queries.values() for one in by_document.values()]
    if section.documents is not None:
        pages = _read_pages(section, {one.document for one in every})
        for one in every:
            one.sentences = pages.get(one.document, ())
    return every


def _in_layout(
    layout: str, read: Callable[..., Any], record: Mapping[str, Any], origin: str
) -> Any:
    try:
        return read(record, origin)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{origin}: not in the layout {layout} ({type(error).__name__}: {error}); found "
            f"{', '.join(record)}. Expected {_EXPECTED_RECORDS[layout]}"
        ) from error


def _numbered(query_id: str, pairs: Iterable[tuple[str, int]]) -> list[Annotation]:
    annotations = []
    for document, value in pairs:
        number = whole_number(str(value).removesuffix(".0"))
        if number is None:
            raise ValueError(f"sentence number {value!r}")
        annotations.append(Annotation(query_id, page_key(document), [number]))
    return annotations


# --- The layouts


def _scifact(record: Mapping[str, Any], origin: str) -> list[Annotation]:
    query_id = require_id(record["id"], "id", origin=origin)
    document, numbers = str(record["evidence_doc_id"]), record["evidence_sentences"]
    return _numbered(query_id, ((document, number) for number in numbers if document))


def _fever(record: Mapping[str, Any], origin: str) -> list[Annotation]:
    query_id = require_id(record["id"], "id", origin=origin)
    page, number = record["evidence_wiki_url"], record["evidence_sentence_id"]
    return _numbered(query_id, [(page, number)] if page and number >= 0 else [])


def _hotpotqa(record: Mapping[str, Any], origin: str) -> list[Annotation]:
    facts, context = record["supporting_facts"], record["context"]
    paragraphs = {
        page_key(title): tuple(sentences)
        for title, sentences in zip(context["title"], context["sentences"], strict=True)
    }
    pairs = zip(facts["title"], facts["sent_id"], strict=True)
    marked = _numbered(require_id(record["id"], "id", origin=origin), pairs)
    for one in marked:
        one.sentences = paragraphs.get(one.document, ())
    return marked


MOST_LINES = 100_000
"""Limit of lines per page; FEVER's longest page has some thousand."""
NO_EVIDENCE = ("NOT_ENOUGH_INFO", 2)
"""Climate-FEVER's label of sentences that neither support nor refute a claim."""


def _climate_fever(record: Mapping[str, Any], origin: str) -> list[Annotation]:
    query_id = require_id(record["claim_id"], "claim_id", origin=origin)
    return [
        Annotation(query_id, page_key(one["article"]), quotes=[one["evidence"]])
        for one in record["evidences"]
        if one["evidence_label"] not in NO_EVIDENCE
    ]


def _msmarco(record: Mapping[str, Any], origin: str) -> list[Annotation]:
    query_id, passage = (
        require_id(record[name], name, origin=origin) for name in ("query-id", "corpus-id")
    )
    return [Annotation(query_id, passage, [0], is_passage=True)] if record["score"] > 0 else []


def _quotes(record: Mapping[str, Any], origin: str) -> list[Annotation]:
    query_id, document = (
        require_id(record[name], name, origin=origin) for name in ("query_id", "document_id")
    )
    quotes = record["quotes"]
    quotes = [quotes] if isinstance(quotes, str) else [str(one) for one in quotes]
    return [Annotation(query_id, page_key(document), quotes=quotes)]


_ANNOTATION_READERS: Mapping[str, tuple[Callable[..., list[Annotation]], tuple[str, ...]]] = {
    "scifact": (_scifact, ("id", "evidence_doc_id", "evidence_sentences")),
    "fever": (_fever, ("id", "evidence_wiki_url", "evidence_sentence_id")),
    "hotpotqa": (_hotpotqa, ("id", "supporting_facts", "context")),
    "climate-fever": (_climate_fever, ("claim_id", "evidences")),
    "msmarco": (_msmarco, ("query-id", "corpus-id", "score")),
    "quotes": (_quotes, ("query_id", "document_id", "quotes")),
}
"""Function that reads a record of a layout, and the columns it needs."""
_EXPECTED_RECORDS = {
    "scifact": "id, evidence_doc_id, evidence_sentences: a row for each set of sentences",
    "fever": "id, evidence_wiki_url, evidence_sentence_id: a row for each sentence",
    "hotpotqa": "id, supporting_facts: {title, sent_id}, context: {title, sentences}",
    "climate-fever": "claim_id and evidences: [{article, evidence, evidence_label}, ...]",
    "msmarco": "query-id, corpus-id and score: a passage and its grade",
    "quotes": "query_id, document_id and quotes: a text or a list of texts",
}


# --- Numbered sentences


def _abstract(record: Mapping[str, Any], origin: str) -> tuple[str, tuple[str, ...]]:
    document = require_id(record["doc_id"], "doc_id", origin=origin)
    return document, tuple(str(sentence) for sentence in record["abstract"])


def _page(record: Mapping[str, Any], origin: str) -> tuple[str, tuple[str, ...]]:
    """Read a page of FEVER; its lines have a number, a sentence and links, separated by tabs."""
    numbered = {}
    for line in record["lines"].split("\n"):
        field, _, rest = line.partition("\t")
        if (number := whole_number(field, most=MOST_LINES)) is not None:
            numbered[number] = rest.partition("\t")[0]
    sentences = tuple(numbered.get(number, "") for number in range(max(numbered, default=-1) + 1))
    return require_id(record["id"], "id", origin=origin), sentences


def _passage(record: Mapping[str, Any], origin: str) -> tuple[str, tuple[str, ...]]:
    return require_id(record["_id"], "_id", origin=origin), (str(record["text"]),)


_DOCUMENT_READERS: Mapping[
    str, tuple[Callable[..., tuple[str, tuple[str, ...]]], tuple[str, ...]]
] = {
    "scifact": (_abstract, ("doc_id", "abstract")),
    "fever": (_page, ("id", "lines")),
    "msmarco": (_passage, ("_id", "text")),
}
"""Function that reads a document with numbered sentences, and the columns it needs."""


def _read_pages(section: Evidence, wanted: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the sentences of the wanted documents, by `page_key`."""
    assert section.documents is not None
    read, columns = _DOCUMENT_READERS[section.layout]
    pages = {}
    for origin, record in source_records(section.documents, columns):
        name = record.get(columns[0])
        if name is None or page_key(str(name)) in wanted:
            document, sentences = _in_layout(section.layout, read, record, origin)
            pages[page_key(document)] = sentences
    return pages
