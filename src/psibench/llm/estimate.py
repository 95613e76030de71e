"""What a stage will ask, use and cost, before it is asked. Nothing here asks anything."""

import json
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass

from psibench.llm.request import Request
from psibench.llm.usage import Price, Usage

CountTokens = Callable[[str], int]


@dataclass(frozen=True)
class StageEstimate:
    """One stage's requests: how many, how many are answered, and what the others will use.

    Attributes
    ----------
    n_requests, n_answered
        Distinct requests; those with a stored answer.
    usage
        Tokens of the requests still to be asked.
    usd
        Their cost; None without a price.
    """

    stage: str
    n_requests: int
    n_answered: int
    usage: Usage
    usd: float | None

    @property
    def n_to_ask(self) -> int:
        """Requests without an answer."""
        return self.n_requests - self.n_answered


def count_input_tokens(
    request: Request, count_tokens: CountTokens, *, tokens_per_message: int = 0
) -> int:
    """Count a request's input tokens: messages, what the server adds to each, and the schema."""
    total = sum(count_tokens(m.content) + tokens_per_message for m in request.messages)
    if (
        request.response is not None
        and request.reply_format == "json_schema"
        and tokens_per_message
    ):
        total += count_tokens(json.dumps(request.response.schema))
    return total


def estimate_stage(
    stage: str,
    requests: Iterable[Request],
    *,
    count_tokens: CountTokens,
    output_tokens: Callable[[Request], float],
    answered: Container[str] = (),
    price: Price | None = None,
    tokens_per_message: int = 0,
    is_batch: bool = False,
) -> StageEstimate:
    """Estimate a stage from the requests it would make; each distinct request counts once.

    Parameters
    ----------
    requests
        As the stage would ask them; drawn one by one.
    count_tokens
        Tokens of a text under the model's own tokenizer.
    output_tokens
        Tokens expected of a reply: a mean measured on answers of the same task, say.
    answered
        Keys with a stored answer: an AnswerStore.
    tokens_per_message
        Tokens of the server's chat template per message; with 0 the schema counts nothing either.
    """
    seen: set[bytes] = set()
    n_answered, n_input, n_output = 0, 0, 0.0
    for request in requests:
        key = request.key
        if (short := bytes.fromhex(key)[:16]) in seen:
            continue
        seen.add(short)
        if key in answered:
            n_answered += 1
            continue
        n_input += count_input_tokens(request, count_tokens, tokens_per_message=tokens_per_message)
        n_output += output_tokens(request)
    usage = Usage(n_input, round(n_output))
    usd = None if price is None else price.cost(usage, is_batch=is_batch)
    return StageEstimate(stage, len(seen), n_answered, usage, usd)


def scale_estimate(estimate: StageEstimate, n_requests: int) -> StageEstimate:
    """Scale an estimate made on a sample to a number of requests, none of them answered.

    An empty estimate stays empty.
    """
    share = n_requests / estimate.n_to_ask if estimate.n_to_ask else 0.0
    usage = Usage(
        round(estimate.usage.input_tokens * share), round(estimate.usage.output_tokens * share)
    )
    usd = None if estimate.usd is None else estimate.usd * share
    return StageEstimate(estimate.stage, n_requests, 0, usage, usd)
