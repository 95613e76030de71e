"""Chat completions over HTTP, through the `openai` client and its aiohttp transport."""

import asyncio
import itertools
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from psibench.config.llms import STAND_IN_PREFIX, LlmSettings
from psibench.errors import InputError
from psibench.llm.answer import Answer
from psibench.llm.connection import DETAIL_CHARS, OPENAI_URL, async_client, error_code, failures
from psibench.llm.limits import Call, Meter, Turnstile
from psibench.llm.request import Request
from psibench.llm.retry import TryFailedError, verdict_of
from psibench.llm.secret import Secret
from psibench.llm.usage import Budget, Usage
from psibench.tables.provenance import now

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger("psibench")

CONNECTIONS_PER_CLIENT = 128

_CALL: ContextVar[Call] = ContextVar("call")
"""The call that an HTTP request is made for: the `openai` client sends several where it retries."""


TROUBLE_EVERY_S = 30.0
"""How often the log is told how many HTTP requests failed, after the first of each kind."""

HOPELESS_AFTER = 20
"""Answers of status 500 with the same words, and no other, after which a server is given up: it
cannot do what is asked (a reply format it does not know), and says so in this way."""

FORMAT_WORDS = ("json_schema", "response_format", "grammar", "schema")

MODEL_CHARS, FINISH_CHARS = 200, 50
"""Characters kept of a model's name and of a finish reason."""


@dataclass(frozen=True)
class Reply:
    """A reply as the server gave it; ``usage`` is None where it gave none that can be believed."""

    model: str
    text: str
    finish_reason: str
    refusal: str | None
    usage: Usage | None
    latency_s: float
    n_tries: int = 1

    @classmethod
    def filtered(cls, model: str, failure: TryFailedError) -> "Reply":
        """Turn an error that says "filtered" into the reply other servers give in that case."""
        return cls(model, failure.detail, "content_filter", None, Usage(), 0.0)

    def to_answer(self, key: str, task: str) -> Answer:
        """Return what the store keeps of it."""
        own = vars(self) | {"usage": self.usage or Usage()}
        return Answer(key=key, task=task, created=now(), **own)


class _Troubles:
    """HTTP requests that failed: what the log is told, and whether more of them make sense."""

    def __init__(self) -> None:
        self.is_answered = False
        self._counts: Counter[str] = Counter()
        self._words: set[str] = set()
        self._told_s = 0.0

    @property
    def are_hopeless(self) -> bool:
        """Whether nothing but one and the same error 500 ever came back, and often enough."""
        is_one = self._counts.keys() == {"http_500"} and len(self._words) == 1
        return is_one and not self.is_answered and self._counts["http_500"] >= HOPELESS_AFTER

    def note(self, kind: str, words: str) -> None:
        """Count a failure; tell the log the first of its kind, and all counts now and then."""
        self._counts[kind] += 1
        if len(self._words) < 2:
            self._words.add(words)
        if self._counts[kind] == 1:
            logger.warning("first %s: %s", kind, words or "without words")
            self._told_s = time.monotonic()
        elif time.monotonic() - self._told_s >= TROUBLE_EVERY_S:
            counts = ", ".join(f"{name} {count}" for name, count in self._counts.most_common())
            logger.warning("failed so far, and tried again where that may help: %s", counts)
            self._told_s = time.monotonic()

    def as_stop(self, failure: TryFailedError) -> TryFailedError:
        """Return a failure that ends the run, with what may help."""
        words = f"{failure.detail} (all of the first {self._counts['http_500']} answers)"
        if any(word in failure.detail for word in FORMAT_WORDS):
            words += ". The server may not know this reply_format: try json_object or text"
        return TryFailedError(failure.reason, words, verdict="stop")


