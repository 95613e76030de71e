"""Asking an embedding service: requests, their bodies and answers.

How requests are sent, tried again, counted and paid for is `psibench.llm`'s: where embedding
services differ is data of an entry, a request is many texts, and their vectors go to a store of
their own.
"""

import json
import logging
import math
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.secrets import Secret
from psibench.errors import InputError
from psibench.llm.connection import MOST_REPLY_BYTES, Connection, TryFailedError
from psibench.llm.limits import Budget, Call
from psibench.llm.sections import AskPolicy
from psibench.llm.usage import Usage
from psibench.models.protocols import Role
from psibench.reading import whole_number

logger = logging.getLogger("psibench")

EVERY = "*"
MOST_TOKENS = 10**9
"""Of one answer: beyond what any service takes at once."""
MOST_UNREADABLE = 3
"""Tries of a request whose answers cannot be used: they may be paid for."""
MOST_VECTOR_BYTES = 1 << 19
"""As JSON: of 20,000 dimensions."""
SPECIAL_TOKENS = 4
"""Of a text, at most: services may leave them out of what they count."""
LEAST_COUNTED = 0.9
"""Share of our tokens: a service that counts fewer may have cut texts."""
TOO_LARGE = ("http_400", "http_413", "http_422")
"""Failures of a request that may have too many texts or tokens for the service."""
MOST_PAUSE_S = 120.0
"""Between two tries, as the `openai` client bounds Retry-After."""


def pack(
    n_tokens: Sequence[int], *, texts_per_request: int, tokens_per_request: int
) -> Iterator[range]:
    """Cut texts, by the tokens of each and in their order, into requests within both limits.

    A text of more tokens than a request may have makes one of its own.
    """
    start, total = 0, 0
    for place, count in enumerate(n_tokens):
        is_full = place - start >= texts_per_request or total + count > tokens_per_request
        if place > start and is_full:
            yield range(start, place)
            start, total = place, 0
        total += count
    if start < len(n_tokens):
        yield range(start, len(n_tokens))


def role_fields(entry: EmbeddingApiModel, role: Role) -> dict[str, Any]:
    """Return the fields that a request of this role has besides model and texts."""
    return entry.query_fields if role == "query" else entry.document_fields


def request_body(entry: EmbeddingApiModel, texts: Sequence[str], role: Role) -> bytes:
    """Return the JSON body of a request."""
    body = {"model": entry.model, **role_fields(entry, role), entry.texts_field: texts}
    return json.dumps(body, ensure_ascii=False).encode()


def values_at(data: Any, path: str) -> list[Any]:
    """Return all values at a path of keys with dots between; ``*`` stands for every item.

    Items that each carry an ``index`` of their own, as OpenAI's do, come in its order.

    Raises
    ------
    LookupError, TypeError
        If the data has no such place.
    """
    found = [data]
    for key in path.split("."):
        if key == EVERY:
            found = [item for value in found for item in _in_order(value)]
        else:
            found = [value[_place(key) if isinstance(value, list) else key] for value in found]
    return found


def _place(key: str) -> int:
    place = whole_number(key)
    if place is None:
        raise TypeError(f"{key!r} is no place in a list")
    return place


