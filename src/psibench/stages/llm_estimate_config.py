"""The estimate of a whole config: every benchmark that asks a language model, sums per model."""

from collections.abc import Mapping
from pathlib import Path

from psibench.config.benchmarks import Benchmark, GeneratedBenchmark
from psibench.config.llms import LlmSettings
from psibench.config.load import resolve_llms, resolve_prices
from psibench.config.settings import Config
from psibench.errors import InputError
from psibench.llm.spending import stored_usage
from psibench.llm.usage import Usage
from psibench.stages.llm_estimate import Estimator, TaskEstimate
from psibench.stages.llm_estimate_benchmark import EstimateJob
from psibench.stages.llm_estimate_results import ConfigEstimate, LlmEstimate
from psibench.stages.llm_estimate_sources import Reading
from psibench.stages.llm_estimate_task import total_usd
from psibench.stages.llm_job import answer_folder


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
    reading = Reading(config.length_tokenizer)
    benchmarks = [
        EstimateJob(name, section, results / name, estimator, reading, most).run()
        for name, section in _asking(config, only).items()
    ]
    by_llm: dict[str, list[TaskEstimate]] = {}
    for task in (task for row in benchmarks for task in row.tasks):
        by_llm.setdefault(task.llm, []).append(task)
    rows = [
        _sum_up(llm, llms[llm], tasks, estimator, folders[llm]) for llm, tasks in by_llm.items()
    ]
    return ConfigEstimate(tuple(benchmarks), tuple(rows))


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


def _asking(config: Config, only: str | None) -> Mapping[str, Benchmark]:
    """Return the benchmarks that ask a language model: written by one, or translated."""
    found: dict[str, Benchmark] = {
        name: section
        for name, section in config.benchmarks.items()
        if isinstance(section, GeneratedBenchmark) or section.translate is not None
    }
    if only is None:
        return found
    if only not in found:
        raise InputError(
            f"benchmark {only!r}: the config's benchmarks that ask a language model are "
            f"{', '.join(found) or 'none'}"
        )
    return {only: found[only]}
