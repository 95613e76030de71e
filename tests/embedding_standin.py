"""The stand-in embedding server with faults that a test orders, in a thread of its own."""

import asyncio
import json
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from aiohttp import web

from psibench.llm.standin.embedding_server import (
    DIM,
    HOST,
    MAX_BODY_BYTES,
    STYLES,
    BadEmbeddingRequestError,
    answer,
    error_body,
)

START_S = 20.0


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
        Dimensions of vectors where a request asks for none.
    """

    def __init__(
        self, faults: Iterable[str] = (), *, key: str | None = None, delay_s: float = 0.0
    ) -> None:
        self.asked: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.n_answered = 0
        self.most_at_once = 0
        self.dim = DIM
        self._delay_s = delay_s
        self._faults: Iterator[str] = iter(list(faults))
        self._key = key
        self._n_under_way = 0

    def app(self) -> web.Application:
        """Return the web application."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        for style, known in STYLES.items():
            app.router.add_post(known.path, self._handler(style))
        return app

    def _handler(self, style: str) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            self._n_under_way += 1
            self.most_at_once = max(self.most_at_once, self._n_under_way)
            try:
                return await self._answer(style, request)
            finally:
                self._n_under_way -= 1

        return handle

    async def _answer(self, style: str, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        self.asked.append((style, body, dict(request.headers)))
        fault, _, amount = next(self._faults, "").partition(":")
        await asyncio.sleep(float(amount) if fault == "slow" else self._delay_s)
        sent = request.headers.get("Authorization", "")
        if self._key is not None and sent != f"Bearer {self._key}":
            return web.json_response(error_body(style, f"invalid key {sent}"), status=401)
        if fault.isdigit():
            after = {"Retry-After": amount} if amount else None
            said = error_body(style, f"ordered by a test: {fault}")
            return web.json_response(said, status=int(fault), headers=after)
        try:
            text = json.dumps(_spoilt(answer(style, body, self.dim), fault))
        except BadEmbeddingRequestError as error:
            return web.json_response(error_body(style, str(error)), status=400)
        if fault == "reset":
            assert request.transport is not None
            request.transport.abort()
        if fault == "truncated":
            text = text[: len(text) // 2]
        self.n_answered += not fault or fault == "slow"
        return web.Response(text=text, content_type="application/json")


def _spoilt(data: dict[str, Any], fault: str) -> dict[str, Any]:
    """Take a vector away from an answer, or a number out of one."""
    vectors = data["embeddings"]["float"] if "embeddings" in data else data["data"]
    if fault == "wrong_count":
        vectors.pop()
    elif fault == "nan":
        first = vectors[0]
        (first if isinstance(first, list) else first["embedding"])[0] = float("nan")
    return data


class EmbeddingServer:
    """Serves a stand-in from a thread of its own; use as a context manager.

    Attributes
    ----------
    address
        As http://127.0.0.1:PORT, once started.
    """

    def __init__(self, stand_in: EmbeddingStandIn, *, port: int = 0) -> None:
        self.stand_in = stand_in
        self.address = ""
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

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

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        runner = web.AppRunner(self.stand_in.app(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, HOST, self._port).start()
        self.address = f"http://{HOST}:{runner.addresses[0][1]}"
        self._is_up.set()
        await self._over.wait()
        await runner.cleanup()
