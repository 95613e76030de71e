"""The stand-in embedding server: ``python -m psibench.llm.standin.embedding_server``.

Prints its address as the first line, then serves until it is told to stop. It costs nothing and
knows no language: equal words give equal directions. To try out the backend ``embedding-api``.
"""

import argparse
import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable, Sequence
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

    Attributes
    ----------
    path
        Where texts are posted to.
    texts_field
        Field of the texts.
    fields
        Further fields it knows -> values it takes; an empty tuple takes any.
    most_texts
        Texts in a request.
    dim_field
        Field that asks for fewer dimensions.
    """

    path: str
    texts_field: str
    fields: dict[str, tuple[Any, ...]]
    most_texts: int
    dim_field: str


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
REQUIRED = {"cohere": ("input_type", "embedding_types")}


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
    known = STYLES[style]
    texts = body.get(known.texts_field)
    _refuse_unless(isinstance(texts, list) and bool(texts), f"{known.texts_field}: give texts")
    assert isinstance(texts, list)
    _refuse_unless(
        len(texts) <= known.most_texts, f"{len(texts)} texts; at most {known.most_texts}"
    )
    _refuse_unless(all(isinstance(text, str) and text.strip() for text in texts), "a text is empty")
    _refuse_unless(isinstance(body.get("model"), str), "model: field required")
    for name in REQUIRED.get(style, ()):
        _refuse_unless(name in body, f"{name}: field required")
    _check_fields(known, body)
    dim = body.get(known.dim_field, dim)
    _refuse_unless(isinstance(dim, int) and 0 < dim <= 4096, f"{known.dim_field}: {dim!r}")
    return texts, dim


def _check_fields(known: Style, body: dict[str, Any]) -> None:
    for name, value in body.items():
        if name in ("model", known.texts_field, known.dim_field):
            continue
        _refuse_unless(name in known.fields, f"{name}: unknown field")
        allowed: Sequence[Any] = known.fields[name]
        _refuse_unless(not allowed or value in allowed, f"{name}: {value!r} is not allowed")


def _refuse_unless(is_fine: bool, message: str) -> None:
    if not is_fine:
        raise BadEmbeddingRequestError(message)


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


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--delay-s", type=float, default=0.0, help="seconds an answer takes")
    args = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(args.port, args.delay_s))


if __name__ == "__main__":
    main()
