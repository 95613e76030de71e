"""Tokens that requests used, as far as servers report them plausibly."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_TOKENS_PER_REQUEST = 2**31 - 1
"""No request has more; a larger reported number is ignored."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one or many requests; cached and reasoning tokens are part of input and output."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )

    @classmethod
    def read(cls, reported: object) -> "Usage | None":
        """Read a request's usage from fields of these names; None if it is implausible.

        Input and output must be whole numbers from 0 to MOST_TOKENS_PER_REQUEST. Cached and
        reasoning tokens are included in them; if they are larger or no such numbers, they count as
        0, at the full price. If ``total_tokens`` is larger than input and output, the rest is
        output, too: thoughts that some services leave out of the completion, but count against its
        limit and bill.
        """
        if not isinstance(reported, Mapping):
            return None
        n_input = _count(reported.get("input_tokens"))
        n_output = _count(reported.get("output_tokens"))
        if n_input is None or n_output is None:
            return None
        total, cached, reasoning = (
            _count(reported.get(name)) or 0
            for name in ("total_tokens", "cached_input_tokens", "reasoning_tokens")
        )
        n_output = max(n_output, total - n_input)
        cached, reasoning = cached * (cached <= n_input), reasoning * (reasoning <= n_output)
        return cls(n_input, n_output, cached, reasoning)


def _count(value: Any) -> int | None:
    """Return a number of tokens, 0 if missing, or None if it is implausible."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MOST_TOKENS_PER_REQUEST and value == int(value) else None
