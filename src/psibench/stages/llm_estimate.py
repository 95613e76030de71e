"""What a benchmark's tasks will ask, use and cost, before they are asked. Nothing is asked here.

A sample of the documents goes through the chain of writing tasks as in the real run: items,
requests, replies, rows. What was counted is then scaled to all documents. Tasks that judge are
estimated by the pairs of an earlier run or, from the candidates written here, by bounds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from psibench.config.benchmarks import GeneratedBenchmark
from psibench.config.generation import LlmTaskSection
from psibench.config.llms import LlmSettings, Price, price_of
from psibench.config.paths import prompt_path
from psibench.errors import InputError
from psibench.llm.answer_store import AnswerStore
from psibench.llm.estimate import StageEstimate
from psibench.llm.prompts import load_prompt
from psibench.llm.tokens import RequestCounter
from psibench.llm.usage import Usage
from psibench.recipes.generated import TASKS, task_section
from psibench.recipes.llm_tasks import DOCUMENTS_TABLE, LlmTask, Tables
from psibench.stages.llm_estimate_candidates import expected_candidates
from psibench.stages.llm_estimate_judging import RequestsBasis, judged_pairs
from psibench.stages.llm_shard_estimate import estimate_items
from psibench.stages.llm_walk import Walked, walk_task

__all__ = ["Estimator", "TaskEstimate", "estimate_items"]


@dataclass(frozen=True)
class TaskEstimate:
    """One task's estimate.

    Attributes
    ----------
    llm
        Id of its language model.
    stage
        Requests, the answered ones, tokens and money of the others, for all documents.
    basis
        What the output tokens rest on; see `Walked`.
    at_most_usd
        Money if each reply used all of max_output_tokens; None without a bound or a price.
    requests_basis
        What the number of requests rests on; ``at most``: all counts are bounds.
    is_scaled
        Whether the counts stand for more than went through.
    """

    llm: str
    stage: StageEstimate
    basis: str
    at_most_usd: float | None
    requests_basis: RequestsBasis = "documents"
    is_scaled: bool = False

    @property
    def is_bound(self) -> bool:
        """Whether fewer requests may be needed."""
        return self.requests_basis == "at most" and self.stage.n_to_ask > 0


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

    def tasks(
        self,
        section: GeneratedBenchmark,
        tables: Tables,
        *,
        scale: float = 1.0,
        made: Path | None = None,
        most: int = 0,
    ) -> Iterator[TaskEstimate]:
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
        known = dict(tables)
        for task in TASKS[section.recipe]:
            chosen = task_section(section, task.name)
            walked, estimate = self._task(task, chosen, known, scale)
            yield estimate
            known[task.name] = task.gather(known, chosen, walked.replies).rows
        candidates = expected_candidates(task, known, walked, known[task.name])
        texts = known[DOCUMENTS_TABLE]
        for found in judged_pairs(section, candidates, texts, scale=scale, made=made, most=most):
            asked = found.judging.task, found.judging.section, found.tables, found.scale
            _, estimate = self._task(*asked, is_bound=found.basis == "at most")
            yield replace(estimate, requests_basis=found.basis)

    def _task(
        self,
        task: LlmTask,
        chosen: LlmTaskSection,
        tables: Tables,
        scale: float,
        *,
        is_bound: bool = False,
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
        )
        if is_bound:
            scale *= walked.n_items / max(1, walked.n_requests)
        stage, at_most = _scaled(task.name, walked, scale, llm, self.price(chosen.llm))
        return walked, TaskEstimate(
            chosen.llm, stage, walked.basis, at_most, is_scaled=scale != 1.0
        )

    def _store(self, llm: str) -> AnswerStore:
        if llm not in self._stores:
            self._stores[llm] = AnswerStore(self._folders[llm])
            self._stores[llm].refresh()
        return self._stores[llm]


def _scaled(
    task: str, walked: Walked, scale: float, settings: LlmSettings, price: Price | None
) -> tuple[StageEstimate, float | None]:
    """Scale counts to all documents and price them; also at the bound of each reply."""
    is_batch, bound = settings.backend == "openai-batch", settings.sampling.max_output_tokens
    n_requests, n_answered = round(walked.n_requests * scale), round(walked.n_answered * scale)
    n_input, n_output = walked.usage.input_tokens, walked.usage.output_tokens
    usage = Usage(round(n_input * scale), round(n_output * scale))
    usd = at_most = None
    if price is not None:
        usd = price.cost(usage, is_batch=is_batch)
        if bound is not None:
            most = Usage(usage.input_tokens, bound * (n_requests - n_answered))
            at_most = price.cost(most, is_batch=is_batch)
    return StageEstimate(task, n_requests, n_answered, usage, usd), at_most
