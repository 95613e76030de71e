"""Translations graded by a language model, without a reference: PosIR, appendix B.1.

A document of the quality sample is its source and its translation; the reply has a grade from 1
to 5 for each of four dimensions.
"""

from collections.abc import Iterable, Iterator

import polars as pl

from psibench.build.quality import DIMENSIONS
from psibench.errors import InputError
from psibench.llm.tasks import (
    ADVICE,
    DOCUMENTS_TABLE,
    Gathered,
    LlmTask,
    Replied,
    Tables,
    TaskItem,
    reply_field,
)
from psibench.recipes.judged_rows import with_judgements
from psibench.recipes.translation import TranslateSection, language_names
from psibench.tables.translation_schemas import TRANSLATION_GRADES

NAME = "judge_translation"
LOWEST, HIGHEST = 1, 5


def quality_items(tables: Tables, section: TranslateSection) -> Iterator[TaskItem]:
    """Ask about every document of the sample given."""
    names = language_names(section)
    sample = tables[DOCUMENTS_TABLE].select("_id", "text", "translation")
    for doc_id, source, translation in sample.iter_rows():
        yield TaskItem(doc_id, doc_id, {"source": source, "translation": translation, **names})


def gather_quality(
    tables: Tables, _section: TranslateSection, replies: Iterable[Replied]
) -> Gathered:
    """Make a row of every document of the sample; grades are null without a usable reply.

    Raises
    ------
    InputError
        If a reply is about no document of the sample, lacks a grade or has one outside 1 to 5.
    """
    sample = tables[DOCUMENTS_TABLE].select("_id", "domain", "doc_id", "length_bin")
    found = [(reply.item_id, *_grades(reply)) for reply in replies]
    schema = {"_id": pl.String, **dict.fromkeys(DIMENSIONS, pl.Int32)}
    grades = pl.DataFrame(found, schema=schema, orient="row")
    rows = with_judgements(sample, grades, table="the quality sample")
    return Gathered(rows.select(TRANSLATION_GRADES.column_names))


def _grades(reply: Replied) -> list[int]:
    grades = {name: reply_field(reply, name, int) for name in DIMENSIONS}
    for name, grade in grades.items():
        if not LOWEST <= grade <= HIGHEST:
            raise InputError(
                f"reply about {reply.item_id}: {name} {grade}; allowed: {LOWEST} to {HIGHEST}. "
                f"{ADVICE}"
            )
    return list(grades.values())


JUDGE_TRANSLATION = LlmTask(
    NAME,
    "translations",
    (DOCUMENTS_TABLE,),
    TRANSLATION_GRADES,
    quality_items,
    gather_quality,
    prompt=NAME,
)
