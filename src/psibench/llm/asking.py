"""Concurrent requests of an LLM stage: a stream of items in, one outcome per item out.

A request is sent if its answer is not stored. The answer is stored as soon as it arrives; if it is
malformed or cut off, another sample is requested. Memory is bounded: a worker takes its next item
when it has finished the last one, and there is no queue between items and workers.
"""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from psibench.errors import InputError
from psibench.llm.answer import (
    CONTEXT_FULL,
    REASKED,
    Answer,
    Outcome,
    Status,
    classify_reply,
    writable,
)
from psibench.llm.answer_store import AnswerStore
from psibench.llm.client import OpenAIChatClient
from psibench.llm.connection import FORBIDDEN, NOT_SERVED, PROMPT_TOO_LONG, TryFailedError
from psibench.llm.limits import BudgetReachedError
from psibench.llm.replies import has_thoughts
from psibench.llm.request import Request
from psibench.llm.sections import AskPolicy
from psibench.llm.usage import Usage

logger = logging.getLogger("psibench")

_T = TypeVar("_T")

CHECK_EVERY_S = 0.2
"""Seconds between two checks whether the job has to end."""

GRACE_S = 10.0
"""Seconds for running requests to finish when the job has to end."""


@dataclass(frozen=True)
class AskItem:
    """One item of a stage: its id, and its first request."""

    id: str
    request: Request


@dataclass
class RequestChain:
    """The successive requests of items with the same first request: the first, then its re-asks.

    ``request`` is the current request, ``key`` its key and ``n_tries`` its failures in batches
    (`psibench.llm.batch`); ``first_key`` is the key of the first request. ``usage`` sums all
    recorded answers, ``n_replies`` counts the answers received in this run, ``reask_reasons`` has
    the reasons of the earlier unusable answers.
    """

    item_ids: list[str]
    request: Request
    max_reasks: int
    n_reasks: int = 0
    reask_reasons: tuple[str, ...] = ()
    n_replies: int = 0
    n_tries: int = 0
    usage: Usage = field(default_factory=Usage)
    key: str = field(init=False)
    first_key: str = field(init=False)

    def __post_init__(self) -> None:
        self.key = self.first_key = self.request.key

    def record(self, answer: Answer) -> Outcome | None:
        """Record an answer to the current request; return the outcome, or None to ask again.

        With None, the current request becomes the request of the next sample. An answer that the
        context window cut off is final, because another sample would be cut off too.
        """
        self.usage += answer.usage
        limit = self.request.sampling.max_output_tokens
        prompt = [message.content for message in self.request.messages]
        status, reason, value = classify_reply(answer, self.request.response, limit, prompt)
        is_final = status not in REASKED or reason == CONTEXT_FULL
        if is_final or self.n_reasks >= self.max_reasks:
            text, model = writable(answer.text or answer.refusal or ""), writable(answer.model)
            outcome = self._outcome(status, reason, text, value=value, model=model)
            had_thoughts = has_thoughts(answer.text, self.request.response.form)
            return replace(outcome, had_thoughts=had_thoughts)
        self.reask_reasons += (reason,)
        self.request = self.request.reask()
        self.key, self.n_tries = self.request.key, 0
        self.n_reasks += 1
        return None

    def replay_stored(self, stored: AnswerStore) -> Outcome | None:
        """Record stored answers until there is an outcome; None if the next one is not stored."""
        while (answer := stored.get(self.key)) is not None:
            if (outcome := self.record(answer)) is not None:
                return outcome
        return None

    def failure_outcome(self, failure: TryFailedError) -> Outcome:
        """Return the outcome of an item whose current request got no usable reply."""
        outcome = self._outcome("failed", failure.reason, failure.detail)
        return replace(outcome, is_rejected=failure.action == "reject")

    def _outcome(
        self, status: Status, reason: str, text: str, *, value: Any = None, model: str = ""
    ) -> Outcome:
        return Outcome(
            item_id=self.item_ids[0],
            key=self.key,
            status=status,
            reason=reason,
            value=value,
            text=text,
            model=model,
            usage=self.usage,
            n_reasks=self.n_reasks,
            reask_reasons=self.reask_reasons,
            n_replies=self.n_replies,
        )


