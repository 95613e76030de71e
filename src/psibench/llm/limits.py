"""What HTTP requests wait for: requests and tokens per minute, the budget, and their turn."""

import asyncio
import time
from collections import deque
from dataclasses import dataclass

from psibench.errors import InputError
from psibench.llm.sections import Price
from psibench.llm.usage import Usage


@dataclass
class Call:
    """One request, of chat or of embeddings, and the HTTP requests made for it, ``n_tries`` so far.

    ``most`` are the most tokens that one HTTP request can use, as the budget counts, ``guess``
    those it is taken to use, as the pace counts. ``is_under_way``: one is admitted and not yet
    settled; ``reserved_usd`` is reserved for it; ``reported_usage`` is of its answer.
    """

    most: Usage
    guess: int = 0
    n_tries: int = 0
    is_under_way: bool = False
    reserved_usd: float = 0.0
    reported_usage: Usage | None = None


class BudgetReachedError(InputError):
    """The next request could pass the budget; all answers so far are stored."""


class Budget:
    """Money that may be spent. Each request reserves the most it can cost before it is sent.

    Parameters
    ----------
    limit_usd
        Never passed, however the requests come out.
    price
        The model's price.
    spent_usd
        Spent before.
    is_batch
        Whether requests are asked in batches, at the price's ``batch_share``.
    """

    def __init__(
        self, limit_usd: float, price: Price, *, spent_usd: float = 0.0, is_batch: bool = False
    ) -> None:
        self.limit_usd, self.price, self.spent_usd = limit_usd, price, spent_usd
        self._is_batch, self._reserved_usd = is_batch, 0.0

    @property
    def has_reservations(self) -> bool:
        """Whether requests are under way that may yet give back a part of what they reserved."""
        return self._reserved_usd > 1e-12

    @property
    def free_usd(self) -> float:
        """What is neither spent nor reserved; negative where others' batches hold more."""
        return self.limit_usd - self.spent_usd - self._reserved_usd

    def reserve(self, most: Usage) -> float | None:
        """Reserve the cost of the most tokens a request can use; None if it does not fit."""
        fits = self._cost(most) <= self.free_usd + 1e-12 * self.limit_usd
        return self.hold(most) if fits else None

    def hold(self, most: Usage) -> float:
        """Reserve the cost of what is under way already, whether it fits or not."""
        money = self._cost(most)
        self._reserved_usd += money
        return money

    def settle(self, reserved_usd: float, used: Usage) -> None:
        """Replace a reservation by what was used (nothing, after a failure)."""
        self._reserved_usd = max(0.0, self._reserved_usd - reserved_usd)
        self.spent_usd += self._cost(used)

    def begin(self, call: Call) -> bool:
        """Reserve the most that an HTTP request of a call can cost; False if it does not fit."""
        reserved_usd = self.reserve(call.most)
        call.reserved_usd = reserved_usd or 0.0
        return reserved_usd is not None

    def end(self, call: Call, used: Usage | None, *, is_usable: bool) -> None:  # noqa: ARG002
        """Replace a call's reservation by its usage; None (unknown) counts as the reservation."""
        self.settle(call.reserved_usd, call.most if used is None else used)

    def reached(self) -> BudgetReachedError:
        """Return the error that ends the run."""
        return BudgetReachedError(
            f"budget_usd {self.limit_usd:g}: the next request could pass it ({self.spent_usd:.4f} "
            "USD spent). All answers are stored; raise budget_usd and run again to go on."
        )

    def _cost(self, used: Usage) -> float:
        return self.price.cost(used, is_batch=self._is_batch)


class TokenBucket:
    """Lets an amount through per minute, None: any; any 60 seconds stay within the limit.

    The bucket holds a twentieth of the limit (at least 1) and fills at a rate that, with a full
    bucket at the start, gives the limit in a minute.
    """

    def __init__(self, per_minute: int | None) -> None:
        self._capacity = max(1.0, per_minute / 20) if per_minute else 0.0
        self._per_s = max((per_minute - self._capacity) / 60, 1 / 60) if per_minute else 0.0
        self._level = self._capacity
        self._at = time.monotonic()

    def take(self, amount: float) -> float:
        """Take an amount (less than 0 gives some back); return the seconds until it may be used.

        The level may fall below zero: whoever comes next waits longer.
        """
        if not self._per_s:
            return 0.0
        now = time.monotonic()
        filled = self._level + (now - self._at) * self._per_s
        self._level = min(self._capacity, min(self._capacity, filled) - amount)
        self._at = now
        return max(0.0, -self._level / self._per_s)


class Meter:
    """Lets HTTP requests start within the limits; safe for many tasks of one event loop.

    Tokens are not known before the reply: a request takes its guess and `settle` corrects it.
    """

    def __init__(
        self,
        requests_per_minute: int | None,
        tokens_per_minute: int | None,
        budget: Budget | None = None,
    ) -> None:
        self.budget = budget
        self._requests = TokenBucket(requests_per_minute)
        self._tokens = TokenBucket(tokens_per_minute)
        self._settled = asyncio.Event()

    async def admit(self, call: Call) -> None:
        """Reserve the most an HTTP request can cost and wait until it may start.

        Raises
        ------
        BudgetReachedError
            If it could pass the budget even if what is under way costs nothing.
        """
        while self.budget and not self.budget.begin(call):
            if not self.budget.has_reservations:
                raise self.budget.reached()
            self._settled.clear()
            await self._settled.wait()
        call.is_under_way, call.reported_usage = True, None
        wait_s = max(self._requests.take(1), self._tokens.take(call.guess))
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    def settle(self, call: Call, used: Usage | None, *, is_usable: bool = False) -> None:
        """Replace what an HTTP request reserved by what it used, None: perhaps all it could.

        Only the first call after an admission counts. ``is_usable``: its answer could be read.
        """
        if not call.is_under_way:
            return
        call.is_under_way = False
        self._tokens.take((used or call.most).total_tokens - call.guess)
        if self.budget is not None:
            self.budget.end(call, used, is_usable=is_usable)
        self._settled.set()


class Turnstile:
    """Lets requests start one by one, each written to its connection before the next is prepared.

    Without it, replies that arrive together make their workers prepare all next requests before
    the first one is written (the transport writes in a later turn of the event loop). They then
    leave together, come back together, and the server idles while the client is busy.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_busy = False

    async def enter(self) -> None:
        """Wait for the turn; it passes on by itself two turns of the event loop later."""
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
