"""Connections to a server, and their failures: the only HTTP client of the package.

The `openai` client sends, waits and retries. This module adds a budget and logs failures for each
HTTP request. Prompts, texts and API keys are sent only to the address in the config, and no error
message contains a key.
"""

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

from psibench.config.secrets import Secret, without_keys
from psibench.errors import InputError
from psibench.llm.limits import Budget, Call, Turnstile
from psibench.llm.sections import AskPolicy
from psibench.llm.usage import Usage
from psibench.progress import warn
from psibench.reading import one_line

if TYPE_CHECKING:
    import httpx2

    Around = Callable[[Callable[[], Awaitable[httpx2.Response]]], Awaitable[httpx2.Response]]

logger = logging.getLogger("psibench")

_T = TypeVar("_T")
Action = Literal["retry", "reject", "stop"]
"""After a failure: try again, give this request up, or send no request at all."""

OPENAI_URL = "https://api.openai.com/v1"
MOST_REPLY_BYTES = 16 << 20
"""Limit for a chat completion, unpacked; callers that expect more set another limit."""
SERVER_TEXT_CHARS = 500
_LOCAL = ("localhost", "127.0.0.1", "::1")

RETRY_STATUS = frozenset({408, 409, 425, 429})
STOP_STATUS = frozenset({401, 402, 403, 404, 405})
"""Every other request would fail, too: wrong key, no credit, wrong address or model. The same holds
for redirections (3xx), which are not followed."""

_STOP_CODES = frozenset(
    {"insufficient_quota", "invalid_api_key", "model_not_found", "exceeded_current_quota_error"}
    | {"billing_not_active", "billing_hard_limit_reached", "Arrearage", "model_decommissioned"}
)
"""Codes or types of OpenAI, Moonshot, DashScope and Groq, some of them with status 400 or 429."""

FORBIDDEN = "http_403"
"""Reason of a wrong key or a missing permission, or of a firewall that refuses single texts."""
NOT_SERVED = frozenset({"http_404", "http_405"})
"""Reasons if the server has no such address, or no such model."""
_FILTER_CODES = frozenset(
    {"content_filter", "content_policy_violation"}
    | {"data_inspection_failed", "DataInspectionFailed"}
)
"""Codes or types of OpenAI, Azure and DashScope."""
_FILTER_MESSAGE = re.compile(
    r"violates usage guidelines|SAFETY_CHECK|input was flagged", re.IGNORECASE
)
"""Messages with status 403 of content filters: xAI, OpenRouter."""

PROMPT_TOO_LONG = "prompt_too_long"
"""Reason if a prompt, with the reply it allows, exceeds the context of the server's model."""
_CONTEXT_STATUS = frozenset({400, 413, 422, 500})
_CONTEXT_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})
"""Codes or types of OpenAI and llama-cpp-python, and of llama.cpp."""
_CONTEXT_MESSAGE = re.compile(
    r"maximum context length|available context size|too long to fit into the model"
    r"|exceeds? (?:the )?context (?:window|length|size)"
    r"|longer than the (?:maximum model length|model's context length)"
    r"|prompt is too long|input token count\b.* exceeds|inputs?` (?:tokens \+|must have less than)",
    re.IGNORECASE | re.DOTALL,
)
"""Messages of servers without such a code: vLLM, llama-cpp-python, SGLang, Mistral, Anthropic,
Gemini, text-generation-inference."""

_CALL: ContextVar[Call] = ContextVar("call")
"""The call for which an HTTP request is sent; the `openai` client may send several."""


class TryFailedError(Exception):
    """One request without a usable reply.

    ``reason`` is a short code (``http_429``, ``timeout``, ``connection``, ``not_json``, ...),
    ``detail`` the server's text, without keys. ``action``: ``retry`` may help; ``reject``: this
    request would fail again; ``stop``: every request would fail.
    """

    def __init__(self, reason: str, detail: str, *, action: Action = "retry") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail, self.action = reason, detail, action


