"""What requests will use before they are asked: their tokens, their replies, a shard's totals.

Nothing here asks anything. A stand-in's reply is computed by its own rules; a translation is as
long as its language makes it; any other reply is the example in the prompt's header.
"""

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np

from psibench.errors import InputError
from psibench.llm.answer import interpret
from psibench.llm.prompts import Prompt
from psibench.llm.request import Request
from psibench.llm.sections import LlmSettings
from psibench.models.checkpoints import EMBEDDED_PREFIX
from psibench.models.counting import WORDS, token_counter
from psibench.sources import reach
from psibench.text.lengths import TokenCounter

STAND_IN = "stand-in"
EMBEDDED = f"{EMBEDDED_PREFIX}all-MiniLM-L6-v2"
MESSAGE_TOKENS = 4
"""Tokens of a chat template around each message: about four with the usual ones."""
MOST_COUNTED = 200
"""Requests of a shard that are tokenized; the totals of all are inferred from their lengths."""

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


def count_tokens(name: str) -> TokenCounter:
    """Return texts -> (n_texts,) int32 token counts, special tokens left out.

    Parameters
    ----------
    name
        ``stand-in``: as the stand-in bills; ``words``: pieces between white space; else a
        checkpoint with a tokenizer: a folder, the embedded one, or a name on the hub.

    Raises
    ------
    InputError
        If the tokenizer cannot be loaded; at once where the hub cannot be reached.
    """
    if name == STAND_IN:
        return _count_as_stand_in
    if name == WORDS or name.startswith(EMBEDDED_PREFIX) or Path(name).exists():
        return token_counter(name)
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = try_to_load_from_cache(name, "tokenizer.json")
    except HFValidationError as error:
        raise InputError(f"tokenizer {name!r}: neither a folder nor a name on the hub") from error
    if isinstance(cached, str):
        return token_counter(str(Path(cached).parent))
    if not reach.hub_is_reachable():
        raise InputError(f"tokenizer {name!r}: not on this machine, and the hub is out of reach")
    return token_counter(name)


def count_tokens_or_embedded(name: str) -> tuple[TokenCounter, str]:
    """Return a counter and the name of what it counts with: the embedded one if all else fails."""
    try:
        return count_tokens(name), name
    except InputError:
        return count_tokens(EMBEDDED), EMBEDDED


def _count_as_stand_in(texts: Sequence[str]) -> np.ndarray:
    from psibench.llm.standin.rules import count_tokens

    return np.fromiter(map(count_tokens, texts), dtype=np.int32, count=len(texts))


