"""One LLM request, complete: what is sent, and the key its answer is stored under."""

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
"""A re-ask of sample ``i`` is sample ``i + REASK_STRIDE``: never a sample someone else wants."""

_SEEDS = 2**31

_NOT_SENT = frozenset({"minLength", "maxLength"})
"""Keywords that OpenAI's strict mode answers with an error."""


@dataclass(frozen=True)
class Message:
    """One chat message as rendered."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class ResponseSchema:
    """The JSON schema a reply's value has to fit; ``name`` is the task's name.

    ``form`` is how the reply says it: as `json`, which alone is sent to the server, or as the plain
    `text` or `integer` of the schema's only field.
    """

    name: str
    schema: Mapping[str, Any]
    form: ReplyForm = "json"

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the schema that enter the request's hash."""
        return {key: value for key, value in vars(self).items() if (key, value) != ("form", "json")}


class Sampling(Section):
    """Sampling parameters; null is not sent."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_output_tokens: int | None = Field(default=None, ge=1)
    """Bound of a reply's tokens. Needed with budget_usd."""
    seed: int | None = Field(default=None, ge=0)
    """Sent plus the sample index, to servers that sample reproducibly."""
    stop: list[str] = Field(default_factory=list)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    reasoning_effort: str | None = None
    extra: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request's body that only this server knows."""


@dataclass(frozen=True)
class Request:
    """A complete request to a model, under its name at the server.

    ``response`` is what the reply has to hold. ``revision`` is pinned by the user, or None.
    ``reply_format`` says how JSON is asked for: as `json_schema`, with `json_object` (as
    llama.cpp's servers take it), or in the prompt alone, of which `json_object` asks for any JSON;
    a plain reply is asked for in the prompt alone, whatever it says.
    ``sample`` is 0 for the first answer wanted to this prompt, 1 for the second, ...
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
        """How the server is told what the reply has to be; `text`: not at all."""
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
        """Return the same request as another sample."""
        return replace(self, sample=self.sample + REASK_STRIDE)

    def body(self, *, output_limit_key: str = "max_tokens") -> dict[str, Any]:
        """Return the JSON body of the HTTP request.

        ``output_limit_key`` is what the server calls the bound of the reply's tokens.
        """
        given = dict(self.sampling)
        extra, limit = given.pop("extra"), given.pop("max_output_tokens")
        body = {name: value for name, value in given.items() if value not in (None, [])}
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
        """Bound the input tokens from above: a token has at least one byte of UTF-8."""
        texts = [message.content for message in self.messages]
        if self.response.form == "json":
            texts.append(json.dumps(self.response.schema))
        n_bytes = sum(len(text.encode("utf-8", errors="surrogatepass")) for text in texts)
        return n_bytes + 16 * (len(texts) + 1)

    def _response_format(self) -> dict[str, Any]:
        if self.sent_format == "json_object":
            return {"type": "json_object"}
        schema = _sendable(self.response.schema)
        if self.sent_format == "json_object_schema":
            return {"type": "json_object", "schema": schema}
        named = {"name": self.response.name, "strict": True, "schema": schema}
        return {"type": "json_schema", "json_schema": named}


def _sendable(schema: Any) -> Any:
    """Leave out what strict servers refuse; the reply is held to the whole schema all the same."""
    if isinstance(schema, Mapping):
        return {key: _sendable(value) for key, value in schema.items() if key not in _NOT_SENT}
    return schema
