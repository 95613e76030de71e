"""Models and services as `psibench.probes.measuring` asks them: texts in, vectors out, no cut."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.model_base import EncoderModel
from psibench.config.sections import Encoding
from psibench.errors import InputError
from psibench.llm.connection import PROMPT_TOO_LONG
from psibench.models.protocols import Role
from psibench.probes.measuring import Embedded, RefusedError

TOO_LONG = (PROMPT_TOO_LONG, "http_400", "http_413", "http_422", "http_500", "http_503")
"""Failures with which servers refuse a text that is too long. llama.cpp answers 500 or 400, TEI
413, vLLM and OpenAI 400."""

TIMEOUT_S = 600.0
"""A request with long texts may take minutes on a CPU."""


class EncoderEndpoint:
    """An encoder that runs in this process, with the cut of its entry."""

    def __init__(self, entry: EncoderModel) -> None:
        from psibench.encode.job import open_encoder

        settings = Encoding()
        self._encoder, _ = open_encoder(entry, settings)
        self._most = settings.tokens_per_batch or 16_384

    def embed(self, texts: Sequence[str], role: Role) -> Embedded:
        """Embed texts in one batch, or one by one if they are long."""
        items = self._encoder.tokenize(texts, role)
        together = len(items) * max(item.n_tokens for item in items) <= self._most
        vectors: list[np.ndarray] = []
        for batch in [items] if together else [[item] for item in items]:
            windows = [window for item in batch for window in item.windows]
            content = [mask for item in batch for mask in item.content]
            found = iter(self._encoder.forward(windows, content))
            vectors += [item.vectors([next(found) for _ in item.windows]) for item in batch]
        return Embedded(vectors, sum(item.n_tokens for item in items))


class ServiceEndpoint:
    """An embedding service, by its entry; texts are sent whole, after the entry's prompt."""

    def __init__(self, entry: EmbeddingApiModel, model: str) -> None:
        patience = max(entry.timeout_s, TIMEOUT_S)
        self._entry = entry.model_copy(
            update={"max_attempts": 1, "concurrency": 1, "timeout_s": patience}
        )
        self._model = model

    def embed(self, texts: Sequence[str], role: Role) -> Embedded:
        """Embed texts in one request.

        Raises
        ------
        RefusedError
            If the service refuses the request: a text may be too long.
        InputError
            If it cannot be reached, or refuses the key.
        """
        return asyncio.run(self._ask(texts, role))

    async def _ask(self, texts: Sequence[str], role: Role) -> Embedded:
        from psibench.llm.connection import TryFailedError
        from psibench.llm.embeddings import EmbeddingClient, read_tokens, request_body, values_at
        from psibench.llm.limits import Budget, Call
        from psibench.llm.usage import Usage

        entry = self._entry
        prompt = entry.query_prompt if role == "query" else entry.document_prompt
        sent = [prompt + text for text in texts]

        def read(data: Any, _: float) -> Embedded:
            try:
                vectors = [np.array(one, float) for one in values_at(data, entry.vectors_path)]
            except (LookupError, TypeError, ValueError) as error:
                raise TryFailedError(
                    "no_vectors", f"nothing at {entry.vectors_path} ({error})", action="stop"
                ) from None
            if len(vectors) != len(sent):
                raise TryFailedError(
                    "bad_vectors", f"{len(vectors)} vectors for {len(sent)} texts", action="stop"
                )
            return Embedded(vectors, read_tokens(data, entry))

        client = EmbeddingClient(entry, self._model, Budget())
        call = Call(Usage(sum(len(text.split()) for text in sent)))
        try:
            return await client.post(entry.url, call, lambda: request_body(entry, sent, role), read)
        except TryFailedError as failure:
            if failure.reason in TOO_LONG:
                raise RefusedError(failure.detail) from None
            raise InputError(f"{entry.url}: {failure}") from None
        finally:
            await client.close()


def endpoint_entry(url: str, name: str, key_env: str | None) -> EmbeddingApiModel:
    """Return an entry for an address: OpenAI's API, or TEI's if the path ends in ``/embed``."""
    fields: dict[str, Any] = {"url": url, "model": name, "key_env": key_env}
    if url.rstrip("/").endswith("/embed"):
        fields |= {"texts_field": "inputs", "vectors_path": "*"}
    return EmbeddingApiModel(
        backend="embedding-api", max_tokens=1 << 20, tokenizer="unknown", **fields
    )
