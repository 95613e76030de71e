"""The stand-in embedding server with faults that a test orders, in a separate thread."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from threaded_server import ThreadedServer

from psibench.llm.standin.completion import BadRequestError
from psibench.llm.standin.server import DIM, embed


@dataclass(frozen=True)
class Style:
    """The format of one service's requests and answers.

    Requests are posted to ``path``; ``texts_field`` has at most ``most_texts`` texts; ``fields``
    are the other known fields with their allowed values (an empty tuple allows any), and
    ``required`` are the fields that a request must have; ``dim_field`` requests fewer dimensions.
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
STYLE_AT = {known.path: style for style, known in STYLES.items()}


def answer(style: str, body: dict[str, Any]) -> dict[str, Any]:
    """Answer or refuse like the service of that style."""
    known = STYLES[style]
    for name in ("model", *known.required):
        if name not in body:
            raise BadRequestError(f"{name}: field required")
    for name in body.keys() - {"model", known.texts_field, known.dim_field}:
        if (allowed := known.fields.get(name)) is None:
            raise BadRequestError(f"{name}: unknown field")
        if allowed and body[name] not in allowed:
            raise BadRequestError(f"{name}: {body[name]!r} is not allowed")
    texts = body.get(known.texts_field)
    data = embed({"input": texts, "dimensions": body.get(known.dim_field, DIM)})
    if len(texts) > known.most_texts:
        raise BadRequestError(f"{len(texts)} texts; at most {known.most_texts}")
    if style != "cohere":
        return data
    n_tokens = data["usage"]["total_tokens"]
    return {
        "embeddings": {"float": [one["embedding"] for one in data["data"]]},
        "meta": {"billed_units": {"input_tokens": n_tokens}},
    }


def error_body(style: str, message: str) -> dict[str, Any]:
    """Word an error as the service of that style does."""
    if style == "openai":
        return {"error": {"message": message, "type": "invalid_request_error"}}
    return {"message" if style == "cohere" else "detail": message}


class EmbeddingStandIn:
    """Answers requests in the four styles, with the faults that a test orders.

    Parameters
    ----------
    faults
        Faults of the first requests, one each: ``429`` or ``429:SECONDS`` (Retry-After),
        any other status of 400 and above, ``truncated`` (half the JSON), ``wrong_count``, ``nan``,
        ``reset``; an empty string for none.
    key
        Key that requests must have; others get 401 with the key that they sent.
    delay_s
        Seconds that every answer takes.

    Attributes
    ----------
    asked
        Style, body and headers of all requests, in order.
    n_answered
        Number of complete answers.
    dim
        Dimensions of vectors: fewer than the server's, which are then cut off.
    """

    def __init__(
        self, faults: Iterable[str] = (), *, key: str | None = None, delay_s: float = 0.0
    ) -> None:
        self.asked: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.n_answered = 0
        self.dim = DIM
        self._key, self._delay_s, self._faults = key, delay_s, iter(list(faults))

    def app(self) -> web.Application:
        """Return the web application."""
        app = web.Application(client_max_size=64 << 20)
        for path in STYLE_AT:
            app.router.add_post(path, self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        style = STYLE_AT[request.path]
        self.asked.append((style, await request.json(), dict(request.headers)))
        fault, _, amount = next(self._faults, "").partition(":")
        await asyncio.sleep(self._delay_s)
        sent = request.headers.get("Authorization", "")
        if self._key is not None and sent != f"Bearer {self._key}":
            return web.json_response(error_body(style, f"invalid key {sent}"), status=401)
        if fault.isdigit():
            after = {"Retry-After": amount} if amount else None
            said = error_body(style, f"ordered by a test: {fault}")
            return web.json_response(said, status=int(fault), headers=after)
        try:
            data = answer(style, await request.json())
        except BadRequestError as error:
            return web.json_response(error_body(style, str(error)), status=400)
        rows = data["embeddings"]["float"] if "embeddings" in data else data["data"]
        vectors = [row if isinstance(row, list) else row["embedding"] for row in rows]
        for vector in vectors:
            del vector[self.dim :]
        if fault == "wrong_count":
            rows.pop()
        if fault == "nan":
            vectors[0][0] = float("nan")
        if fault == "reset":
            request.transport.abort()
        text = json.dumps(data)
        self.n_answered += not fault
        return web.Response(
            text=text[: len(text) // 2] if fault == "truncated" else text,
            content_type="application/json",
        )


class EmbeddingServer(ThreadedServer):
    """Serves a stand-in that answers in the four styles."""

    def url(self, style: str) -> str:
        """Return the address that texts are posted to."""
        return self.address.removesuffix("/v1") + STYLES[style].path
