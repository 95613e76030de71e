"""Config of a language model: its server, rate of requests, and retries."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, TypeAdapter, field_validator, model_validator

from psibench.config.base import Id, Section
from psibench.config.files import read_entries, validated
from psibench.config.paths import LLMS, PRICES
from psibench.config.secrets import plain_address
from psibench.config.sections import VllmServer
from psibench.errors import InputError
from psibench.llm.request import ReplyFormat, Sampling

if TYPE_CHECKING:
    from psibench.llm.usage import Usage

STAND_IN_PREFIX = "stand-in/"
OUTSIDE = {"file": "file/", "command": "command/"}
"""Backends of translators that are no language models, and how their models' names begin."""
_SECRET_HEADER = re.compile(r"(?i)auth|cookie|key|token|secret|credential")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
MILLION = 1_000_000


class AskPolicy(Section):
    """How requests are sent and repeated."""

    concurrency: int = Field(default=32, ge=1, le=4096)
    """Requests in progress at the same time."""
    timeout_s: float = Field(default=180.0, gt=0)
    """Seconds for one HTTP request."""
    deadline_s: float = Field(default=1200.0, gt=0)
    """Seconds for one request with all its tries; then it has failed, and the next run repeats
    it."""
    max_tries: int = Field(default=100, ge=1)
    """HTTP requests per request. Pauses between them: the server's Retry-After, up to two minutes;
    otherwise half a second, doubled each time up to eight seconds."""
    max_reasks: int = Field(default=2, ge=0, le=20)
    """Further samples requested after a malformed or truncated reply."""
    give_up_after: int = Field(default=50, ge=1)
    """Consecutive failed requests after which the run stops, because the server is gone or refuses
    all."""


class BatchPolicy(Section):
    """How the openai-batch backend cuts and awaits its batches."""

    max_requests: int = Field(default=50_000, ge=1, le=50_000)
    """Requests per batch file; the server's limit is 50,000."""
    poll_s: float = Field(default=60.0, gt=0)
    """Seconds between two checks whether a batch is done."""


class LlmServer(VllmServer):
    """How the vllm backend starts `vllm serve MODEL` inside the job, and its size for plans."""

    parameters_b: float | None = Field(default=None, gt=0)
    """Parameters in billions, by which GPU hours are planned. For a model that is served elsewhere
    (backend openai), GPU hours are planned only if this is given, with `gpus`."""
    active_parameters_b: float | None = Field(default=None, gt=0)
    """Parameters in billions that each token uses in a mixture of experts; null: all."""
    tokens_per_s: float | None = Field(default=None, gt=0)
    """Measured output tokens per second of one server, for all requests together; null: estimated
    from encoding.gpu_gb_per_s and gpu_tflops."""


class Retired(Section):
    """When a service stops serving a model."""

    since: date = Field(strict=False)
    """First day on which the model is not served, e.g. 2027-01-14."""
    instead: str = Field(min_length=1)
    """The model to use instead, and the source of the date."""


