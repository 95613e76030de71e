"""Requests of the batch backend that wait for an answer, and the outcomes they come to."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from psibench.config.llms import AskPolicy
from psibench.llm.answer import Outcome
from psibench.llm.answer_store import AnswerStore
from psibench.llm.batch_files import RequestSpool, writing_to
from psibench.llm.chain import Chain, Item, Totals
from psibench.llm.client import Reply
from psibench.llm.request import Request
from psibench.llm.retry import TryFailedError


@dataclass(slots=True)
class _Waiting:
    """Items that wait for one request: where their first request is kept, and what was tried."""

    item_ids: list[str]
    place: int
    n_asked: int = 0
    n_tries: int = 0


class WaitingRequests:
    """All requests without an answer, by key.

    A chain's state is what the store holds of it, so that only its first request is kept, on disk.

    Attributes
    ----------
    totals
        Counts of the run so far.
    to_ask
        Keys to be put into a batch.
    n_failed_in_a_row
        Requests that failed for good since the last answer.
    """

    def __init__(
        self, store: AnswerStore, policy: AskPolicy, on_outcome: Callable[[Outcome], None]
    ) -> None:
        self.totals = Totals()
        self.to_ask: deque[str] = deque()
        self.n_failed_in_a_row = 0
        self.folder = store.folder
        self._store, self._policy, self._on_outcome = store, policy, on_outcome
        self._spool = RequestSpool(store.folder)
        self._waiting: dict[str, _Waiting] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._waiting

    def close(self) -> None:
        """Forget the requests."""
        self._spool.close()

    def offer(self, item: Item) -> None:
        """Take an item: give its outcome, or let its next request wait to be asked."""
        self.totals.n_items += 1
        chain = Chain(item.id, item.request, self._policy.max_reasks)
        outcome = chain.follow_stored(self._store)
        if outcome is not None:
            self.totals.n_from_store += 1
            self._hand_on(outcome)
        elif chain.key in self._waiting:
            self._waiting[chain.key].item_ids.append(item.id)
        else:
            self._waiting[chain.key] = _Waiting([item.id], self._spool.put(item.request))
            self.to_ask.append(chain.key)

    def request_of(self, key: str) -> Request | None:
        """Return the request of a key; None if it does not wait, or was answered meanwhile."""
        if key not in self._waiting:
            return None
        if key in self._store:
            self.settle(key)
            return None
        chain = self._chain(self._waiting[key])
        chain.follow_stored(self._store)
        return chain.request

    def answered(self, key: str, task: str, reply: Reply) -> bool:
        """Store a reply unless another job did, and say so.

        Raises
        ------
        InputError
            If it cannot be stored.
        """
        is_new = key not in self._store
        if is_new:
            waiting = self._waiting.get(key)
            n_tries = waiting.n_tries + 1 if waiting else 1
            with writing_to(self._store.folder):
                self._store.add(replace(reply, n_tries=n_tries).to_answer(key, task))
            self.n_failed_in_a_row = 0
            self.totals.n_asked += 1
            self.totals.usage += reply.usage
            if waiting:
                waiting.n_asked += 1
        self.settle(key)
        return is_new

    def settle(self, key: str) -> None:
        """Give the outcome of a request whose answer is stored, or let its re-ask wait."""
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return
        chain = self._chain(waiting)
        outcome = chain.follow_stored(self._store)
        if outcome is not None:
            self._hand_on(outcome, *waiting.item_ids[1:])
        elif chain.key in self._waiting:  # an item drawn since waits for the same
            self._waiting[chain.key].item_ids += waiting.item_ids
        else:
            waiting.n_tries = 0
            self._waiting[chain.key] = waiting
            self.to_ask.append(chain.key)

    def failed(self, key: str, failure: TryFailedError) -> None:
        """Let a request wait to be asked again, or give up on it."""
        waiting = self._waiting.get(key)
        if waiting is None:
            return
        waiting.n_tries += 1
        if failure.verdict == "retry" and waiting.n_tries < self._policy.max_tries:
            self.to_ask.append(key)
            return
        del self._waiting[key]
        if failure.verdict != "reject" or not self.totals.n_asked:
            self.n_failed_in_a_row += 1  # a rejected request among others speaks for itself alone
        chain = self._chain(waiting)
        chain.follow_stored(self._store)
        self._hand_on(chain.failed(failure), *waiting.item_ids[1:])

    def _chain(self, waiting: _Waiting) -> Chain:
        request = self._spool.get(waiting.place)
        return Chain(waiting.item_ids[0], request, self._policy.max_reasks, n_asked=waiting.n_asked)

    def _hand_on(self, outcome: Outcome, *twins: str) -> None:
        for each in (outcome, *(outcome.for_item(item_id) for item_id in twins)):
            self.totals.statuses[each.status] += 1
            self._on_outcome(each)
