"""Config of a language model: where it answers, how fast it may be asked, how patient to be."""

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

STAND_IN_PREFIX, FILE_PREFIX = "stand-in/", "file/"
_SECRET_HEADER = re.compile(r"(?i)auth|cookie|key|token|secret|credential")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
MILLION = 1_000_000


class AskPolicy(Section):
    """How requests are sent: at once, and again."""

    concurrency: int = Field(default=32, ge=1, le=4096)
    """Requests under way at once."""
    timeout_s: float = Field(default=180.0, gt=0)
    """Of one HTTP request."""
    deadline_s: float = Field(default=1200.0, gt=0)
    """Of one request with all its tries; then it has failed, and the next run asks it again."""
    max_tries: int = Field(default=100, ge=1)
    """HTTP requests per request. Pauses between them: the server's Retry-After, up to two minutes;
    else half a second, doubled each time up to eight."""
    max_reasks: int = Field(default=2, ge=0, le=20)
    """Further samples asked for after a malformed or truncated reply."""
    give_up_after: int = Field(default=50, ge=1)
    """Requests failed in a row after which the run stops: the server is gone, or refuses all."""


class BatchPolicy(Section):
    """How the openai-batch backend cuts and awaits its batches."""

    max_requests: int = Field(default=50_000, ge=1, le=50_000)
    """Requests per batch file; the server's limit is 50,000."""
    poll_s: float = Field(default=60.0, gt=0)
    """How often the server is asked whether a batch is done."""


class LlmServer(VllmServer):
    """How the vllm backend starts `vllm serve MODEL` inside the job, and what plans count it by."""

    parameters_b: float | None = Field(default=None, gt=0)
    """Parameters in billions, by which GPU hours are planned; of a model that is served elsewhere
    (backend openai) only if this is given, with `gpus`."""
    active_parameters_b: float | None = Field(default=None, gt=0)
    """Of them, those that a token goes through in a mixture of experts; null: all."""
    tokens_per_s: float | None = Field(default=None, gt=0)
    """Output tokens a second that one server has been seen to write, all requests together; null:
    bounded by encoding.gpu_gb_per_s and gpu_tflops."""


class Retired(Section):
    """When a service stops serving a model."""

    since: date = Field(strict=False)
    """First day on which it is not asked any more, as 2027-01-14."""
    instead: str = Field(min_length=1)
    """What to take in its place, and whose word the date is."""