class LlmSettings(Section):
    """One language model on an OpenAI-compatible server."""

    backend: Literal["openai", "openai-batch", "vllm", "stand-in", "file", "command"]
    """openai: any server with OpenAI's chat completions. openai-batch: OpenAI's files and batches.
    vllm: a server that the job starts. stand-in: a rule-based program instead of a language model.
    file: translations that another system made, as a translator (docs/multilingual.md).
    command: a program that translates lines, as a translator."""
    model: str = Field(min_length=1)
    """Name of the model on the server."""
    revision: str | None = None
    """Pinned revision or date; part of each request's key."""
    file: str | None = None
    """For the file backend: JSON lines with `id` of a text, `language` and `translation`."""
    command: list[str] | None = Field(default=None, min_length=1)
    """For the command backend: program and arguments, e.g. [apertium, -u, "{source}-{target}"]. One
    process reads lines of text and writes a line for each."""
    language_codes: dict[str, str] = Field(default_factory=dict)
    """For the command backend: codes of languages in `command`, e.g. {eng-Latn: eng}; others are
    named by their id."""
    retired: Retired | None = None
    """The day from which the service does not serve the model: no requests are sent from then on,
    stored answers count. A config's entry without this key sends requests to its server."""
    base_url: str | None = None
    """Address up to /v1; null is api.openai.com. The stand-in is started for the run if null."""
    api_key_env: str | None = None
    """Name of the environment variable with the API key; null for servers without keys."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Additional HTTP headers, which must not contain API keys."""
    reply_format: ReplyFormat = "json_schema"
    """How structured replies are requested; choose the strictest format that the server supports
    (docs/generation.md)."""
    output_limit_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The server's key for the limit of the reply's tokens (for OpenAI's reasoning models the
    second)."""
    sampling: Sampling = Sampling()
    asking: AskPolicy = AskPolicy()
    budget_usd: float | None = Field(default=None, ge=0)
    """US dollars that may be spent on this model, including answers in the store; the run stops
    before it would exceed them."""
    thinks: bool = False
    """Whether replies are billed with thoughts before them: estimates then add 1,000 tokens to each
    reply, up to `max_output_tokens`, until a run has measured them."""
    batch: BatchPolicy = BatchPolicy()
    """For the openai-batch backend."""
    vllm: LlmServer = LlmServer()
    """For the vllm backend."""

    @field_validator("base_url")
    @classmethod
    def _address_is_plain(cls, value: str | None) -> str | None:
        return None if value is None else plain_address(value)

    @field_validator("headers")
    @classmethod
    def _headers_are_public(cls, value: dict[str, str]) -> dict[str, str]:
        secret = [n for n in value if _SECRET_HEADER.search(n)]
        if secret:
            raise ValueError(
                f"{secret[0]} is a secret; put it into an environment variable and set api_key_env "
                "to the variable's name"
            )
        odd = [n for n, text in value.items() if not _HEADER.fullmatch(n) or not text.isprintable()]
        if odd:
            raise ValueError(f"{odd[0]!r}: its name or value is not allowed in an HTTP header")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "LlmSettings":
        is_stand_in = self.model.startswith(STAND_IN_PREFIX)
        # Tests of the batch backend use a stand-in at a base_url.
        is_trial = is_stand_in and self.backend == "openai-batch" and self.base_url is not None
        if is_stand_in != (self.backend == "stand-in") and not is_trial:
            raise ValueError(
                f"model {self.model!r} with backend {self.backend!r}: models of the backend "
                f"stand-in must start with {STAND_IN_PREFIX!r}, others must not (except for "
                "backend openai-batch with a base_url)"
            )
        for backend, prefix in OUTSIDE.items():
            value = getattr(self, backend)
            is_meant = self.backend == backend
            if not (is_meant == (value is not None) == self.model.startswith(prefix)):
                raise ValueError(
                    f"model {self.model!r} with backend {self.backend!r} and {backend} {value!r}: "
                    f"backend {backend} needs `{backend}` and a model named {prefix}SYSTEM; other "
                    "backends must not have them"
                )
        if self.backend == "vllm" and self.base_url is not None:
            raise ValueError(
                "backend 'vllm' starts a server and takes no base_url; for a running server use "
                "backend 'openai'"
            )
        if self.budget_usd is not None and self.sampling.max_output_tokens is None:
            raise ValueError("budget_usd needs sampling.max_output_tokens to limit each reply")
        return self

    def retirement(self, today: date | None = None) -> tuple[bool, str] | None:
        """Return whether the service has stopped serving the model, and a description.

        None if it has no date. ``today`` is the day in UTC by default.
        """
        if self.retired is None:
            return None
        is_past = (today or datetime.now(UTC).date()) >= self.retired.since
        tense = "not served since" if is_past else "ends on"
        return is_past, f"{tense} {self.retired.since}: {self.retired.instead}"


class Price(Section):
    """Price of one model in US dollars per million tokens."""

    input_usd: float = Field(ge=0)
    """Per million input tokens."""
    output_usd: float = Field(ge=0)
    """Per million output tokens, including reasoning."""
    cached_input_usd: float | None = Field(default=None, ge=0)
    """Per million input tokens read from the server's cache; null: input_usd."""
    batch_share: float = Field(default=1.0, gt=0, le=1)
    """Price of batch mode as a share of this price; 0.5 is half price."""
    as_of: date = Field(strict=False)
    """Day on which the price was looked up, e.g. 2026-01-31."""
    source: str = ""
    """Where the price was looked up."""

    def cost(self, usage: "Usage", *, is_batch: bool = False) -> float:
        """Return the cost of tokens in US dollars."""
        cached_price = self.input_usd if self.cached_input_usd is None else self.cached_input_usd
        fresh = usage.input_tokens - usage.cached_input_tokens
        money = (
            fresh * self.input_usd
            + usage.cached_input_tokens * cached_price
            + usage.output_tokens * self.output_usd
        )
        return money / MILLION * (self.batch_share if is_batch else 1.0)


def price_of(model: str, prices: Mapping[str, Price]) -> Price:
    """Return a model's price: its entry, or the longest matching entry that ends in ``*``.

    Raises
    ------
    InputError
        If the model has no price.
    """
    if model in prices:
        return prices[model]
    fitting = [name for name in prices if name.endswith("*") and model.startswith(name[:-1])]
    if not fitting:
        raise InputError(
            f"no price for model {model!r}; priced: {', '.join(sorted(prices)) or 'none'}. "
            "Add an entry with input_usd, output_usd and as_of; use zeros for a model that you "
            "serve."
        )
    return prices[max(fitting, key=len)]


def load_llms(entries: Mapping[str, Any] | None = None) -> dict[str, LlmSettings]:
    """Return the language models, id -> settings: the shipped ones, overridden by ``entries``.

    ``entries`` come from a config, typed or plain.
    """
    kind = TypeAdapter(dict[Id, LlmSettings])
    return read_entries(LLMS, kind) | validated(entries or {}, kind, "config key llms")


def load_prices(entries: Mapping[str, Any] | None = None) -> dict[str, Price]:
    """Return the prices, model name -> price: the shipped ones, overridden by ``entries``."""
    kind = TypeAdapter(dict[str, Price])
    return read_entries(PRICES, kind) | validated(entries or {}, kind, "config key prices")
