"""Connections to a server that speaks OpenAI's API, and what goes wrong on them."""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from psibench.config.llms import AskPolicy, LlmSettings
from psibench.llm.retry import TryFailedError, retry_after_s, verdict_of
from psibench.llm.secret import Secret

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI, OpenAI

    Around = Callable[[Callable[[], Awaitable[httpx2.Response]]], Awaitable[httpx2.Response]]

OPENAI_URL = "https://api.openai.com/v1"
DETAIL_CHARS = 500
_LOCAL = ("localhost", "127.0.0.1", "::1")


def async_client(
    settings: LlmSettings, address: str | None, secret: Secret, *, around: "Around"
) -> "AsyncOpenAI":
    """Open a client for many requests at once; ``around`` calls what sends an HTTP request."""
    import httpx2
    from openai import AsyncOpenAI, DefaultAioHttpClient

    class Transport(DefaultAioHttpClient):
        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            return await around(lambda: super(Transport, self).send(request, **options))

    policy = settings.asking
    transport = Transport(
        # Without a number the transport takes 100, whatever the concurrency.
        limits=httpx2.Limits(max_connections=policy.concurrency),
        timeout=httpx2.Timeout(policy.timeout_s, pool=None),
        follow_redirects=False,
        trust_env=not _is_local(address),
    )
    return _configured(
        AsyncOpenAI, transport, settings, address, secret, max_retries=policy.max_tries - 1
    )


def sync_client(settings: LlmSettings, address: str | None, secret: Secret) -> "OpenAI":
    """Open a client for one call at a time; the timeout is of one read or write, not of a file."""
    import httpx2
    from openai import DefaultHttpxClient, OpenAI

    transport = DefaultHttpxClient(
        timeout=httpx2.Timeout(settings.asking.timeout_s),
        trust_env=not _is_local(address),
        follow_redirects=False,
    )
    return _configured(
        OpenAI, transport, settings, address, secret, max_retries=settings.asking.max_tries - 1
    )


def _configured(
    kind: Any,
    transport: Any,
    settings: LlmSettings,
    address: str | None,
    secret: Secret,
    *,
    max_retries: int,
) -> Any:
    for name in ("httpx2", "openai"):  # else one line per request, or retry
        logging.getLogger(name).setLevel(logging.WARNING)
    client = kind(
        base_url=address or OPENAI_URL,
        api_key=secret.reveal() or "none",
        max_retries=max_retries,
        http_client=transport,
        default_headers=dict(settings.headers),
    )
    client.admin_api_key = None  # these the client takes from the environment unasked
    if address is not None:
        client.organization = client.project = None
    return client


def _is_local(address: str | None) -> bool:
    """Say whether the server is on this machine, where no proxy leads."""
    return address is not None and urlsplit(address).hostname in _LOCAL


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
            headers=error.response.headers,
        ) from None
    except (openai.OpenAIError, httpx2.HTTPError, aiohttp.ClientError, OSError) as error:
        cause = error.__cause__ or error
        if isinstance(cause, httpx2.ReadTimeout):
            words = f"no reply within {policy.timeout_s:g} s"
            raise TryFailedError("timeout", words) from None
        words = secret.scrub(f"{type(cause).__name__} {cause}".strip())
        raise TryFailedError("connection", words[:DETAIL_CHARS]) from None


def error_code(response: "httpx2.Response") -> str | None:
    """Return the code of an error reply that was read, if it has one."""
    try:
        error = response.json()["error"]
        return str(error.get("code") or error.get("type") or "") or None
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def status_failure(
    status: int,
    error: object,
    secret: Secret,
    *,
    text: str = "",
    headers: Mapping[str, str] | None = None,
) -> TryFailedError:
    """Say what an HTTP error means.

    Parameters
    ----------
    status
        HTTP status.
    error
        The ``error`` object of the reply's body, if it has one.
    secret
        Taken out of the server's words.
    text
        The words where ``error`` has none.
    headers
        Of the reply; Retry-After is read.
    """
    body = error if isinstance(error, dict) else {}
    code = str(body.get("code") or body.get("type") or "")
    words = secret.scrub(str(body.get("message") or text))[:DETAIL_CHARS]
    if 300 <= status < 400:
        host = urlsplit((headers or {}).get("location", "")).hostname or "another address"
        words = f"the server redirects to {host}; name that in base_url if you trust it. {words}"
    if code in ("content_filter", "content_policy_violation"):
        return TryFailedError("content_filter", words, verdict="reject")
    return TryFailedError(
        f"http_{status}",
        words,
        verdict=verdict_of(status, code),
        retry_after_s=retry_after_s(headers or {}),
    )
