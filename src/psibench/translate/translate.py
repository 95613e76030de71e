"""Cutting texts into parts, the task that translates them, and joining the translated parts.

PosIR (section 2.4, appendix B) translates its English corpora and queries by one language model.
psibench translates long texts in parts: the stage ``text_parts`` cuts documents at paragraphs, the
task ``translate`` requests each part, and `join_items` cleans each part
(`psibench.translate.clean`) and joins them to documents and queries.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise

import polars as pl

from psibench.config.base import Language
from psibench.llm.tasks import (
    DOCUMENTS_TABLE,
    Gathered,
    LlmTask,
    LlmTaskSection,
    Replied,
    Tables,
    TaskItem,
    refusal,
)
from psibench.tables.build_schemas import TEXT_PARTS, TRANSLATIONS
from psibench.tables.dropped import Dropped, dropped_frame, flow_of
from psibench.tables.job import Job
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.tables.stage import stage
from psibench.text.languages import english_name, spaces_sentences
from psibench.text.lengths import TokenCounter
from psibench.text.parts import join_parts, split_parts

PARTS = "text_parts"
KINDS = {"document": "passage", "query": "question"}
"""Kind of a text in the tables -> its name in the prompt."""


class TranslateSection(LlmTaskSection):
    """Settings of a translation's task: the language model and the two languages."""

    source_language: Language
    """Language of the originals."""
    target_language: Language
    """Language of the translations."""


def language_names(section: TranslateSection) -> dict[str, str]:
    """Return the prompt variables with the English names of a section's languages."""
    return {
        "source_language": english_name(section.source_language),
        "target_language": english_name(section.target_language),
    }


def of_documents(tables: Tables, name: str, *columns: str) -> pl.DataFrame:
    """Return ``doc_id`` and columns of a table's rows about the documents, in document order."""
    documents = tables[DOCUMENTS_TABLE].select(doc_id="_id")
    rows = tables[name].select("doc_id", *columns)
    return documents.join(rows, on="doc_id", maintain_order="left_right")


# Stage ``text_parts``


@stage("text_parts", version=1)
def run_text_parts(job: Job) -> None:
    """Write the parts of a domain's documents, then its queries, each as one part."""
    from psibench.models.counting import token_counter

    count_tokens = token_counter(job.value("length_tokenizer", str))
    max_tokens = job.value("max_part_tokens", int)
    for domain in job.domains():
        parts = text_parts(
            domain.read("corpus", CORPUS),
            domain.read("queries", QUERIES),
            max_tokens=max_tokens,
            count_tokens=count_tokens,
        )
        domain.write("parts", parts, TEXT_PARTS)


def text_parts(
    corpus: pl.DataFrame, queries: pl.DataFrame, *, max_tokens: int, count_tokens: TokenCounter
) -> pl.DataFrame:
    """Cut documents of more than ``max_tokens`` tokens; see `split_parts`.

    Counts tokens only in documents that are too long by the corpus's ``token_length``.

    Returns
    -------
    TEXT_PARTS rows: first the documents, then the queries, each in their order.
    """
    rows: list[tuple[str | int, ...]] = []
    for doc_id, text, n_tokens in corpus.select("_id", "text", "token_length").iter_rows():
        pieces = [(text, "")]
        if n_tokens > max_tokens:
            pieces = split_parts(text, max_tokens=max_tokens, count_tokens=count_tokens)
        for number, piece in enumerate(pieces):
            facts = (f"d:{doc_id}:{number}", doc_id, doc_id, "document", number, len(pieces))
            rows.append((*facts, *piece))
    for query_id, text, doc_id in queries.select("_id", "text", "pos_corpus_id").iter_rows():
        rows.append((f"q:{query_id}:0", doc_id, query_id, "query", 0, 1, text, ""))
    return pl.DataFrame(rows, schema=TEXT_PARTS.empty().schema, orient="row")


# Task ``translate``


def translation_items(tables: Tables, section: TranslateSection) -> Iterator[TaskItem]:
    """Yield a request for each part of the documents and their queries."""
    names = language_names(section)
    parts = of_documents(tables, PARTS, "_id", "kind", "text")
    for doc_id, part_id, kind, text in parts.iter_rows():
        yield TaskItem(part_id, doc_id, {"text": text, "kind": KINDS[kind], **names})


