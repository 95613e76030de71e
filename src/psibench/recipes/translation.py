"""Translation: parts of texts translated, and what may be a refusal judged.

PosIR (section 2.4, appendix B) has its English corpora and queries translated by one language
model and has suspicious translations judged by another. Long texts are translated in parts here.
"""

from collections.abc import Iterable, Iterator

import polars as pl

from psibench.config.base import Language
from psibench.errors import InputError
from psibench.llm.tasks import (
    ADVICE,
    DOCUMENTS_TABLE,
    Gathered,
    LlmTask,
    LlmTaskSection,
    Replied,
    Tables,
    TaskItem,
    flow_of,
    refusal,
    reply_field,
)
from psibench.recipes.judged_rows import refuse_unknown_documents, with_judgements
from psibench.tables.dropped import Dropped, dropped_frame
from psibench.tables.translation_schemas import REFUSAL_VERDICTS, TRANSLATIONS
from psibench.text.languages import english_name

TRANSLATE_NAME = "translate"
PARTS, SUSPECTS = "text_parts", "refusal_suspects"
KINDS = {"document": "passage", "query": "question"}
"""Kind of a text in the tables -> what the translator is told it is."""
VERDICTS = {"refusal": True, "untranslated": True, "translation": False}


class TranslateSection(LlmTaskSection):
    """What every task of a translation has: who is asked, and the two languages."""

    source_language: Language
    """Language of the originals."""
    target_language: Language
    """Language of the translations."""


def language_names(section: TranslateSection) -> dict[str, str]:
    """Return the variables that name a section's languages in a prompt, in English."""
    return {
        "source_language": english_name(section.source_language),
        "target_language": english_name(section.target_language),
    }


def of_documents(tables: Tables, name: str, *columns: str) -> pl.DataFrame:
    """Return ``doc_id`` and columns of a table's rows about the documents given.

    In order of the documents; the rows of one document keep their order.
    """
    documents = tables[DOCUMENTS_TABLE].select(doc_id="_id")
    rows = tables[name].select("doc_id", *columns)
    return documents.join(rows, on="doc_id", maintain_order="left_right")


def translation_items(tables: Tables, section: TranslateSection) -> Iterator[TaskItem]:
    """Ask for the translation of every part of the documents given and of their queries."""
    names = language_names(section)
    parts = of_documents(tables, PARTS, "_id", "kind", "text")
    for doc_id, part_id, kind, text in parts.iter_rows():
        yield TaskItem(part_id, doc_id, {"text": text, "kind": KINDS[kind], **names})


def gather_translations(
    tables: Tables, _section: TranslateSection, replies: Iterable[Replied]
) -> Gathered:
    """Collect the translations as TRANSLATIONS rows, without white space at their ends.

    Dropped: ``empty_translation``.
    """
    refuse_unknown_documents(tables, PARTS)
    texts = tables[DOCUMENTS_TABLE].select("_id", pl.col("text").str.len_chars())
    lengths = dict(texts.iter_rows())
    rows: list[tuple[str, str]] = []
    dropped: list[Dropped] = []
    for reply in replies:
        text = reply_field(reply, "translation", str).strip()
        if text:
            rows.append((reply.item_id, text))
            continue
        reason, length = "empty_translation", lengths[reply.doc_id]
        dropped.append(refusal(TRANSLATE_NAME, "texts", reply, reason, char_length=length))
    schema = dict.fromkeys(TRANSLATIONS.column_names, pl.String)
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    lost = dropped_frame(dropped)
    return Gathered(frame, lost, (flow_of("texts", len(rows), lost),))


def suspect_items(tables: Tables, section: TranslateSection) -> Iterator[TaskItem]:
    """Ask about every suspect of the documents given."""
    target = english_name(section.target_language)
    suspects = of_documents(tables, SUSPECTS, "_id", "text")
    for doc_id, suspect_id, text in suspects.iter_rows():
        yield TaskItem(suspect_id, doc_id, {"text": text, "target_language": target})


def gather_verdicts(
    tables: Tables, _section: TranslateSection, replies: Iterable[Replied]
) -> Gathered:
    """Make a row of every suspect; the verdict is null without a usable reply."""
    refuse_unknown_documents(tables, SUSPECTS)
    suspects = of_documents(tables, SUSPECTS, "_id", "item_id", "kind")
    found = [(reply.item_id, _is_refusal(reply)) for reply in replies]
    schema = {"_id": pl.String, "is_refusal": pl.Boolean}
    verdicts = pl.DataFrame(found, schema=schema, orient="row")
    rows = with_judgements(suspects, verdicts, table=SUSPECTS)
    return Gathered(rows.select(REFUSAL_VERDICTS.column_names))


def _is_refusal(reply: Replied) -> bool:
    verdict = reply_field(reply, "verdict", str)
    if verdict not in VERDICTS:
        raise InputError(
            f"reply about {reply.item_id}: verdict {verdict!r}; allowed: {', '.join(VERDICTS)}. "
            f"{ADVICE}"
        )
    return VERDICTS[verdict]


TRANSLATE = LlmTask(
    TRANSLATE_NAME,
    "texts",
    (DOCUMENTS_TABLE, PARTS),
    TRANSLATIONS,
    translation_items,
    gather_translations,
)
JUDGE_REFUSALS = LlmTask(
    "judge_refusals",
    "suspects",
    (DOCUMENTS_TABLE, SUSPECTS),
    REFUSAL_VERDICTS,
    suspect_items,
    gather_verdicts,
    prompt="judge_refusal",
)
