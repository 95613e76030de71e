"""One task's estimate: scaled to all there is to ask about, added up over places."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from psibench.config.llms import LlmSettings, Price
from psibench.llm.estimate import StageEstimate
from psibench.llm.usage import Usage
from psibench.stages.llm_walk import Walked

RequestsBasis = Literal[
    "documents", "pairs of an earlier run", "tables of an earlier run", "assumed share", "at most"
]
"""What a task's number of requests rests on; a writing task's on the documents."""

FIRMEST: tuple[RequestsBasis, ...] = (
    "tables of an earlier run",
    "pairs of an earlier run",
    "documents",
    "assumed share",
    "at most",
)
"""From the firmest to the loosest: a sum is as loose as its loosest part."""


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
    language
        The language translated to; None for other tasks.
    expansion
        Tokens of a translation per token of its source, where that is assumed.
    """

    llm: str
    stage: StageEstimate
    basis: str
    at_most_usd: float | None
    requests_basis: RequestsBasis = "documents"
    is_scaled: bool = False
    language: str | None = None
    expansion: float | None = None

    @property
    def is_bound(self) -> bool:
        """Whether fewer requests may be needed."""
        return self.requests_basis == "at most" and self.stage.n_to_ask > 0


def scaled(
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


def merged(parts: Sequence[TaskEstimate]) -> TaskEstimate:
    """Add up the estimates of one task in several places."""
    first = parts[0]
    asking = [part for part in parts if part.basis != "answered"]
    loosest = max(parts, key=lambda part: FIRMEST.index(part.requests_basis))
    return replace(
        first,
        stage=add_stages(first.stage.stage, (part.stage for part in parts)),
        basis=asking[0].basis if asking else first.basis,
        at_most_usd=total_usd(part.at_most_usd for part in parts),
        requests_basis=loosest.requests_basis,
        is_scaled=any(part.is_scaled for part in parts),
    )


def merge_tasks(estimates: Iterable[TaskEstimate]) -> list[TaskEstimate]:
    """Add up estimates by task and language, in the order of their first ones."""
    by_task: dict[tuple[str, str | None], list[TaskEstimate]] = {}
    for estimate in estimates:
        by_task.setdefault((estimate.stage.stage, estimate.language), []).append(estimate)
    return [merged(parts) for parts in by_task.values()]


def add_stages(name: str, stages: Iterable[StageEstimate]) -> StageEstimate:
    """Add up requests, tokens and money."""
    parts = list(stages)
    return StageEstimate(
        name,
        sum(stage.n_requests for stage in parts),
        sum(stage.n_answered for stage in parts),
        sum((stage.usage for stage in parts), Usage()),
        total_usd(stage.usd for stage in parts),
    )


def total_usd(parts: Iterable[float | None]) -> float | None:
    """Add up money; None if a part is not known."""
    known = list(parts)
    return None if None in known else sum(part for part in known if part is not None)
