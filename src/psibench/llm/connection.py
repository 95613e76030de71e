"""Connections to a server, and what goes wrong on them: the one HTTP client of the package.

The `openai` client sends, waits and tries again. Around each HTTP request stand the budget and what
the log is told of failures. Prompts, texts and keys go to the address in the config and nowhere
else, and no error's words hold a key.
"""

import asyncio
import contextlib
import json
import logging
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

T = TypeVar("T")
Verdict = Literal["retry", "reject", "stop"]

OPENAI_URL = "https://api.openai.com/v1"
MOST_REPLY_BYTES = 16 << 20
"""Unpacked, of a chat completion; where more may come, who asks says how much."""
DETAIL_CHARS = 500
_LOCAL = ("localhost", "127.0.0.1", "::1")

RETRY_STATUS = frozenset({408, 409, 425, 429})
STOP_STATUS = frozenset({401, 402, 403, 404, 405})
"""No other request will fare better: wrong key, no credit, wrong address or model. Nor after a
redirection (3xx): it is not followed."""

_STOP_CODES = frozenset({"insufficient_quota", "invalid_api_key", "model_not_found"})

_CALL: ContextVar[Call] = ContextVar("call")
"""The call that an HTTP request is made for: the `openai` client sends several where it retries."""


class TryFailedError(Exception):
    """One request without a usable reply.

    ``reason`` is a short code (``http_429``, ``timeout``, ``connection``, ``not_json``, ...),
    ``detail`` the server's words, without keys. ``verdict``: ``retry``: try again; ``reject``: this
    request will not do; ``stop``: none will.
    """

    def __init__(self, reason: str, detail: str, *, verdict: Verdict = "retry") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail, self.verdict = reason, detail, verdict


class Connection:
    """Asks one server, many requests at once. Used and closed inside one event loop.

    What may pass (status 408, 409, 425, 429 and 5xx, broken connections, time-outs) the `openai`
    client tries again: after the server's Retry-After, up to two minutes, or else after half a
    second, doubled each time up to eight. Each HTTP request is counted by the budget.

    Parameters
    ----------
    policy, budget
        Patience; what may be spent.
    model, address
        Who is asked, for the log; where, None is api.openai.com.
    secret, headers
        The key, kept here and in the HTTP client alone; further headers (``openai.Omit()``
        leaves one out).
    exit_reason
        Asked when a connection breaks: how the server ended, or None while it runs.
    most_bytes
        Of a reply, unpacked; a larger one is not read to its end, and its request rejected.
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
        self._told = set[str]()
        n_at_once = policy.concurrency
        at = without_keys(address or OPENAI_URL)
        logger.info("asking %s at %s, up to %d at once", model, at, n_at_once)

    async def post(
        self, path: str, call: Call, body: Callable[[], bytes], read: Callable[[Any, float], T]
    ) -> T:
        """Post until there is an answer that can be read; at most ``max_reasks`` times more if not.

        ``path`` is relative to the address, or a whole address; ``body`` makes the body, when its
        turn has come; ``read`` takes plain data and the seconds it took, puts the
        usage that the answer reports into ``call.reported_usage`` as soon as it knows it, and may
        raise TryFailedError.

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
        _CALL.set(call)
        for n_left in range(self._policy.max_reasks, -1, -1):
            await self.budget.admit(call)
            await self._turnstile.enter()
            try:
                response = await self._posted(path, body())
                try:
                    found = read(self._data(response.content), response.elapsed.total_seconds())
                except TryFailedError as failure:
                    if failure.verdict != "retry" or not n_left:
                        raise
                    continue
                return found
            finally:
                self.budget.finish(call, call.reported_usage)  # also of no use: it may be billed
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
        """Send one HTTP request of the call under way, as the limits allow; see what it used."""
        import httpx2

        call = _CALL.get()
        if not call.is_under_way:  # a further try
            await self.budget.admit(call)
        call.n_tries += 1
        try:
            response = await send()
        except BaseException as error:
            # The server may have done the work. What was never answered is not billed.
            broken_off = (httpx2.ReadTimeout, httpx2.ReadError, asyncio.CancelledError)
            perhaps_billed = (*broken_off, TryFailedError)
            self.budget.finish(call, None if isinstance(error, perhaps_billed) else Usage())
            if isinstance(error, httpx2.TransportError):
                self._note(type(error).__name__, server_words(error, self._secret))
                if (end := self._exit_reason()) is not None:
                    message = f"{end}\nAll answers so far are stored; run again to go on."
                    raise InputError(message) from None
            raise
        if response.status_code < 300:
            return response
        self.budget.finish(call, Usage())
        self._note(f"http_{response.status_code}", server_words(response.text, self._secret))
        self._say_whether_to_retry(response)
        return response

    def _say_whether_to_retry(self, response: "httpx2.Response") -> None:
        """Say it in the header that the `openai` client heeds."""
        try:
            error = response.json()["error"]
            code = str(error.get("code") or error.get("type") or "")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            code = ""
        headers, verdict = response.headers, verdict_of(response.status_code, code)
        if verdict == "stop":
            headers["x-should-retry"] = "false"
        elif verdict == "retry":
            headers.setdefault("x-should-retry", "true")

    def _note(self, kind: str, words: str) -> None:
        """Tell the log the first failure of its kind."""
        if kind not in self._told:
            self._told.add(kind)
            logger.warning("first %s: %s", kind, words or "without words")

    def _data(self, content: bytes) -> Any:
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            text = content[: 4 * DETAIL_CHARS].decode("utf-8", "replace")
            raise TryFailedError("not_json", server_words(text, self._secret)) from None