class Connection:
    """Sends concurrent requests to one server. Used and closed inside one event loop.

    The `openai` client retries temporary failures (status 408, 409, 425, 429 and 5xx, broken
    connections, time-outs): after the server's Retry-After, up to two minutes, or else after half a
    second, doubled each time up to eight seconds. The budget counts each HTTP request.

    Parameters
    ----------
    policy, budget
        Limits on time and tries; limits on cost.
    model, address
        The model, for the log; the server, where None is api.openai.com.
    secret, headers
        The API key, held only here and in the HTTP client; further headers (``openai.Omit()``
        removes one).
    exit_reason
        Called when a connection breaks; returns how the server ended, or None while it runs.
    most_bytes
        Limit for a reply, unpacked; a larger one is not read to its end, and its request rejected.

    Attributes
    ----------
    url
        The server's address without keys, for messages.
    """

    def __init__(
        self,
        policy: AskPolicy,
        *,
        model: str,
        address: str | None,
        secret: Secret,
        headers: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
        exit_reason: Callable[[], str | None] = lambda: None,
        most_bytes: int = MOST_REPLY_BYTES,
    ) -> None:
        self._policy, self._secret, self._exit_reason = policy, secret, exit_reason
        self._headers = {"Content-Type": "application/json"} | dict(headers or {})
        self.budget = budget or Budget()
        self._client = open_client(
            policy, address, secret, around=self._send, most_bytes=most_bytes
        )
        self._turnstile = Turnstile()
        self._logged = set[str]()
        self.n_sent = self.n_timeouts = 0
        self.url = without_keys(address or OPENAI_URL)
        logger.info(
            "asking %s at %s, up to %d requests at once", model, self.url, policy.concurrency
        )

    async def post(
        self, path: str, call: Call, body: Callable[[], bytes], read: Callable[[Any, float], _T]
    ) -> _T:
        """Send a request until a reply can be read, at most ``max_reasks`` times more than once.

        ``path`` is relative to the address, or a whole address; ``body`` makes the body, when its
        turn has come. ``read`` takes plain data and the seconds until the reply, and may raise
        TryFailedError; it sets ``call.reported_usage`` as soon as it knows the usage that the
        answer reports.

        Raises
        ------
        TryFailedError
            If there is no usable reply: the request is rejected, tries or the deadline are used up,
            or every request would fail. Its text contains no key.
        BudgetReachedError
            If the next HTTP request could exceed the budget. It was not sent.
        InputError
            If the server has ended.
        """
        _CALL.set(call)
        for n_left in range(self._policy.max_reasks, -1, -1):
            await self.budget.admit(call)
            await self._turnstile.enter()
            try:
                response = await self._posted(path, body())
                try:
                    return read(self._data(response.content), response.elapsed.total_seconds())
                except TryFailedError as failure:
                    if failure.action != "retry" or not n_left:
                        raise
            finally:
                self.budget.finish(call, call.reported_usage)  # unusable replies may be billed
        raise AssertionError("not reached")

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def _posted(self, path: str, body: bytes) -> "httpx2.Response":
        import httpx2

        with failures(self._secret, policy=self._policy):
            async with asyncio.timeout(self._policy.deadline_s):
                return await self._client.post(
                    path,
                    cast_to=httpx2.Response,
                    content=body,
                    options={"headers": self._headers},
                )

    async def _send(self, send: "Callable[[], Awaitable[httpx2.Response]]") -> "httpx2.Response":
        """Send one HTTP request of the current call when the limits allow, and record its usage."""
        import httpx2

        call = _CALL.get()
        if not call.is_under_way:  # a retry
            await self.budget.admit(call)
        call.n_tries += 1
        self.n_sent += 1
        try:
            response = await send()
        except BaseException as error:
            self.n_timeouts += isinstance(error, httpx2.ReadTimeout)
            # After these errors the server may bill the work; other requests did not reach it.
            broken_off = (httpx2.ReadTimeout, httpx2.ReadError, asyncio.CancelledError)
            maybe_billed = (*broken_off, TryFailedError)
            self.budget.finish(call, None if isinstance(error, maybe_billed) else Usage())
            if isinstance(error, httpx2.TransportError):
                self._log_first(type(error).__name__, server_text(error, self._secret))
                if (end := self._exit_reason()) is not None:
                    message = f"{end}\nAll answers so far are stored; run again to continue."
                    raise InputError(message) from None
            raise
        if response.status_code < 300:
            if (status := _status_of_error(response.content)) is None:
                return response
            response.status_code = status
            self.budget.finish(call, None)  # maybe billed
        self.budget.finish(call, Usage())
        self._log_first(f"http_{response.status_code}", server_text(response.text, self._secret))
        self._set_retry_header(response)
        return response

    def _set_retry_header(self, response: "httpx2.Response") -> None:
        """Set the header by which the `openai` client decides whether to retry."""
        try:
            error = response.json()["error"]
        except (ValueError, LookupError, TypeError, RecursionError):
            error = None
        text = response.text[: 4 * SERVER_TEXT_CHARS]
        failure = status_failure(response.status_code, error, self._secret, text=text)
        headers, action = response.headers, failure.action
        if action == "stop" or failure.reason == PROMPT_TOO_LONG:
            headers["x-should-retry"] = "false"
        elif action == "retry":
            headers.setdefault("x-should-retry", "true")

    def _log_first(self, kind: str, detail: str) -> None:
        """Log a failure if it is the first of its kind."""
        if kind not in self._logged:
            self._logged.add(kind)
            logger.warning("first %s: %s", kind, detail or "no message")

    def _data(self, content: bytes) -> Any:
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            text = content[: 4 * SERVER_TEXT_CHARS].decode("utf-8", "replace")
            raise TryFailedError("not_json", server_text(text, self._secret)) from None


