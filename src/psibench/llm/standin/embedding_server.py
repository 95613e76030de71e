"""The stand-in embedding server: ``python -m psibench.llm.standin.embedding_server``.

Prints its address as the first line, then serves until it is told to stop. It costs nothing and
knows no language: equal words give equal directions. To try out the backend ``embedding-api``.
"""

import argparse
import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from psibench.llm.standin.rules import count_tokens
from psibench.text.words import tokenise

if TYPE_CHECKING:
    from aiohttp import web

HOST = "127.0.0.1"
MAX_BODY_BYTES = 64 << 20
DIM = 64


class BadEmbeddingRequestError(Exception):
    """A request that the service would refuse with status 400."""


@dataclass(frozen=True)
class Style:
    """How one service words requests and answers.

    ``path`` takes posts; ``texts_field`` has at most ``most_texts`` texts; ``fields`` are the
    further ones it knows, with the values they take (an empty tuple takes any), of which
    ``required`` may not lack; ``dim_field`` asks for fewer dimensions.
    """

    path: str
    texts_field: str
    fields: dict[str, tuple[Any, ...]]
    most_texts: int
    dim_field: str
    required: tuple[str, ...] = ()


STYLES = {
    "openai": Style(
        "/v1/embeddings",
        "input",
        {"encoding_format": ("float",), "user": ()},
        2048,
        "dimensions",
    ),
    "voyage": Style(
        "/voyage/v1/embeddings",
        "input",
        {"input_type": ("query", "document"), "truncation": (True, False)},
        1000,
        "output_dimension",
    ),
    "cohere": Style(
        "/v2/embed",
        "texts",
        {
            "input_type": ("search_query", "search_document"),
            "embedding_types": (["float"],),
            "truncate": ("NONE", "START", "END"),
        },
        96,
        "output_dimension",
        required=("input_type", "embedding_types"),
    ),
    "jina": Style(
        "/jina/v1/embeddings",
        "input",
        {
            "task": ("retrieval.query", "retrieval.passage"),
            "truncate": (True, False),
            "embedding_type": ("float",),
            "late_chunking": (False,),
        },
        2048,
        "dimensions",
    ),
}
"""Paths and fields of the services' references, paths of two apart so that one server has all."""


def embed(text: str, dim: int = DIM) -> np.ndarray:
    """Return a text's vector: the sum over its word stems of numbers drawn from their hash.

    (dim,) float64, of any length; not of zeros, even for a text without words.
    """
    return sum((_direction(stem, dim) for stem in tokenise(text).stems), _direction("", dim))


def answer(style: str, body: dict[str, Any], dim: int = DIM) -> dict[str, Any]:
    """Answer a request as the service of that style would.

    ``dim`` is what vectors have if the request asks for no dimensions.

    Raises
    ------
    BadEmbeddingRequestError
        If a field is missing, unknown or has a value that the service does not take.
    """
    texts, dim = _read(style, body, dim)
    vectors = [embed(text, dim).tolist() for text in texts]
    n_tokens = sum(count_tokens(text) for text in texts)
    if style == "cohere":
        return {
            "id": "stand-in",
            "embeddings": {"float": vectors},
            "texts": texts,
            "meta": {"billed_units": {"input_tokens": n_tokens}},
        }
    return {
        "object": "list",
        "model": body["model"],
        "data": [
            {"object": "embedding", "index": number, "embedding": vector}
            for number, vector in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": n_tokens, "total_tokens": n_tokens},
    }


def error_body(style: str, message: str) -> dict[str, Any]:
    """Word an error as the service of that style does."""
    if style == "openai":
        return {"error": {"message": message, "type": "invalid_request_error"}}
    return {"message" if style == "cohere" else "detail": message}


def _read(style: str, body: dict[str, Any], dim: int) -> tuple[list[str], int]:
    """Return the texts of a request and the dimensions it asks for."""
    known = STYLES[style]
    texts, dim = body.get(known.texts_field), body.get(known.dim_field, dim)
    if not isinstance(texts, list) or not texts:
        raise BadEmbeddingRequestError(f"{known.texts_field}: give texts")
    if len(texts) > known.most_texts:
        raise BadEmbeddingRequestError(f"{len(texts)} texts; at most {known.most_texts}")
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise BadEmbeddingRequestError("a text is empty")
    for name in ("model", *known.required):
        if name not in body:
            raise BadEmbeddingRequestError(f"{name}: field required")
    for name in body.keys() - {"model", known.texts_field, known.dim_field}:
        if (allowed := known.fields.get(name)) is None:
            raise BadEmbeddingRequestError(f"{name}: unknown field")
        if allowed and body[name] not in allowed:
            raise BadEmbeddingRequestError(f"{name}: {body[name]!r} is not allowed")
    if not isinstance(dim, int) or not 0 < dim <= 4096:
        raise BadEmbeddingRequestError(f"{known.dim_field}: {dim!r}")
    return texts, dim


def _direction(word: str, dim: int) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(dim)


def embedding_app(delay_s: float = 0.0) -> "web.Application":
    """Return a web application that answers in all four styles; each answer takes so long."""
    from aiohttp import web

    def handler(style: str) -> "Callable[[web.Request], Awaitable[web.Response]]":
        async def handle(request: web.Request) -> web.Response:
            await asyncio.sleep(delay_s)
            try:
                return web.json_response(answer(style, await request.json()))
            except BadEmbeddingRequestError as error:
                return web.json_response(error_body(style, str(error)), status=400)

        return handle

    app = web.Application(client_max_size=MAX_BODY_BYTES)
    for style, known in STYLES.items():
        app.router.add_post(known.path, handler(style))
    return app


async def serve(port: int, delay_s: float) -> None:
    """Print the address, and serve until told to stop."""
    from aiohttp import web

    runner = web.AppRunner(embedding_app(delay_s), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, HOST, port).start()
    print(f"http://{HOST}:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--delay-s", type=float, default=0.0, help="seconds an answer takes")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(**vars(parser.parse_args())))
