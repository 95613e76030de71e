"""The stand-in embedding server with faults that a test orders, in a thread of its own."""

import asyncio
import json
import threading
from collections.abc import Iterable
from typing import Any

from aiohttp import web

from psibench.llm.standin.embedding_server import DIM, HOST, STYLES, embedding_app, error_body

START_S = 20.0
STYLE_AT = {known.path: style for style, known in STYLES.items()}


class EmbeddingStandIn:
    """Answers requests in the four styles; faults are what a test orders.

    Parameters
    ----------
    faults
        What goes wrong with the first requests, one each: ``429`` or ``429:SECONDS`` (Retry-After),
        any other status of 400 and above, ``slow:SECONDS``, ``truncated`` (half the JSON),
        ``wrong_count``, ``nan``, ``reset``; an empty string for none.
    key
        Key that requests have to bear; others get 401, which repeats what they sent.
    delay_s
        Every answer takes so long.

    Attributes
    ----------
    asked
        Style, body and headers of all requests, in order.
    n_answered
        Whole answers.
    most_at_once
        Requests that were under way at the same time, at the most.
    dim
        Dimensions of vectors: fewer than the server's, which are then cut off.
    """

    def __init__(
        self, faults: Iterable[str] = (), *, key: str | None = None, delay_s: float = 0.0
    ) -> None:
        self.asked: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.n_answered = self.most_at_once = self._n_under_way = 0
        self.dim = DIM
        self._key, self._delay_s, self._faults = key, delay_s, iter(list(faults))

    def app(self) -> web.Application:
        """Return the web application."""

        @web.middleware
        async def faulty(request: web.Request, handler: Any) -> web.StreamResponse:
            self._n_under_way += 1
            self.most_at_once = max(self.most_at_once, self._n_under_way)
            try:
                return await self._answer(request, handler)
            finally:
                self._n_under_way -= 1

        app = embedding_app()
        app.middlewares.append(faulty)
        return app

    async def _answer(self, request: web.Request, handler: Any) -> web.StreamResponse:
        style = STYLE_AT[request.path]
        self.asked.append((style, await request.json(), dict(request.headers)))
        fault, _, amount = next(self._faults, "").partition(":")
        await asyncio.sleep(float(amount) if fault == "slow" else self._delay_s)
        sent = request.headers.get("Authorization", "")
        if self._key is not None and sent != f"Bearer {self._key}":
            return web.json_response(error_body(style, f"invalid key {sent}"), status=401)
        if fault.isdigit():
            after = {"Retry-After": amount} if amount else None
            said = error_body(style, f"ordered by a test: {fault}")
            return web.json_response(said, status=int(fault), headers=after)
        response = await handler(request)
        if response.status != 200:
            return response
        data = json.loads(response.text)
        vectors = data["embeddings"]["float"] if "embeddings" in data else data["data"]
        for vector in vectors:
            del (vector if isinstance(vector, list) else vector["embedding"])[self.dim :]
        if fault == "wrong_count":
            vectors.pop()
        if fault == "nan":
            (vectors[0] if isinstance(vectors[0], list) else vectors[0]["embedding"])[0] = float(
                "nan"
            )
        if fault == "reset":
            request.transport.abort()
        text = json.dumps(data)
        self.n_answered += not fault or fault == "slow"
        return web.Response(
            text=text[: len(text) // 2] if fault == "truncated" else text,
            content_type="application/json",
        )


class EmbeddingServer:
    """Serves a stand-in from a thread of its own; use as a context manager.

    Attributes
    ----------
    address
        As http://127.0.0.1:PORT, once started.
    """

    def __init__(self, stand_in: EmbeddingStandIn) -> None:
        self.stand_in = stand_in
        self.address = ""
        self._over, self._is_up = asyncio.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def url(self, style: str) -> str:
        """Return the address that texts are posted to."""
        return self.address + STYLES[style].path

    def __enter__(self) -> "EmbeddingServer":
        self._thread.start()
        self._is_up.wait(START_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(START_S)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        runner = web.AppRunner(self.stand_in.app(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, HOST, 0).start()
        self.address = f"http://{HOST}:{runner.addresses[0][1]}"
        self._is_up.set()
        await self._over.wait()
        await runner.cleanup()