def server_text(reply: object, secret: Secret, most: int = SERVER_TEXT_CHARS) -> str:
    """Return a server's text for display, logs and stores: short, on one line, without keys.

    Characters that cannot be printed or encoded are escaped.
    """
    text = secret.scrub_exactly(str(reply or ""))
    return one_line(secret.scrub(text[: 4 * most]), most)  # scrubbing long texts is slow


def open_client(
    policy: AskPolicy,
    address: str | None,
    secret: Secret,
    *,
    headers: Mapping[str, str] | None = None,
    around: "Around | None" = None,
    most_bytes: int = MOST_REPLY_BYTES,
) -> Any:
    """Open a client for one call at a time; with ``around``, an asynchronous one for many.

    ``around`` is called with a function that sends an HTTP request. Redirections are not followed,
    and requests to this machine bypass proxies. The timeout is for a single read or write. A reply
    of more than ``most_bytes``, unpacked, is not read to its end, but raises TryFailedError.
    """
    import httpx2
    from openai import AsyncOpenAI, DefaultAioHttpClient, DefaultHttpxClient, OpenAI

    class Transport(DefaultAioHttpClient):
        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            assert around is not None
            return await around(lambda: self.send_and_read(request, **options))

        async def send_and_read(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            try:
                response = await super().send(request, **(options | {"stream": True}))
            except UnicodeError as error:  # the transport encodes the reason phrase
                detail = f"unreadable status line ({error})"
                raise httpx2.RemoteProtocolError(detail, request=request) from None
            content = bytearray()
            async with contextlib.aclosing(response.aiter_bytes()) as chunks:
                async for chunk in chunks:
                    content += chunk
                    _refuse_large(content, most_bytes)
            return _whole(response, content)

    class OneByOne(DefaultHttpxClient):
        def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            response = super().send(request, **(options | {"stream": True}))
            content = bytearray()
            with contextlib.closing(response):
                for chunk in response.iter_bytes():
                    content += chunk
                    _refuse_large(content, most_bytes)
            return _whole(response, content)

    for name in ("httpx2", "openai"):  # otherwise they log each request and retry
        logging.getLogger(name).setLevel(logging.WARNING)
    is_local = urlsplit(address or OPENAI_URL).hostname in _LOCAL
    _warn_if_readable(secret, address or OPENAI_URL)
    options: dict[str, Any] = {"follow_redirects": False, "trust_env": not is_local}
    if around is None:
        options["timeout"] = httpx2.Timeout(policy.timeout_s)
    else:  # the transport's default is 100 connections, whatever the concurrency
        options["timeout"] = httpx2.Timeout(policy.timeout_s, pool=None)
        options["limits"] = httpx2.Limits(max_connections=policy.concurrency)
    kind: Any = OpenAI if around is None else AsyncOpenAI
    client = kind(
        base_url=address or OPENAI_URL,
        api_key=secret.reveal() or "none",
        max_retries=policy.max_tries - 1,
        http_client=(OneByOne if around is None else Transport)(**options),
        default_headers=dict(headers or {}),
    )
    client.admin_api_key = None  # the client reads these from the environment
    if address is not None:
        client.organization = client.project = None
    return client


def _warn_if_readable(secret: Secret, address: str) -> None:
    url = urlsplit(address)
    if secret.reveal() and url.scheme == "http" and url.hostname not in _LOCAL:
        warn(
            f"the API key is sent to http://{url.netloc} without encryption, so that others can "
            "read it on the network. Give an https address, or tunnel to that host (ssh -L)"
        )


def _refuse_large(content: bytearray, most_bytes: int) -> None:
    if len(content) > most_bytes:
        detail = f"a reply of more than {most_bytes >> 20} MiB, unpacked; the rest was not read"
        raise TryFailedError("too_large", detail, action="reject")


def _status_of_error(content: bytes) -> int | None:
    """Return the status of an error that a server reports in the body of a successful reply.

    Gateways such as OpenRouter send status 200 before their provider has answered. None without
    an error, or without its status in ``code``.
    """
    if b'"error"' not in content[:SERVER_TEXT_CHARS]:
        return None
    try:
        reply = json.loads(content)
        status = None if reply.get("choices") else int(reply["error"]["code"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return status if status is not None and 400 <= status < 600 else None


def _whole(response: "httpx2.Response", content: bytearray) -> "httpx2.Response":
    """Return a response with its content, read and unpacked."""
    import httpx2

    packed = (b"content-encoding", b"content-length", b"transfer-encoding")
    whole = httpx2.Response(
        response.status_code,
        headers=[pair for pair in response.headers.raw if pair[0].lower() not in packed],
        content=bytes(content),
        request=response.request,
        extensions=response.extensions,
    )
    whole.elapsed = response.elapsed
    return whole


@contextlib.contextmanager
def failures(secret: Secret, *, policy: AskPolicy) -> Iterator[None]:
    """Raise errors of a call inside as TryFailedError, whose text contains no API key."""
    import aiohttp
    import httpx2
    import openai

    try:
        yield
    except TimeoutError:
        detail = f"no reply within {policy.deadline_s:g} s in all tries together"
        raise TryFailedError("deadline", detail) from None
    except openai.APIStatusError as error:
        raise status_failure(
            error.status_code,
            error.body,
            secret,
            text=error.response.text,
            location=error.response.headers.get("location", ""),
        ) from None
    except (openai.OpenAIError, httpx2.HTTPError, aiohttp.ClientError, OSError) as error:
        cause = error.__cause__ or error
        if isinstance(cause, httpx2.ReadTimeout):
            detail = f"no reply within {policy.timeout_s:g} s"
            raise TryFailedError("timeout", detail) from None
        detail = server_text(f"{type(cause).__name__} {cause}".strip(), secret)
        raise TryFailedError("connection", detail) from None


def status_failure(
    status: int,
    error: object,
    secret: Secret,
    *,
    text: str = "",
    location: str = "",
) -> TryFailedError:
    """Return the failure that an HTTP error means.

    ``error`` is the ``error`` object of the reply's body, or the body itself if it has none. The
    message is in ``message`` (OpenAI, Cohere) or ``detail`` (Voyage, FastAPI), or it is ``error``
    itself, or else ``text``. ``location`` is the target of a redirection.
    """
    body = error if isinstance(error, dict) else {}
    codes = [str(body.get(name) or "") for name in ("code", "type")]
    code = next(iter(_STOP_CODES & set(codes)), next(filter(None, codes), ""))
    otherwise = error if isinstance(error, str) else text
    message = body.get("message") or body.get("detail") or otherwise
    detail = server_text(message, secret)
    if 300 <= status < 400:
        host = server_text(_host(location) or "another address", secret)
        remedy = "name that address in the config if you trust it"
        detail = f"the server redirects to {host}; {remedy}. {detail}"
    is_filter = status == 403 and _FILTER_MESSAGE.search(detail)
    if is_filter or _FILTER_CODES & set(codes):
        return TryFailedError("content_filter", detail, action="reject")
    says_so = _CONTEXT_CODES & set(codes) or _CONTEXT_MESSAGE.search(detail)
    if status in _CONTEXT_STATUS and says_so:
        return TryFailedError(PROMPT_TOO_LONG, detail, action="reject")
    return TryFailedError(f"http_{status}", detail, action=action_after(status, code))


def _host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def action_after(status: int, code: str | None) -> Action:
    """Return the action after an HTTP error status with the server's error code."""
    if status in STOP_STATUS or 300 <= status < 400 or code in _STOP_CODES:
        return "stop"
    return "retry" if status in RETRY_STATUS or status >= 500 else "reject"
