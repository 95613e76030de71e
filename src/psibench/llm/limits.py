"""Limits on HTTP requests: a budget, and their order."""

import asyncio
import math
from collections import deque
from dataclasses import dataclass

from psibench.errors import InputError
from psibench.llm.sections import Price
from psibench.llm.usage import Usage


@dataclass
class Call:
    """One request, for chat or embeddings, and its HTTP requests, ``n_tries`` so far.

    ``most`` has the most tokens that one HTTP request can use. ``is_under_way``: one is admitted
    and not yet settled; ``reserved_usd`` is reserved for it; ``reported_usage`` comes from its
    answer.
    """

    most: Usage
    n_tries: int = 0
    is_under_way: bool = False
    reserved_usd: float = 0.0
    reported_usage: Usage | None = None


class BudgetReachedError(InputError):
    """The next request could exceed the budget; all answers so far are stored."""


class Budget:
    """Money that may be spent. Each request reserves the most it can cost before it is sent.

    Parameters
    ----------
    limit_usd
        Never exceeded, whatever the requests cost.
    price
        The model's price; None: requests are free.
    spent_usd
        Money spent before.
    is_batch
        Whether requests are sent in batches, at the price's ``batch_share``.
    """

    def __init__(
        self,
        limit_usd: float = math.inf,
        price: Price | None = None,
        *,
        spent_usd: float = 0.0,
        is_batch: bool = False,
    ) -> None:
        self.limit_usd, self.price, self.spent_usd = limit_usd, price, spent_usd
        self._is_batch, self._reserved_usd = is_batch, 0.0
        self._settled: asyncio.Event | None = None  # belongs to the event loop that waits for it

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self.limit_usd < math.inf

    @property
    def has_reservations(self) -> bool:
        """Whether requests are in progress that may return a part of their reservation."""
        return self._reserved_usd > 1e-12

    @property
    def free_usd(self) -> float:
        """Money neither spent nor reserved; negative if running batches reserve more."""
        return self.limit_usd - self.spent_usd - self._reserved_usd

    def reserve(self, most: Usage) -> float | None:
        """Reserve the cost of the most tokens a request can use; None if money is short."""
        fits = self._cost(most) <= self.free_usd + 1e-12 * self.limit_usd
        return self.hold(most) if fits else None

    def hold(self, most: Usage) -> float:
        """Reserve the cost of a running batch, even if money is short."""
        money = self._cost(most)
        self._reserved_usd += money
        return money

    def settle(self, reserved_usd: float, used: Usage) -> None:
        """Replace a reservation by the cost of the actual usage (nothing, after a failure)."""
        self._reserved_usd = max(0.0, self._reserved_usd - reserved_usd)
        self.spent_usd += self._cost(used)

    async def admit(self, call: Call) -> None:
        """Wait until the most that an HTTP request of a call can cost is free, and reserve it.

        Raises
        ------
        BudgetReachedError
            If it could exceed the budget even if all requests in progress cost nothing.
        """
        while (reserved_usd := self.reserve(call.most)) is None:
            if not self.has_reservations:
                raise self.reached()
            self._settled = self._settled or asyncio.Event()
            await self._settled.wait()
        call.is_under_way, call.reserved_usd, call.reported_usage = True, reserved_usd, None

    def finish(self, call: Call, used: Usage | None) -> None:
        """Replace an HTTP request's reservation by its cost; None counts as the whole reservation.

        Only the first call after an admission counts.
        """
        if call.is_under_way:
            call.is_under_way = False
            self.settle(call.reserved_usd, call.most if used is None else used)
            if self._settled is not None:
                self._settled.set()
                self._settled = None

    def reached(self) -> BudgetReachedError:
        """Return the error that ends the run."""
        return BudgetReachedError(
            f"budget_usd {self.limit_usd:g}: the next request could exceed it "
            f"({self.spent_usd:.4f} USD spent). All answers are stored; raise budget_usd and run "
            "again to continue."
        )

    def _cost(self, used: Usage) -> float:
        return 0.0 if self.price is None else self.price.cost(used, is_batch=self._is_batch)


class Turnstile:
    """Lets requests start one by one, each written to its connection before the next is prepared.

    Otherwise, when replies arrive together, all workers prepare their next requests before the
    first is written (the transport writes in a later turn of the event loop). These requests are
    then sent together and answered together, so that the server idles while the client is busy.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_busy = False

    async def enter(self) -> None:
        """Wait for the turn; two turns of the event loop later it passes to the next request."""
        loop = asyncio.get_running_loop()
        if self._is_busy:
            turn = loop.create_future()
            self._waiting.append(turn)
            await turn
        self._is_busy = True
        loop.call_soon(loop.call_soon, self._pass_on)

    def _pass_on(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # its task may have been cancelled
                turn.set_result(None)
                return
        self._is_busy = False