class RequestCounter:
    """Counts the input tokens of requests as one language model's server would, in batches.

    ``tokenizer`` is the one given, or the embedded one where that cannot be loaded.
    """

    def __init__(self, tokenizer: str, backend: str) -> None:
        self._count, self.tokenizer = count_tokens_or_embedded(tokenizer)
        # The stand-in bills the texts alone. A local server is given the schema, not the model.
        self._per_message = 0 if backend == "stand-in" else MESSAGE_TOKENS
        self._schema_is_read = backend in ("openai", "openai-batch")

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of texts."""
        return [int(count) for count in self._count(texts)] if texts else []

    def count_replies(self, replies: Sequence["ExpectedReply"]) -> list[int]:
        """Return the output tokens of replies, as billed or else counted."""
        counts = self.count_texts([reply.text for reply in replies])
        known = [reply.output_tokens for reply in replies]
        return [n if billed is None else billed for billed, n in zip(known, counts, strict=True)]

    def count_requests(self, requests: Sequence[Request]) -> list[int]:
        """Count the input tokens of requests: messages, what goes around them, the schema."""
        pieces = [[m.content for m in r.messages] + self._schema(r) for r in requests]
        ordered = sorted({text for texts in pieces for text in texts})
        counts = dict(zip(ordered, self.count_texts(ordered), strict=True))
        around = [self._per_message * len(request.messages) for request in requests]
        return [
            extra + sum(counts[text] for text in texts)
            for extra, texts in zip(around, pieces, strict=True)
        ]

    def _schema(self, request: Request) -> list[str]:
        is_sent = self._schema_is_read and request.sent_format == "json_schema"
        return [json.dumps(request.response.schema)] if is_sent else []


@dataclass(frozen=True)
class ExpectedReply:
    """A reply that stands for one not yet asked for, parsed (None: unusable) and as text.

    ``output_tokens`` are as billed; None where nobody but a tokenizer can tell. ``source`` is
    ``stand-in``: its rules, exact; ``expansion``: a translation as long as its language makes it;
    ``example``: the one in the prompt's header.
    """

    value: Any
    text: str
    output_tokens: int | None
    source: Literal["stand-in", "example", "expansion"]


def expected_reply(
    request: Request, values: Mapping[str, Any], prompt: Prompt, llm: LlmSettings
) -> ExpectedReply:
    """Return what a request will be answered with.

    ``values`` are the variables the prompt was rendered with: the example grows with them. Without
    any it is taken as it stands.

    Raises
    ------
    InputError
        If the model is no stand-in, the task no translation, and the template has no example.
    """
    if llm.backend == "stand-in":
        from psibench.llm.standin.completion import BadRequestError, answer_directly

        try:
            answer = answer_directly(request, output_limit_key=llm.output_limit_key)
        except BadRequestError:
            pass  # a task of the user's own: the stand-in has no rules for it
        else:
            value = interpret(answer, request.response).value
            return ExpectedReply(value, answer.text, answer.usage.output_tokens, "stand-in")
    if prompt.task == TRANSLATE and "text" in values:
        factor = expansion(values["source_language"], values["target_language"])
        stretched = {"translation": stretch(values["text"], factor)}
        return ExpectedReply(stretched, prompt.response.reply_with(stretched), None, "expansion")
    if prompt.example is None:
        raise InputError(
            f"prompt of task {prompt.task!r}: no reply_example in its header, so that nobody can "
            "tell what a reply will cost. Add a typical reply there; it is never sent."
        )
    example = prompt.example.for_values(values) if values else dict(prompt.example.value)
    return ExpectedReply(example, prompt.response.reply_with(example), None, "example")


def expansion(source: str, target: str) -> float:
    """Return the tokens of a translation per token of its source, languages by English names.

    Names may carry a script in brackets, which decides nothing.
    """
    before, after = (TOKENS_PER_DOCUMENT.get(name.split(" (")[0]) for name in (source, target))
    return USUAL_EXPANSION if before is None or after is None else after / before


def stretch(text: str, factor: float) -> str:
    """Cut or repeat a text to ``factor`` times its characters, at least one of them."""
    n_chars = max(1, round(factor * len(text))) if text else 0
    return (text * (n_chars // max(1, len(text)) + 1))[:n_chars]


def estimate_requests(
    asked: Iterable[tuple[Mapping[str, Any], Request]],
    prompt: Prompt,
    llm: LlmSettings,
    *,
    most: int = MOST_COUNTED,
) -> dict[str, int]:
    """Estimate what a shard will use, in seconds: answered or not, re-asks left out.

    Up to ``most`` distinct requests all are counted; of more, those with the smallest keys are,
    which is a random sample, the same in every run. Totals follow by regression on the requests'
    lengths.

    ``asked`` are the variables of each item's prompt, and its request.

    Returns
    -------
    ``requests``, ``input_tokens``, ``output_tokens``. Without an example of a reply, output tokens
    are taken to be the bound that the settings give.
    """
    sizes: dict[str, int] = {}

    def distinct() -> Iterator[tuple[str, Mapping[str, Any], Request]]:
        for values, request in asked:
            if (key := request.key) not in sizes:
                sizes[key] = sum(len(message.content) for message in request.messages)
                yield key, values, request

    kept = heapq.nsmallest(most, distinct(), key=itemgetter(0))
    counter = RequestCounter(llm.tokenizer, llm.backend)
    inputs = counter.count_requests([request for *_, request in kept])
    try:
        replies = [expected_reply(request, values, prompt, llm) for _, values, request in kept]
    except InputError:
        outputs = [llm.sampling.max_output_tokens or 0] * len(kept)
    else:
        outputs = counter.count_replies(replies)
    lengths = np.array([sizes[key] for key, *_ in kept], dtype=float)
    n, n_chars = len(sizes), sum(sizes.values())
    return {
        "requests": n,
        "input_tokens": infer_total(lengths, np.array(inputs, dtype=float), n, n_chars),
        "output_tokens": infer_total(lengths, np.array(outputs, dtype=float), n, n_chars),
    }


def infer_total(sizes: np.ndarray, counts: np.ndarray, n: int, total_size: float) -> int:
    """Infer the total of ``n`` counts from a sample of them, by regression on known sizes.

    Parameters
    ----------
    sizes, counts
        (n_sampled,) float; of the sample.
    total_size
        Sum of the sizes of all ``n``.
    """
    if not len(counts):
        return 0
    if n == len(counts):
        return round(float(counts.sum()))
    deviation = sizes - sizes.mean()
    squares = float((deviation**2).sum())
    slope = float((deviation * counts).sum()) / squares if squares else 0.0
    mean = float(counts.mean()) + slope * (total_size / n - float(sizes.mean()))
    return max(0, round(n * mean))
