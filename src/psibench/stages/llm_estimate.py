"""What a benchmark's tasks will ask, use and cost, before they are asked. Nothing is asked here.

A sample of the documents goes through the chain of writing tasks as in the real run: items,
requests, replies, rows. What was counted is then scaled to all documents. Tasks that judge are
estimated by the pairs of an earlier run or, from the candidates written here, by bounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from psibench.config.benchmarks import GeneratedBenchmark
from psibench.config.generation import LlmTaskSection
from psibench.config.llms import LlmSettings, Price, price_of
from psibench.config.paths import prompt_path
from psibench.errors import InputError
from psibench.llm.answer_store import AnswerStore
from psibench.llm.expected import mean_stored_output
from psibench.llm.prompts import load_prompt
from psibench.llm.tokens import RequestCounter
from psibench.recipes.generated import TASKS, task_section
from psibench.recipes.llm_tasks import DOCUMENTS_TABLE, LlmTask, Tables
from psibench.stages.llm_estimate_candidates import expected_candidates
from psibench.stages.llm_estimate_judging import judged_pairs
from psibench.stages.llm_estimate_task import RequestsBasis, TaskEstimate, scaled
from psibench.stages.llm_shard_estimate import estimate_items
from psibench.stages.llm_walk import Walked, walk_task

__all__ = ["Estimated", "Estimator", "TaskEstimate", "estimate_items"]


@dataclass(frozen=True)
class Estimated:
    """The estimates of a benchmark's tasks, and the candidates to come from these documents."""

    tasks: tuple[TaskEstimate, ...]
    candidates: pl.DataFrame


class Estimator:
    """Estimates benchmarks that share language models; a tokenizer is loaded once.

    Parameters
    ----------
    llms, prices
        Language models by id, prices by model name.
    folders
        Id of a language model -> folder of its answer store, which need not exist.
    """

    def __init__(
        self,
        llms: Mapping[str, LlmSettings],
        prices: Mapping[str, Price],
        folders: Mapping[str, Path],
    ) -> None:
        self._llms, self._prices, self._folders = llms, prices, folders
        self._stores: dict[str, AnswerStore] = {}
        self._counters: dict[str, RequestCounter] = {}
        self._means: dict[tuple[str, str], tuple[int, float]] = {}

    def price(self, llm: str) -> Price | None:
        """Return a model's price, or None."""
        try:
            return price_of(self._llms[llm].model, self._prices)
        except InputError:
            return None

    def counter(self, llm: str) -> RequestCounter:
        """Return what counts a model's tokens."""
        if llm not in self._counters:
            self._counters[llm] = RequestCounter(self._llms[llm])
        return self._counters[llm]

    def estimate(
        self,
        section: GeneratedBenchmark,
        tables: Tables,
        *,
        scale: float = 1.0,
        made: Path | None = None,
        most: int = 0,
    ) -> Estimated:
        """Estimate a benchmark's tasks: those that write, then those that judge.

        Left out are judges of false negatives, unless an earlier run has their pairs.

        Parameters
        ----------
        tables
            ``documents``, and whatever else the first task reads, of some documents.
        scale
            All documents per document in the tables.
        made
            Folder of an earlier run's tables; None if there was none with these documents.
        most
            Documents of the estimate, which bound the pairs that are judged; 0: all pairs.

        Raises
        ------
        InputError
            If a template is missing or wrong, or what it will be answered cannot be told.
        """
        known, estimates = dict(tables), []
        for task in TASKS[section.recipe]:
            chosen = task_section(section, task.name)
            walked, estimate = self.task(task, chosen, known, scale)
            estimates.append(estimate)
            known[task.name] = task.gather(known, chosen, walked.replies).rows
        candidates = expected_candidates(task, known, walked, known[task.name])
        texts = known[DOCUMENTS_TABLE]
        for found in judged_pairs(section, candidates, texts, scale=scale, made=made, most=most):
            asked = found.judging.task, found.judging.section, found.tables, found.scale
            estimates.append(self.task(*asked, basis=found.basis)[1])
        return Estimated(tuple(estimates), candidates)

    def task(
        self,
        task: LlmTask,
        chosen: LlmTaskSection,
        tables: Tables,
        scale: float,
        *,
        basis: RequestsBasis = "documents",
    ) -> tuple[Walked, TaskEstimate]:
        """Go through one task and estimate it; for a bound, every item counts as a request.

        (Queries that are examples are all alike, and would share the requests about a document.)
        """
        llm = self._llms[chosen.llm]
        walked = walk_task(
            task,
            chosen,
            load_prompt(prompt_path(task.template, chosen.prompt)),
            llm,
            tables,
            store=self._store(chosen.llm),
            counter=self.counter(chosen.llm),
            stored_mean=partial(self._stored_mean, chosen.llm),
        )
        if basis == "at most":
            scale *= walked.n_items / max(1, walked.n_requests)
        stage, at_most = scaled(task.name, walked, scale, llm, self.price(chosen.llm))
        estimate = TaskEstimate(
            chosen.llm, stage, walked.basis, at_most, basis, is_scaled=scale != 1.0
        )
        return walked, estimate

    def _stored_mean(self, llm: str, template: str) -> tuple[int, float]:
        """Return the mean output of a template's stored answers; they are looked at once."""
        if (llm, template) not in self._means:
            self._means[llm, template] = mean_stored_output(self._store(llm), template)
        return self._means[llm, template]

    def _store(self, llm: str) -> AnswerStore:
        if llm not in self._stores:
            self._stores[llm] = AnswerStore(self._folders[llm])
            self._stores[llm].refresh()
        return self._stores[llm]