def _in_order(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{type(value).__name__} is no list")
    try:
        order = [int(item["index"]) for item in value]
    except (LookupError, TypeError, ValueError):
        return value
    if len(set(order)) < len(order):  # some servers give every item the same number
        return value
    return [item for _, item in sorted(zip(order, value, strict=True), key=itemgetter(0))]


def read_vectors(data: Any, entry: EmbeddingApiModel, *, n_texts: int) -> np.ndarray:
    """Read the vectors of an answer: (n_texts, dim) float32 of unit length.

    Raises TryFailedError if there are not as many, they differ in length, or one is zero or not
    finite.
    """
    try:
        found = values_at(data, entry.vectors_path)
    except (LookupError, TypeError, ValueError) as error:
        has = ", ".join(map(str, data)) if isinstance(data, dict) else type(data).__name__
        raise TryFailedError(
            "no_vectors",
            f"the answer has nothing at {entry.vectors_path} ({type(error).__name__} {error}); it "
            f"has {has}. Check vectors_path",
            verdict="stop",
        ) from None
    try:
        values = np.array(found, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        values = np.empty(0)
    norms = np.linalg.norm(values, axis=-1, keepdims=True)
    is_whole = values.ndim == 2 and len(values) == n_texts and np.isfinite(values).all()
    if not (is_whole and norms.all()):
        kinds = ", ".join(sorted({type(vector).__name__ for vector in found})) or "nothing"
        wanted = f"{n_texts} lists of as many finite numbers, not all zeros"
        raise TryFailedError("bad_vectors", f"expected {wanted}; found {len(found)} ({kinds})")
    unit: np.ndarray = (values / norms).astype(np.float32)
    return unit


def read_tokens(data: Any, entry: EmbeddingApiModel) -> int | None:
    """Return the tokens that the service counted; None where the answer does not say.

    A count that no answer can have, 0 too, is not believed: a budget would be passed, or used up,
    by it.
    """
    try:
        counted = sum(int(value) for value in values_at(data, entry.tokens_path))
    except (LookupError, TypeError, ValueError, OverflowError):
        return None
    return counted if 1 <= counted <= MOST_TOKENS else None


class EmbeddingClient(Connection):
    """Asks a service for vectors as an entry says. Used and closed inside one event loop.

    Parameters
    ----------
    model
        Id of the entry, for messages. The key is read from the environment here.
    budget
        What requests may cost.
    dim
        Dimensions that vectors have to have; None: as the first ones.
    """

    def __init__(
        self, entry: EmbeddingApiModel, model: str, budget: Budget, *, dim: int | None = None
    ) -> None:
        from openai import Omit

        super().__init__(
            AskPolicy.model_construct(
                concurrency=entry.concurrency,
                timeout_s=entry.timeout_s,
                deadline_s=entry.max_attempts * (entry.timeout_s + MOST_PAUSE_S),
                max_tries=entry.max_attempts,
                max_reasks=min(MOST_UNREADABLE, entry.max_attempts) - 1,
            ),
            model=entry.model,
            address=entry.url,
            secret=Secret.from_environment(entry.key_env, key=f"key_env of model {model!r}"),
            headers={} if entry.key_env else {"Authorization": Omit()},
            budget=budget,
            most_bytes=max(MOST_REPLY_BYTES, entry.texts_per_request * MOST_VECTOR_BYTES),
        )
        self.dim = dim
        self._entry, self._model = entry, model
        self._counts_fewer = False
        self._per_token = 1.0  # tokens that the service counts, per token by our count, at most

    async def ask(self, texts: Sequence[str], role: Role, n_tokens: int) -> tuple[np.ndarray, int]:
        """Return the vectors of texts that have so many tokens by our count, and the tokens paid.

        Vectors are (n_texts, dim) float32 of unit length. The tokens are the service's count, or
        ours where the answer does not say.

        Raises
        ------
        InputError
            If the service gives none, or those of another model.
        """
        entry = self._entry
        call = Call(Usage(math.ceil(n_tokens * self._per_token)))

        def read(data: Any, _: float) -> tuple[np.ndarray, int]:
            counted = read_tokens(data, entry)
            paid = n_tokens if counted is None else counted
            call.reported_usage = Usage(paid)
            self._per_token = max(self._per_token, paid / max(1, n_tokens))
            vectors = read_vectors(data, entry, n_texts=len(texts))
            if self.dim not in (None, vectors.shape[1]):
                raise InputError(
                    f"model {self._model!r}: the service gave vectors of {vectors.shape[1]} "
                    f"dimensions, and of {self.dim} before: it is another model. Check model and "
                    "fields, or set version in its entry, so that its vectors are stored apart"
                )
            self.dim = vectors.shape[1]
            self._compare_counts(counted, n_tokens, len(texts))
            return vectors, paid

        try:
            return await self.post(entry.url, call, lambda: request_body(entry, texts, role), read)
        except TryFailedError as failure:
            remedy = ""
            if failure.reason in TOO_LARGE:
                remedy = (
                    f"The request has {len(texts)} texts and {n_tokens:,} tokens: if that is too "
                    f"much, lower texts_per_request ({entry.texts_per_request}) or "
                    f"tokens_per_request ({entry.tokens_per_request:,}) in the model's entry; if "
                    f"one text is too long, max_tokens ({entry.max_tokens:,}). "
                )
            raise InputError(
                f"model {self._model!r}: no vectors from {entry.url}: {failure}. {remedy}"
                "See docs/embedding-apis.md; the key is that of key_env "
                f"{entry.key_env}. All vectors so far are stored; run again to go on."
            ) from None

    def _compare_counts(self, counted: int | None, n_tokens: int, n_texts: int) -> None:
        """Warn once if the service read fewer tokens than it was sent: it may cut texts unasked."""
        least = LEAST_COUNTED * (n_tokens - SPECIAL_TOKENS * n_texts)
        if counted is None or self._counts_fewer or counted >= least:
            return
        self._counts_fewer = True
        entry = self._entry
        logger.warning(
            "model %r: the service counted %s tokens of %d texts that have %s by the tokenizer %r. "
            "Either this is not the model's tokenizer, or the service reads less than max_tokens "
            "(%d) of a text and cuts the rest unasked: then evidence counts as given that was not "
            "read. See what length it serves (docs/embedding-apis.md), and lower max_tokens to it",
            self._model, f"{counted:,}", n_texts, f"{n_tokens:,}", entry.tokenizer,
            entry.max_tokens,
        )  # fmt: skip
