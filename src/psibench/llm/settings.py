"""Config of a language model: where it answers, how fast it may be asked, how patient to be."""

from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from psibench.config.base import Section
from psibench.llm.request import ReplyFormat, Sampling

STAND_IN_PREFIX = "stand-in/"


class SamplingSettings(Section):
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

    def to_sampling(self) -> Sampling:
        """Return them as part of a request."""
        fields = self.model_dump()
        return Sampling(**{**fields, "stop": tuple(fields["stop"])})


class AskPolicy(Section):
    """How requests are sent: at once, per minute, and again."""

    concurrency: int = Field(default=32, ge=1, le=4096)
    """Requests under way at once."""
    requests_per_minute: int | None = Field(default=None, ge=1)
    """The server's limit, shared out by you where several jobs run at once."""
    tokens_per_minute: int | None = Field(default=None, ge=1)
    """Input and output tokens; corrected by the usage each reply reports."""
    timeout_s: float = Field(default=180.0, gt=0)
    """Of one HTTP request."""
    deadline_s: float = Field(default=1200.0, gt=0)
    """Of one request with all its tries; then it has failed, and the next run asks it again."""
    max_tries: int = Field(default=20, ge=1)
    """HTTP requests per request."""
    backoff_s: float = Field(default=1.0, gt=0)
    """Wait after a first failure; doubled after each further one, with jitter."""
    max_backoff_s: float = Field(default=60.0, gt=0)
    """Longest wait, unless the server's Retry-After asks for more."""
    max_reasks: int = Field(default=2, ge=0, le=20)
    """Further samples asked for after a malformed or truncated reply."""
    give_up_after: int = Field(default=50, ge=1)
    """Requests failed in a row after which the run stops: the server is gone, or refuses all."""
    refresh_s: float = Field(default=5.0, gt=0)
    """How often answers stored by other jobs are looked for."""


class LlmSettings(Section):
    """One language model behind an OpenAI-compatible server."""

    backend: Literal["openai", "stand-in"]
    """openai: any server that speaks its chat completions. stand-in: the rule-based program."""
    model: str = Field(min_length=1)
    """Name as the server knows it."""
    revision: str | None = None
    """Pinned revision or date; part of each request's key."""
    base_url: str | None = None
    """Address up to /v1; null is api.openai.com. The stand-in is started for the run if null."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; null for servers without keys."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Further HTTP headers. No keys here."""
    reply_format: ReplyFormat = "json_schema"
    """How structure is asked for: the strictest that the server supports."""
    output_limit_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the server calls the bound of the reply (OpenAI's reasoning models: the second)."""
    sampling: SamplingSettings = SamplingSettings()
    asking: AskPolicy = AskPolicy()
    fsync_s: float = Field(default=1.0, ge=0)
    """How often stored answers are made to survive a power cut, seconds; 0: after each."""
    budget_usd: float | None = Field(default=None, ge=0)
    """Money one run may spend; the run stops before it is passed."""

    @field_validator("base_url")
    @classmethod
    def _address_is_plain(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("not an http(s) address, as in http://localhost:8000/v1")
        if parts.username or parts.password or parts.query:
            raise ValueError("holds a user name, password or query; keys go in the environment")
        return value

    @field_validator("headers")
    @classmethod
    def _headers_are_public(cls, value: dict[str, str]) -> dict[str, str]:
        secret = [n for n in value if n.lower() in ("authorization", "api-key", "x-api-key")]
        if secret:
            raise ValueError(f"{secret[0]} is a secret; name its variable in api_key_env")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "LlmSettings":
        is_stand_in = self.model.startswith(STAND_IN_PREFIX)
        if is_stand_in != (self.backend == "stand-in"):
            raise ValueError(
                f"model {self.model!r} with backend {self.backend!r}: models of the stand-in, and "
                f"only they, start with {STAND_IN_PREFIX!r}"
            )
        if self.budget_usd is not None and self.sampling.max_output_tokens is None:
            raise ValueError("budget_usd needs sampling.max_output_tokens to bound each reply")
        return self
