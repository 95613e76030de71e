"""The stand-in embedding server: ``python -m psibench.llm.standin.embedding_server``.

Prints its address as the first line, then serves until it is told to stop. It costs nothing and
knows no language: equal words give equal directions. To try out the backend ``embedding-api``.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from psibench.llm.standin.rules import count_tokens
from psibench.text.words import tokenise

if TYPE_CHECKING:
    from aiohttp import web

HOST = "127.0.0.1"
MAX_BODY_BYTES = 64 << 20
START_S = 20.0
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

    def app(self) -> "web.Application":
        """Return the web application."""
        from aiohttp import web

        app = web.Application(client_max_size=MAX_BODY_BYTES)
        for style, known in STYLES.items():
            app.router.add_post(known.path, self._handler(style))
        return app

    def _handler(self, style: str) -> Any:
        async def handle(request: "web.Request") -> "web.StreamResponse":
            self._n_under_way += 1
            self.most_at_once = max(self.most_at_once, self._n_under_way)
            try:
                return await self._answer(style, request)
            finally:
                self._n_under_way -= 1

        return handle

    async def _answer(self, style: str, request: "web.Request") -> "web.StreamResponse":
        from aiohttp import web

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(START_S)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        from aiohttp import web

        runner = web.AppRunner(self.stand_in.app(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, HOST, self._port).start()
        self.address = f"http://{HOST}:{runner.addresses[0][1]}"
        self._is_up.set()
        await self._over.wait()
        await runner.cleanup()


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--delay-s", type=float, default=0.0, help="seconds an answer takes")
    args = parser.parse_args()
    with EmbeddingServer(EmbeddingStandIn(delay_s=args.delay_s), port=args.port) as server:
        print(server.address, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
