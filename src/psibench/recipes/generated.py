"""Recipes whose queries a language model writes: their chains of tasks, in order."""

from collections.abc import Mapping

import polars as pl

from psibench.config.benchmarks import GeneratedBenchmark
from psibench.errors import InputError
from psibench.llm.tasks import LlmTask, LlmTaskSection
from psibench.recipes.base import Build, complete_build
from psibench.recipes.controlled import CHOOSE_CONFIGURATION, GENERATE_POSITIONAL_QUERY
from psibench.recipes.fineweb_posq import GENERATE_QUESTIONS, SUMMARISE
from psibench.recipes.posir import LOCATE_SPAN, PROPOSE_QUESTIONS
from psibench.tables.build_schemas import PAIRS, PERSONA_CANDIDATES
from psibench.tables.dropped import dropped_frame
from psibench.tables.schemas import DOCUMENTS, QUERIES
from psibench.tables.spec import TableSpec
from psibench.tables.translation_schemas import REFUSAL_SUSPECTS, TEXT_PARTS, TRANSLATED
from psibench.text.lengths import TokenCounter

TASKS: Mapping[str, tuple[LlmTask, ...]] = {
    "fineweb_posq": (SUMMARISE, GENERATE_QUESTIONS),
    "posir": (PROPOSE_QUESTIONS, LOCATE_SPAN),
    "controlled": (CHOOSE_CONFIGURATION, GENERATE_POSITIONAL_QUERY),
}
"""Recipe -> its tasks; the last one's table is the benchmark's candidates."""

STEP_SPECS: Mapping[str, TableSpec] = {
    "documents": DOCUMENTS,
    "persona_candidates": PERSONA_CANDIDATES,
    "queries": QUERIES,
    "text_parts": TEXT_PARTS,
    "translated": TRANSLATED,
    "refusal_suspects": REFUSAL_SUSPECTS,
    **{task.name: task.spec for tasks in TASKS.values() for task in tasks},
}
"""Schema of the tables that tasks read, by name."""


def step_spec(name: str) -> TableSpec:
    """Return the schema of a table that a task reads; judging tasks read ``STEP_pairs``."""
    return PAIRS if name.endswith("_pairs") else STEP_SPECS[name]


def task_section(section: GeneratedBenchmark, task: str) -> LlmTaskSection:
    """Return a task's part of a benchmark's section: it has the task's name."""
    found = getattr(section, task)
    assert isinstance(found, LlmTaskSection)
    return found


def find_task(recipe: str, name: str) -> LlmTask:
    """Return a recipe's task by name.

    Raises
    ------
    InputError
        If the recipe has no such task.
    """
    tasks = TASKS.get(recipe, ())
    for task in tasks:
        if task.name == name:
            return task
    names = ", ".join(task.name for task in tasks) or "none"
    raise InputError(f"recipe {recipe} has no task {name!r}; its tasks: {names}")


def assemble(
    documents: pl.DataFrame, candidates: pl.DataFrame, *, count_tokens: TokenCounter
) -> Build:
    """Turn sampled documents and candidates into a benchmark: every document is in the corpus.

    Raises
    ------
    InputError
        If there is no candidate.
    """
    if candidates.is_empty():
        raise InputError(
            "no candidate query is left; dropped.parquet beside the tasks' tables says why"
        )
    qrels = candidates.select(
        pl.col("_id").alias("query-id"),
        pl.col("pos_corpus_id").alias("corpus-id"),
        pl.lit(1, dtype=pl.Int32).alias("score"),
    )
    return complete_build(
        documents.select("_id", "text"),
        candidates,
        qrels,
        dropped_frame(),
        count_tokens=count_tokens,
    )
