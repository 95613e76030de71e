"""Chat completions over HTTP, through the `openai` client and its aiohttp transport."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from psibench.config.secrets import Secret
from psibench.llm.answer import FILTERED, Answer
from psibench.llm.connection import Connection, TryFailedError, server_text
from psibench.llm.limits import Budget, Call
from psibench.llm.request import Request
from psibench.llm.sections import STAND_IN_PREFIX, LlmSettings
from psibench.llm.usage import Usage
from psibench.tables.provenance import now

REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
"""Fields in which servers return thoughts: DeepSeek, SGLang, llama.cpp; vLLM, OpenRouter, Ollama;
LiteLLM."""
TEXT_TYPES = frozenset({"text", "output_text"})
MODEL_CHARS, FINISH_CHARS = 200, 50
"""Length to which a model's name and a finish reason are cut."""


class OpenAIChatClient(Connection):
    """Client for any server with OpenAI's chat completions.

    ``base_url`` and ``secret`` override the settings: the stand-in's port is known only once it
    runs, and a server that the job starts has a random key. Otherwise the key is read from the
    environment. ``budget`` and ``exit_reason`` are as in `Connection`.
    """

    def __init__(
        self,
        settings: LlmSettings,
        *,
        base_url: str | None = None,
        secret: Secret | None = None,
        budget: Budget | None = None,
        exit_reason: Callable[[], str | None] = lambda: None,
    ) -> None:
        super().__init__(
            settings.asking,
            model=settings.model,
            address=base_url or settings.base_url,
            secret=secret or Secret.from_environment(settings.api_key_env),
            headers=settings.headers,
            budget=budget,
            exit_reason=exit_reason,
        )
        self._output_limit_key = settings.output_limit_key

    async def ask(self, request: Request, key: str) -> Answer:
        """Return the answer to a request; repeat the request if the reply is no chat completion.

        Raises the errors of `Connection.post`.
        """
        call = call_of(request)

        def body() -> bytes:
            return json.dumps(request.body(output_limit_key=self._output_limit_key)).encode()

        def read(data: Any, latency_s: float) -> Answer:
            answer = read_answer(
                data, request.model, request.task, key, self._secret, latency_s=latency_s
            )
            # Without reported usage, the reserved amount counts as used, also in the next run.
            call.reported_usage = answer.usage if answer.usage != Usage() else None
            if call.reported_usage is None and self.budget.is_limited:
                call.reported_usage = call.most
            return replace(answer, usage=call.reported_usage or Usage(), n_tries=call.n_tries)

        try:
            return await self.post("/chat/completions", call, body, read)
        except TryFailedError as failure:
            if failure.reason == "content_filter":
                return filtered_answer(request.model, request.task, key, failure)
            raise


def call_of(request: Request) -> Call:
    """Return a call with the most that a request may use."""
    most_output = request.sampling.max_output_tokens or 0
    return Call(Usage(request.max_input_tokens(), most_output))


def filtered_answer(model: str, task: str, key: str, failure: TryFailedError) -> Answer:
    """Turn an error of a content filter into the answer that other servers return in that case."""
    return Answer(
        key=key,
        task=task,
        model=model,
        text=failure.detail,
        finish_reason="content_filter",
        refusal=None,
        usage=Usage(),
        n_tries=1,
        latency_s=0.0,
        created=now(),
    )


def read_answer(
    data: Any, model: str, task: str, key: str, secret: Secret, *, latency_s: float = 0.0
) -> Answer:
    """Read a chat completion of ``model``; implausible usage counts as none.

    Raises
    ------
    TryFailedError
        If it is no chat completion, or exactly one of model and answer is a stand-in.
    """
    try:
        choice = data["choices"][0]
        is_filtered = (
            str(choice.get("finish_reason")).lower() in FILTERED
        )  # the message may be missing
        message = choice.get("message", {}) if is_filtered else choice["message"]
        refusal = message.get("refusal")
        answer = Answer(
            key=key,
            task=task,
            model=server_text(data.get("model"), secret, MODEL_CHARS),
            text=secret.scrub_exactly(_text(message.get("content"))),
            finish_reason=server_text(choice.get("finish_reason"), secret, FINISH_CHARS),
            refusal=secret.scrub_exactly(str(refusal)) if refusal else None,
            usage=_usage(data.get("usage")) or Usage(),
            n_tries=1,
            latency_s=round(latency_s, 3),
            created=now(),
            has_reasoning=_has_reasoning(message),
        )
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError, RecursionError):
        raise TryFailedError("no_choices", server_text(_shown(data), secret)) from None
    if answer.model.startswith(STAND_IN_PREFIX) != model.startswith(STAND_IN_PREFIX):
        raise TryFailedError(
            "stand_in_mismatch",
            f"model {model!r} was requested but {answer.model!r} answered; a stand-in's replies "
            "must not count as a model's. Check base_url.",
            action="stop",
        )
    return answer


def _shown(data: object) -> str:
    """Return JSON data as text; the parser allows deeper nesting than the writer."""
    try:
        return json.dumps(data)
    except RecursionError:
        return "deeply nested JSON"


def _text(content: Any) -> str:
    """Return the text of a message, without parts of other types such as Mistral's thoughts."""
    if content is None:
        return ""
    if isinstance(content, list):
        texts = [part for part in content if part.get("type", "text") in TEXT_TYPES]
        return "".join(str(part.get("text", "")) for part in texts)
    return str(content)


def _has_reasoning(message: Mapping[str, Any]) -> bool:
    """Return whether a server sent thoughts separately from the text, in any service's field."""
    parts = message.get("content")
    others = [part.get("type", "text") for part in parts] if isinstance(parts, list) else []
    return any(message.get(name) for name in REASONING_FIELDS) or bool(set(others) - TEXT_TYPES)


def _usage(reported: object) -> Usage | None:
    if not isinstance(reported, dict) or not reported:
        return None
    prompt, completion = (
        details if isinstance(details, dict) else {}
        for details in (
            reported.get("prompt_tokens_details"),
            reported.get("completion_tokens_details"),
        )
    )
    return Usage.read(
        {
            "input_tokens": reported.get("prompt_tokens"),
            "output_tokens": reported.get("completion_tokens"),
            "cached_input_tokens": prompt.get("cached_tokens"),
            "reasoning_tokens": completion.get("reasoning_tokens"),
            "total_tokens": reported.get("total_tokens"),
        }
    )