def server_words(given: object, secret: Secret, most: int = DETAIL_CHARS) -> str:
    """Return words of a server that can be shown, logged and stored: short, without keys.

    What cannot be printed or encoded is escaped.
    """
    text = secret.scrub_exactly(str(given or ""))
    return one_line(secret.scrub(text[: 4 * most]), most)  # its patterns take long on a long one


def open_client(
    policy: AskPolicy,
    address: str | None,
    secret: Secret,
    *,
    headers: Mapping[str, str] | None = None,
    around: "Around | None" = None,
    most_bytes: int = MOST_REPLY_BYTES,
) -> Any:
    """Open a client for one call at a time; with ``around``, an asynchronous one for many at once.

    ``around`` calls what sends an HTTP request. No redirection is followed, and no request to this
    machine led through a proxy. The timeout is of one read or write, not of a file. A reply of more
    than ``most_bytes``, unpacked, is not read to its end: that raises TryFailedError.
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
            except UnicodeError as error:  # of a reason phrase, which the transport encodes
                words = f"a status line that cannot be read ({error})"
                raise httpx2.RemoteProtocolError(words, request=request) from None
            content = bytearray()
            async with contextlib.aclosing(response.aiter_bytes()) as parts:
                async for part in parts:
                    content += part
                    _refuse_large(content, most_bytes)
            return _whole(response, content)

    class OneByOne(DefaultHttpxClient):
        def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            response = super().send(request, **(options | {"stream": True}))
            content = bytearray()
            with contextlib.closing(response):
                for part in response.iter_bytes():
                    content += part
                    _refuse_large(content, most_bytes)
            return _whole(response, content)

    for name in ("httpx2", "openai"):  # else one line per request, or retry
        logging.getLogger(name).setLevel(logging.WARNING)
    is_local = urlsplit(address or OPENAI_URL).hostname in _LOCAL
    _warn_if_readable(secret, address or OPENAI_URL)
    options: dict[str, Any] = {"follow_redirects": False, "trust_env": not is_local}
    if around is None:
        options["timeout"] = httpx2.Timeout(policy.timeout_s)
    else:  # without a number of connections the transport takes 100, whatever the concurrency
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
    client.admin_api_key = None  # these the client takes from the environment unasked
    if address is not None:
        client.organization = client.project = None
    return client


def _warn_if_readable(secret: Secret, address: str) -> None:
    parts = urlsplit(address)
    if secret.reveal() and parts.scheme == "http" and parts.hostname not in _LOCAL:
        warn(
            f"the API key is sent to http://{parts.netloc} without encryption: whoever is on the "
            "way can read it. Give an https address, or tunnel to that host (ssh -L)"
        )


def _refuse_large(content: bytearray, most_bytes: int) -> None:
    if len(content) > most_bytes:
        words = f"a reply of more than {most_bytes >> 20} MiB, unpacked; it was not read to its end"
        raise TryFailedError("too_large", words, verdict="reject")


def _whole(response: "httpx2.Response", content: bytearray) -> "httpx2.Response":
    """Return a response whose content was read and unpacked."""
    import httpx2

    packed = (b"content-encoding", b"content-length", b"transfer-encoding")
    found = httpx2.Response(
        response.status_code,
        headers=[pair for pair in response.headers.raw if pair[0].lower() not in packed],
        content=bytes(content),
        request=response.request,
        extensions=response.extensions,
    )
    found.elapsed = response.elapsed
    return found


@contextlib.contextmanager
def failures(secret: Secret, *, policy: AskPolicy) -> Iterator[None]:
    """Turn what goes wrong in a call inside into a TryFailedError whose words hold no key."""
    import aiohttp
    import httpx2
    import openai

    try:
        yield
    except TimeoutError:
        words = f"no reply within {policy.deadline_s:g} s, all tries together"
        raise TryFailedError("deadline", words) from None
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
            words = f"no reply within {policy.timeout_s:g} s"
            raise TryFailedError("timeout", words) from None
        words = server_words(f"{type(cause).__name__} {cause}".strip(), secret)
        raise TryFailedError("connection", words) from None


def status_failure(
    status: int,
    error: object,
    secret: Secret,
    *,
    text: str = "",
    location: str = "",
) -> TryFailedError:
    """Say what an HTTP error means.

    ``error`` is the ``error`` object of the reply's body, or the body itself where it has none: its
    words are in ``message`` (OpenAI, Cohere) or ``detail`` (Voyage, FastAPI), or it is the words;
    ``text`` has them where it has none. ``location`` is where a redirection leads.
    """
    body = error if isinstance(error, dict) else {}
    code = str(body.get("code") or body.get("type") or "")
    otherwise = error if isinstance(error, str) else text
    message = body.get("message") or body.get("detail") or otherwise
    words = server_words(message, secret)
    if 300 <= status < 400:
        host = server_words(_host(location) or "another address", secret)
        words = f"the server redirects to {host}; name that in the config if you trust it. {words}"
    if code in ("content_filter", "content_policy_violation"):
        return TryFailedError("content_filter", words, verdict="reject")
    return TryFailedError(f"http_{status}", words, verdict=verdict_of(status, code))


def _host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def verdict_of(status: int, code: str | None) -> Verdict:
    """Say what an HTTP error status and the server's error code mean."""
    if status in STOP_STATUS or 300 <= status < 400 or code in _STOP_CODES:
        return "stop"
    return "retry" if status in RETRY_STATUS or status >= 500 else "reject"
