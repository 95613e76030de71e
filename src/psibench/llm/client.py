"""Chat completions over HTTP, through the `openai` client and its aiohttp transport."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from psibench.llm.answer import Answer
from psibench.llm.connection import DETAIL_CHARS, Connection, TryFailedError
from psibench.llm.limits import Call
from psibench.llm.request import Request
from psibench.llm.secret import Secret
from psibench.llm.sections import STAND_IN_PREFIX, LlmSettings
from psibench.llm.usage import Budget, Usage
from psibench.tables.provenance import now

MODEL_CHARS, FINISH_CHARS = 200, 50
"""Characters kept of a model's name and of a finish reason."""


@dataclass(frozen=True)
class Reply:
    """A reply as the server gave it; ``usage`` is None where it gave none that can be believed."""

    model: str
    text: str
    finish_reason: str
    refusal: str | None
    usage: Usage | None
    latency_s: float
    n_tries: int = 1

    @classmethod
    def filtered(cls, model: str, failure: TryFailedError) -> "Reply":
        """Turn an error that says "filtered" into the reply other servers give in that case."""
        return cls(model, failure.detail, "content_filter", None, Usage(), 0.0)

    def to_answer(self, key: str, task: str) -> Answer:
        """Return what the store keeps of it."""
        own = vars(self) | {"usage": self.usage or Usage()}
        return Answer(key=key, task=task, created=now(), **own)


class OpenAIChatClient(Connection):
    """Any server that speaks OpenAI's chat completions, asked as the settings say.

    ``base_url`` and ``secret`` take the place of theirs: the stand-in's port is known only once it
    runs, and a server that the job starts has a key of its own. Otherwise the key is read from the
    environment here. ``budget`` and ``obituary`` are as in `Connection`.
    """

    def __init__(
        self,
        settings: LlmSettings,
        *,
        base_url: str | None = None,
        secret: Secret | None = None,
        budget: Budget | None = None,
        obituary: Callable[[], str | None] = lambda: None,
    ) -> None:
        super().__init__(
            settings.asking,
            model=settings.model,
            address=base_url or settings.base_url,
            secret=secret or Secret.from_environment(settings.api_key_env),
            headers=settings.headers,
            budget=budget,
            obituary=obituary,
        )
        self._output_limit_key = settings.output_limit_key

    async def ask(self, request: Request) -> Reply:
        """Return the reply to a request; one that is no chat completion is asked for again.

        Raises as `Connection.post`.
        """
        call = Call(request)

        def body() -> bytes:
            return json.dumps(request.body(output_limit_key=self._output_limit_key)).encode()

        def read(data: Any, latency_s: float) -> Reply:
            reply = read_reply(data, request.model, self._secret, latency_s=latency_s)
            # What was used and not told counts as all that was reserved, in this run and the next.
            call.told = reply.usage or (call.most if self.meter.has_budget else None)
            return replace(reply, usage=call.told, n_tries=call.n_tries)

        try:
            return await self.post("/chat/completions", call, body, read)
        except TryFailedError as failure:
            if failure.reason == "content_filter":
                return Reply.filtered(request.model, failure)
            raise


def read_reply(data: Any, model: str, secret: Secret, *, latency_s: float = 0.0) -> Reply:
    """Read a chat completion that ``model`` was asked for.

    Raises
    ------
    TryFailedError
        If it is none, or a stand-in answered for a model or a model for a stand-in.
    """
    try:
        reply = _read_completion(data, latency_s, secret)
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError, RecursionError):
        raise TryFailedError("no_choices", secret.scrub(_shown(data))) from None
    if reply.model.startswith(STAND_IN_PREFIX) != model.startswith(STAND_IN_PREFIX):
        raise TryFailedError(
            "stand_in_mismatch",
            f"model {model!r} was asked for and {reply.model!r} answered; a stand-in's "
            "replies must not pass for a model's. Check base_url.",
            verdict="stop",
        )
    return reply


def _read_completion(data: Any, latency_s: float, secret: Secret) -> Reply:
    choice = data["choices"][0]
    message = choice["message"]
    refusal = message.get("refusal")
    return Reply(
        model=_word(data.get("model"), secret, MODEL_CHARS),
        text=secret.scrub_exactly(_text(message.get("content"))),
        finish_reason=_word(choice.get("finish_reason"), secret, FINISH_CHARS),
        refusal=secret.scrub_exactly(str(refusal)) if refusal else None,
        usage=_usage(data.get("usage")),
        latency_s=round(latency_s, 3),
    )


def _word(given: object, secret: Secret, most: int) -> str:
    """Return a short text that can be shown and stored, whatever the server put there."""
    text = secret.scrub(str(given or ""))[:most]
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _shown(data: object) -> str:
    """Return the beginning of JSON data; the parser allows deeper nesting than the writer."""
    try:
        return json.dumps(data)[:DETAIL_CHARS]
    except RecursionError:
        return "deeply nested JSON"


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, list):  # parts, as some servers send them
        return "".join(str(part.get("text", "")) for part in content)
    return str(content)


def _usage(given: object) -> Usage | None:
    if not isinstance(given, dict) or not given:
        return None
    prompt, completion = (
        inner if isinstance(inner, dict) else {}
        for inner in (given.get("prompt_tokens_details"), given.get("completion_tokens_details"))
    )
    return Usage.read(
        {
            "input_tokens": given.get("prompt_tokens"),
            "output_tokens": given.get("completion_tokens"),
            "cached_input_tokens": prompt.get("cached_tokens"),
            "reasoning_tokens": completion.get("reasoning_tokens"),
            "total_tokens": given.get("total_tokens"),
        }
    )
