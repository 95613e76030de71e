"""One complete LLM request, and the key under which its answer is stored."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import Field

from psibench.config.base import Section
from psibench.llm.replies import ReplyForm

ReplyFormat = Literal["json_schema", "json_object_schema", "json_object", "text"]

REASK_STRIDE = 1_000_000
"""A re-ask of sample ``i`` is sample ``i + REASK_STRIDE``, which no task requests otherwise."""

_SEEDS = 2**31

_NOT_SENT = frozenset({"minLength", "maxLength"})
"""Keywords that OpenAI's strict mode refuses; llama.cpp's servers enforce them."""


@dataclass(frozen=True)
class Message:
    """One rendered chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class ResponseSchema:
    """JSON schema of a reply's value; ``name`` is the task's name.

    ``form`` is the form of the reply: `json`, for which the schema is sent to the server, or the
    plain `text` or `integer` of the schema's only field. ``limits`` are further keywords for the
    server, as a part of a schema, e.g. the choices of one item. Replies are checked without them,
    because servers may not enforce them. They follow from the task and the prompt, so they do not
    enter the request's hash.
    """

    name: str
    schema: Mapping[str, Any]
    form: ReplyForm = "json"
    limits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields that enter the request's hash."""
        plain = {} if self.form == "json" else {"form": self.form}
        return {"name": self.name, "schema": self.schema, **plain}

    @property
    def limited(self) -> Mapping[str, Any]:
        """The schema with its limits."""
        return _with_limits(self.schema, self.limits)


class Sampling(Section):
    """Sampling parameters; null is not sent."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_output_tokens: int | None = Field(default=None, ge=1)
    """Limit of a reply's tokens. Needed with budget_usd."""
    seed: int | None = Field(default=None, ge=0)
    """Sent plus the sample index, for servers that sample reproducibly."""
    stop: list[str] = Field(default_factory=list)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    reasoning_effort: str | None = None
    extra: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request's body, for this server only."""


@dataclass(frozen=True)
class Request:
    """A complete request to a model, under its name on the server.

    ``revision`` is pinned by the user, or None. ``reply_format`` decides how JSON is requested: by
    `json_schema`; by `json_object` with a schema (for llama.cpp's servers); by `json_object` for
    any JSON, or `text`, where the prompt describes the schema. Plain replies are requested in the
    prompt only, for any ``reply_format``. ``sample`` is 0 for the first answer to this prompt, 1
    for the second, ...
    """

    model: str
    messages: tuple[Message, ...]
    response: ResponseSchema
    revision: str | None = None
    sampling: Sampling = field(default_factory=Sampling)
    reply_format: ReplyFormat = "json_schema"
    sample: int = 0

    @property
    def task(self) -> str:
        """Name of the response schema."""
        return self.response.name

    @property
    def sent_format(self) -> ReplyFormat:
        """Reply format in the request's body; `text`: none is sent."""
        return self.reply_format if self.response.form == "json" else "text"

    @property
    def key(self) -> str:
        """Address of the answer: sha256 of the request as canonical JSON, 64 hex digits."""
        fields = dict(vars(self))
        fields["messages"] = [vars(message) for message in self.messages]
        fields["sampling"] = dict(self.sampling)
        fields["response"] = self.response.fields
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def reask(self) -> "Request":
        """Return the same request for another sample."""
        return replace(self, sample=self.sample + REASK_STRIDE)

    def body(self, *, output_limit_key: str = "max_tokens") -> dict[str, Any]:
        """Return the JSON body of the HTTP request.

        ``output_limit_key`` is the server's key for the limit of the reply's tokens.
        """
        sampling = dict(self.sampling)
        extra, limit = sampling.pop("extra"), sampling.pop("max_output_tokens")
        body = {name: value for name, value in sampling.items() if value not in (None, [])}
        if limit is not None:
            body[output_limit_key] = limit
        if self.sampling.seed is not None:
            body["seed"] = (self.sampling.seed + self.sample) % _SEEDS
        body |= extra
        body["model"] = self.model
        body["messages"] = [{"role": m.role, "content": m.content} for m in self.messages]
        if self.sent_format != "text":
            body["response_format"] = self._response_format()
        return body

    def max_input_tokens(self) -> int:
        """Return an upper bound of the input tokens: a token has at least one byte of UTF-8."""
        texts = [message.content for message in self.messages]
        if self.response.form == "json":
            texts.append(json.dumps(self.response.limited))
        n_bytes = sum(len(text.encode("utf-8", errors="surrogatepass")) for text in texts)
        return n_bytes + 16 * (len(texts) + 1)

    def _response_format(self) -> dict[str, Any]:
        if self.sent_format == "json_object":
            return {"type": "json_object"}
        schema = self.response.limited
        if self.sent_format == "json_object_schema":
            return {"type": "json_object", "schema": schema}
        schema = _without_refused(schema)
        json_schema = {"name": self.response.name, "strict": True, "schema": schema}
        return {"type": "json_schema", "json_schema": json_schema}


def _without_refused(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        kept = {key: value for key, value in schema.items() if key not in _NOT_SENT}
        return {key: _without_refused(value) for key, value in kept.items()}
    return schema


def _with_limits(schema: Mapping[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
    """Add limits to the parts that a schema has, which may come from a user's template."""
    limited = dict(schema)
    for key, value in limits.items():
        if not isinstance(value, Mapping):
            limited[key] = value
        elif isinstance(schema.get(key), Mapping):
            limited[key] = _with_limits(schema[key], value)
    return limited
