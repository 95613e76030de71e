"""One item on its way to an outcome: its request, and the re-asks that may follow."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Protocol

from psibench.llm.answer import REASKED, Answer, Outcome, interpret
from psibench.llm.connection import TryFailedError
from psibench.llm.request import Request
from psibench.llm.usage import Usage


class StoredAnswers(Protocol):
    """Answers by request key: an answer store."""

    def get(self, key: str) -> Answer | None:
        """Return the answer of a request, or None."""
        ...


@dataclass(frozen=True)
class Item:
    """Something to ask about: a stage's own id, and the request."""

    id: str
    request: Request


@dataclass
class Totals:
    """What a run did: ``statuses`` counts outcomes, ``usage`` is of the replies received."""

    n_items: int = 0
    n_from_store: int = 0
    n_asked: int = 0
    usage: Usage = field(default_factory=Usage)
    statuses: Counter[str] = field(default_factory=Counter)


@dataclass
class Chain:
    """One item's requests: the first, and its re-asks."""

    item_id: str
    request: Request
    max_reasks: int
    n_reasks: int = 0
    n_asked: int = 0
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        self.key = self.first_key = self.request.key

    def take(self, answer: Answer) -> Outcome | None:
        """Judge an answer to the current request; None if the next sample is to be asked."""
        self.usage += answer.usage
        outcome = interpret(
            answer, self.request.response, item_id=self.item_id, n_reasks=self.n_reasks
        )
        if outcome.status not in REASKED or self.n_reasks >= self.max_reasks:
            return replace(outcome, usage=self.usage, n_asked=self.n_asked)
        self.request = self.request.reask()
        self.key = self.request.key
        self.n_reasks += 1
        return None

    def follow_stored(self, stored: StoredAnswers) -> Outcome | None:
        """Follow the chain through stored answers; None where the next request has none."""
        while (answer := stored.get(self.key)) is not None:
            if (outcome := self.take(answer)) is not None:
                return outcome
        return None

    def failed(self, failure: TryFailedError) -> Outcome:
        """Return the outcome of a request without a reply."""
        return Outcome(
            item_id=self.item_id,
            key=self.key,
            status="failed",
            reason=failure.reason,
            value=None,
            text=failure.detail,
            model="",
            usage=self.usage,
            n_reasks=self.n_reasks,
            n_asked=self.n_asked,
        )
