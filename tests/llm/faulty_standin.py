"""A stand-in that counts requests and injects seeded faults."""

import asyncio
import hashlib
import json
import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Self

from aiohttp import web

from psibench.llm.standin.completion import BadRequestError, complete
from psibench.llm.standin.rules import count_tokens
from psibench.llm.standin.server import StandIn, error_response, json_response

HEADER = "X-Stand-In"
"""Header of a request that overrides the server's options, in the same notation."""
TRANSPORT = ("rate_limited", "server_error", "reset", "hang")
CONTENT = ("malformed", "refusal", "truncated", "filtered", "huge")


@dataclass(frozen=True)
class Imperfections:
    """Rates of injected faults: shares of replies in [0, 1], times in seconds.

    HTTP faults exclude each other: ``rate_limited`` (429), ``server_error`` (500), ``reset`` (the
    connection breaks inside the body), ``hang`` (no reply at all). So do faults of content:
    ``malformed`` (half a JSON text), ``refusal``, ``truncated``, ``filtered``, ``huge``
    (``huge_mb`` of reply).

    Every reply takes ``delay_s``. A 429 asks for ``retry_after_s``; with ``echo_key`` errors repeat
    the Authorization header, as careless servers do. ``seed`` determines all draws: the n-th
    reply to a request has a separate draw.

    Lines of a batch have the same faults as requests; for faults of HTTP they get 429, 500, status
    0 and ``request_timeout``. A batch is in progress for ``batch_delay_s`` before its lines are
    answered, and expires after ``expire_after`` lines (0: never). A share ``fail_batch`` of the
    batches fails, and so does a batch with which the prompt tokens of all batches in progress would
    exceed ``enqueued_tokens`` (0: no limit). A share ``batch_http_error`` of the calls is
    answered with 500; of a share ``create_reset`` of the creations the reply gets lost.
    """

    rate_limited: float = 0.0
    server_error: float = 0.0
    reset: float = 0.0
    hang: float = 0.0
    malformed: float = 0.0
    refusal: float = 0.0
    truncated: float = 0.0
    filtered: float = 0.0
    huge: float = 0.0
    delay_s: float = 0.0
    retry_after_s: float = 0.0
    huge_mb: float = 5.0
    echo_key: float = 0.0
    seed: float = 0.0
    batch_delay_s: float = 0.0
    expire_after: float = 0.0
    fail_batch: float = 0.0
    enqueued_tokens: float = 0.0
    batch_http_error: float = 0.0
    create_reset: float = 0.0

    @classmethod
    def parse(cls, text: str, base: Self | None = None) -> Self:
        """Read ``malformed=0.2,delay_s=0.05`` over ``base``."""
        parts = (part.split("=") for part in text.split(",") if part)
        return replace(base or cls(), **{name: float(value) for name, value in parts})

    def draw(self, body: str, number: int) -> tuple[str | None, str | None]:
        """Draw the faults of the ``number``-th reply to a body, given by its hash.

        Returns an HTTP fault or None, and a content fault or None.
        """
        rng = random.Random(f"{self.seed}:{body}:{number}")
        return self._draw(TRANSPORT, rng), self._draw(CONTENT, rng)

    def _draw(self, names: tuple[str, ...], rng: random.Random) -> str | None:
        place = rng.random()
        for name in names:
            place -= getattr(self, name)
            if place < 0:
                return name
        return None


class FaultyStandIn(StandIn):
    """A stand-in; the n-th draw of a request decides the fault of its n-th reply.

    ``asked`` counts requests by the body's hash, ``answered`` complete replies (200).
    """

    def __init__(self, imperfections: Imperfections | None = None) -> None:
        self.imperfections = imperfections or Imperfections()
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()

    async def chat(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        name = hashlib.sha256(raw).hexdigest()
        self.asked[name] += 1
        faults = Imperfections.parse(request.headers.get(HEADER, ""), self.imperfections)
        fault, content = faults.draw(name, self.asked[name])
        await asyncio.sleep(faults.delay_s)
        words = fault_words(faults, request)
        if fault == "hang":
            await asyncio.sleep(3600)
        if fault == "rate_limited":
            response = error_response(429, "rate_limit_exceeded", words)
            if faults.retry_after_s:
                response.headers["Retry-After"] = f"{faults.retry_after_s:g}"
            return response
        if fault == "server_error":
            return error_response(500, "server_error", words)
        try:
            data = spoilt_completion(json.loads(raw), name, content, faults)
        except (BadRequestError, ValueError) as error:
            return error_response(400, "bad_request", str(error))
        if fault == "reset":
            return await _break_off(request, json.dumps(data).encode())
        self.answered[name] += 1
        return json_response(data)


async def _break_off(request: web.Request, payload: bytes) -> web.StreamResponse:
    """Send half a reply and reset the connection."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(payload)
    await response.prepare(request)
    await response.write(payload[: len(payload) // 2])
    if request.transport is not None:
        request.transport.abort()
    return response


def spoilt_completion(
    body: Any, name: str, fault: str | None, faults: Imperfections = Imperfections()
) -> Any:
    """Return the chat completion of a request with a fault of content, or None."""
    data = complete(body, random.Random(name))
    choice, usage = data["choices"][0], data["usage"]
    text = choice["message"]["content"]
    if fault == "malformed":
        text = text[: max(1, len(text) // 2)]
    elif fault == "refusal":
        text, choice["message"]["refusal"] = "", "I am sorry, but I cannot help with that."
    elif fault == "truncated":
        text, choice["finish_reason"] = text[: max(1, len(text) // 2)], "length"
    elif fault == "filtered":
        text, choice["finish_reason"] = "", "content_filter"
    elif fault == "huge":
        text += " " * int(faults.huge_mb * 1_000_000)
    if text != choice["message"]["content"]:
        choice["message"]["content"] = text
        usage["completion_tokens"] = count_tokens(text)
        usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
    return data


def fault_words(faults: Imperfections, request: web.Request) -> str:
    """Return the message of an injected error."""
    sent = f" (you sent {request.headers.get('Authorization', '')})" if faults.echo_key else ""
    return "made to fail by a test" + sent
