"""Translations that may be refusals (PosIR, appendix B.5.2): suspects, and a judge's verdicts.

A text is suspect if it contains a phrase of refusal in a listed language, or is not in the target
language. A judge reads 1,500 characters of each suspect (task ``judge_refusals``).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import polars as pl
from pydantic import Field, TypeAdapter

from psibench.config.base import Language, Section
from psibench.config.files import read_yaml, validated
from psibench.config.paths import CLEANING
from psibench.errors import InputError
from psibench.llm.tasks import (
    DOCUMENTS_TABLE,
    Gathered,
    LlmTask,
    LlmTaskSection,
    Replied,
    Tables,
    TaskItem,
    with_judgements,
)
from psibench.tables.build_schemas import REFUSAL_VERDICTS
from psibench.tables.schemas import CORPUS
from psibench.text.detection import is_foreign
from psibench.text.languages import english_name, split_code
from psibench.text.phrases import any_phrase, fold
from psibench.translate.translate import TranslateSection, of_documents

REFUSALS = CLEANING / "refusals.yaml"
SUSPECTS = "refusal_suspects"
IS_REFUSAL = {"refusal": True, "untranslated": True, "translation": False}
"""Possible verdicts, and whether each removes the text."""
READ_CHARS = 1500
"""Characters of a text, or of each part, that are searched for phrases and shown to the judge."""


class Refusals(LlmTaskSection):
    """Language model that judges from its beginning whether a suspect translation is a refusal."""


class _Refusals(Section):
    slots: dict[str, str] = Field(default_factory=dict)
    phrases: list[str] = Field(min_length=1)


def read_refusals(path: str | Path = REFUSALS) -> list[re.Pattern[str]]:
    """Read the phrases of refusal; returns one pattern per language, for folded text.

    Raises InputError if the file cannot be read or has another format.
    """
    found = validated(read_yaml(path), TypeAdapter(dict[Language, _Refusals]), str(path))
    try:
        return [
            any_phrase(entry.phrases, entry.slots, script=split_code(language)[1])
            for language, entry in found.items()
        ]
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def find_suspect(
    parts: Sequence[str], *, language: str, patterns: Sequence[re.Pattern[str]]
) -> tuple[str, str] | None:
    """Return why a translation may be a refusal, and the text for the judge; None if not suspect.

    Any part may be refused, so each is checked. The reason is ``phrase`` if a part contains a
    phrase of refusal in a listed language (``patterns`` of `read_refusals`), else ``language`` if a
    part is not in the target language.
    """
    for part in parts:
        beginning = fold(part[:READ_CHARS])
        if any(pattern.search(beginning) for pattern in patterns):
            return "phrase", part[:READ_CHARS]
    for part in parts:
        if is_foreign(part, language):
            return "language", part[:READ_CHARS]
    return None


def refused(translated: pl.DataFrame, verdicts: pl.DataFrame) -> pl.DataFrame:
    """Return the translations to remove as refusals.

    Also removes suspects without a usable verdict, with the reason ``refusal_unjudged``: losing one
    good text among many does little harm, while a remaining refusal makes a document unfindable or
    a query meaningless and lowers the scores at the position of its evidence.

    Returns ``LEAVING_SCHEMA`` rows, in the order of the TRANSLATED rows; ``detail`` has the reason
    of the suspicion.
    """
    suspects = translated.filter(pl.col("suspect").is_not_null()).select(
        "kind", "suspect", item_id="_id"
    )
    keys = ["kind", "item_id"]
    judged = suspects.join(
        verdicts.select(*keys, "is_refusal"), on=keys, how="left", maintain_order="left"
    )
    reason = pl.when(pl.col("is_refusal")).then(pl.lit("refusal"))
    return judged.filter(pl.col("is_refusal").fill_null(True)).select(
        *keys,
        reason=reason.otherwise(pl.lit("refusal_unjudged")),
        detail=pl.lit("suspect by ") + pl.col("suspect"),
        score=pl.lit(None, pl.Float64),
    )


def suspect_items(tables: Tables, section: TranslateSection) -> Iterator[TaskItem]:
    """Yield a request for each suspect of the documents."""
    target = english_name(section.target_language)
    suspects = of_documents(tables, SUSPECTS, "_id", "text")
    for doc_id, suspect_id, text in suspects.iter_rows():
        yield TaskItem(suspect_id, doc_id, {"text": text, "target_language": target})


def gather_verdicts(
    tables: Tables, _section: TranslateSection, replies: Iterable[Replied]
) -> Gathered:
    """Return a row for each suspect; the verdict is null without a usable reply."""
    found = [(reply.item_id, IS_REFUSAL[reply.value["verdict"]]) for reply in replies]
    schema = {"_id": pl.String, "is_refusal": pl.Boolean}
    verdicts = pl.DataFrame(found, schema=schema, orient="row")
    suspects = of_documents(tables, SUSPECTS, "_id", "item_id", "kind")
    rows = with_judgements(suspects, verdicts)
    return Gathered(rows.select(REFUSAL_VERDICTS.column_names))


JUDGE_REFUSALS = LlmTask(
    "judge_refusals",
    "suspects",
    (DOCUMENTS_TABLE, SUSPECTS),
    REFUSAL_VERDICTS,
    suspect_items,
    gather_verdicts,
    prompt="judge_refusal",
    documents=CORPUS,
)
