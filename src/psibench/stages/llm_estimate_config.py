"""The estimate of a whole config: every benchmark that asks a language model, sums per model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from psibench.config.benchmarks import GeneratedBenchmark
from psibench.config.llms import LlmSettings, Price
from psibench.config.load import resolve_llms, resolve_prices
from psibench.config.settings import Config
from psibench.errors import InputError
from psibench.llm.spending import stored_usage
from psibench.llm.usage import Usage
from psibench.recipes.llm_tasks import DOCUMENTS_TABLE
from psibench.recipes.steps import tasks_of
from psibench.stages.llm_estimate import Estimator, TaskEstimate
from psibench.stages.llm_estimate_documents import asking_all, estimate_tables
from psibench.stages.llm_job import answer_folder


@dataclass(frozen=True)
class BenchmarkEstimate:
    """One benchmark: ``n_here`` documents went through its tasks, ``n_documents`` are meant.

    ``uncounted`` names the tasks of which nothing is known before the rerankers have been asked.
    """

    name: str
    recipe: str
    n_documents: int
    n_here: int
    tasks: tuple[TaskEstimate, ...]
    notes: tuple[str, ...]
    uncounted: tuple[str, ...]

    @property
    def is_scaled(self) -> bool:
        """Whether counts stand for more than went through."""
        return any(task.is_scaled for task in self.tasks)

    @property
    def is_bound(self) -> bool:
        """Whether a task may need fewer requests than counted."""
        return any(task.is_bound for task in self.tasks)


@dataclass(frozen=True)
class LlmEstimate:
    """One language model: the sums of its tasks, and what its stored answers cost.

    ``usd``, ``at_most_usd`` and ``spent_usd`` are None without a price. With ``is_bound`` fewer
    requests may be needed than ``n_to_ask``, and less of everything.
    """

    llm: str
    settings: LlmSettings
    price: Price | None
    tokenizer: str
    n_to_ask: int
    usage: Usage
    usd: float | None
    at_most_usd: float | None
    spent_usd: float | None
    is_bound: bool

    @property
    def left_usd(self) -> float | None:
        """What will be left of the budget, below 0 if it is too small; None without one."""
        if self.settings.budget_usd is None or self.usd is None:
            return None
        return self.settings.budget_usd - (self.spent_usd or 0.0) - self.usd


@dataclass(frozen=True)
class ConfigEstimate:
    """All of it."""

    benchmarks: tuple[BenchmarkEstimate, ...]
    llms: tuple[LlmEstimate, ...]

    @property
    def usd(self) -> float | None:
        """Money in all; None if a model that is still to be asked has no price."""
        return total_usd(row.usd if row.n_to_ask else 0.0 for row in self.llms)


def total_usd(parts: Iterable[float | None]) -> float | None:
    """Add up money; None if a part is not known."""
    known = list(parts)
    return None if None in known else sum(part for part in known if part is not None)


def estimate_config(
    config: Config, *, most: int, results: Path, only: str | None = None
) -> ConfigEstimate:
    """Estimate a config's benchmarks that ask a language model.

    Parameters
    ----------
    most
        Documents per benchmark that go through the tasks; 0 for all.
    results
        Folder of results; the tables made so far are used.
    only
        Id of one benchmark; None for all.

    Raises
    ------
    InputError
        If there is no such benchmark, or a prompt, a source or a table is not what it should be.
    """
    llms = resolve_llms(config)
    folders = {llm: answer_folder(config.store, llm) for llm in llms}
    estimator = Estimator(llms, resolve_prices(config), folders)
    benchmarks = [
        _estimate(name, section, config, estimator, most=most, results=results)
        for name, section in _generated(config, only).items()
    ]
    by_llm: dict[str, list[TaskEstimate]] = {}
    for task in (task for row in benchmarks for task in row.tasks):
        by_llm.setdefault(task.llm, []).append(task)
    rows = [
        _sum_up(llm, llms[llm], tasks, estimator, folders[llm]) for llm, tasks in by_llm.items()
    ]
    return ConfigEstimate(tuple(benchmarks), tuple(rows))


def _estimate(
    name: str,
    section: GeneratedBenchmark,
    config: Config,
    estimator: Estimator,
    *,
    most: int,
    results: Path,
) -> BenchmarkEstimate:
    folder = results / name / "build" / section.language / section.domain
    found = estimate_tables(section, folder, most=most, length_tokenizer=config.length_tokenizer)
    made = folder if found.is_made else None
    asking = asking_all(section)
    tasks = tuple(estimator.tasks(asking, found.tables, scale=found.scale, made=made, most=most))
    counted = {task.stage.stage for task in tasks}
    return BenchmarkEstimate(
        name=name,
        recipe=section.recipe,
        n_documents=found.n_documents,
        n_here=found.tables[DOCUMENTS_TABLE].height,
        tasks=tasks,
        notes=found.notes,
        uncounted=tuple(task.name for task, _ in tasks_of(section) if task.name not in counted),
    )


def _sum_up(
    llm: str,
    settings: LlmSettings,
    tasks: list[TaskEstimate],
    estimator: Estimator,
    folder: Path,
) -> LlmEstimate:
    price, spent = estimator.price(llm), None
    if price is not None and settings.budget_usd is not None:
        spent = price.cost(stored_usage(folder), is_batch=settings.backend == "openai-batch")
    return LlmEstimate(
        llm=llm,
        settings=settings,
        price=price,
        tokenizer=estimator.counter(llm).tokenizer,
        n_to_ask=sum(task.stage.n_to_ask for task in tasks),
        usage=sum((task.stage.usage for task in tasks), Usage()),
        usd=total_usd(task.stage.usd for task in tasks),
        at_most_usd=total_usd(task.at_most_usd for task in tasks),
        spent_usd=spent,
        is_bound=any(task.is_bound for task in tasks),
    )


def _generated(config: Config, only: str | None) -> Mapping[str, GeneratedBenchmark]:
    found = {
        name: section
        for name, section in config.benchmarks.items()
        if isinstance(section, GeneratedBenchmark)
    }
    if only is None:
        return found
    if only not in found:
        raise InputError(
            f"benchmark {only!r}: the config's benchmarks that ask a language model are "
            f"{', '.join(found) or 'none'}"
        )
    return {only: found[only]}
