"""What a workflow asks about the benchmarks whose queries a language model writes."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from psibench.config.benchmarks import Controlled, GeneratedBenchmark
from psibench.config.llms import LlmSettings, Price, price_of
from psibench.config.load import resolve_llms, resolve_prices
from psibench.config.lookup_verification import VerificationLookup
from psibench.config.models import EncoderModel
from psibench.config.paths import REGISTRY, prompt_path, shipped
from psibench.config.registry import load_registry
from psibench.config.settings import Config
from psibench.config.sources import FilesSource
from psibench.errors import InputError
from psibench.generate.personas import Personas
from psibench.llm.tasks import LlmTaskSection
from psibench.models.checkpoints import checkpoint_files
from psibench.models.positions import refuse_beyond_positions

if TYPE_CHECKING:
    from psibench.llm.prompts import Prompt
    from psibench.llm.tasks import LlmTask


class GenerationLookup(VerificationLookup):
    """Answers about a config's tasks of language models.

    Attributes
    ----------
    llms, prices
        The language models that benchmarks name, by id; all prices.

    Raises
    ------
    InputError
        If a language model or a reranker is not known, a template cannot be read, or the personas'
        model is no encoder.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.llms: Mapping[str, LlmSettings] = resolve_llms(config)
        self.prices: Mapping[str, Price] = resolve_prices(config)
        for name in config.benchmarks:
            self._check_tasks(name)

    def generated(self, name: str) -> GeneratedBenchmark:
        """Return the section of a benchmark whose queries a language model writes."""
        section = self.config.benchmarks[name]
        assert isinstance(section, GeneratedBenchmark)
        return section

    def is_generated(self, name: str) -> bool:
        """Say whether a language model writes a benchmark's queries."""
        return isinstance(self.config.benchmarks[name], GeneratedBenchmark)

    def tasks(self, name: str) -> "list[tuple[LlmTask, LlmTaskSection]]":
        """List all tasks of a benchmark with their sections, in order; none for other recipes."""
        from psibench.generate.recipes import tasks_of

        return list(tasks_of(self.generated(name))) if self.is_generated(name) else []

    def task(self, name: str, task: str) -> "LlmTask":
        """Return one task of a benchmark."""
        from psibench.generate.recipes import find_task_of

        return find_task_of(self.generated(name), task)[0]

    def task_section(self, name: str, task: str) -> LlmTaskSection:
        """Return a task's part of a benchmark's section."""
        from psibench.generate.recipes import find_task_of

        return find_task_of(self.generated(name), task)[1]

    def task_names(self, name: str) -> list[str]:
        """List the names of all tasks of a benchmark, in order."""
        return [task.name for task, _ in self.tasks(name)]

    def prompt(self, name: str, task: str) -> str:
        """Return the path of a task's template."""
        return prompt_path(self.task(name, task).template, self.task_section(name, task).prompt)

    def llm_of(self, name: str, task: str) -> LlmSettings:
        """Return the language model that does a task."""
        return self.llms[self.task_section(name, task).llm]

    def sample_mib(self, name: str, language: str) -> int:
        """Return the memory that drawing a language's documents takes, MiB: 16 KiB for each."""
        per_domain = (self.generated(name).sample.n_documents or 0) // 64
        return max(4000, per_domain * len(self.domains_in(name, language)))

    def minutes_to_ask(self, llm: str) -> int:
        """Return how long one job that asks a model may take: a batch alone takes up to a day."""
        return 2880 if self.llms[llm].backend == "openai-batch" else 720

    def personas(self, name: str) -> Personas:
        """Return where a benchmark's personas come from."""
        section = self.config.benchmarks[name]
        assert isinstance(section, Controlled)
        return section.personas

    def persona_files(self, name: str) -> list[str]:
        """List the local files of a benchmark's persona table; none for a name on the hub."""
        source = self.personas(name).source
        if not isinstance(source, FilesSource):
            return []
        from psibench.sources.files import find_files

        return [str(path) for path, _ in find_files([shipped(path) for path in source.paths])]

    def is_budgeted(self, llm: str) -> int:
        """Return 1 if a language model has a budget, else 0: what of a resource its jobs take."""
        return int(self.llms[llm].budget_usd is not None)

    def encoder_files(self, model: str) -> list[str]:
        """List the files of a registry entry's local checkpoint."""
        return checkpoint_files(self.encoder(model).checkpoint)

    def encoder(self, model: str) -> EncoderModel:
        """Return any registry entry that is an encoder, evaluated or not.

        Raises
        ------
        InputError
            If there is none of this name.
        """
        known = load_registry(REGISTRY) | self.config.registry
        entry = known.get(model)
        if not isinstance(entry, EncoderModel):
            fitting = sorted(n for n, found in known.items() if isinstance(found, EncoderModel))
            raise InputError(f"model {model!r} is no encoder; known: {', '.join(fitting)}")
        return entry

    def used_prices(self) -> dict[str, Price]:
        """Return the prices of the language models that are used, under their models' names."""
        found = {}
        for llm in self.llms.values():
            with suppress(InputError):  # not every model has a price
                found[llm.model] = price_of(llm.model, self.prices)
        return found

    def _check_tasks(self, name: str) -> None:
        """Load every template now, not in the middle of a run; find the personas' encoder."""
        from psibench.llm.prompts import load_prompt

        for task, _ in self.tasks(name):
            key = f"config key benchmarks.{name}.{prompt_key(task.name)}"
            with self._looking(key):
                check_template(task.template, load_prompt(self.prompt(name, task.name)))
        if isinstance(self.config.benchmarks[name], Controlled):
            with self._looking(f"config key benchmarks.{name}.personas"):
                refuse_beyond_positions(self.encoder(self.personas(name).model))
                self.persona_files(name)


def prompt_key(task: str) -> str:
    """Return the config key, below the benchmark, that names a task's template."""
    if task.startswith("judge_"):
        return "false_negatives.prompt"
    return f"{'grade' if task.startswith('grade_') else task}.prompt"


def check_template(task: str, prompt: "Prompt") -> None:
    """Hold a template to the shipped one: other words, but the same values in and reply out."""
    from psibench.llm.prompts import load_prompt

    shipped = load_prompt(prompt_path(task, None))
    if prompt.task != task:
        raise InputError(f"its header names the task {prompt.task!r}; it is used for {task!r}")
    if set(prompt.variables) != set(shipped.variables):
        raise InputError(
            f"its variables are {', '.join(prompt.variables)}; the task fills in "
            f"{', '.join(shipped.variables)}: use these"
        )
    if prompt.response != shipped.response:
        raise InputError(
            f"its response schema is not that of the shipped template ({prompt_path(task, None)}), "
            "which is what the task reads; copy it"
        )
