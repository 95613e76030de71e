"""What an estimate comes to: a benchmark's, a language model's, the whole config's."""

from dataclasses import dataclass

from psibench.config.llms import LlmSettings, Price
from psibench.llm.usage import Usage
from psibench.stages.llm_estimate_task import TaskEstimate, total_usd


@dataclass(frozen=True)
class PlaceEstimate:
    """One domain in one language: documents meant; None if its source was not read."""

    language: str
    domain: str
    n_documents: int | None


@dataclass(frozen=True)
class BenchmarkEstimate:
    """One benchmark: ``n_here`` documents went through its tasks, ``n_documents`` are meant.

    Attributes
    ----------
    places
        The languages and domains that are asked about, in order.
    tasks
        Of all places together; those of a translation once for each language.
    uncounted
        Tasks of which, in some place, nothing is known before the rerankers have been asked.
    unread
        ``LANGUAGE/DOMAIN`` whose translation is not counted: nothing is known of the texts before
        they are built.
    """

    name: str
    recipe: str
    places: tuple[PlaceEstimate, ...]
    n_here: int
    tasks: tuple[TaskEstimate, ...]
    notes: tuple[str, ...]
    uncounted: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def n_documents(self) -> int:
        """Documents in all places."""
        return sum(place.n_documents or 0 for place in self.places)

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