class OutcomeSink:
    """Counts items, outcomes by status and replies, and passes each outcome to ``on_outcome``.

    Also decides when to give up, because it has the counts (`should_give_up`).

    ``n_from_store`` counts the items whose outcome was stored, ``n_replies`` the replies received,
    ``n_consecutive_failures`` the requests without a usable reply since the last reply.
    ``form_reasons`` counts malformed and truncated replies by reason, whether or not another sample
    was requested, among ``n_judged`` replies; ``n_with_thoughts`` counts the items from whose reply
    thoughts were removed. ``n_timeouts`` of ``n_sent`` HTTP requests timed out (0 for batches).
    ``answered`` is a request that the server has answered, in this run or before; ``n_doubtful``
    counts the requests rejected since the last reply, except for too long prompts.
    """

    def __init__(self, on_outcome: Callable[[Outcome], None]) -> None:
        self.n_items = self.n_from_store = self.n_replies = self.n_consecutive_failures = 0
        self.n_with_thoughts = self._n_rejected = self.n_judged = 0
        self.n_sent = self.n_timeouts = self.n_doubtful = 0
        self.answered: Request | None = None
        self._unasked: Iterator[RequestChain] = iter(())
        self._ahead = deque[RequestChain]()
        self.statuses, self.form_reasons = Counter[str](), Counter[str]()
        self._on_outcome = on_outcome

    def chains_to_ask(
        self, items: Iterable[AskItem], store: AnswerStore, max_reasks: int
    ) -> Iterator[RequestChain]:
        """Yield the chains of items that need a request; emit the outcomes of all other items.

        An item needs none if ``store`` has the answers that decide its outcome.
        """
        self._unasked = self._without_answer(items, store, max_reasks)
        while (
            chain := self._ahead.popleft() if self._ahead else next(self._unasked, None)
        ) is not None:
            yield chain

    def _without_answer(
        self, items: Iterable[AskItem], store: AnswerStore, max_reasks: int
    ) -> Iterator[RequestChain]:
        for item in items:
            self.n_items += 1
            chain = RequestChain([item.id], item.request, max_reasks)
            if (outcome := chain.replay_stored(store)) is None:
                yield chain
            else:
                self.n_from_store += 1
                self.answered = chain.request
                self.emit(outcome, chain)

    def emit(self, outcome: Outcome, chain: RequestChain) -> None:
        """Count and pass on the outcome of a chain, and a copy for each further item."""
        is_unusable = outcome.status in REASKED
        self.n_judged += len(outcome.reask_reasons) + (outcome.status != "failed")
        self.form_reasons.update([*outcome.reask_reasons, *[outcome.reason] * is_unusable])
        self.n_with_thoughts += outcome.had_thoughts * len(chain.item_ids)
        copies = [replace(outcome, item_id=name, n_replies=0) for name in chain.item_ids[1:]]
        for each in (outcome, *copies):
            self.statuses[each.status] += 1
            self._on_outcome(each)

    def count_reply(self, request: Request | None = None) -> None:
        """Count a reply from the server; it resets the counts of failures since the last reply."""
        self.n_consecutive_failures = self._n_rejected = self.n_doubtful = 0
        self.n_replies += 1
        self.answered = request or self.answered

    def count_failure(self, chain: RequestChain, failure: TryFailedError) -> Outcome:
        """Count a request without a usable reply and return the item's outcome."""
        self.n_consecutive_failures += 1
        self._n_rejected += failure.action == "reject"
        self.n_doubtful += failure.action == "reject" and failure.reason != PROMPT_TOO_LONG
        return chain.failure_outcome(failure)

    def should_give_up(self, most: int) -> bool:
        """Return whether ``most`` requests failed in a row.

        If the server has answered any request of the job, in this run or before, rejected requests
        are removed from the count, because they show nothing about the server.
        """
        if self.n_consecutive_failures >= most and self._n_rejected and self.has_answer():
            self.n_consecutive_failures -= self._n_rejected
            self._n_rejected = 0
        return self.n_consecutive_failures >= most

    def has_answer(self) -> bool:
        """Look for an answer of the server, also among later items."""
        while not self.n_replies and not self.n_from_store:
            if (chain := next(self._unasked, None)) is None:
                break
            self._ahead.append(chain)
        return self.n_replies + self.n_from_store > 0


async def ask(
    chains: Iterable[RequestChain],
    client: OpenAIChatClient,
    store: AnswerStore,
    policy: AskPolicy,
    results: OutcomeSink,
    *,
    check_stop: Callable[[], None] = lambda: None,
) -> None:
    """Ask for the outcome of every chain and pass each to ``results`` as soon as it is known.

    Errors, and ``check_stop``, which raises if the job has to end, are handled as in `run_workers`:
    earlier answers are stored and passed on.

    Raises
    ------
    BudgetReachedError
        If the budget ended the run.
    InputError
        If the server refuses all requests or has ended, or answers cannot be stored.
    Exception
        An error of ``chains`` or ``check_stop``.
    """
    asker = _Asker(client, store, policy, results)
    await run_workers(
        iter(chains), asker.process, concurrency=policy.concurrency, check_stop=check_stop
    )
    await asker.confirm_rejections()


