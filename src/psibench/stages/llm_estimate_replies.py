"""The replies an estimate counts with: examples, and translations as long as their language is."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from psibench.config.llms import LlmSettings
from psibench.errors import InputError
from psibench.llm.expected import ExpectedReply, expected_reply
from psibench.llm.prompts import Prompt
from psibench.llm.request import Request

TRANSLATE = "translate"

TOKENS_PER_DOCUMENT: Mapping[str, float] = {
    "English": 922.4,
    "Arabic": 1509.5,
    "German": 1387.3,
    "French": 1375.1,
    "Italian": 1401.3,
    "Korean": 1509.5,
    "Portuguese": 1298.1,
    "Russian": 1539.2,
    "Spanish": 1287.9,
}
"""Mean tokens of the same documents in English and translated (PosIR, table 4)."""

USUAL_EXPANSION = 1.4
"""Tokens of a translation per token of the source, for languages not in the table: a choice near
the low end of those that are, seen from English (1.40 to 1.67)."""


@dataclass(frozen=True)
class Expected:
    """A reply that stands for one not yet asked for.

    Attributes
    ----------
    value
        The parsed reply; None where it would be unusable.
    text
        The reply as it would come.
    output_tokens
        As billed; None where nobody but a tokenizer can tell.
    basis
        What it rests on: ``stand-in``, ``example`` or ``expansion``.
    """

    value: Any
    text: str
    output_tokens: int | None
    basis: str


def expect_reply(
    request: Request, values: Mapping[str, Any], prompt: Prompt, llm: LlmSettings
) -> Expected:
    """Return what a request will be answered with; a translation has the length of its language.

    A translation is the source's text, cut or repeated to `expansion` times its characters, so
    that its tokens grow as much. The stand-in's own rules come first.

    Raises
    ------
    InputError
        If the template has no example, the model is no stand-in, and the task no translation.
    """
    if prompt.task != TRANSLATE or "text" not in values:
        return _as_expected(expected_reply(request, values, prompt, llm))
    if llm.backend == "stand-in":
        with suppress(InputError):  # no rules and no example: it has the length of its language
            reply = expected_reply(request, values, prompt, llm)
            if reply.source == "stand-in":
                return _as_expected(reply)
    factor = expansion(values["source_language"], values["target_language"])
    value = {"translation": stretched(values["text"], factor)}
    return Expected(value, json.dumps(value, ensure_ascii=False), None, "expansion")


def expansion(source: str, target: str) -> float:
    """Return the tokens of a translation per token of its source, languages by English names.

    Names may carry a script in brackets, which decides nothing.
    """
    known = [TOKENS_PER_DOCUMENT.get(name.split(" (")[0]) for name in (source, target)]
    before, after = known
    return USUAL_EXPANSION if before is None or after is None else after / before


def stretched(text: str, factor: float) -> str:
    """Cut or repeat a text to ``factor`` times its characters, at least one of them."""
    if not text:
        return text
    n_chars = max(1, round(factor * len(text)))
    return (text * (n_chars // len(text) + 1))[:n_chars]


def _as_expected(reply: ExpectedReply) -> Expected:
    return Expected(reply.value, reply.text, reply.output_tokens, reply.source)
