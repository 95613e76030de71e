"""Asking an embedding service: requests, their bodies and answers, tries, waits and the budget.

Keys, what an error status means, and waits are those of ``psibench.llm``. Its client is not: where
embedding services differ is data of an entry, a request is many texts, and their vectors go to a
store of their own.
"""

import asyncio
import contextlib
import json
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.errors import InputError
from psibench.llm.connection import DETAIL_CHARS, status_failure
from psibench.llm.retry import TryFailedError, backoff_s
from psibench.llm.secret import Secret
from psibench.llm.usage import BudgetReachedError
from psibench.models.api.ledger import Ledger
from psibench.models.protocols import Role, StopCheck

if TYPE_CHECKING:
    import aiohttp


EVERY = "*"
MOST_TOKENS = 10**9
"""Of one answer: beyond what any service takes at once."""
LOCAL = ("localhost", "127.0.0.1", "::1")
BACKOFF_S, MOST_BACKOFF_S = 1.0, 60.0
"""Wait after a first failure, doubled after each further one; the longest."""
MOST_RETRY_AFTER_S = 900.0
"""A service that asks for a longer pause ends the job: what it waits for is a quota."""
MOST_UNREADABLE = 3
"""Tries of a request whose answers cannot be used: they may be paid for."""
LOOK_S = 0.5
"""How often it is looked whether the job has to end."""
GRACE_S = 10.0
"""How long requests under way may take once it has; batch systems kill 30 s after SIGTERM."""

UNREADABLE = frozenset(
    {"not_json", "wrong_count", "not_finite", "not_numbers", "wrong_shape", "zero_vector"}
)
PERHAPS_BILLED = UNREADABLE | {"timeout", "broken_off", "no_vectors"}
"""Failures after which the service may have done the work: they count at the most."""


@dataclass(frozen=True)
class ApiRequest:
    """Texts of one request.

    Attributes
    ----------
    keys
        Address of each text's vector in the store.
    texts
        What is sent.
    n_tokens
        Their tokens by our count.
    """

    role: Role
    keys: tuple[bytes, ...]
    texts: tuple[str, ...]
    n_tokens: int


TakeVectors = Callable[[ApiRequest, np.ndarray], None]


