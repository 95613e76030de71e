"""Chat completions over HTTP, through the `openai` client and its aiohttp transport."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from psibench.config.llms import STAND_IN_PREFIX, LlmSettings
from psibench.errors import InputError
from psibench.llm.answer import Answer
from psibench.llm.connection import DETAIL_CHARS, async_client, error_code, failures
from psibench.llm.limits import Call, Meter, Turnstile
from psibench.llm.request import Request
from psibench.llm.retry import TryFailedError, verdict_of
from psibench.llm.secret import Secret
from psibench.llm.usage import Budget, Usage
from psibench.tables.provenance import now

if TYPE_CHECKING:
    import httpx2

CONNECTIONS_PER_CLIENT = 128

_CALL: ContextVar[Call] = ContextVar("call")
"""The call that an HTTP request is made for: the `openai` client sends several where it retries."""


@dataclass(frozen=True)
class Reply:
    """A reply as the server gave it."""

    model: str
    text: str
    finish_reason: str
    refusal: str | None
    usage: Usage
    latency_s: float
    n_tries: int = 1

    @classmethod
    def filtered(cls, model: str, failure: TryFailedError) -> "Reply":
        """Turn an error that says "filtered" into the reply other servers give in that case."""
        return cls(model, failure.detail, "content_filter", None, Usage(), 0.0)

    def to_answer(self, key: str, task: str) -> Answer:
        """Return what the store keeps of it."""
        return Answer(key=key, task=task, created=now(), **vars(self))


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
        self._meter.settle(call, reply.usage)
        return replace(reply, n_tries=call.n_tries)

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
            words = self._obituary() if isinstance(error, httpx2.TransportError) else None
            if words is not None:
                raise InputError(
                    f"{words}\nAll answers so far are stored; run again to go on."
                ) from None
            raise
        if response.status_code >= 400:
            self._meter.settle(call, Usage())
            if verdict_of(response.status_code, error_code(response)) == "stop":
                response.headers["x-should-retry"] = "false"  # heeded by the openai client
        return response

    def _reply(self, request: Request, content: bytes, latency_s: float) -> Reply:
        try:
            data = json.loads(content)
        except ValueError:
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
    except (LookupError, TypeError, AttributeError, ValueError):
        words = secret.scrub(json.dumps(data)[:DETAIL_CHARS])
        raise TryFailedError("no_choices", words) from None
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
        model=secret.scrub_exactly(str(data.get("model") or "")),
        text=secret.scrub_exactly(_text(message.get("content"))),
        finish_reason=str(choice.get("finish_reason") or ""),
        refusal=secret.scrub_exactly(str(refusal)) if refusal else None,
        usage=_usage(data.get("usage") or {}),
        latency_s=round(latency_s, 3),
    )


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, list):  # parts, as some servers send them
        return "".join(str(part.get("text", "")) for part in content)
    return str(content)


def _usage(given: Mapping[str, Any]) -> Usage:
    cached = (given.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    reasoning = (given.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    return Usage(
        input_tokens=int(given.get("prompt_tokens") or 0),
        output_tokens=int(given.get("completion_tokens") or 0),
        cached_input_tokens=int(cached),
        reasoning_tokens=int(reasoning),
    )
