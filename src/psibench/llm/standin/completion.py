"""Turn a request's body into a chat completion, by the task's rules."""

import json
import random
from collections.abc import Mapping
from typing import Any

from psibench.llm.sections import STAND_IN_PREFIX
from psibench.llm.standin.rules import HANDLERS, Task, count_tokens, judge_of


class BadRequestError(Exception):
    """The stand-in cannot answer the request; the text has the reason."""


def complete(body: Mapping[str, Any], rng: random.Random) -> Any:
    """Return the chat completion of a request, as plain data.

    The model in the body decides only how texts are judged (`judge_of`).

    Raises
    ------
    BadRequestError
        If the body has no messages, or names a task without rules.
    """
    prompt = _prompt(body)
    value = _value(body, prompt, rng)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    n_input, n_output = count_tokens(prompt), count_tokens(text)
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": f"chatcmpl-{rng.getrandbits(64):016x}",
        "object": "chat.completion",
        "created": 0,
        "model": STAND_IN_PREFIX + str(body.get("model", "")).removeprefix(STAND_IN_PREFIX),
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": n_input,
            "completion_tokens": n_output,
            "total_tokens": n_input + n_output,
        },
    }


def _prompt(body: Mapping[str, Any]) -> str:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequestError("messages: expected a list of at least one message")
    return "\n".join(str(message.get("content", "")) for message in messages)


def _value(body: Mapping[str, Any], prompt: str, rng: random.Random) -> Any:
    wanted = body.get("response_format") or {}
    if wanted.get("type") != "json_schema":
        return " ".join(prompt.split()[:50])  # free text: the beginning of the prompt
    name = str((wanted.get("json_schema") or {}).get("name"))
    if name not in HANDLERS:
        raise BadRequestError(f"no rules for task {name!r}; known: {', '.join(sorted(HANDLERS))}")
    return HANDLERS[name](Task(prompt, rng, judge_of(str(body.get("model", "")))))
