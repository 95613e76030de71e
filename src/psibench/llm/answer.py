"""What a server answered to one request, and what that means for whoever asked."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from psibench.llm.replies import (
    THOUGHTS_ALONE,
    MalformedReplyError,
    has_thoughts,
    parse_reply,
    without_thoughts,
)
from psibench.llm.request import ResponseSchema
from psibench.llm.usage import Usage

Status = Literal["ok", "malformed", "refused", "truncated", "filtered", "failed"]

REASKED: frozenset[str] = frozenset({"malformed", "truncated"})
"""Statuses that another sample may mend."""
CONTEXT_FULL = "context_window_full"
"""Reason of a truncated reply that another sample will not mend: prompt and reply have no room."""
LIMIT_IN_THOUGHTS = "output_limit_reached_in_thoughts"
"""Reason of a reply that was truncated before its thoughts ended."""
FILTERED = frozenset(
    {"content_filter", "content_filtered", "safety", "recitation", "blocklist", "sensitive"}
    | {"prohibited_content", "spii", "guardrail_intervened"}
)
CUT = frozenset({"length", "max_tokens", "max_output_tokens", "max_length", "model_length"})
BROKEN_OFF = frozenset(
    {"error", "abort", "aborted", "cancelled", "canceled", "network_error"}
    | {"insufficient_system_resource"}
)
"""Finish reasons in lower case, OpenAI's and those that other servers and gateways pass on: of a
filter, of a bound of tokens, and of a server that gave up. The text is then a part of a reply."""


@dataclass(frozen=True)
class Answer:
    """One reply as it came, whatever it is worth. This is what the store keeps.

    ``task`` is the name of the response schema; ``model``, ``finish_reason`` (`stop`, `length`,
    `content_filter`, ...), ``refusal`` (if it marks refusals) and ``usage`` are as the server gives
    them; ``n_tries`` HTTP requests it took, the last of them ``latency_s``; ``created`` is UTC.
    ``has_reasoning``: the server sent thoughts beside the text; they are not kept.
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
        """Restore an answer from plain data; usage that cannot be believed counts as none."""
        return cls(**{**record, "usage": Usage.read(record["usage"]) or Usage()})


@dataclass(frozen=True)
class Outcome:
    """The outcome of one item: a value, or the reason why there is none.

    ``status`` is `ok`, with an empty ``reason`` and a ``value``, or `malformed` (with the parser's
    reason), `refused`, `truncated`, `filtered`, or `failed`: no reply, ``text`` is the error; not
    stored, asked again next time. ``key`` is that of the last request made for the item; ``usage``
    is of all replies to it, ``n_reasks`` of which were to re-asks, whenever they were asked;
    ``n_replies`` were received in this run. ``reask_reasons``: of the replies before, which were
    malformed or truncated; ``had_thoughts``: the text has markup of thoughts.
    ``is_rejected``: what failed lies in the request itself and would fail again.
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


def judge(
    answer: Answer, response: ResponseSchema, limit: int | None = None
) -> tuple[Status, str, Any]:
    """Say what a stored reply is worth: status, reason and value of its outcome.

    Pure, so that a better parser needs no new request. A reply that was cut off before ``limit``,
    the bound of its tokens that was sent, was cut off by the model's context window.
    """
    ending = answer.finish_reason.lower()
    if ending in FILTERED:
        return "filtered", "content_filter", None
    if answer.refusal:
        return "refused", "marked_as_refusal", None
    if ending in BROKEN_OFF:
        return "malformed", "broken_off", None
    if ending in CUT:
        has_room = limit is not None and 0 < answer.usage.output_tokens < limit
        reason = (
            LIMIT_IN_THOUGHTS if _is_thoughts_alone(answer, response) else "output_limit_reached"
        )
        return "truncated", CONTEXT_FULL if has_room else reason, None
    if not answer.text.strip():
        return "malformed", THOUGHTS_ALONE if answer.has_reasoning else "empty_reply", None
    if writable(answer.text) != answer.text:
        return "malformed", "half_surrogate", None
    try:
        value = parse_reply(answer.text, response.schema, response.form)
    except MalformedReplyError as error:
        return "malformed", str(error), None
    plain = json.dumps(value, ensure_ascii=False)
    if writable(plain) != plain:
        return "malformed", "half_surrogate", None
    return "ok", "", value


def _is_thoughts_alone(answer: Answer, response: ResponseSchema) -> bool:
    try:
        reply = without_thoughts(answer.text, response.form).strip()
    except MalformedReplyError as error:
        return str(error) == THOUGHTS_ALONE
    return not reply and (answer.has_reasoning or has_thoughts(answer.text, response.form))


def writable(text: str) -> str:
    """Escape halves of surrogate pairs, which cannot be written as UTF-8."""
    return text.encode(errors="backslashreplace").decode()
