"""What a workflow asks about a benchmark's translations."""

import re
from typing import TYPE_CHECKING, Any

from psibench.config.benchmarks import GeneratedBenchmark
from psibench.config.corpora import POOLED
from psibench.config.lookup_generation import check_template
from psibench.config.lookup_views import ViewLookup
from psibench.config.paths import REGISTRY
from psibench.config.registry import load_registry
from psibench.config.settings import Config
from psibench.errors import InputError
from psibench.llm.tasks import LlmTaskSection, shard_names
from psibench.translate.quality import Quality
from psibench.translate.steps import Translate

if TYPE_CHECKING:
    from psibench.llm.tasks import LlmTask


JUDGE_TRANSLATION = "judge_translation"
"""The task asked about a sample of a language's translations."""
TRANSLATOR, JUDGE_TRANSLATOR = "translator_", "judge_translator_"
"""The tasks of one of the translators that are compared; its number follows, from 1."""


BY_DOMAIN = ("false_negatives", "clean_translations")
"""Steps that write a benchmark's tables, in one job for each domain."""


class TranslationLookup(ViewLookup):
    """Answers about the tasks and tables of translated languages.

    Raises
    ------
    InputError
        If a model that is to be evaluated on translations is not known.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        known = load_registry(REGISTRY) | config.registry
        for name in self.translated():
            self._check_templates(name)
            for model in self.translate(name).models or ():
                if model not in known:
                    raise InputError(
                        f"config key benchmarks.{name}.translate.models: unknown model {model!r}. "
                        f"Supported: {', '.join(sorted(known))}"
                    )

    def _check_templates(self, name: str) -> None:
        from psibench.llm.prompts import load_prompt

        for task in self.translation_tasks(name):
            template = self.task(name, task).template
            with self._looking(f"config key benchmarks.{name}.translate, task {task}"):
                check_template(template, load_prompt(self.prompt(name, task)))

    def translate(self, name: str) -> Translate:
        """Return how a benchmark is translated that is."""
        section = self.translation(name)
        assert section is not None
        return section

    def translated(self, key: str = "") -> list[str]:
        """List the benchmarks that are translated; those whose `translate` has ``key``."""
        found = {name: self.translation(name) for name in self.config.benchmarks}
        return [
            name
            for name, section in found.items()
            if section is not None and (not key or getattr(section, key) is not None)
        ]

    def judged_refusals(self) -> list[str]:
        """List the benchmarks in whose translations a language model finds refusals."""
        return [name for name in self.translated() if self.translate(name).clean.refusals]

    def quoting(self) -> list[str]:
        """List the benchmarks in whose translations a language model quotes the evidence."""
        return [
            name for name in self.translated() if "relocate_spans" in self.translation_tasks(name)
        ]

    def quality(self, name: str) -> Quality:
        """Return how a benchmark's translations are graded, where they are."""
        section = self.translate(name).quality
        assert section is not None
        return section

    def compared_translators(self) -> list[str]:
        """List the benchmarks whose sample several translators translate."""
        return [n for n in self.translated("quality") if self.quality(n).translators is not None]

    def translator_grades(self, name: str) -> dict[str, list[str]]:
        """Return the tables of each translator's grades on a sample, one per language, by name."""
        folder, languages = f"results/{name}/build", self.translated_languages(name)
        return {
            one: [f"{folder}/{at}/{JUDGE_TRANSLATOR}{number}.parquet" for at in languages]
            for number, one in enumerate(self.quality(name).translators or (), start=1)
        }

    def is_translated(self, name: str, language: str) -> bool:
        """Say whether a benchmark is translated to a language."""
        return language in self.translated_languages(self.base(name))

    def models_of(self, name: str, queries: str, documents: str) -> list[str]:
        """List the models evaluated on a language pair of a benchmark or view."""
        section = self.translation(self.base(name))
        crossed = self.is_translated(name, queries) or self.is_translated(name, documents)
        if section is None or section.models is None or not crossed:
            return list(self.config.models)
        return [model for model in self.config.models if model in section.models]

    def translation_tasks(self, name: str) -> dict[str, LlmTaskSection]:
        """Return who is asked in each task of a benchmark's translation, in order."""
        from psibench.translate.steps import asked_in_translation

        return asked_in_translation(self.translation(name))

    def task(self, name: str, task: str) -> "LlmTask":
        """Return one task of a benchmark, of its recipe or of its translation."""
        if task in self.translation_tasks(name):
            from psibench.translate.steps import translation_task

            found = translation_task(task)
            assert found is not None
            return found
        return super().task(name, task)

    def task_section(self, name: str, task: str, language: str | None = None) -> LlmTaskSection:
        """Return a task's part of a benchmark's section; a translation's, to ``language``."""
        asked = self.translation_tasks(name).get(task)
        if asked is None:
            return super().task_section(name, task)
        if language is None:
            return LlmTaskSection(llm=asked.llm, prompt=asked.prompt)
        from psibench.translate.steps import translating_section

        return translating_section(self.config.benchmarks[name], task, language)

    def task_names(self, name: str) -> list[str]:
        """List the names of all tasks of a benchmark, in order."""
        return [*super().task_names(name), *self.translation_tasks(name)]

    def judging_kind(self, name: str, task: str) -> str | None:
        """Return what a judging task of the recipe makes; None for any other task."""
        return None if task in self.translation_tasks(name) else super().judging_kind(name, task)

    def task_domains(self, name: str, task: str, language: str) -> list[str]:
        """List the domains that a task is asked about; a sample of them all is one of its own."""
        from psibench.translate.steps import is_about_sample

        return [POOLED] if is_about_sample(task) else self.domains_in(name, language)

    def task_tables(self, name: str, task: str, language: str) -> dict[str, str | list[str]]:
        """Return the tables a task's items are made of, by name.

        A path of all domains, or a list of one of each.
        """
        build = f"results/{name}/build"
        here = f"{build}/{language}"
        if task not in self.translation_tasks(name):
            return {read: f"{here}/{read}.parquet" for read in self.task(name, task).reads}
        source = self.source_language(name)

        def data(table: str) -> list[str]:
            folder = f"results/{name}/data/{source}"
            return [f"{folder}/{at}/{table}.parquet" for at in self.domains_in(name, source)]

        places: dict[str, str | list[str]] = {
            "documents": data("corpus"),
            "queries": data("queries"),
            "text_parts": f"{build}/{source}/text_parts.parquet",
            "translated": f"{here}/translated.parquet",
            "refusal_suspects": f"{here}/refusal_suspects.parquet",
        }
        if task == JUDGE_TRANSLATION:
            places["documents"] = [f"results/{name}/quality_sample.parquet"]
        elif task.startswith(TRANSLATOR):
            places["documents"] = [f"results/{name}/translator_sample.parquet"]
        elif task.startswith(JUDGE_TRANSLATOR):
            number = task.removeprefix(JUDGE_TRANSLATOR)
            places["documents"] = [f"{here}/{TRANSLATOR}{number}.parquet"]
        return {read: places[read] for read in self.task(name, task).reads}

    def task_pattern(self, *, in_shards: bool, by_vllm: bool | None = None) -> str:
        """Return a pattern for {benchmark} where a path goes on /build/{lang}/{task}.

        It matches tasks asked in one job or in several; with ``by_vllm``, of a model that the job
        itself serves, or of another.
        """
        parts = []
        for name in sorted(self.config.benchmarks, reverse=True):
            tasks = [
                re.escape(task)
                for task in self.task_names(name)
                if (len(self.shards_of(name, task)) > 1) is in_shards
                and by_vllm in (None, self.llm_of(name, task).backend == "vllm")
            ]
            if tasks:
                parts.append(f"{re.escape(name)}(?=/build/[^/]+/(?:{'|'.join(tasks)})[./])")
        return "|".join(parts) or r"(?!)none"

    def step(self, name: str, step: str) -> int:
        """Return the place of a step in FLOW."""
        from psibench.translate.steps import LEDGER_ORDER

        own = step.rstrip("0123456789") if step.startswith((TRANSLATOR, JUDGE_TRANSLATOR)) else step
        return LEDGER_ORDER[own] if own in LEDGER_ORDER else super().step(name, step)

    def shards_of(self, name: str, task: str) -> list[str]:
        """List the shards of a task."""
        if task not in self.translation_tasks(name):
            return super().shards_of(name, task)
        if task not in ("translate", "relocate_spans"):
            return shard_names(1)
        section = self.config.benchmarks[name]
        usual = section.shards if isinstance(section, GeneratedBenchmark) else 1
        return shard_names(self.translate(name).shards or usual)

    def translation_steps(self, name: str, table: str) -> list[str]:
        """List the steps of one domain's translation that have a table ``dropped``, ``flow``...

        What only mends and removes asks nobody and has no ``usage``.
        """
        from psibench.translate.steps import is_about_sample

        asked = [task for task in self.translation_tasks(name) if not is_about_sample(task)]
        if table == "usage":
            return asked
        before = [task for task in asked if task == "translate"]
        after = [task for task in asked if task != "translate"]
        return [*before, "mark_translations", *after, "clean_translations"]

    def ledger_tables(self, name: str, language: str, table: str) -> list[str | list[str]]:
        """List the tables ``dropped``, ``flow`` or ``usage`` of a language's steps, in order.

        Of the last step, which may write a benchmark's tables, a list of one of each domain.
        """
        is_translated = language in self.translated_languages(name)
        steps = (self.translation_steps if is_translated else self.ledger_steps)(name, table)
        folder, domains = f"results/{name}/build/{language}", self.domains_in(name, language)
        return [
            [f"{folder}/{domain}/{step}.{table}.parquet" for domain in domains]
            if step in BY_DOMAIN
            else f"{folder}/{step}.{table}.parquet"
            for step in steps
        ]

    def clean_params(self, name: str) -> dict[str, Any]:
        """Return what decides which translations stay, and what is found again in them."""
        section = self.translate(name)
        outliers = section.clean.outliers
        return {
            "outliers": outliers and outliers.model_dump(mode="json"),
            "relocate": section.relocate and section.relocate.method,
            "length_tokenizer": self.config.length_tokenizer,
            "step": self.step(name, "clean_translations"),
        }
