"""The tasks of language models in a translation, by name, and their places in FLOW."""

from collections.abc import Mapping
from dataclasses import replace

from psibench.config.benchmarks import Benchmark
from psibench.config.translation import Translate
from psibench.errors import InputError
from psibench.llm.tasks import LlmTask, LlmTaskSection
from psibench.recipes.relocation import RELOCATE_SPANS
from psibench.recipes.translation import JUDGE_REFUSALS, TRANSLATE, TranslateSection
from psibench.recipes.translation_quality import JUDGE_TRANSLATION
from psibench.tables.schemas import CORPUS

TRANSLATION_TASKS: Mapping[str, LlmTask] = {
    **{
        task.name: replace(task, documents=CORPUS)
        for task in (TRANSLATE, JUDGE_REFUSALS, RELOCATE_SPANS)
    },
    JUDGE_TRANSLATION.name: JUDGE_TRANSLATION,
}

PLACES: Mapping[str, int] = {
    TRANSLATE.name: 200,
    "mark_translations": 201,
    JUDGE_REFUSALS.name: 202,
    RELOCATE_SPANS.name: 203,
    "clean_translations": 204,
    JUDGE_TRANSLATION.name: 210,
}
"""Places in FLOW: after those of the recipe, whatever else a benchmark has."""


def asked_in_translation(section: Translate | None) -> dict[str, LlmTaskSection]:
    """Return who is asked in each task of a translation, in order; none without one."""
    if section is None:
        return {}
    relocate = section.relocate
    quoting = (
        LlmTaskSection(llm=relocate.llm, prompt=relocate.prompt)
        if relocate is not None and relocate.llm is not None
        else None
    )
    asked: dict[str, LlmTaskSection | None] = {
        TRANSLATE.name: section,
        JUDGE_REFUSALS.name: section.clean.refusals,
        RELOCATE_SPANS.name: quoting,
        JUDGE_TRANSLATION.name: section.quality,
    }
    return {task: one for task, one in asked.items() if one is not None}


def translating_section(section: Benchmark, task: str, language: str) -> TranslateSection:
    """Return a task's part of a benchmark's translation to one language.

    Raises
    ------
    InputError
        If the benchmark's translation has no such task.
    """
    asked = asked_in_translation(section.translate)
    if task not in asked:
        raise InputError(f"the translation has no task {task!r}; its: {', '.join(asked) or 'none'}")
    return TranslateSection(
        llm=asked[task].llm,
        prompt=asked[task].prompt,
        source_language=section.language,
        target_language=language,
    )


__all__ = [
    "PLACES",
    "TRANSLATION_TASKS",
    "TranslateSection",
    "asked_in_translation",
    "translating_section",
]
