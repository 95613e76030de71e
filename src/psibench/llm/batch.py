"""The batch backend: requests asked through OpenAI's files and batches, at half the price.

A batch takes up to a day. It is recorded beside the answers, so that a run that was killed awaits
it the next time rather than asking again, and so do other jobs on the same store.
"""

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from psibench.config.llms import LlmSettings
from psibench.errors import InputError
from psibench.llm.answer import Outcome
from psibench.llm.answer_store import AnswerStore
from psibench.llm.batch_reading import BatchReader, Ended
from psibench.llm.batch_records import BatchRecords, UnderWay
from psibench.llm.batch_sending import BatchSender
from psibench.llm.batch_server import BatchServer
from psibench.llm.batch_waiting import WaitingRequests
from psibench.llm.chain import Item, Totals
from psibench.llm.retry import TryFailedError
from psibench.llm.usage import Budget

logger = logging.getLogger("psibench")

FURTHER_SHARE = 0.1
"""Share of the budget that has to be free for a further batch once the budget had no room: what
requests may cost is far above what they do, and ever smaller batches of a day each serve nobody."""


def ask_batches(
    items: Iterable[Item],
    settings: LlmSettings,
    *,
    store: AnswerStore,
    on_outcome: Callable[[Outcome], None],
    budget: Budget | None = None,
) -> Totals:
    """Ask items in batches and hand each outcome to ``on_outcome`` as it comes about.

    Parameters
    ----------
    items
        Drawn once, in order; prompts are kept on disk, not in memory.
    settings
        Server, model and policy.
    store
        Answers of the model; batches under way are recorded in its folder.
    on_outcome
        Called once per item, except for items that are not asked because the run is stopped.
    budget
        The most that a batch can cost is reserved before it is created.

    Raises
    ------
    BudgetReachedError
        After the last outcome, if the budget ended the run.
    InputError
        Likewise, if a batch fails or is cancelled or the server refuses all requests; at once if
        the server is gone or the disk is full. Running again goes on from there.
    Exception
        What ``items`` raised, after the outcomes of the items before it.
    """
    server = BatchServer(settings, store.folder)
    waiting = WaitingRequests(store, settings.asking, on_outcome)
    try:
        _Run(items, settings, store, waiting, server, budget).go()
    except TryFailedError as failure:
        raise InputError(
            f"the server does not tell how batches stand: {failure}. All answers read are stored "
            "and batches under way recorded; run again to go on."
        ) from None
    finally:
        waiting.close()
        server.close()
        with suppress(OSError):  # reported already, or nothing to lose
            store.sync()
    return waiting.totals


class _Run:
    """Batches from the first item to the last outcome."""

    def __init__(
        self,
        items: Iterable[Item],
        settings: LlmSettings,
        store: AnswerStore,
        waiting: WaitingRequests,
        server: BatchServer,
        budget: Budget | None,
    ) -> None:
        self._settings, self._store = settings, store
        self._waiting, self._budget = waiting, budget
        self._records = BatchRecords(store.folder, settings.base_url)
        self._sender = BatchSender(items, settings, waiting, server, self._records, budget)
        self._reader = BatchReader(settings, store, waiting, server, self._records)
        self._under_way = self._sender.under_way
        self._stop: Exception | None = None
        self._is_paused = False

    def go(self) -> None:
        """Send, await and read until nothing is left to be done."""
        self._store.refresh()
        self._records.refresh()
        self._records.remove_answered(self._store)
        while True:
            self._send()
            if not self._under_way:
                break
            time.sleep(self._settings.batch.poll_s)
            self._store.refresh()
            self._records.refresh()
            for batch in list(self._under_way.values()):
                if (ended := self._reader.look_at(batch)) is not None:
                    self._forget(batch, ended)
                    self._see_to(batch, ended)
        if self._budget is not None and self._sender.is_short:
            self._halt(self._budget.reached())
        if error := self._stop or self._sender.broken:
            raise error

    def _send(self) -> None:
        if self._stop is not None or self._is_paused:
            return
        try:
            self._sender.send()
        except TryFailedError as failure:
            self._halt(InputError(f"the server takes no batch: {failure}"))

    def _forget(self, batch: UnderWay, ended: Ended) -> None:
        """Take a batch that is over out of the books."""
        if ended.status != "answered":  # else whoever created it may not be through
            self._records.remove(batch.record.name)
        del self._under_way[batch.record.name]
        self._is_paused = False
        if self._budget is not None:
            self._budget.settle(batch.reserved_usd, batch.used, is_batch=True)
            enough = FURTHER_SHARE * self._budget.limit_usd
            self._sender.is_short &= self._budget.free_usd < enough

    def _see_to(self, batch: UnderWay, ended: Ended) -> None:
        """Draw the conclusions from the end of a batch."""
        name, n_requests = f"batch {batch.record.batch_id}", len(batch.record.tasks)
        if ended.is_limit and self._under_way:
            logger.warning("%s: %s; waiting for another to end", name, ended.words)
            self._is_paused = True
        elif ended.is_limit and n_requests > 1:
            logger.warning("%s: %s; asking in smaller ones", name, ended.words)
            self._sender.most_requests = n_requests // 2
        elif ended.status == "failed" and batch.is_own:
            words = f"{name} failed: {ended.words or 'no reason given'}"
            self._halt(InputError(f"{words}. Nothing of it was asked; mend it and run again."))
        elif ended.status == "cancelled":
            words = f"{name} was cancelled; what it had answered is stored"
            self._halt(InputError(f"{words}. Run again to ask the rest."))
        if ended.refusal is not None:
            self._halt(InputError(f"the server refuses all requests: {ended.refusal}"))
        n_failed = self._waiting.n_failed_in_a_row
        if n_failed >= self._settings.asking.give_up_after:
            self._halt(InputError(f"{n_failed} requests failed in a row; see their outcomes"))

    def _halt(self, error: Exception) -> None:
        """Create no further batch; what is under way is still awaited."""
        if self._stop is None:
            logger.warning("no further batches: %s", error)
            self._stop = error
