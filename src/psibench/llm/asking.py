"""Concurrent requests of an LLM stage: a stream of items in, one outcome per item out.

What is not stored is asked, stored the moment it arrives, and asked again as another sample if the
reply is malformed. Memory is bounded: a worker takes its next item when it has
finished the last, and there is no queue between the items and the workers.
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
"""Seconds between two checks whether the job has to end."""

GRACE_S = 10.0
"""Seconds that running requests get after the job was told to end."""


@dataclass(frozen=True)
class Item:
    """Something to ask about: a stage's own id, and the request."""

    id: str
    request: Request


@dataclass
class Totals:
    """Counts of a run: ``statuses`` of outcomes, ``n_replies`` and ``usage`` of replies."""

    n_items: int = 0
    n_from_store: int = 0
    n_replies: int = 0
    usage: Usage = field(default_factory=Usage)
    statuses: Counter[str] = field(default_factory=Counter)


@dataclass
class RequestChain:
    """One item's requests: the first, and its re-asks.

    ``key`` is that of the current request, ``first_key`` that of the first.
    """

    item_id: str
    request: Request
    max_reasks: int
    n_reasks: int = 0
    n_replies: int = 0
    usage: Usage = field(default_factory=Usage)
    key: str = field(init=False)
    first_key: str = field(init=False)

    def __post_init__(self) -> None:
        self.key = self.first_key = self.request.key

    def record(self, answer: Answer, stored: AnswerStore | None = None) -> Outcome | None:
        """Judge an answer to the current request; None if the next sample is to be asked.

        If the context window is full, asking again does not help: then the next sample is used
        only if its answer is in ``stored`` already.
        """
        self.usage += answer.usage
        outcome = interpret(
            answer,
            self.request.response,
            max_output_tokens=self.request.sampling.max_output_tokens,
            item_id=self.item_id,
            n_reasks=self.n_reasks,
        )
        final = replace(outcome, usage=self.usage, n_replies=self.n_replies)
        if outcome.status not in REASKED or self.n_reasks >= self.max_reasks:
            return final
        request = self.request.reask()
        key = request.key
        if outcome.reason == CONTEXT_FULL and (stored is None or key not in stored):
            return final
        self.request, self.key = request, key
        self.n_reasks += 1
        return None

    def replay_stored(self, stored: AnswerStore) -> Outcome | None:
        """Record stored answers one after the other; None if the next request has none."""
        while (answer := stored.get(self.key)) is not None:
            if (outcome := self.record(answer, stored)) is not None:
                return outcome
        return None

    def failure_outcome(self, failure: TryFailedError) -> Outcome:
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
            n_replies=self.n_replies,
        )


class OutcomeSink:
    """Counts outcomes and passes them to ``on_outcome``; counts consecutive failures, too.

    ``n_consecutive_failures`` are requests without a reply since the last reply.
    """

    def __init__(self, on_outcome: Callable[[Outcome], None]) -> None:
        self.totals = Totals()
        self.n_consecutive_failures = 0
        self._on_outcome = on_outcome

    def unanswered(
        self, items: Iterable[Item], store: AnswerStore, max_reasks: int
    ) -> Iterator[RequestChain]:
        """Yield the requests of items that the store has no outcome of; emit those it has."""
        for item in items:
            self.totals.n_items += 1
            chain = RequestChain(item.id, item.request, max_reasks)
            if (outcome := chain.replay_stored(store)) is None:
                yield chain
            else:
                self.totals.n_from_store += 1
                self.emit(outcome)

    def emit(self, outcome: Outcome, *duplicate_ids: str) -> None:
        """Count and pass on an outcome, and a copy for each item with an equal request."""
        for each in (
            outcome,
            *(replace(outcome, item_id=name, n_replies=0) for name in duplicate_ids),
        ):
            self.totals.statuses[each.status] += 1
            self._on_outcome(each)

    def count_reply(self, answer: Answer) -> None:
        """Count a reply received from the server."""
        self.n_consecutive_failures = 0
        self.totals.n_replies += 1
        self.totals.usage += answer.usage

    def count_failure(self, chain: RequestChain, failure: TryFailedError) -> Outcome:
        """Count a request without a reply and return its outcome.

        One rejected request says nothing about the server, unless none was answered yet.
        """
        if failure.verdict != "reject" or not self.totals.n_replies:
            self.n_consecutive_failures += 1
        return chain.failure_outcome(failure)


