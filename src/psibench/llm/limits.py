"""What HTTP requests wait for: requests and tokens per minute, the budget, and their turn."""

import asyncio
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from psibench.llm.usage import BudgetReachedError, Usage

CHARS_PER_TOKEN = 4
"""Rule of thumb for pacing alone; corrected by the usage the reply reports."""

UNBOUNDED_OUTPUT_TOKENS = 1000
"""Guess, for pacing alone, where max_output_tokens is not set."""


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
        """Take an amount and return the seconds to wait before it may be used.

        The level may fall below zero: whoever comes next waits longer.
        """
        if not self._per_s:
            return 0.0
        now = time.monotonic()
        self._level = min(self._capacity, self._level + (now - self._at) * self._per_s)
        self._at = now
        self._level -= amount
        return max(0.0, -self._level / self._per_s)

    def give_back(self, amount: float) -> None:
        """Return what was taken and not used; a negative amount takes more."""
        if self._per_s:
            self._level = min(self._capacity, self._level + amount)


@dataclass
class Call:
    """One request, of chat or another kind, and the HTTP requests made for it, ``n_tries`` so far.

    ``is_under_way``: one is admitted and not yet settled; ``reserved_usd`` is reserved for it;
    ``told`` is what its answer says it used, None until it has said so.
    """

    request: Any
    n_tries: int = 0
    is_under_way: bool = False
    reserved_usd: float = 0.0
    told: Usage | None = None

    @cached_property
    def most(self) -> Usage:
        """The most tokens that one HTTP request can use, as the budget counts."""
        most_output = self.request.sampling.max_output_tokens or 0
        return Usage(self.request.max_input_tokens(), most_output)

    @cached_property
    def guess(self) -> int:
        """Tokens that one HTTP request is taken to use, as the pace counts."""
        n_chars = sum(len(message.content) for message in self.request.messages)
        most_output = self.request.sampling.max_output_tokens or UNBOUNDED_OUTPUT_TOKENS
        return n_chars // CHARS_PER_TOKEN + most_output


class Account(Protocol):
    """What HTTP requests are paid from: a budget."""

    @property
    def has_reservations(self) -> bool:
        """Whether requests are under way that may yet give back a part of what they reserved."""

    def begin(self, call: Any) -> bool:
        """Reserve the most that an HTTP request of a call can cost; False if it does not fit."""

    def end(self, call: Any, used: Usage | None, *, is_usable: bool) -> None:
        """Replace the reservation by what was used; None: perhaps all of it."""

    def reached(self) -> BudgetReachedError:
        """Return the error that ends the run."""


class HaltedError(Exception):
    """An HTTP request was not sent because the asking ends."""


class Meter:
    """Lets HTTP requests start within the limits; safe for many tasks of one event loop.

    Tokens are not known before the reply: a request takes its guess and `settle` corrects it.
    """

    def __init__(
        self,
        requests_per_minute: int | None,
        tokens_per_minute: int | None,
        budget: Account | None = None,
    ) -> None:
        self._requests = TokenBucket(requests_per_minute)
        self._tokens = TokenBucket(tokens_per_minute)
        self._budget = budget
        self._settled, self._halted = asyncio.Event(), asyncio.Event()
        self._paused_to = 0.0

    @property
    def has_budget(self) -> bool:
        """Whether what requests use is counted in money."""
        return self._budget is not None

    async def admit(self, call: Call) -> None:
        """Reserve the most an HTTP request can cost and wait until it may start.

        Raises
        ------
        BudgetReachedError
            If it could pass the budget even if what is under way costs nothing.
        HaltedError
            If no request is to start any more.
        """
        while (pause_s := self._paused_to - time.monotonic()) > 0 and not self._halted.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._halted.wait(), pause_s)
        while not self._halted.is_set() and self._budget and not self._budget.begin(call):
            if not self._budget.has_reservations:
                raise self._budget.reached()
            self._settled.clear()
            await self._settled.wait()
        if self._halted.is_set():
            raise HaltedError
        call.is_under_way, call.told = True, None
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
        self._tokens.give_back(call.guess - (used or call.most).total_tokens)
        if self._budget is not None:
            self._budget.end(call, used, is_usable=is_usable)
        self._settled.set()

    def pause(self, seconds: float) -> None:
        """Let no request start for so long."""
        self._paused_to = max(self._paused_to, time.monotonic() + seconds)

    def halt(self) -> None:
        """Let no request start any more; what is under way stays so."""
        self._halted.set()
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
