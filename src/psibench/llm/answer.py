"""What a server answered to one request, and what that means for whoever asked."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from psibench.llm.replies import MalformedReplyError, parse_reply
from psibench.llm.request import ResponseSchema
from psibench.llm.usage import Usage

Status = Literal["ok", "malformed", "refused", "truncated", "filtered", "failed"]

REASKED: frozenset[str] = frozenset({"malformed", "truncated"})
"""Statuses that another sample may mend."""
CONTEXT_FULL = "context_window_full"
"""Reason of a truncated reply that another sample will not mend: prompt and reply have no room."""


@dataclass(frozen=True)
class Answer:
    """One reply as it came, whatever it is worth. This is what the store keeps.

    Attributes
    ----------
    key
        Key of the request.
    task
        Name of the response schema, or an empty string.
    model
        Model as the server names it.
    text
        The reply's content, unparsed.
    finish_reason
        As the server gives it: `stop`, `length`, `content_filter`, ...
    refusal
        The server's refusal, if it marks refusals.
    usage
        Tokens, as the server counts them.
    n_tries
        HTTP requests it took.
    latency_s
        Seconds the last of them took.
    created
        UTC, ISO 8601.
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

    def to_record(self) -> dict[str, Any]:
        """Return plain data for the store."""
        return {**vars(self), "usage": dict(vars(self.usage))}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Answer":
        """Restore an answer from plain data; usage that cannot be believed counts as none."""
        return cls(**{**record, "usage": Usage.read(record["usage"]) or Usage()})


@dataclass(frozen=True)
class Outcome:
    """What became of one item: a value, or the reason why there is none.

    Attributes
    ----------
    item_id, key
        The item asked about; the key of the last request made for it.
    status, reason
        `ok` and an empty reason, or what went wrong: `malformed` (with the parser's reason),
        `refused`, `truncated`, `filtered`, `failed` (no reply; not stored, asked again next time).
    value
        The parsed reply (the text itself where no schema was asked for); None unless `ok`.
    text
        The raw reply; for `failed` the error.
    model
        Model as the server names it; empty for `failed`.
    usage
        Tokens of all replies to this item, re-asks included, whenever they were asked.
    n_reasks
        Re-asks after malformed or truncated replies.
    n_asked
        Replies received in this run; 0 if all were in the store.
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
    n_asked: int = 0

    def for_item(self, item_id: str) -> "Outcome":
        """Return the same outcome for another item that asked the same."""
        return replace(self, item_id=item_id, n_asked=0)


def interpret(
    answer: Answer,
    response: ResponseSchema | None,
    *,
    max_output_tokens: int | None = None,
    item_id: str = "",
    n_reasks: int = 0,
) -> Outcome:
    """Say what a stored reply is worth; pure, so that a better parser needs no new request.

    A reply that was cut off before ``max_output_tokens``, the bound that was sent, was cut off by
    the model's context window.
    """
    status, reason, value = _judge(answer, response, max_output_tokens)
    return Outcome(
        item_id=item_id,
        key=answer.key,
        status=status,
        reason=reason,
        value=value,
        text=_writable(answer.text or answer.refusal or ""),
        model=_writable(answer.model),
        usage=answer.usage,
        n_reasks=n_reasks,
    )


def _judge(
    answer: Answer, response: ResponseSchema | None, limit: int | None
) -> tuple[Status, str, Any]:
    if answer.finish_reason == "content_filter":
        return "filtered", "content_filter", None
    if answer.refusal:
        return "refused", "marked_as_refusal", None
    if answer.finish_reason == "length":
        has_room = limit is not None and 0 < answer.usage.output_tokens < limit
        return "truncated", CONTEXT_FULL if has_room else "output_limit_reached", None
    if not answer.text.strip():
        return "malformed", "empty_reply", None
    if not _is_writable(answer.text):
        return "malformed", "half_surrogate", None
    if response is None:
        return "ok", "", answer.text.strip()
    try:
        value = parse_reply(answer.text, response.schema)
    except MalformedReplyError as error:
        return "malformed", str(error), None
    if not _is_writable(json.dumps(value, ensure_ascii=False)):
        return "malformed", "half_surrogate", None
    return "ok", "", value


def _writable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _is_writable(text: str) -> bool:
    """Say whether a text can be written as UTF-8: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
