"""Config section of a translation, and its tasks for language models, in order."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from psibench.config.base import Language, ModelIds, refuse_repeats
from psibench.errors import InputError
from psibench.llm.tasks import LlmTask, LlmTaskSection
from psibench.translate.clean import Cleaning
from psibench.translate.quality import JUDGE_TRANSLATION, Quality
from psibench.translate.refusals import JUDGE_REFUSALS
from psibench.translate.translate import TRANSLATE, TranslateSection
from psibench.translate.translators import judging_task, translator_task

Languages = Annotated[list[Language], AfterValidator(refuse_repeats)]


class Translate(LlmTaskSection):
    """Translates corpus and queries by a language model; all languages share the judgements."""

    to: Languages = Field(min_length=1)
    """Languages to translate to."""
    max_part_tokens: int = Field(default=2048, ge=16)
    """Longer documents, in tokens of length_tokenizer, are translated in groups of paragraphs."""
    shards: int | None = Field(default=None, ge=1, le=10_000)
    """Number of jobs for each language's translation; null: as for the benchmark's other tasks."""
    clean: Cleaning = Cleaning()
    quality: Quality | None = None
    models: Annotated[ModelIds, AfterValidator(refuse_repeats)] | None = None
    """Ids of the models to evaluate on translations; null: all."""


SAMPLED = ("translator_", "judge_translator_")
"""Prefixes of the tasks of compared translators; the translator's number follows."""
TRANSLATION_TASKS: Mapping[str, LlmTask] = {
    task.name: task for task in (TRANSLATE, JUDGE_REFUSALS, JUDGE_TRANSLATION)
}
LEDGER_ORDER: Mapping[str, int] = {
    TRANSLATE.name: 200,
    "mark_translations": 201,
    JUDGE_REFUSALS.name: 202,
    "clean_translations": 204,
    JUDGE_TRANSLATION.name: 210,
    **dict.fromkeys(SAMPLED, 211),
}
"""Order in FLOW: after all tasks of a recipe."""


def translation_task(name: str) -> LlmTask | None:
    """Return a translation's task by name; None if a translation has no such task."""
    translating, judging = SAMPLED
    if name.startswith(judging):
        return judging_task(name)
    return translator_task(name) if name.startswith(translating) else TRANSLATION_TASKS.get(name)


def is_about_sample(task: str) -> bool:
    """Return whether a task covers one sample of all domains."""
    return task == JUDGE_TRANSLATION.name or task.startswith(SAMPLED)


def asked_in_translation(section: Translate | None) -> dict[str, LlmTaskSection]:
    """Return task -> section with its language model, in order; empty without a translation."""
    if section is None:
        return {}
    asked: dict[str, LlmTaskSection | None] = {
        TRANSLATE.name: section,
        JUDGE_REFUSALS.name: section.clean.refusals,
        JUDGE_TRANSLATION.name: section.quality,
    }
    translating, judging = SAMPLED
    compared = (section.quality and section.quality.translators) or {}
    for number, one in enumerate(compared.values(), start=1):
        asked |= {f"{translating}{number}": one, f"{judging}{number}": section.quality}
    return {task: one for task, one in asked.items() if one is not None}


def translating_section(
    section: Translate | None, task: str, *, source_language: str, language: str
) -> TranslateSection:
    """Return the section of a task for one language; InputError if it has no such task."""
    asked = asked_in_translation(section)
    if task not in asked:
        raise InputError(
            f"the translation has no task {task!r}; its tasks: {', '.join(asked) or 'none'}"
        )
    return TranslateSection(
        llm=asked[task].llm,
        prompt=asked[task].prompt,
        source_language=source_language,
        target_language=language,
    )
