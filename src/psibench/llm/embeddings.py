"""Client for embedding services: requests, their bodies and answers.

`psibench.llm` sends requests, retries, and counts their cost. Differences between services are data
of a registry entry; a request has many texts, and their vectors go to the embedding store.
"""

import json
import math
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.secrets import Secret
from psibench.errors import InputError
from psibench.llm.connection import (
    MOST_REPLY_BYTES,
    PROMPT_TOO_LONG,
    Connection,
    TryFailedError,
)
from psibench.llm.limits import Budget, Call
from psibench.llm.sections import AskPolicy
from psibench.llm.token_counts import TokenCounts
from psibench.llm.usage import Usage
from psibench.models.protocols import Role
from psibench.reading import whole_number

_EVERY_ITEM = "*"
_MOST_COUNTED = 10**9
"""Tokens of one answer: more than any service accepts in one request."""
MOST_UNREADABLE = 3
"""Tries of a request with unusable answers, which may be billed."""
MOST_VECTOR_BYTES = 1 << 19
"""Bytes of a vector with 20,000 dimensions as JSON."""
TOO_LARGE = ("http_400", "http_413", "http_422", PROMPT_TOO_LONG)
"""Failures of a request that may have too many texts or tokens for the service."""
MOST_RETRY_PAUSE_S = 120.0
"""Longest pause between two tries; the `openai` client's limit for Retry-After."""


def pack(
    n_tokens: Sequence[int], *, texts_per_request: int, tokens_per_request: int
) -> Iterator[range]:
    """Cut texts, in order, into requests within both limits; ``n_tokens`` has the tokens of each.

    A text with more tokens than a request may have is a request by itself.
    """
    start, total = 0, 0
    for i, count in enumerate(n_tokens):
        is_full = i - start >= texts_per_request or total + count > tokens_per_request
        if i > start and is_full:
            yield range(start, i)
            start, total = i, 0
        total += count
    if start < len(n_tokens):
        yield range(start, len(n_tokens))


def role_fields(entry: EmbeddingApiModel, role: Role) -> dict[str, Any]:
    """Return the fields of a request of this role besides model and texts."""
    return entry.query_fields if role == "query" else entry.document_fields


def request_body(entry: EmbeddingApiModel, texts: Sequence[str], role: Role) -> bytes:
    """Return the JSON body of a request."""
    body = {"model": entry.model, **role_fields(entry, role), entry.texts_field: texts}
    return json.dumps(body, ensure_ascii=False).encode()


def values_at(data: Any, path: str) -> list[Any]:
    """Return all values at a path of keys separated by dots; ``*`` matches every item of a list.

    Items that each have an ``index``, as OpenAI's do, are returned in its order.

    Raises
    ------
    LookupError, TypeError
        If the data do not have this path.
    """
    values = [data]
    for key in path.split("."):
        if key == _EVERY_ITEM:
            values = [item for value in values for item in _in_order(value)]
        else:
            values = [value[_index(key) if isinstance(value, list) else key] for value in values]
    return values


def _index(key: str) -> int:
    index = whole_number(key)
    if index is None:
        raise TypeError(f"{key!r} is no index of a list")
    return index


