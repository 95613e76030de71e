"""The stand-in server: the API of a language model, answered by rules, on this machine only."""

import hashlib
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from psibench.llm.standin.completion import BadRequestError, complete

if TYPE_CHECKING:
    from aiohttp import web

HOST = "127.0.0.1"
MAX_BODY_BYTES = 256 << 20


class StandIn:
    """Answers requests; the same request gets the same reply."""

    def app(self) -> "web.Application":
        """Return the web application."""
        from aiohttp import web

        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self.chat)
        return app

    async def chat(self, request: "web.Request") -> "web.StreamResponse":
        """Answer a request for a chat completion."""
        raw = await request.read()
        try:
            data = complete(json.loads(raw), random.Random(hashlib.sha256(raw).hexdigest()))
        except (BadRequestError, ValueError) as error:
            return error_response(400, "bad_request", str(error))
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


def json_response(data: Any, status: int = 200) -> "web.Response":
    """Return data as JSON."""
    from aiohttp import web

    body = json.dumps(data).encode()
    return web.Response(body=body, status=status, content_type="application/json")


def error_body(code: str, message: str) -> dict[str, Any]:
    """Return an error as the API words it."""
    return {"error": {"message": message, "type": code, "code": code}}


def error_response(status: int, code: str, message: str) -> "web.Response":
    """Return an error."""
    return json_response(error_body(code, message), status)