def pack(
    n_tokens: Sequence[int], *, texts_per_request: int, tokens_per_request: int
) -> Iterator[range]:
    """Cut texts, in their order, into requests within both limits.

    A text of more tokens than a request may have makes one of its own.

    Parameters
    ----------
    n_tokens
        Tokens of each text.
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


def request_body(entry: EmbeddingApiModel, texts: list[str], role: Role) -> bytes:
    """Return the JSON body of a request."""
    body = {"model": entry.model, **role_fields(entry, role), entry.texts_field: texts}
    return json.dumps(body, ensure_ascii=False).encode()


def check_paths(entry: EmbeddingApiModel, *, model: str) -> None:
    """Raise InputError if ``vectors_path`` cannot name several vectors."""
    if EVERY not in entry.vectors_path.split("."):
        raise InputError(
            f"model {model!r}: vectors_path {entry.vectors_path!r} names one value; give the place "
            "of every vector, with * for every item, as data.*.embedding or embeddings.float.*"
        )


def values_at(data: Any, path: str) -> list[Any]:
    """Return all values at a path of keys with dots between; ``*`` stands for every item.

    Items that all carry an ``index`` (OpenAI's, Voyage's, Jina's do) come in its order.

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
            found = [value[int(key) if isinstance(value, list) else key] for value in found]
    return found


def _in_order(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{type(value).__name__} is no list")
    order = [item.get("index") for item in value if isinstance(item, dict)]
    if sorted(map(str, order)) != sorted(map(str, range(len(value)))):
        return value
    return sorted(value, key=lambda item: int(item["index"]))


def read_vectors(data: Any, entry: EmbeddingApiModel, *, n_texts: int) -> np.ndarray:
    """Read the vectors of an answer.

    Returns
    -------
    np.ndarray
        (n_texts, dim) float32 of unit length.

    Raises
    ------
    TryFailedError
        If there are not as many, they differ in length, or one is zero or not finite.
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
    if len(found) != n_texts:
        raise TryFailedError("wrong_count", f"{len(found)} vectors for {n_texts} texts")
    return _unit_vectors(found)


def _unit_vectors(found: list[Any]) -> np.ndarray:
    if any(isinstance(vector, str) for vector in found):
        raise TryFailedError(
            "not_numbers", "vectors are text; ask for numbers (encoding_format)", verdict="stop"
        )
    try:
        values = np.array(found, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TryFailedError("not_numbers", str(error)) from None
    if values.ndim != 2 or not values.shape[1]:
        raise TryFailedError("wrong_shape", f"an array of {values.shape}, not a vector per text")
    if not np.isfinite(values).all():
        bad = int((~np.isfinite(values).all(axis=1)).sum())
        raise TryFailedError("not_finite", f"{bad} of {len(values)} vectors have NaN or infinity")
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    if not norms.all():
        raise TryFailedError("zero_vector", f"{int((norms == 0).sum())} vectors are all zeros")
    unit: np.ndarray = (values / norms).astype(np.float32)
    return unit


def read_tokens(data: Any, entry: EmbeddingApiModel) -> int | None:
    """Return the tokens that the service counted; None where the answer does not say.

    A count that no answer can have is not believed: a budget would be passed, or used up, by it.
    """
    try:
        counted = sum(int(value) for value in values_at(data, entry.tokens_path))
    except (LookupError, TypeError, ValueError, OverflowError):
        return None
    return counted if 0 <= counted <= MOST_TOKENS else None


class EmbeddingClient:
    """Posts bodies to one address. Used and closed inside one event loop.

    Parameters
    ----------
    entry
        Address and the name of the key's environment variable. The key is read here, and nowhere
        kept but in this object.

    Raises
    ------
    InputError
        If the environment variable of the key is not set.
    """

    def __init__(self, entry: EmbeddingApiModel) -> None:
        self._url, self._timeout_s = entry.url, entry.timeout_s
        self._concurrency = entry.concurrency
        self._secret = Secret.from_environment(entry.key_env, key="key_env")
        self._session: aiohttp.ClientSession | None = None

    async def post(self, body: bytes) -> Any:
        """Post a body and return the answer as plain data.

        Raises
        ------
        TryFailedError
            If there is none, or it is no JSON; its words hold no key.
        """
        import aiohttp

        try:
            async with asyncio.timeout(self._timeout_s):
                async with self._opened().post(
                    self._url, data=body, allow_redirects=False
                ) as response:
                    content = await response.read()
        except TimeoutError:
            raise TryFailedError("timeout", f"no answer in {self._timeout_s:g} s") from None
        except aiohttp.ClientPayloadError as error:
            raise TryFailedError("broken_off", self._secret.scrub(str(error))) from None
        except (aiohttp.ClientError, OSError) as error:
            words = self._secret.scrub(f"{type(error).__name__} {error}".strip())
            raise TryFailedError("connection", words[:DETAIL_CHARS]) from None
        if response.status >= 300:
            raise self._failure(response.status, content, response.headers)
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            words = self._secret.scrub(content[:DETAIL_CHARS].decode("utf-8", "replace"))
            raise TryFailedError("not_json", words) from None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _opened(self) -> "aiohttp.ClientSession":
        import aiohttp

        if self._session is None:
            headers = {"Content-Type": "application/json"}
            if key := self._secret.reveal():
                headers["Authorization"] = f"Bearer {key}"
            self._session = aiohttp.ClientSession(
                headers=headers,
                connector=aiohttp.TCPConnector(limit=self._concurrency),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                trust_env=urlsplit(self._url).hostname not in LOCAL,
            )
        return self._session

    def _failure(self, status: int, content: bytes, headers: Any) -> TryFailedError:
        """Read an error as OpenAI words it (error.message), Cohere (message), Voyage (detail)."""
        text = content.decode("utf-8", "replace")
        error: object = None
        try:
            data = json.loads(content)
        except (ValueError, RecursionError):
            data = None
        if isinstance(data, dict):
            error = data.get("error")
            for said in (error, data.get("message"), data.get("detail")):
                if isinstance(said, str):
                    text = said
                    break
        return status_failure(status, error, self._secret, text=text, headers=headers)


@dataclass
class ApiBudget:
    """Holds one job's requests to ``budget_usd``, against what all jobs noted in the ledger.

    Two jobs that look at the same moment may pass it by a request each.
    """

    entry: EmbeddingApiModel
    ledger: Ledger
    model: str

    def __post_init__(self) -> None:
        self._per_token = 1.0
        self._n_under_way = 0
        self._settled = asyncio.Event()

    def most(self, request: ApiRequest) -> int:
        """Return the most tokens a request can use: our count, times what a service added so far.

        A service may count more than the tokenizer does: prompts of its own, say.
        """
        return math.ceil(request.n_tokens * self._per_token)

    async def reserve(self, request: ApiRequest, halted: asyncio.Event) -> int | None:
        """Note that a request leaves, once the budget holds it; its number in the ledger.

        None if ``halted`` is set: it is not to leave.

        Raises
        ------
        BudgetReachedError
            If it does not fit, and none of this job is under way that may use less than reserved.
        """
        limit = self.entry.budget_usd
        while limit is not None and not halted.is_set():
            spent = self.ledger.spent_usd()
            if spent + (self.ledger.cost(self.most(request)) or 0.0) <= limit * (1 + 1e-12):
                break
            if not self._n_under_way:
                raise BudgetReachedError(
                    f"model {self.model!r}: budget_usd {limit:g}: the next request could pass it "
                    f"({spent:.4f} USD spent). All vectors so far are stored; raise budget_usd and "
                    "run again to go on."
                )
            self._settled.clear()
            await self._settled.wait()
        if halted.is_set():
            return None
        self._n_under_way += 1
        return self.ledger.send(texts=len(request.texts), tokens=self.most(request))

    def learn(self, request: ApiRequest, used: int) -> None:
        """Take note of what the service counted for a request."""
        self._per_token = max(self._per_token, used / max(1, request.n_tokens))

    def settle(self, number: int, *, tokens: int, seconds: float, has_vectors: bool) -> None:
        """Replace a reservation by what was used."""
        self.ledger.settle(number, tokens=tokens, seconds=seconds, has_vectors=has_vectors)
        self._n_under_way -= 1
        self._settled.set()


@dataclass
class ApiAsker:
    """Asks requests under an entry's policy.

    Attributes
    ----------
    model
        Id of the model, for messages.
    dim
        Dimensions of the vectors so far; None before the first.
    """

    entry: EmbeddingApiModel
    client: EmbeddingClient
    ledger: Ledger
    model: str
    dim: int | None = None
    rng: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self._budget = ApiBudget(self.entry, self.ledger, self.model)
        self._paused_to = 0.0
        self._halted = asyncio.Event()
        self._error: BaseException | None = None

    async def ask_all(
        self, requests: Iterator[ApiRequest], take: TakeVectors, *, stop: StopCheck | None = None
    ) -> None:
        """Ask all requests and hand each one's vectors to ``take`` as they come.

        After an error no further request is sent; those under way are waited for, and taken.

        Raises
        ------
        InputError
            If the service refuses a request, or one fails to the last try.
        BudgetReachedError
            If the next request could pass the budget. It was not sent.
        BaseException
            What ``stop.check`` raises, once what is under way is taken or was given up.
        """
        workers = [
            asyncio.create_task(self._work(requests, take)) for _ in range(self.entry.concurrency)
        ]
        try:
            await self._watch(workers, stop)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        if self._error is not None:
            raise self._error

    async def _watch(self, workers: "list[asyncio.Task[None]]", stop: StopCheck | None) -> None:
        """Wait for all workers; once the job has to end, for so long only."""
        deadline = float("inf")
        left = set(workers)
        while left and time.monotonic() < deadline:
            _, left = await asyncio.wait(left, timeout=LOOK_S)
            if stop is None or deadline != float("inf"):
                continue
            try:
                stop.check()
            except BaseException as told:
                self._halt(told)
                deadline = time.monotonic() + GRACE_S

    def _halt(self, error: BaseException) -> None:
        """Send nothing more; what is under way is still received."""
        self._error = self._error or error
        self._halted.set()

    async def _work(self, requests: Iterator[ApiRequest], take: TakeVectors) -> None:
        try:
            while self._error is None and (request := next(requests, None)) is not None:
                vectors = await self._ask(request)
                if vectors is not None:
                    take(request, vectors)
        except TryFailedError as failure:
            self._halt(refused(self.model, self.entry, failure))
        except Exception as error:
            self._halt(error)

    async def _ask(self, request: ApiRequest) -> np.ndarray | None:
        """Return a request's vectors; None if the asking ends before it was sent."""
        body = request_body(self.entry, list(request.texts), request.role)
        n_failed = n_unreadable = 0
        while True:
            await self._sleep(self._paused_to - time.monotonic())
            number = await self._budget.reserve(request, self._halted)
            if number is None:
                return None
            try:
                return await self._try(request, body, number)
            except TryFailedError as failure:
                n_failed += 1
                n_unreadable += failure.reason in UNREADABLE
                is_last = n_failed >= self.entry.max_attempts or n_unreadable >= MOST_UNREADABLE
                if failure.verdict != "retry" or is_last:
                    raise
                await self._wait(failure, n_failed)

    async def _try(self, request: ApiRequest, body: bytes, number: int) -> np.ndarray:
        """Send a request once and read its vectors; note in the ledger what came of it."""
        started = time.monotonic()
        used = self._budget.most(request)
        vectors = None
        try:
            data = await self.client.post(body)
            counted = read_tokens(data, self.entry)
            used = request.n_tokens if counted is None else counted
            self._budget.learn(request, used)
            vectors = self._checked(read_vectors(data, self.entry, n_texts=len(request.texts)))
            return vectors
        except TryFailedError as failure:
            if failure.reason not in PERHAPS_BILLED:
                used = 0
            raise
        finally:
            seconds = time.monotonic() - started
            self._budget.settle(
                number, tokens=used, seconds=seconds, has_vectors=vectors is not None
            )

    def _checked(self, vectors: np.ndarray) -> np.ndarray:
        """Return vectors that have the dimensions of those before."""
        if self.dim is not None and vectors.shape[1] != self.dim:
            raise other_dimensions(self.model, vectors.shape[1], self.dim)
        self.dim = vectors.shape[1]
        return vectors

    async def _wait(self, failure: TryFailedError, n_failed: int) -> None:
        asked_s = failure.retry_after_s
        if asked_s is not None and asked_s > MOST_RETRY_AFTER_S:
            raise failure
        if asked_s is not None and failure.reason == "http_429":
            self._paused_to = max(self._paused_to, time.monotonic() + asked_s)
        waits = {"base_s": BACKOFF_S, "most_s": MOST_BACKOFF_S}
        await self._sleep(backoff_s(n_failed, asked_s=asked_s, rng=self.rng, **waits))

    async def _sleep(self, seconds: float) -> None:
        """Wait, unless the asking ends before."""
        if seconds > 0 and self._error is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._halted.wait(), seconds)


def refused(model: str, entry: EmbeddingApiModel, failure: TryFailedError) -> InputError:
    """Say what the service said, and what may be done about it."""
    return InputError(
        f"model {model!r}: no vectors from {entry.url}: {failure}. {_advice(failure, entry)} "
        "All vectors so far are stored; run again to go on."
    )


def other_dimensions(model: str, found: int, before: int) -> InputError:
    """Say that vectors cannot be of the model that gave those before."""
    return InputError(
        f"model {model!r}: the service gave vectors of {found} dimensions, and of {before} before: "
        "it is another model. Check model and fields, or set version in its entry, so that its "
        "vectors are stored apart"
    )


def _advice(failure: TryFailedError, entry: EmbeddingApiModel) -> str:
    match failure.reason:
        case "http_401" | "http_403":
            key = entry.key_env or "(key_env is null: none is sent)"
            return f"Check the key in the environment variable {key}."
        case "http_400" | "http_413" | "http_422":
            return (
                "Check model, query_fields and document_fields, and whether texts_per_request, "
                "tokens_per_request and max_tokens are within the service's limits."
            )
        case "http_404":
            return "Check url and model."
        case "no_vectors" | "not_numbers" | "wrong_shape" | "wrong_count":
            return "Check url, vectors_path and the fields."
    return "Try again later, or lower concurrency."
