"""Where the evidence of BEIR's queries is, by the annotation of the datasets they come from.

BEIR says which documents are relevant; which of their sentences are evidence stands in the
datasets' own files. SciFact and FEVER number the sentences of abstracts and pages that have to be
read beside, HotpotQA gives the paragraphs with its questions, Climate-FEVER quotes its sentences.
MS MARCO has documents and passages for the same queries: a query's relevant passage is looked for
in its relevant document. Records are as in the tables on the hub. A layout of our own, ``quotes``,
says what is evidence in any other dataset: a query, a document, one or several quotes of it.
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
    """Which sentences of relevant documents are evidence, in the datasets' own layouts."""

    layout: Layout
    """scifact: claims; fever: claims; hotpotqa: questions with paragraphs; climate-fever: claims
    with quotes; msmarco: qrels of the passages, as MTEB has them; quotes: records of `query_id`,
    `document_id` and `quotes`, a text or several."""
    source: RecordSource
    """The annotation: the dataset's tables on the hub, or copies of them (jsonl, parquet)."""
    documents: RecordSource | None = None
    """What the numbers of sentences are of: SciFact's corpus, FEVER's pages. Or MS MARCO's
    passages."""

    @model_validator(mode="after")
    def _has_documents(self) -> "Evidence":
        if (self.documents is not None) != (self.layout in DOCUMENTS):
            needs = "needs" if self.documents is None else "has no"
            raise ValueError(
                f"layout {self.layout} {needs} `documents`; those whose annotation has no text "
                f"need it: {', '.join(DOCUMENTS)}"
            )
        return self


@dataclass
class Annotation:
    """The evidence of a query in one document.

    Attributes
    ----------
    query_id, document
        As the dataset has them; of a document's id or title its `page_key`.
    numbers, quotes
        Which sentences of the document are evidence, from 0, and evidence that is quoted.
    sentences
        All sentences of the document in order; none where the dataset does not have the document.
    is_passage
        Whether ``document`` names a passage, which any relevant document of the query may hold.
    """

    query_id: str
    document: str
    numbers: list[int] = field(default_factory=list)
    quotes: list[str] = field(default_factory=list)
    sentences: tuple[str, ...] = ()
    is_passage: bool = False

    def locate(self, text: str) -> list[tuple[int, int]] | None:
        """Find the evidence in the document's text: [start, end) in order, neighbours as one.

        None if a piece of it stands at several places: which one is meant is not known.
        """
        found: list[Located] = []
        quotes = dict.fromkeys(self.quotes)
        if self.is_passage:
            quotes |= dict.fromkeys(self.sentences)
        else:
            places = locate_sentences(text, self.sentences)
            found = [places[number] for number in set(self.numbers) if number < len(places)]
        found += [locate_quote(text, quote, letters_only=True) for quote in quotes]
        if any(one.reason == QUOTE_AMBIGUOUS for one in found):
            return None
        joined: list[tuple[int, int]] = []
        for start, end in sorted(one.span for one in found if one.span is not None):
            if joined and not any(char.isalnum() for char in text[joined[-1][1] : start]):
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((start, end))
        return joined


def page_key(name: str) -> str:
    """Return what ids and titles of one document have in common, however they are written.

    FEVER's files and pages differ in the normal form of letters; ids have underscores for blanks.
    """
    return normalize("NFC", unescape_brackets(name)).replace("_", " ").strip()


def read_evidence(section: Evidence, asked: Collection[str]) -> list[Annotation]:
    """Read what is evidence for some queries, in the order of the files.

    A document that several records of a query name, or several sets of evidence in one, is there
    once, with all its sentences.

    Raises InputError if a source cannot be read or a record is not in the layout.

    Parameters
    ----------
    asked
        Ids of the queries.
    """
    read, columns = READERS[section.layout]
    found: dict[str, dict[str, Annotation]] = {}
    for origin, record in source_records(section.source, columns):
        for one in _in_layout(section.layout, read, record, origin):
            if one.query_id in asked:
                kept = found.setdefault(one.query_id, {}).setdefault(one.document, one)
                if kept is not one:
                    kept.numbers += one.numbers
                    kept.quotes += one.quotes
    every = [one for by_document in found.values() for one in by_document.values()]
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
            f"{origin}: not {layout}'s layout ({type(error).__name__}: {error}); found "
            f"{', '.join(record)}. Expected {EXPECTED[layout]}"
        ) from error


def _numbered(query_id: str, pairs: Iterable[tuple[str, int]]) -> list[Annotation]:
    found = []
    for document, number in pairs:
        place = whole_number(str(number).removesuffix(".0"))
        if place is None:
            raise ValueError(f"the sentence {number!r}")
        found.append(Annotation(query_id, page_key(document), [place]))
    return found


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
"""Of a page; FEVER's longest has some thousand."""
NO_EVIDENCE = ("NOT_ENOUGH_INFO", 2)
"""Climate-FEVER's label of sentences that say neither that a claim is so nor that it is not."""


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


READERS: Mapping[str, tuple[Callable[..., list[Annotation]], tuple[str, ...]]] = {
    "scifact": (_scifact, ("id", "evidence_doc_id", "evidence_sentences")),
    "fever": (_fever, ("id", "evidence_wiki_url", "evidence_sentence_id")),
    "hotpotqa": (_hotpotqa, ("id", "supporting_facts", "context")),
    "climate-fever": (_climate_fever, ("claim_id", "evidences")),
    "msmarco": (_msmarco, ("query-id", "corpus-id", "score")),
    "quotes": (_quotes, ("query_id", "document_id", "quotes")),
}
"""How a record is read, and its columns."""
EXPECTED = {
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
    """Return a page of FEVER: lines of a number, a sentence and its links, parted by tabs."""
    numbered = {}
    for line in record["lines"].split("\n"):
        number, _, rest = line.partition("\t")
        if (place := whole_number(number, most=MOST_LINES)) is not None:
            numbered[place] = rest.partition("\t")[0]
    sentences = tuple(numbered.get(place, "") for place in range(max(numbered, default=-1) + 1))
    return require_id(record["id"], "id", origin=origin), sentences


def _passage(record: Mapping[str, Any], origin: str) -> tuple[str, tuple[str, ...]]:
    return require_id(record["_id"], "_id", origin=origin), (str(record["text"]),)


DOCUMENTS: Mapping[str, tuple[Callable[..., tuple[str, tuple[str, ...]]], tuple[str, ...]]] = {
    "scifact": (_abstract, ("doc_id", "abstract")),
    "fever": (_page, ("id", "lines")),
    "msmarco": (_passage, ("_id", "text")),
}
"""How a document with numbered sentences is read, and its columns."""


def _read_pages(section: Evidence, wanted: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Read the sentences of some documents, by `page_key`; of all pages few are kept."""
    assert section.documents is not None
    read, columns = DOCUMENTS[section.layout]
    found = {}
    for origin, record in source_records(section.documents, columns):
        name = record.get(columns[0])
        if name is None or page_key(str(name)) in wanted:
            document, sentences = _in_layout(section.layout, read, record, origin)
            found[page_key(document)] = sentences
    return found
