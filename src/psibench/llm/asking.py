"""The asking of every LLM stage: a stream of items in, one outcome per item out.

Answers stored before are used; the rest is asked, stored the moment it arrives, and asked again as
another sample where the reply is malformed. Memory is bounded: a worker draws its next item when
it is done with the last, and nothing waits in between.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from psibench.errors import InputError
from psibench.llm.answer import CONTEXT_FULL, REASKED, Answer, Outcome, interpret
from psibench.llm.answer_store import AnswerStore
from psibench.llm.client import OpenAIChatClient
from psibench.llm.connection import TryFailedError
from psibench.llm.request import Request
from psibench.llm.sections import AskPolicy
from psibench.llm.usage import Usage

T = TypeVar("T")

CHECK_EVERY_S = 0.2
"""How often it is checked whether the job has to end."""

GRACE_S = 10.0
"""How long requests under way may take once it has."""


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

    def take(self, answer: Answer, stored: AnswerStore | None = None) -> Outcome | None:
        """Judge an answer to the current request; None if the next sample is to be asked.

        Where another sample would not mend it, ``stored`` may have that sample's answer already.
        """
        self.usage += answer.usage
        outcome = interpret(
            answer,
            self.request.response,
            max_output_tokens=self.request.sampling.max_output_tokens,
            item_id=self.item_id,
            n_reasks=self.n_reasks,
        )
        ended = replace(outcome, usage=self.usage, n_asked=self.n_asked)
        if outcome.status not in REASKED or self.n_reasks >= self.max_reasks:
            return ended
        request = self.request.reask()
        key = request.key
        if outcome.reason == CONTEXT_FULL and (stored is None or key not in stored):
            return ended
        self.request, self.key = request, key
        self.n_reasks += 1
        return None

    def follow_stored(self, stored: AnswerStore) -> Outcome | None:
        """Follow the chain through stored answers; None where the next request has none."""
        while (answer := stored.get(self.key)) is not None:
            if (outcome := self.take(answer, stored)) is not None:
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


class Results:
    """Outcomes handed on and counted; how many requests in a row failed with no end in sight."""

    def __init__(self, on_outcome: Callable[[Outcome], None]) -> None:
        self.totals = Totals()
        self.n_failed_in_a_row = 0
        self._on_outcome = on_outcome

    def take_stored(self, chain: Chain, store: AnswerStore) -> bool:
        """Count an item, and hand on its outcome if the store has it."""
        self.totals.n_items += 1
        if (outcome := chain.follow_stored(store)) is None:
            return False
        self.totals.n_from_store += 1
        self.hand_on(outcome)
        return True

    def hand_on(self, outcome: Outcome, *twins: str) -> None:
        """Hand on an outcome, and as many more for items that asked the same."""
        for each in (outcome, *(replace(outcome, item_id=name, n_asked=0) for name in twins)):
            self.totals.statuses[each.status] += 1
            self._on_outcome(each)

    def received(self, answer: Answer) -> None:
        """Count an answer that was asked for."""
        self.n_failed_in_a_row = 0
        self.totals.n_asked += 1
        self.totals.usage += answer.usage

    def failed(self, chain: Chain, failure: TryFailedError) -> Outcome:
        """Count a request without a reply and return its outcome."""
        if failure.verdict != "reject" or not self.totals.n_asked:
            self.n_failed_in_a_row += 1  # a rejected request among others speaks for itself alone
        return chain.failed(failure)


async def ask(
    items: Iterable[Item],
    client: OpenAIChatClient,
    store: AnswerStore,
    policy: AskPolicy,
    on_outcome: Callable[[Outcome], None],
    *,
    check_stop: Callable[[], None] = lambda: None,
) -> Totals:
    """Ask items and hand each outcome to ``on_outcome`` as it comes about.

    After an error no further request is sent; those under way are waited for, and stored.
    ``check_stop`` raises if the job has to end.

    Raises
    ------
    BudgetReachedError
        After the last outcome, if the budget ended the run.
    InputError
        Likewise, if the server refuses all requests, is gone, or answers cannot be stored.
    Exception
        What ``items`` raised, after the outcomes of the items before it; what ``check_stop``
        raised, once what is under way is stored or was given up.
    """
    run = _Run(client, store, policy, on_outcome)
    await see_to_all(iter(items), run.see_to, concurrency=policy.concurrency, check_stop=check_stop)
    return run.results.totals


async def see_to_all(
    items: Iterator[T],
    see_to: Callable[[T], Awaitable[None]],
    *,
    concurrency: int,
    check_stop: Callable[[], None] = lambda: None,
) -> None:
    """See to all items, so many at once; each is drawn when another is done.

    After an error, or once ``check_stop`` has raised, no further item is drawn; what is under way
    is waited for, in the second case for `GRACE_S` at most.

    Raises
    ------
    Exception
        The first error.
    """
    errors: list[Exception] = []

    async def work() -> None:
        try:
            while not errors and (item := next(items, None)) is not None:
                await see_to(item)
        except Exception as error:
            errors.append(error)

    workers = [asyncio.create_task(work()) for _ in range(concurrency)]
    pending, give_up_at = set(workers), float("inf")
    try:
        while pending and time.monotonic() < give_up_at:
            _, pending = await asyncio.wait(pending, timeout=CHECK_EVERY_S)
            if give_up_at == float("inf"):
                try:
                    check_stop()
                except Exception as told:
                    errors.append(told)
                    give_up_at = time.monotonic() + GRACE_S
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    if errors:
        raise errors[0]


class _Run:
    """What the workers of one run share; ``error`` ends it."""

    def __init__(
        self,
        client: OpenAIChatClient,
        store: AnswerStore,
        policy: AskPolicy,
        on_outcome: Callable[[Outcome], None],
    ) -> None:
        self.results = Results(on_outcome)
        self._error: InputError | None = None
        self._client, self._store, self._policy = client, store, policy
        self._twins: dict[str, list[str]] = {}

    async def see_to(self, item: Item) -> None:
        """Give the outcome of an item: from the store, with a twin's, or by asking."""
        chain = Chain(item.id, item.request, self._policy.max_reasks)
        if self.results.take_stored(chain, self._store):
            await asyncio.sleep(0)
        elif (key := chain.first_key) in self._twins:
            self._twins[key].append(item.id)
        else:
            self._twins[key] = []
            outcome = await self._asked(chain)
            twins = self._twins.pop(key)
            if outcome is not None:
                self.results.hand_on(outcome, *twins)
        if self._error is not None:
            raise self._error

    async def _asked(self, chain: Chain) -> Outcome | None:
        """Ask, and store each answer, until there is an outcome; None if the run stops first."""
        while self._error is None:
            try:
                answer = await self._client.ask(chain.request, chain.key)
            except TryFailedError as failure:
                return self._failed(chain, failure)
            self.results.received(answer)
            try:
                self._store.add(answer)
            except OSError as error:
                self._halt(
                    f"{self._store.folder}: an answer could not be stored "
                    f"({error.strerror or error}). All answers before it are stored; make room "
                    "there and run again to go on."
                )
                return None
            chain.n_asked += 1
            if (outcome := chain.take(answer)) is not None:
                return outcome
        return None

    def _failed(self, chain: Chain, failure: TryFailedError) -> Outcome:
        outcome = self.results.failed(chain, failure)
        if failure.verdict == "stop":
            self._halt(f"the server refuses all requests: {failure}")
        elif (n_failed := self.results.n_failed_in_a_row) >= self._policy.give_up_after:
            self._halt(
                f"{n_failed} requests failed in a row, the last with {failure}. "
                "All answers so far are stored; mend the cause and run again."
            )
        return outcome

    def _halt(self, words: str) -> None:
        self._error = self._error or InputError(words)
