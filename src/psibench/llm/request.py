"""One LLM request, complete: what is sent, and the key its answer is stored under."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

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
    """The JSON schema a reply has to fit; ``name`` is the task's name."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class Sampling:
    """Every sampling parameter; None is not sent, so that the server's own default holds.

    ``max_output_tokens`` bounds the reply; ``seed`` is sent plus the sample index; ``extra`` holds
    further body fields of one server (``{"chat_template_kwargs": {...}}``, say).
    """

    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    reasoning_effort: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p", "presence_penalty", "frequency_penalty"):
            value = getattr(self, name)
            if value is not None:  # 1 and 1.0 are the same request
                object.__setattr__(self, name, float(value))
        object.__setattr__(self, "stop", tuple(self.stop))


@dataclass(frozen=True)
class Request:
    """A complete request to a model, under its name at the server.

    ``revision`` is pinned by the user, or None. ``response`` is the schema of the reply, None for
    free text. ``reply_format`` says how it is asked for: as `json_schema`, with `json_object` (as
    llama.cpp's servers take it), or in the prompt alone, of which `json_object` asks for any JSON.
    ``sample`` is 0 for the first answer wanted to this prompt, 1 for the second, ...
    """

    model: str
    messages: tuple[Message, ...]
    revision: str | None = None
    sampling: Sampling = Sampling()
    response: ResponseSchema | None = None
    reply_format: ReplyFormat = "json_schema"
    sample: int = 0

    @property
    def task(self) -> str:
        """Name of the response schema, or an empty string."""
        return self.response.name if self.response else ""

    @property
    def key(self) -> str:
        """Address of the answer: sha256 of the request as canonical JSON, 64 hex digits."""
        fields = dict(vars(self))
        fields["messages"] = [vars(message) for message in self.messages]
        fields["sampling"] = vars(self.sampling)
        fields["response"] = None if self.response is None else vars(self.response)
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def reask(self) -> "Request":
        """Return the same request as another sample."""
        return replace(self, sample=self.sample + REASK_STRIDE)

    def body(self, *, output_limit_key: str = "max_tokens") -> dict[str, Any]:
        """Return the JSON body of the HTTP request.

        ``output_limit_key`` is what the server calls the bound of the reply's tokens.
        """
        given = dict(vars(self.sampling))
        extra, limit = given.pop("extra"), given.pop("max_output_tokens")
        body = {name: value for name, value in given.items() if value not in (None, ())}
        if limit is not None:
            body[output_limit_key] = limit
        if self.sampling.seed is not None:
            body["seed"] = (self.sampling.seed + self.sample) % _SEEDS
        body |= extra
        body["model"] = self.model
        body["messages"] = [{"role": m.role, "content": m.content} for m in self.messages]
        if self.response is not None and self.reply_format != "text":
            body["response_format"] = self._response_format(self.response)
        return body

    def max_input_tokens(self) -> int:
        """Bound the input tokens from above: a token has at least one byte of UTF-8."""
        texts = [message.content for message in self.messages]
        if self.response is not None:
            texts.append(json.dumps(self.response.schema))
        n_bytes = sum(len(text.encode("utf-8", errors="surrogatepass")) for text in texts)
        return n_bytes + 16 * (len(texts) + 1)

    def _response_format(self, response: ResponseSchema) -> dict[str, Any]:
        if self.reply_format == "json_object":
            return {"type": "json_object"}
        schema = _sendable(response.schema)
        if self.reply_format == "json_object_schema":
            return {"type": "json_object", "schema": schema}
        named = {"name": response.name, "strict": True, "schema": schema}
        return {"type": "json_schema", "json_schema": named}


def _sendable(schema: Any) -> Any:
    """Leave out what strict servers refuse; the reply is held to the whole schema all the same."""
    if isinstance(schema, Mapping):
        return {key: _sendable(value) for key, value in schema.items() if key not in _NOT_SENT}
    return schema
