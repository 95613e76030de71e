"""Pacing: requests and tokens per minute, and a pause for all when the server asks for one."""

import asyncio
import time
from collections import deque


class TokenBucket:
    """Lets an amount through per minute; any 60 seconds together stay within the limit.

    The bucket holds a twentieth of the limit (at least 1) and fills at a rate that, with a full
    bucket at the start, gives the limit in a minute.

    Parameters
    ----------
    per_minute
        The limit; None lets everything through.
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


class Pacer:
    """Waits for both limits and for pauses the server asked for.

    Tokens are not known before the reply: a request takes its guess and `settle` corrects it.
    """

    def __init__(self, requests_per_minute: int | None, tokens_per_minute: int | None) -> None:
        self._requests = TokenBucket(requests_per_minute)
        self._tokens = TokenBucket(tokens_per_minute)
        self._paused_to = 0.0

    def pause(self, seconds: float) -> None:
        """Let no request start for so long: the server said when to come back."""
        self._paused_to = max(self._paused_to, time.monotonic() + seconds)

    async def wait(self, n_tokens: int) -> None:
        """Wait until a request of about ``n_tokens`` may start."""
        wait_s = max(self._requests.take(1), self._tokens.take(n_tokens))
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        while (left := self._paused_to - time.monotonic()) > 0:
            await asyncio.sleep(left)

    def settle(self, guessed_tokens: int, used_tokens: int) -> None:
        """Correct the guess once the usage is known."""
        self._tokens.give_back(guessed_tokens - used_tokens)
