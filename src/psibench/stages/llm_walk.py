"""One task over some documents without asking anyone: what it would ask, and go on with."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from psibench.config.generation import LlmTaskSection
from psibench.config.llms import LlmSettings
from psibench.llm.answer_store import AnswerStore
from psibench.llm.chain import Chain
from psibench.llm.expected import ENOUGH_ANSWERS
from psibench.llm.prompts import Prompt
from psibench.llm.request import Request
from psibench.llm.tokens import RequestCounter
from psibench.llm.usage import Usage
from psibench.recipes.llm_tasks import LlmTask, Replied, Tables
from psibench.stages.llm_estimate_replies import expect_reply
from psibench.stages.llm_requests import requests_of

BLOCK = 512
"""Requests that are in memory, and tokenized, at once."""


@dataclass
class Walked:
    """Counts of a task's distinct requests.

    Attributes
    ----------
    n_items
        Items that make them; several may make the same.
    n_requests, n_answered
        All requests; those with a stored answer that is final.
    usage
        Tokens of the others; of one that is to be asked again, those of the next request.
    basis
        What its output tokens rest on: ``stored answers``, ``stand-in``, ``example``,
        ``expansion``, or ``answered`` if nothing is left to ask.
    replies
        Usable replies of all items, stored or expected, in order.
    """

    n_items: int = 0
    n_requests: int = 0
    n_answered: int = 0
    usage: Usage = field(default_factory=Usage)
    basis: str = "answered"
    replies: list[Replied] = field(default_factory=list)


@dataclass(frozen=True)
class _ToAsk:
    """A request without a stored answer, and its reply; ``n_output`` is None if not known."""

    request: Request
    text: str
    n_output: int | None


def walk_task(
    task: LlmTask,
    section: LlmTaskSection,
    prompt: Prompt,
    llm: LlmSettings,
    tables: Tables,
    *,
    store: AnswerStore,
    counter: RequestCounter,
    stored_mean: Callable[[str], tuple[int, float]],
) -> Walked:
    """Go through the items of a task.

    A reply is the stored one if there is one, else what `expect_reply` gives. Output tokens of
    what is not answered are those of the expected replies; but the mean of the task's stored
    answers where there are enough of them, unless the stand-in's rules tell it exactly or the
    lengths of what is translated do.

    Parameters
    ----------
    stored_mean
        Template's task -> stored answers to it that were looked at, and their mean output tokens.

    Raises
    ------
    InputError
        If the template does not fit the task, or what it will be answered cannot be told.
    """
    walked = Walked()
    waiting = _walk(requests_of(task, section, prompt, llm, tables), prompt, llm, store, walked)
    while block := list(islice(waiting, BLOCK)):
        n_input = sum(counter.count_requests([one.request for one in block]))
        counts = counter.count_texts([one.text for one in block])
        pairs = zip(block, counts, strict=True)
        n_output = sum(n if one.n_output is None else one.n_output for one, n in pairs)
        walked.usage += Usage(n_input, n_output)
    if walked.basis == "example":
        n_stored, mean = stored_mean(task.template)
        if n_stored >= ENOUGH_ANSWERS:
            n_output = round(mean * (walked.n_requests - walked.n_answered))
            walked.usage = Usage(walked.usage.input_tokens, n_output)
            walked.basis = "stored answers"
    return walked


def _walk(
    requests: Iterator[tuple[Any, Request]],
    prompt: Prompt,
    llm: LlmSettings,
    store: AnswerStore,
    walked: Walked,
) -> Iterator[_ToAsk]:
    """Yield the distinct requests not answered yet; count all, and collect the replies."""
    values: dict[str, Any] = {}
    for item, request in requests:
        walked.n_items += 1
        chain = Chain(item.id, request, llm.asking.max_reasks)
        if (key := chain.first_key) not in values:
            walked.n_requests += 1
            outcome = chain.follow_stored(store)
            if outcome is not None:
                walked.n_answered += 1
                values[key] = outcome.value
            else:
                reply = expect_reply(chain.request, item.values, prompt, llm)
                values[key] = reply.value
                walked.basis = reply.basis
                yield _ToAsk(chain.request, reply.text, reply.output_tokens)
        if values[key] is not None:
            where = (item.id, item.doc_id, item.target_position)
            walked.replies.append(Replied(*where, values[key]))