async def run_workers(
    items: Iterator[_T],
    handle: Callable[[_T], Awaitable[None]],
    *,
    concurrency: int,
    check_stop: Callable[[], None] = lambda: None,
) -> None:
    """Call ``handle`` with every item, up to ``concurrency`` at the same time.

    A worker takes its next item when it has finished the last one. After an error of ``items`` or
    ``handle`` no further item is taken, and running calls may finish. If ``check_stop``, called
    every `CHECK_EVERY_S` seconds, raises, running calls get `GRACE_S` seconds and are then
    cancelled.

    Raises
    ------
    Exception
        The first error of ``items``, ``handle`` or ``check_stop``.
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


class _Asker:
    """Processes one chain per worker; all workers share it.

    Once ``_error`` is set, no worker sends another request.
    """

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
        self._in_progress: dict[str, RequestChain] = {}

    async def process(self, chain: RequestChain) -> None:
        """Ask for a chain's outcome and emit it.

        If a chain with the same first request is in progress, it takes over this chain's items.
        """
        same = self._in_progress.setdefault(chain.first_key, chain)
        if same is not chain:
            same.item_ids += chain.item_ids
        else:
            outcome = await self._request_outcome(chain)
            del self._in_progress[chain.first_key]
            if outcome is not None:
                self.results.emit(outcome, chain)
        if self._error is not None:
            raise self._error

    async def _request_outcome(self, chain: RequestChain) -> Outcome | None:
        """Ask, and store answers, until there is an outcome; return None after an error."""
        while self._error is None:
            try:
                answer = await self._client.ask(chain.request, chain.key)
            except TryFailedError as failure:
                return await self._handle_failure(chain, failure)
            self.results.count_reply(chain.request)
            try:
                self._store.add(answer)
            except OSError as error:
                self._halt(
                    f"{self._store.folder}: an answer could not be stored "
                    f"({error.strerror or error}). All earlier answers are stored; free disk "
                    "space there and run again to continue."
                )
                return None
            chain.n_replies += 1
            if (outcome := chain.record(answer)) is not None:
                return outcome
        return None

    async def _handle_failure(self, chain: RequestChain, failure: TryFailedError) -> Outcome:
        if failure.reason == FORBIDDEN and failure.action == "stop" and self.results.has_answer():
            failure = TryFailedError(failure.reason, failure.detail, action="reject")
        outcome = self.results.count_failure(chain, failure)
        if failure.action == "stop":
            remedy = ""
            if failure.reason in NOT_SERVED:
                remedy = (
                    f". The request went to {self._client.url.rstrip('/')}/chat/completions: check "
                    "base_url, which usually ends in /v1, and the model's name"
                )
            self._halt(f"the server refuses all requests: {failure}{remedy}")
        elif self.results.should_give_up(self._policy.give_up_after):
            n_failed = self.results.n_consecutive_failures
            self._halt(
                f"{n_failed} requests failed in a row, the last with {failure}. "
                "All answers so far are stored; fix the cause and run again."
            )
        elif self.results.n_doubtful >= self._policy.give_up_after:
            await self.confirm_rejections()
        return outcome

    async def confirm_rejections(self) -> None:
        """Check that the requests rejected since the last reply are at fault, not the account.

        Repeats a request that the server has answered, because an account without credit, an
        expired key or a withdrawn model may look like a rejected request. The reply is not stored.
        Without enough of the budget for it, the rejected requests are taken to be at fault.

        Raises
        ------
        InputError
            If the server refuses that request, too.
        """
        n_rejected, self.results.n_doubtful = self.results.n_doubtful, 0
        answered = self.results.answered
        if not n_rejected or answered is None or self._error is not None:
            return
        try:
            await self._client.ask(answered, answered.key)
        except BudgetReachedError:
            logger.warning("no money left to check whether %d requests are at fault", n_rejected)
        except TryFailedError as failure:
            if failure.reason != PROMPT_TOO_LONG:
                raise InputError(
                    f"the server rejected the last {n_rejected} requests, and now also a request "
                    f"that it answered before, with {failure}. All answers so far are stored; fix "
                    "the cause (credit, key, model, or its settings in `llms:`) and run again."
                ) from None

    def _halt(self, message: str) -> None:
        self._error = self._error or InputError(message)