def _in_order(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{type(value).__name__} is no list")
    try:
        order = [int(item["index"]) for item in value]
    except (LookupError, TypeError, ValueError):
        return value
    if len(set(order)) < len(order):  # some servers give every item the same index
        return value
    return [item for _, item in sorted(zip(order, value, strict=True), key=itemgetter(0))]


def read_vectors(data: Any, entry: EmbeddingApiModel, *, n_texts: int) -> np.ndarray:
    """Read the vectors of an answer: (n_texts, dim) float32 of unit length.

    Raises TryFailedError if their number is wrong, they differ in length, or one is zero or not
    finite.
    """
    try:
        listed = values_at(data, entry.vectors_path)
    except (LookupError, TypeError, ValueError) as error:
        has = ", ".join(map(str, data)) if isinstance(data, dict) else type(data).__name__
        raise TryFailedError(
            "no_vectors",
            f"the answer has nothing at {entry.vectors_path} ({type(error).__name__} {error}); it "
            f"has {has}. Check vectors_path of the model's entry",
            action="stop",
        ) from None
    try:
        values = np.array(listed, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        values = np.empty(0)
    norms = np.linalg.norm(values, axis=-1, keepdims=True)
    is_whole = values.ndim == 2 and len(values) == n_texts and np.isfinite(values).all()
    if not (is_whole and norms.all()):
        kinds = ", ".join(sorted({type(vector).__name__ for vector in listed})) or "nothing"
        wanted = f"{n_texts} lists of the same number of finite numbers, not all zeros"
        raise TryFailedError("bad_vectors", f"expected {wanted}; found {len(listed)} ({kinds})")
    unit: np.ndarray = (values / norms).astype(np.float32)
    return unit


def read_tokens(data: Any, entry: EmbeddingApiModel) -> int | None:
    """Return the service's token count; None if the answer does not report it.

    An impossible count, such as 0, is ignored, because it would break the budget.
    """
    try:
        counted = sum(int(value) for value in values_at(data, entry.tokens_path))
    except (LookupError, TypeError, ValueError, OverflowError):
        return None
    return counted if 1 <= counted <= _MOST_COUNTED else None


class EmbeddingClient(Connection):
    """Client of one embedding service, by its entry. Used and closed inside one event loop.

    Parameters
    ----------
    model
        Id of the entry, for messages. The API key is read from the environment.
    budget
        Limit on the cost of requests.
    dim
        Required dimensions of vectors; None: the dimensions of the first vectors.
    n_special
        Special tokens that the entry's tokenizer adds to each text.
    """

    def __init__(
        self,
        entry: EmbeddingApiModel,
        model: str,
        budget: Budget,
        *,
        dim: int | None = None,
        n_special: int = 0,
    ) -> None:
        from openai import Omit

        super().__init__(
            AskPolicy.model_construct(
                concurrency=entry.concurrency,
                timeout_s=entry.timeout_s,
                deadline_s=entry.max_attempts * (entry.timeout_s + MOST_RETRY_PAUSE_S),
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
        self._counts = TokenCounts(entry, model, n_special=n_special)
        self._per_token = 1.0  # largest ratio of the service's token count to ours

    async def ask(
        self, texts: Sequence[str], role: Role, n_tokens: int, *, longest: int
    ) -> tuple[np.ndarray, int]:
        """Return the vectors of texts and the number of tokens paid.

        ``n_tokens`` is our count of all texts, ``longest`` of the longest one.

        Vectors are (n_texts, dim) float32 of unit length. Tokens paid are the service's count, or
        ours if the answer does not report it.

        Raises
        ------
        InputError
            If the service returns none, or those of another model.
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
                    f"model {self._model!r}: the service returned vectors with {vectors.shape[1]} "
                    f"dimensions, but earlier vectors have {self.dim}, so it is another model. "
                    "Check model and fields, or set version in its entry, so that its vectors are "
                    "stored separately"
                )
            self.dim = vectors.shape[1]
            if counted is not None:
                self._counts.compare(
                    counted, n_tokens, n_texts=len(texts), longest=longest, role=role
                )
            return vectors, paid

        try:
            return await self.post(entry.url, call, lambda: request_body(entry, texts, role), read)
        except TryFailedError as failure:
            remedy = ""
            if failure.reason in TOO_LARGE:
                remedy = (
                    f"The request has {len(texts)} texts and {n_tokens:,} tokens: if that is too "
                    f"many, lower texts_per_request ({entry.texts_per_request}) or "
                    f"tokens_per_request ({entry.tokens_per_request:,}) in the model's entry; if "
                    f"a single text is too long, lower max_tokens ({entry.max_tokens:,}). "
                )
            raise InputError(
                f"model {self._model!r}: no vectors from {entry.url}: {failure}. {remedy}"
                f"See docs/embedding-apis.md; the API key is in the variable {entry.key_env} "
                "(key_env). All vectors so far are stored; run again to continue."
            ) from None
