"""A server's answer to one request, and the outcome that follows from it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from psibench.llm.replies import (
    ONLY_THOUGHTS,
    MalformedReplyError,
    has_thoughts,
    parse_reply,
    without_thoughts,
)
from psibench.llm.request import ResponseSchema
from psibench.llm.usage import Usage

Status = Literal["ok", "malformed", "refused", "truncated", "filtered", "failed"]

REASKED: frozenset[str] = frozenset({"malformed", "truncated"})
"""Statuses after which another sample is requested."""
CONTEXT_FULL = "context_window_full"
"""Reason of a truncated reply if another sample would not help: the context window is full."""
OUTPUT_LIMIT = "output_limit_reached"
"""Reason of a reply that the limit of its tokens truncated."""
LIMIT_IN_THOUGHTS = "output_limit_reached_in_thoughts"
"""Reason of a reply that was truncated before its thoughts ended."""
FILTERED = frozenset(
    {"content_filter", "content_filtered", "safety", "recitation", "blocklist", "sensitive"}
    | {"prohibited_content", "spii", "guardrail_intervened"}
)
CUT_OFF = frozenset({"length", "max_tokens", "max_output_tokens", "max_length", "model_length"})
BROKEN_OFF = frozenset(
    {"error", "abort", "aborted", "cancelled", "canceled", "network_error"}
    | {"insufficient_system_resource"}
)
"""Finish reasons in lower case, from OpenAI and other servers and gateways: a filter, a limit of
tokens, and a server that gave up. The text is then an incomplete reply."""


WRONG_ESCAPE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)"
    r"|\t(?:heta|imes|ext\w*|au|ilde|frac|riangle\w*)\b|\n(?:abla|eq|otin)\b"
)
"""Characters of wrong escapes in a JSON text: ``\\u0000e9`` instead of ``\\u00e9``, or LaTeX's
``\\frac`` instead of ``\\\\frac``."""


@dataclass(frozen=True)
class Answer:
    """One reply as received, usable or not. The store keeps it.

    ``task`` is the name of the response schema. ``model``, ``finish_reason`` (`stop`, `length`,
    `content_filter`, ...), ``refusal`` (if the server marks refusals) and ``usage`` come from the
    server. ``n_tries`` is the number of HTTP requests, ``latency_s`` the duration of the last one;
    ``created`` is in UTC. ``has_reasoning``: the server sent thoughts separately from the text;
    they are not stored.
    """

    key: str
    task: str
    model: str
    text: str
    finish_reason: str
    refusal: str | None
    usage: Usage
    n_tries: int
    latency_s: float
    created: str
    has_reasoning: bool = False

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Answer":
        """Restore an answer from plain data; implausible usage counts as none."""
        return cls(**{**record, "usage": Usage.read(record["usage"]) or Usage()})


@dataclass(frozen=True)
class Outcome:
    """The outcome of one item: a value, or the reason why there is no value.

    ``status`` is `ok`, with an empty ``reason`` and a ``value``, or `malformed` (with the parser's
    reason), `refused`, `truncated`, `filtered`, or `failed`: there was no reply, ``text`` is the
    error, and nothing is stored, so that the next run requests it again. ``key`` identifies the
    item's last request. ``usage`` sums all replies to the item, ``n_reasks`` counts its re-asks, in
    this or earlier runs; ``n_replies`` counts the replies received in this run. ``reask_reasons``
    are the reasons of the earlier replies, which were malformed or truncated; ``had_thoughts``: the
    text has markup of thoughts. ``is_rejected``: the request itself is at fault and would fail
    again.
    """

    item_id: str
    key: str
    status: Status
    reason: str
    value: Any
    text: str
    model: str
    usage: Usage
    n_reasks: int = 0
    n_replies: int = 0
    reask_reasons: tuple[str, ...] = ()
    had_thoughts: bool = False
    is_rejected: bool = False


def classify_reply(
    answer: Answer, response: ResponseSchema, limit: int | None = None, prompt: Sequence[str] = ()
) -> tuple[Status, str, Any]:
    """Return status, reason and value of the outcome of a stored reply.

    Pure, so that a better parser needs no new request. If a reply was cut off before ``limit``, the
    requested limit of its tokens, then the model's context window cut it off. JSON may have control
    characters, and words behind a tab that may be LaTeX, only if a text of ``prompt`` has such
    characters.
    """
    ending = answer.finish_reason.lower()
    if ending in FILTERED:
        return "filtered", "content_filter", None
    if answer.refusal:
        return "refused", "marked_as_refusal", None
    if ending in BROKEN_OFF:
        return "malformed", "broken_off", None
    if ending in CUT_OFF:
        below_limit = limit is not None and 0 < answer.usage.output_tokens < limit
        reason = LIMIT_IN_THOUGHTS if _has_only_thoughts(answer, response) else OUTPUT_LIMIT
        return "truncated", CONTEXT_FULL if below_limit else reason, None
    if not answer.text.strip():
        return "malformed", ONLY_THOUGHTS if answer.has_reasoning else "empty_reply", None
    if writable(answer.text) != answer.text:
        return "malformed", "half_surrogate", None
    try:
        value = parse_reply(answer.text, response.schema, response.form)
    except MalformedReplyError as error:
        return "malformed", str(error), None
    plain = json.dumps(value, ensure_ascii=False)
    if writable(plain) != plain:
        return "malformed", "half_surrogate", None
    if response.form == "json" and _has_wrong_escape(value, prompt):
        return "malformed", "wrong_escape", None
    return "ok", "", value


def _has_wrong_escape(value: Any, prompt: Sequence[str]) -> bool:
    found = {one[0] for text in _texts(value) for one in WRONG_ESCAPE.finditer(text)}
    # Other words follow the tabs of a translation, but every prompt has line ends.
    odd = {one if one[0] == "\n" else one[0] for one in found}
    return not all(any(one in text for text in prompt) for one in odd)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _has_only_thoughts(answer: Answer, response: ResponseSchema) -> bool:
    try:
        reply = without_thoughts(answer.text, response.form).strip()
    except MalformedReplyError as error:
        return str(error) == ONLY_THOUGHTS
    return not reply and (answer.has_reasoning or has_thoughts(answer.text, response.form))


def writable(text: str) -> str:
    """Escape unpaired surrogates, which cannot be written as UTF-8."""
    return text.encode(errors="backslashreplace").decode()