class ChatClient(Protocol):
    """Whatever answers requests."""

    async def ask(self, request: Request) -> Reply:
        """Return the reply to a request; raise TryFailedError if it gets none."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class OpenAIChatClient:
    """Any server that speaks OpenAI's chat completions.

    What may pass (status 408, 409, 429 and 5xx, broken connections, time-outs) the `openai` client
    tries again: after the server's Retry-After, up to two minutes, or else after half a second,
    doubled each time up to eight. Each HTTP request is paced and counted by the budget.

    Parameters
    ----------
    settings
        Address, model, format and policy. The key is read from the environment here, and nowhere
        kept but in the HTTP clients.
    base_url
        Overrides the address (the stand-in's port is known only once it runs).
    budget
        What may be spent.
    obituary
        Asked when a connection breaks: how the server ended, or None while it runs.
    """

    def __init__(
        self,
        settings: LlmSettings,
        *,
        base_url: str | None = None,
        budget: Budget | None = None,
        obituary: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._secret = Secret.from_environment(settings.api_key_env)
        self._output_limit_key = settings.output_limit_key
        self._policy, self._obituary = settings.asking, obituary
        self._meter = Meter(
            self._policy.requests_per_minute, self._policy.tokens_per_minute, budget
        )
        address = base_url or settings.base_url
        n_clients = -(-self._policy.concurrency // CONNECTIONS_PER_CLIENT)
        self._clients = [
            async_client(settings, address, self._secret, around=self._send)
            for _ in range(n_clients)
        ]
        self._troubles = _Troubles()
        n_at_once = self._policy.concurrency
        logger.info(
            "asking %s at %s, up to %d at once", settings.model, address or OPENAI_URL, n_at_once
        )
        self._turnstile = Turnstile()
        self._turn = itertools.cycle(self._clients)

    async def ask(self, request: Request) -> Reply:
        """Return the reply to a request; one that is no chat completion is asked for again.

        Raises
        ------
        TryFailedError
            If there is none: rejected, tries or deadline used up, or no request will do. Its
            words hold no key.
        BudgetReachedError
            If the next HTTP request could pass the budget. It was not sent.
        InputError
            If the server has ended.
        """
        call = Call(request)
        _CALL.set(call)
        for n_left in range(self._policy.max_reasks, -1, -1):
            await self._meter.admit(call)
            await self._turnstile.enter()
            body = json.dumps(request.body(output_limit_key=self._output_limit_key)).encode()
            try:
                return await self._ask_once(call, request, body)
            except TryFailedError as failure:
                if failure.reason == "content_filter":
                    return Reply.filtered(request.model, failure)
                if self._troubles.are_hopeless and failure.reason == "http_500":
                    raise self._troubles.as_stop(failure) from None
                if failure.reason not in ("not_json", "no_choices") or not n_left:
                    raise
            finally:
                self._meter.settle(call, None)  # where there was no usage to be read
        raise AssertionError("not reached")

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients:
            await client.close()

    async def _ask_once(self, call: Call, request: Request, body: bytes) -> Reply:
        content, latency_s = await self._post(body)
        reply = self._reply(request, content, latency_s)
        # What was used and not told counts as all that was reserved, in this run and the next.
        used = reply.usage or (call.most if self._meter.has_budget else None)
        self._meter.settle(call, used)
        return replace(reply, usage=used, n_tries=call.n_tries)

    async def _post(self, body: bytes) -> tuple[bytes, float]:
        import httpx2

        with failures(self._secret, policy=self._policy):
            async with asyncio.timeout(self._policy.deadline_s):
                response = await next(self._turn).post(
                    "/chat/completions",
                    cast_to=httpx2.Response,
                    content=body,
                    options={"headers": {"Content-Type": "application/json"}},
                )
        return bytes(response.content), response.elapsed.total_seconds()

    async def _send(self, send: "Callable[[], Awaitable[httpx2.Response]]") -> "httpx2.Response":
        """Send one HTTP request of the call under way, as the limits allow; see what it used."""
        import httpx2

        call = _CALL.get()
        if call.reserved_usd is None:  # a further try
            await self._meter.admit(call)
        call.n_tries += 1
        try:
            response = await send()
        except BaseException as error:
            # The server may have done the work. What was never answered is not billed.
            perhaps_billed = (httpx2.ReadTimeout, httpx2.ReadError, asyncio.CancelledError)
            self._meter.settle(call, None if isinstance(error, perhaps_billed) else Usage())
            if isinstance(error, httpx2.TransportError):
                self._troubles.note(type(error).__name__, self._secret.scrub(str(error)))
            words = self._obituary() if isinstance(error, httpx2.TransportError) else None
            if words is not None:
                raise InputError(
                    f"{words}\nAll answers so far are stored; run again to go on."
                ) from None
            raise
        self._troubles.is_answered |= response.status_code < 300
        if response.status_code >= 300:
            self._meter.settle(call, Usage())
            words = self._secret.scrub(response.text)[:DETAIL_CHARS]
            self._troubles.note(f"http_{response.status_code}", words)
            is_stop = verdict_of(response.status_code, error_code(response)) == "stop"
            if is_stop or self._troubles.are_hopeless:
                response.headers["x-should-retry"] = "false"  # heeded by the openai client
        return response

    def _reply(self, request: Request, content: bytes, latency_s: float) -> Reply:
        try:
            data = json.loads(content)
        except (ValueError, RecursionError):
            words = self._secret.scrub(content[:DETAIL_CHARS].decode("utf-8", "replace"))
            raise TryFailedError("not_json", words) from None
        return read_reply(data, request.model, self._secret, latency_s=latency_s)


def read_reply(data: Any, model: str, secret: Secret, *, latency_s: float = 0.0) -> Reply:
    """Read a chat completion that ``model`` was asked for.

    Raises
    ------
    TryFailedError
        If it is none, or a stand-in answered for a model or a model for a stand-in.
    """
    try:
        reply = _read_completion(data, latency_s, secret)
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError, RecursionError):
        raise TryFailedError("no_choices", secret.scrub(_shown(data))) from None
    if reply.model.startswith(STAND_IN_PREFIX) != model.startswith(STAND_IN_PREFIX):
        raise TryFailedError(
            "stand_in_mismatch",
            f"model {model!r} was asked for and {reply.model!r} answered; a stand-in's "
            "replies must not pass for a model's. Check base_url.",
            verdict="stop",
        )
    return reply


def _read_completion(data: Any, latency_s: float, secret: Secret) -> Reply:
    choice = data["choices"][0]
    message = choice["message"]
    refusal = message.get("refusal")
    return Reply(
        model=_word(data.get("model"), secret, MODEL_CHARS),
        text=secret.scrub_exactly(_text(message.get("content"))),
        finish_reason=_word(choice.get("finish_reason"), secret, FINISH_CHARS),
        refusal=secret.scrub_exactly(str(refusal)) if refusal else None,
        usage=_usage(data.get("usage")),
        latency_s=round(latency_s, 3),
    )


def _word(given: object, secret: Secret, most: int) -> str:
    """Return a short text that can be shown and stored, whatever the server put there."""
    text = secret.scrub(str(given or ""))[:most]
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _shown(data: object) -> str:
    """Return the beginning of JSON data; the parser allows deeper nesting than the writer."""
    try:
        return json.dumps(data)[:DETAIL_CHARS]
    except RecursionError:
        return "deeply nested JSON"


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, list):  # parts, as some servers send them
        return "".join(str(part.get("text", "")) for part in content)
    return str(content)


def _usage(given: object) -> Usage | None:
    if not isinstance(given, dict) or not given:
        return None
    prompt, completion = (
        inner if isinstance(inner, dict) else {}
        for inner in (given.get("prompt_tokens_details"), given.get("completion_tokens_details"))
    )
    return Usage.read(
        {
            "input_tokens": given.get("prompt_tokens"),
            "output_tokens": given.get("completion_tokens"),
            "cached_input_tokens": prompt.get("cached_tokens"),
            "reasoning_tokens": completion.get("reasoning_tokens"),
        }
    )
