"""The estimate that a job records before it asks its shard: what it will use, in a few seconds."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from psibench.config.llms import LlmSettings
from psibench.errors import InputError
from psibench.llm.prompts import Prompt
from psibench.llm.request import Request
from psibench.llm.tokens import RequestCounter
from psibench.recipes.llm_tasks import TaskItem
from psibench.stages.llm_estimate_replies import expect_reply

MOST_COUNTED = 200
"""Requests that are tokenized; the totals of all are inferred from them and their lengths."""

Asked = Request | tuple[TaskItem, Request]


@dataclass(frozen=True, order=True)
class _Sampled:
    """A request that is counted; the order is that of the negated keys, which are all different."""

    order: int
    n_chars: int = field(compare=False)
    request: Request = field(compare=False)
    values: Mapping[str, Any] = field(compare=False)


def estimate_items(
    requests: Iterable[Asked], prompt: Prompt, llm: LlmSettings, *, most: int = MOST_COUNTED
) -> dict[str, int]:
    """Estimate distinct requests and their tokens, stored answers or not; re-asks are left out.

    Up to ``most`` requests all are counted; of more, those with the smallest keys are, which is a
    random sample, the same in every run. Totals follow by regression on the requests' lengths.

    Parameters
    ----------
    requests
        As `requests_of` yields them. A request without its item gets the prompt's example as it
        stands, whatever its variables.
    prompt, llm
        Template and model of the task.

    Returns
    -------
    ``requests``, ``input_tokens``, ``output_tokens``. Without an example of a reply, output tokens
    are taken to be the bound that the settings give.
    """
    kept, n, mean = _sample(requests, most)
    counter = RequestCounter(llm)
    sizes = np.array([one.n_chars for one in kept], dtype=float)
    inputs = counter.count_requests([one.request for one in kept])
    outputs = _output_tokens(kept, prompt, llm, counter)
    return {
        "requests": n,
        "input_tokens": infer_total(sizes, np.array(inputs, dtype=float), n, mean),
        "output_tokens": infer_total(sizes, np.array(outputs, dtype=float), n, mean),
    }


def infer_total(sizes: np.ndarray, counts: np.ndarray, n: int, mean_size: float) -> int:
    """Infer the total of ``n`` counts from a sample of them, by regression on known sizes.

    Parameters
    ----------
    sizes, counts
        (n_sampled,) float; of the sample.
    mean_size
        Mean size of all ``n``.
    """
    if not len(counts):
        return 0
    if n == len(counts):
        return round(float(counts.sum()))
    deviation = sizes - sizes.mean()
    spread = float((deviation**2).sum())
    slope = float((deviation * counts).sum()) / spread if spread else 0.0
    return max(0, round(n * (float(counts.mean()) + slope * (mean_size - float(sizes.mean())))))


def _sample(requests: Iterable[Asked], most: int) -> tuple[list[_Sampled], int, float]:
    """Return some distinct requests, the number of all of them, and their mean characters."""
    seen: set[bytes] = set()
    total_chars = 0
    kept: list[_Sampled] = []
    for asked in requests:
        item, request = asked if isinstance(asked, tuple) else (None, asked)
        key = bytes.fromhex(request.key)
        if key in seen:
            continue
        seen.add(key)
        n_chars = sum(len(message.content) for message in request.messages)
        total_chars += n_chars
        values = {} if item is None else item.values
        one = _Sampled(-int.from_bytes(key), n_chars, request, values)
        if len(kept) < most:
            heapq.heappush(kept, one)
        elif one > kept[0]:
            heapq.heapreplace(kept, one)
    return kept, len(seen), total_chars / max(1, len(seen))


def _output_tokens(
    sample: Sequence[_Sampled], prompt: Prompt, llm: LlmSettings, counter: RequestCounter
) -> list[int]:
    try:
        replies = [expect_reply(one.request, one.values, prompt, llm) for one in sample]
    except InputError:
        return [llm.sampling.max_output_tokens or 0] * len(sample)
    counts = counter.count_texts([reply.text for reply in replies])
    pairs = zip(replies, counts, strict=True)
    return [count if reply.output_tokens is None else reply.output_tokens for reply, count in pairs]