def gather_translations(
    tables: Tables, _section: TranslateSection, replies: Iterable[Replied]
) -> Gathered:
    """Return the stripped translations as TRANSLATIONS rows.

    Drops ``empty_translation``, and ``copies_prompt`` (tags or words of the template that the text
    has not).
    """
    sources = dict(tables[PARTS].select("_id", "text").iter_rows())
    made, left_out = usable_translations(TRANSLATE.name, replies, sources)
    rows = pl.DataFrame(list(made.items()), schema=TRANSLATIONS.empty().schema, orient="row")
    return Gathered(rows, left_out, (flow_of("texts", len(made), left_out),))


def usable_translations(
    task: str, replies: Iterable[Replied], sources: Mapping[str, str] | None = None
) -> tuple[dict[str, str], pl.DataFrame]:
    """Return item -> stripped translation, and the dropped ones: empty, or copies of the prompt.

    ``sources`` are the texts by item; without them copies are kept.
    """
    made: dict[str, str] = {}
    dropped: list[Dropped] = []
    for reply in replies:
        text = reply.value["translation"].strip()
        given = (sources or {}).get(reply.item_id)
        copied = None if given is None else reply.prompt.copied(text, given)
        if not text:
            dropped.append(refusal(task, "texts", reply, "empty_translation"))
        elif copied is not None:
            dropped.append(refusal(task, "texts", reply, "copies_prompt", detail=copied))
        else:
            made[reply.item_id] = text
    return made, dropped_frame(dropped)


TRANSLATE = LlmTask(
    "translate",
    "texts",
    (DOCUMENTS_TABLE, PARTS),
    TRANSLATIONS,
    translation_items,
    gather_translations,
    documents=CORPUS,
)


# Joining translated parts to documents and queries

Clean = Callable[[str, str], tuple[str | None, str]]
"""(reply, kind) -> prefix that was removed or None, and the translation."""

ITEMS_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **dict.fromkeys(("_id", "kind", "doc_id", "text", "prefix"), pl.String),
    "n_parts": pl.Int32,
    "joins": pl.List(pl.Int32),
}


def join_items(
    text_parts: pl.DataFrame, translations: pl.DataFrame, *, language: str, clean: Clean
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Clean the translated parts and join them to documents and queries.

    Each part is cleaned separately, because a model may put a remark before each. Parts are joined
    by their separator in the original; an empty separator becomes a space if the target language
    has spaces between sentences.

    Returns ``_id, kind, doc_id, text, prefix, n_parts, joins`` (offsets in ``text`` where the
    second and later parts begin) of documents and queries, in the order of the parts; and ``_id,
    kind, doc_id, detail`` of items with a part whose translation is missing or blank.
    """
    joined = text_parts.drop("text").join(translations, on="_id", how="left", maintain_order="left")
    by_item = joined.sort("number", maintain_order=True).group_by(
        "kind", "item_id", maintain_order=True
    )
    columns = ("_id", "doc_id", "text", "separator")
    between = " " if spaces_sentences(language) else ""
    items: list[tuple[object, ...]] = []
    lost: list[tuple[object, ...]] = []
    for row in by_item.agg(*columns).sort("kind", maintain_order=True).iter_rows(named=True):
        item_id, kind = row["item_id"], row["kind"]
        owner = (item_id, kind, row["doc_id"][0])
        detail = _lacking(row["_id"], row["text"])
        if detail:
            lost.append((*owner, detail))
            continue
        cleaned = [clean(text, kind) for text in row["text"]]
        texts = [text for _, text in cleaned]
        whole, joins = join_parts(texts, row["separator"], for_empty=between)
        prefix = "\n\n".join(said for said, _ in cleaned if said is not None) or None
        items.append((*owner, whole, prefix, len(cleaned), joins))
    lost_schema = dict.fromkeys(("_id", "kind", "doc_id", "detail"), pl.String)
    return (
        pl.DataFrame(items, schema=ITEMS_SCHEMA, orient="row"),
        pl.DataFrame(lost, schema=lost_schema, orient="row"),
    )


def pieces_of(text: str, joins: list[int]) -> list[str]:
    """Split a joined text into its translated parts; a separator stays with the part before it."""
    return [text[start:end] for start, end in pairwise([0, *joins, len(text)])]


def _lacking(part_ids: list[str], texts: list[str | None]) -> str | None:
    for part_id, text in zip(part_ids, texts, strict=True):
        if text is None or not text.strip():
            found = "has no translation" if text is None else "has a blank translation"
            return f"part {part_id} {found}"
    return None
