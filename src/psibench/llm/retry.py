"""When to try again: jittered exponential backoff that honours what the server says."""

import math
import random
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Literal

Verdict = Literal["retry", "reject", "stop"]

RETRY_STATUS = frozenset({408, 409, 425, 429})
STOP_STATUS = frozenset({401, 402, 403, 404, 405})
"""No other request will fare better: wrong key, no credit, wrong address or model. Nor after a
redirection (3xx): prompts and keys go to the address in the config and nowhere else."""

MOST_S = 86_400.0
"""Longest wait that is read from a server's headers."""

_STOP_CODES = frozenset({"insufficient_quota", "invalid_api_key", "model_not_found"})


class TryFailedError(Exception):
    """One HTTP request without a usable reply.

    Attributes
    ----------
    reason
        Short code: ``http_429``, ``timeout``, ``connection``, ``not_json``, ``no_choices``, ...
    detail
        The server's words, without keys.
    verdict
        ``retry``: try again; ``reject``: this request will not do; ``stop``: none will.
    retry_after_s
        How long the server asks to wait, or None.
    """

    def __init__(
        self,
        reason: str,
        detail: str,
        *,
        verdict: Verdict = "retry",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail
        self.verdict, self.retry_after_s = verdict, retry_after_s


def verdict_of(status: int, code: str | None) -> Verdict:
    """Say what an HTTP error status and the server's error code mean."""
    if status in STOP_STATUS or 300 <= status < 400 or code in _STOP_CODES:
        return "stop"
    return "retry" if status in RETRY_STATUS or status >= 500 else "reject"


def retry_after_s(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Read Retry-After (seconds or a date) or retry-after-ms; None if absent or not readable.

    At most a day: what is longer is no time to wait, and may be no number a clock takes.
    """
    try:
        seconds = _asked_s(headers, time.time() if now is None else now)
    except (ValueError, TypeError, OverflowError):
        return None
    return seconds if seconds is None else min(MOST_S, max(0.0, seconds))


def _asked_s(headers: Mapping[str, str], now: float) -> float | None:
    if "retry-after-ms" in headers:
        return _number(headers["retry-after-ms"]) / 1000
    value = headers.get("retry-after")
    if value is None:
        return None
    if value.strip().replace(".", "", 1).isdigit():
        return _number(value)
    return parsedate_to_datetime(value).timestamp() - now


def _number(text: str) -> float:
    number = float(text)
    if math.isnan(number):
        raise ValueError("not a number")
    return number


def backoff_s(
    n_failed: int, *, asked_s: float | None, base_s: float, most_s: float, rng: random.Random
) -> float:
    """Return how long to wait after the ``n_failed``-th failure in a row (from 1).

    ``base_s`` doubled per failure up to ``most_s``, times a random share of 0.5 to 1; at least
    what the server asked for, plus up to a tenth so that not all come back at once.
    """
    doubled = min(most_s, base_s * 2.0 ** min(n_failed - 1, 32))
    wait = float(doubled * rng.uniform(0.5, 1.0))
    if asked_s is not None:
        wait = max(wait, asked_s * rng.uniform(1.0, 1.1))
    return wait
