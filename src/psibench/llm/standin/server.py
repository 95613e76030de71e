"""The stand-in server: the API of a language model, answered by rules, on this machine only.

``python -m psibench.llm.standin.server`` prints its address as the first line, then serves until it
is stopped, to try out a config without paying. Its embeddings do not know synonyms: only equal
words have equal directions.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from psibench.llm.standin.completion import BadRequestError, complete
from psibench.llm.standin.rules import count_tokens, word_vector

if TYPE_CHECKING:
    from aiohttp import web

_LOOPBACK = "127.0.0.1"
MAX_BODY_BYTES = 256 << 20
DIM = 64
"""Dimensions of embeddings, unless a request sets others."""


class StandIn:
    """Answers requests; equal requests get equal replies."""

    def app(self) -> "web.Application":
        """Return the web application."""
        from aiohttp import web

        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_post("/v1/embeddings", self.embeddings)
        return app

    async def chat(self, request: "web.Request") -> "web.StreamResponse":
        """Answer a request for a chat completion."""
        raw = await request.read()
        try:
            data = complete(json.loads(raw), random.Random(seed_of(raw)))
        except (BadRequestError, ValueError) as error:
            return error_response(400, "bad_request", str(error))
        return json_response(data)

    async def embeddings(self, request: "web.Request") -> "web.StreamResponse":
        """Answer a request for embeddings."""
        try:
            return json_response(embed(await request.json()))
        except (BadRequestError, ValueError) as error:
            return error_response(400, "bad_request", str(error))


def embed(body: Mapping[str, Any], *, dim: int = DIM) -> Any:
    """Return the embeddings of a request's texts, as plain data.

    Raises
    ------
    BadRequestError
        If there are no texts, or one is empty.
    """
    texts, dim = body.get("input"), int(body.get("dimensions", dim))
    if not isinstance(texts, list) or not texts:
        raise BadRequestError("input: expected a list of at least one text")
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise BadRequestError("input: found an empty text")
    n_tokens = sum(map(count_tokens, texts))
    return {
        "object": "list",
        "model": body.get("model"),
        "data": [
            {"object": "embedding", "index": number, "embedding": word_vector(text, dim).tolist()}
            for number, text in enumerate(texts)
        ],
        "usage": {"prompt_tokens": n_tokens, "total_tokens": n_tokens},
    }


@asynccontextmanager
async def serving(stand_in: StandIn, *, port: int = 0) -> AsyncIterator[str]:
    """Serve on a free port of this machine inside a running event loop; yield the base URL."""
    from aiohttp import web

    runner = web.AppRunner(stand_in.app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, _LOOPBACK, port, backlog=4096)
        await site.start()
        number = runner.addresses[0][1]
        yield f"http://{_LOOPBACK}:{number}/v1"
    finally:
        await runner.cleanup()


def json_response(data: Any, status: int = 200) -> "web.Response":
    """Return data as JSON."""
    from aiohttp import web

    body = json.dumps(data).encode()
    return web.Response(body=body, status=status, content_type="application/json")


def error_body(code: str, message: str) -> dict[str, Any]:
    """Return an error in the API's format."""
    return {"error": {"message": message, "type": code, "code": code}}


def error_response(status: int, code: str, message: str) -> "web.Response":
    """Return an error."""
    return json_response(error_body(code, message), status)


async def _serve(port: int) -> None:
    async with serving(StandIn(), port=port) as address:
        print(address, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(parser.parse_args().port))


def seed_of(raw: bytes) -> str:
    """Return the seed of a request: its hash without the limits of its item (`ResponseSchema`).

    Limits follow from the prompt, so they need not change a reply.
    """
    body = json.loads(raw)
    try:
        properties = body["response_format"]["json_schema"]["schema"]["properties"]
        limited = [inner for inner in properties.values() if "maxItems" in inner]
        limited += [properties["persona"]] if "enum" in properties.get("persona", {}) else []
    except (LookupError, TypeError, AttributeError):
        limited = []
    for inner in limited:
        inner.pop("maxItems", None)
        inner.pop("enum", None)
    return hashlib.sha256(json.dumps(body).encode() if limited else raw).hexdigest()
