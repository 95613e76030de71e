"""The stand-in server: the API of a language model, answered by rules, on this machine only.

Faults it commits on purpose, seeded, are switched on by whoever tests.
"""

import asyncio
import hashlib
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

from psibench.errors import InputError
from psibench.llm.standin.completion import BadRequestError, complete

if TYPE_CHECKING:
    from aiohttp import web

HOST = "127.0.0.1"
MAX_BODY_BYTES = 256 << 20
HEADER = "X-Stand-In"
"""Header of a request that overrides the server's options, in the same notation."""
TRANSPORT = ("rate_limited", "server_error", "reset", "hang")
CONTENT = (
    *("malformed", "untidy", "refusal", "truncated", "filtered", "huge"),
    "wrong_position",
)


@dataclass(frozen=True)
class Imperfections:
    """How often what goes wrong: shares of replies in [0, 1], times in seconds.

    HTTP faults exclude each other: ``rate_limited`` (429), ``server_error`` (500), ``reset`` (the
    connection breaks inside the body), ``hang`` (no reply at all). So do faults of content:
    ``malformed`` (half a JSON text), ``untidy`` (readable, but no plain JSON), ``refusal``,
    ``truncated``, ``filtered``, ``huge`` (``huge_mb`` of reply), ``wrong_position``.

    Every reply takes ``delay_s``, a share ``slow`` of them ``slow_s`` more. A 429 asks for
    ``retry_after_s``; with ``echo_key`` errors repeat the Authorization header, as careless servers
    do. ``seed`` is of all draws: the n-th reply to one and the same request has its own.
    """

    rate_limited: float = 0.0
    server_error: float = 0.0
    reset: float = 0.0
    hang: float = 0.0
    malformed: float = 0.0
    untidy: float = 0.0
    refusal: float = 0.0
    truncated: float = 0.0
    filtered: float = 0.0
    huge: float = 0.0
    wrong_position: float = 0.0
    delay_s: float = 0.0
    slow: float = 0.0
    slow_s: float = 1.0
    retry_after_s: float = 0.0
    huge_mb: float = 5.0
    echo_key: float = 0.0
    seed: float = 0.0

    @classmethod
    def parse(cls, text: str, base: Self | None = None) -> Self:
        """Read ``malformed=0.2,delay_s=0.05`` over ``base``.

        Raises
        ------
        InputError
            If a name is unknown or a value no number.
        """
        base = base or cls()
        known = [f.name for f in fields(cls)]
        given = {}
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, _, value = part.partition("=")
            try:
                given[name.strip()] = float(value)
            except ValueError:
                raise InputError(f"stand-in option {part!r}; expected name=number") from None
            if name.strip() not in known:
                raise InputError(f"stand-in option {name!r}; known: {', '.join(known)}")
        return replace(base, **given)

    def draw(self, body: str, number: int) -> tuple[float, str | None, str | None]:
        """Draw what the ``number``-th reply to a body, given by its hash, is to suffer.

        Returns
        -------
        Seconds it takes; rate_limited, server_error, reset, hang or None; a fault of content or
        None.
        """
        rng = random.Random(f"{self.seed}:{body}:{number}")
        wait_s = self.delay_s + (self.slow_s if rng.random() < self.slow else 0.0)
        return wait_s, self._draw(TRANSPORT, rng), self._draw(CONTENT, rng)

    def _draw(self, names: tuple[str, ...], rng: random.Random) -> str | None:
        place = rng.random()
        for name in names:
            place -= getattr(self, name)
            if place < 0:
                return name
        return None


class StandIn:
    """Answers requests; the same request gets the same reply, the n-th fault the n-th draw.

    Attributes
    ----------
    asked
        How often each body was asked, by its hash; ``answered`` counts whole replies (200).
    """

    def __init__(self, imperfections: Imperfections | None = None) -> None:
        self.imperfections = imperfections or Imperfections()
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()

    def app(self) -> "web.Application":
        """Return the web application."""
        from aiohttp import web

        def telling(data: Callable[[], Any]) -> "Callable[[web.Request], Awaitable[web.Response]]":
            async def tell(_: web.Request) -> web.Response:
                return json_response(data())

            return tell

        models = {"object": "list", "data": [{"id": "stand-in/rules", "object": "model"}]}
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", telling(lambda: models))
        app.router.add_get("/health", telling(lambda: {"status": "ok"}))
        app.router.add_get("/stats", telling(self.stats))
        return app

    def stats(self) -> dict[str, Any]:
        """Count requests and whole replies: what GET /stats tells."""
        return {
            "n_requests": self.asked.total(),
            "n_distinct": len(self.asked),
            "n_answered": self.answered.total(),
            "answered": dict(self.answered),
        }

    async def _chat(self, request: "web.Request") -> "web.StreamResponse":
        raw = await request.read()
        name = hashlib.sha256(raw).hexdigest()
        self.asked[name] += 1
        try:
            faults = Imperfections.parse(request.headers.get(HEADER, ""), self.imperfections)
            body = json.loads(raw)
        except (InputError, ValueError) as error:
            return error_response(400, "bad_request", str(error))
        wait_s, fault, content = faults.draw(name, self.asked[name])
        if wait_s:
            await asyncio.sleep(wait_s)
        if fault and fault != "reset":
            return await _faulty(fault, faults, request)
        try:
            data = complete(body, random.Random(name), content, faults.huge_mb)
        except BadRequestError as error:
            return error_response(400, "bad_request", error.message)
        if fault == "reset":
            return await _break_off(request, json.dumps(data).encode())
        self.answered[name] += 1
        return json_response(data)


@asynccontextmanager
async def serving(stand_in: StandIn, *, port: int = 0) -> AsyncIterator[str]:
    """Serve on a free port of this machine inside a running event loop; yield the base URL."""
    from aiohttp import web

    runner = web.AppRunner(stand_in.app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, port, backlog=4096)
        await site.start()
        number = runner.addresses[0][1]
        yield f"http://{HOST}:{number}/v1"
    finally:
        await runner.cleanup()


async def _faulty(fault: str, faults: Imperfections, request: "web.Request") -> "web.Response":
    words = fault_words(faults, request)
    if fault == "hang":
        await asyncio.sleep(3600)
    if fault == "rate_limited":
        after = {"Retry-After": f"{faults.retry_after_s:g}"} if faults.retry_after_s else {}
        return error_response(429, "rate_limit_exceeded", words, after)
    return error_response(500, "server_error", words)


async def _break_off(request: "web.Request", payload: bytes) -> "web.StreamResponse":
    """Send half a reply and reset the connection."""
    from aiohttp import web

    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(payload)
    await response.prepare(request)
    await response.write(payload[: len(payload) // 2])
    if request.transport is not None:
        request.transport.abort()
    return response


def json_response(
    data: Any, status: int = 200, headers: dict[str, str] | None = None
) -> "web.Response":
    """Return data as JSON."""
    from aiohttp import web

    body = json.dumps(data).encode()
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


def error_body(code: str, message: str) -> dict[str, Any]:
    """Return an error as the API words it."""
    return {"error": {"message": message, "type": code, "code": code}}


def error_response(
    status: int, code: str, message: str, headers: dict[str, str] | None = None
) -> "web.Response":
    """Return an error."""
    return json_response(error_body(code, message), status, headers)


def fault_words(faults: Imperfections, request: "web.Request") -> str:
    """Return what an error made on purpose says."""
    sent = f" (you sent {request.headers.get('Authorization', '')})" if faults.echo_key else ""
    return "made to fail by a test" + sent