class LlmSettings(Section):
    """One language model behind an OpenAI-compatible server."""

    backend: Literal["openai", "openai-batch", "vllm", "stand-in", "file"]
    """openai: any server that speaks its chat completions. openai-batch: its files and batches.
    vllm: a server the job starts itself. stand-in: the rule-based program. file: translations that
    another system made, as a translator (docs/multilingual.md)."""
    model: str = Field(min_length=1)
    """Name as the server knows it."""
    revision: str | None = None
    """Pinned revision or date; part of each request's key."""
    file: str | None = None
    """Of the file backend: JSON lines with `id` of a text, `language` and `translation`."""
    retired: Retired | None = None
    """From which day on the service does not serve it: nothing is asked from then on, stored
    answers count. An entry of your own without it asks whoever serves the model."""
    base_url: str | None = None
    """Address up to /v1; null is api.openai.com. The stand-in is started for the run if null."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; null for servers without keys."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Further HTTP headers. No keys here."""
    reply_format: ReplyFormat = "json_schema"
    """How structure is asked for: the strictest that the server supports (docs/generation.md)."""
    output_limit_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the server calls the bound of the reply (OpenAI's reasoning models: the second)."""
    sampling: Sampling = Sampling()
    asking: AskPolicy = AskPolicy()
    budget_usd: float | None = Field(default=None, ge=0)
    """Money that may be spent on this model, answers in the store included; the run stops before it
    is passed."""
    thinks: bool = False
    """Whether replies are billed with thoughts before them: estimates then add 1,000
    tokens to each reply, up to `max_output_tokens`, until a run has measured it."""
    batch: BatchPolicy = BatchPolicy()
    """Of the openai-batch backend."""
    vllm: LlmServer = LlmServer()
    """Of the vllm backend."""

    @field_validator("base_url")
    @classmethod
    def _address_is_plain(cls, value: str | None) -> str | None:
        return None if value is None else plain_address(value)

    @field_validator("headers")
    @classmethod
    def _headers_are_public(cls, value: dict[str, str]) -> dict[str, str]:
        secret = [n for n in value if _SECRET_HEADER.search(n)]
        if secret:
            raise ValueError(f"{secret[0]} is a secret; name its variable in api_key_env")
        odd = [n for n, text in value.items() if not _HEADER.fullmatch(n) or not text.isprintable()]
        if odd:
            raise ValueError(f"{odd[0]!r}: a name or value that no HTTP header has")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "LlmSettings":
        is_stand_in = self.model.startswith(STAND_IN_PREFIX)
        # Tests and dry trials of the batch backend go to a stand-in that runs elsewhere.
        is_trial = is_stand_in and self.backend == "openai-batch" and self.base_url is not None
        if is_stand_in != (self.backend == "stand-in") and not is_trial:
            raise ValueError(
                f"model {self.model!r} with backend {self.backend!r}: models of the stand-in, and "
                f"only they, start with {STAND_IN_PREFIX!r} (backend openai-batch may name one "
                "with its base_url)"
            )
        if not (
            (self.backend == "file")
            == (self.file is not None)
            == self.model.startswith(FILE_PREFIX)
        ):
            raise ValueError(
                f"model {self.model!r} with backend {self.backend!r} and file {self.file!r}: "
                "backend file needs `file`, and a model named file/SYSTEM, and no other has them"
            )
        if self.backend == "vllm" and self.base_url is not None:
            raise ValueError(
                "base_url with backend 'vllm', which starts its own server; for one that runs "
                "already use backend 'openai'"
            )
        if self.budget_usd is not None and self.sampling.max_output_tokens is None:
            raise ValueError("budget_usd needs sampling.max_output_tokens to bound each reply")
        return self

    def retirement(self, today: date | None = None) -> tuple[bool, str] | None:
        """Return whether the service has stopped serving it, and that in words; None if it serves.

        ``today`` is the day in UTC by default.
        """
        if self.retired is None:
            return None
        is_past = (today or datetime.now(UTC).date()) >= self.retired.since
        tense = "not served since" if is_past else "ends on"
        return is_past, f"{tense} {self.retired.since}: {self.retired.instead}"


class Price(Section):
    """What one model costs, US dollars per million tokens."""

    input_usd: float = Field(ge=0)
    """Per million input tokens."""
    output_usd: float = Field(ge=0)
    """Per million output tokens, reasoning included."""
    cached_input_usd: float | None = Field(default=None, ge=0)
    """Per million input tokens read from the server's cache; null: as input_usd."""
    batch_share: float = Field(default=1.0, gt=0, le=1)
    """Share of the price that batch mode costs; 0.5 is half price."""
    as_of: date = Field(strict=False)
    """Day on which the price was looked up, as 2026-01-31."""
    source: str = ""
    """Where it was looked up."""

    def cost(self, usage: "Usage", *, is_batch: bool = False) -> float:
        """Return US dollars for the tokens used."""
        cached_price = self.input_usd if self.cached_input_usd is None else self.cached_input_usd
        fresh = usage.input_tokens - usage.cached_input_tokens
        money = (
            fresh * self.input_usd
            + usage.cached_input_tokens * cached_price
            + usage.output_tokens * self.output_usd
        )
        return money / MILLION * (self.batch_share if is_batch else 1.0)


def price_of(model: str, prices: Mapping[str, Price]) -> Price:
    """Look up a model's price: its own entry, or the longest entry that ends in ``*`` and fits.

    Raises
    ------
    InputError
        If there is none.
    """
    if model in prices:
        return prices[model]
    fitting = [name for name in prices if name.endswith("*") and model.startswith(name[:-1])]
    if not fitting:
        raise InputError(
            f"no price for model {model!r}; priced: {', '.join(sorted(prices)) or 'none'}. "
            "Add an entry with input_usd, output_usd and as_of; zeros for a model of your own."
        )
    return prices[max(fitting, key=len)]


def load_llms(entries: Mapping[str, Any] | None = None) -> dict[str, LlmSettings]:
    """Read the shipped language models, id -> settings.

    ``entries`` of a config, typed or plain, take their place.
    """
    kind = TypeAdapter(dict[Id, LlmSettings])
    return read_entries(LLMS, kind) | validated(entries or {}, kind, "config key llms")


def load_prices(entries: Mapping[str, Any] | None = None) -> dict[str, Price]:
    """Read the shipped prices, model name -> price; a config's ``entries`` take their place."""
    kind = TypeAdapter(dict[str, Price])
    return read_entries(PRICES, kind) | validated(entries or {}, kind, "config key prices")