async def ask(
    chains: Iterable[RequestChain],
    client: OpenAIChatClient,
    store: AnswerStore,
    policy: AskPolicy,
    results: OutcomeSink,
    *,
    check_stop: Callable[[], None] = lambda: None,
) -> None:
    """Ask what is not answered and pass each outcome to ``results`` as soon as it is known.

    After an error no further request is sent; running ones are waited for, and stored.
    ``check_stop`` raises if the job has to end. Errors are raised after the last outcome.

    Raises
    ------
    BudgetReachedError
        If the budget ended the run.
    InputError
        If the server refuses all requests, is gone, or answers cannot be stored.
    Exception
        An error of ``chains`` or ``check_stop``; the latter also if running requests were given up.
    """
    run = _Run(client, store, policy, results)
    await run_workers(
        iter(chains), run.process, concurrency=policy.concurrency, check_stop=check_stop
    )


async def run_workers(
    items: Iterator[T],
    handle: Callable[[T], Awaitable[None]],
    *,
    concurrency: int,
    check_stop: Callable[[], None] = lambda: None,
) -> None:
    """Process all items with ``concurrency`` workers.

    A worker takes its next item when it has finished the last. After an error no further item is
    taken; running ones are waited for, after ``check_stop`` raised for at most `GRACE_S`.

    Raises
    ------
    Exception
        The first error.
    """
    errors: list[Exception] = []

    async def work() -> None:
        try:
            while not errors and (item := next(items, None)) is not None:
                await handle(item)
        except Exception as error:
            errors.append(error)

    workers = [asyncio.create_task(work()) for _ in range(concurrency)]
    pending = set(workers)
    give_up_at: float | None = None
    try:
        while pending and (give_up_at is None or time.monotonic() < give_up_at):
            _, pending = await asyncio.wait(pending, timeout=CHECK_EVERY_S)
            if give_up_at is None:
                try:
                    check_stop()
                except Exception as stop_error:
                    errors.append(stop_error)
                    give_up_at = time.monotonic() + GRACE_S
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    if errors:
        raise errors[0]


class _Run:
    """State that the workers of one run share; ``_error``, once set, ends the run."""

    def __init__(
        self,
        client: OpenAIChatClient,
        store: AnswerStore,
        policy: AskPolicy,
        results: OutcomeSink,
    ) -> None:
        self.results = results
        self._error: InputError | None = None
        self._client, self._store, self._policy = client, store, policy
        self._waiting_ids: dict[str, list[str]] = {}  # by key of the running request

    async def process(self, chain: RequestChain) -> None:
        """Emit an item's outcome: with a running equal request, or by asking."""
        key = chain.first_key
        if key in self._waiting_ids:
            self._waiting_ids[key].append(chain.item_id)
        else:
            self._waiting_ids[key] = []
            outcome = await self._request_outcome(chain)
            duplicate_ids = self._waiting_ids.pop(key)
            if outcome is not None:
                self.results.emit(outcome, *duplicate_ids)
        if self._error is not None:
            raise self._error

    async def _request_outcome(self, chain: RequestChain) -> Outcome | None:
        """Ask and store answers until there is an outcome; None if the run stops first."""
        while self._error is None:
            try:
                answer = await self._client.ask(chain.request, chain.key)
            except TryFailedError as failure:
                return self._handle_failure(chain, failure)
            self.results.count_reply(answer)
            try:
                self._store.add(answer)
            except OSError as error:
                self._halt(
                    f"{self._store.folder}: an answer could not be stored "
                    f"({error.strerror or error}). All answers before it are stored; make room "
                    "there and run again to go on."
                )
                return None
            chain.n_replies += 1
            if (outcome := chain.record(answer)) is not None:
                return outcome
        return None

    def _handle_failure(self, chain: RequestChain, failure: TryFailedError) -> Outcome:
        outcome = self.results.count_failure(chain, failure)
        if failure.verdict == "stop":
            self._halt(f"the server refuses all requests: {failure}")
        elif (n_failed := self.results.n_consecutive_failures) >= self._policy.give_up_after:
            self._halt(
                f"{n_failed} requests failed in a row, the last with {failure}. "
                "All answers so far are stored; mend the cause and run again."
            )
        return outcome

    def _halt(self, message: str) -> None:
        self._error = self._error or InputError(message)
