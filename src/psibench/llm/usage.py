"""Tokens that requests used, as far as a server can be believed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_TOKENS = 2**31 - 1
"""No request has more; a server that says so is not believed."""


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
    def read(cls, given: object) -> "Usage | None":
        """Read a request's usage as fields of these names; None if it cannot be believed.

        Input and output have to be whole numbers from 0 to MOST_TOKENS. Cached and reasoning
        tokens are parts of these: none, at the full price, if they are more or no such numbers.
        Where ``total_tokens`` is more than both, the rest is output too: thinking that some
        services leave out of the completion, count against its bound, and bill.
        """
        if not isinstance(given, Mapping):
            return None
        n_input, n_output = _count(given.get("input_tokens")), _count(given.get("output_tokens"))
        if n_input is None or n_output is None:
            return None
        total, cached, reasoning = (
            _count(given.get(name)) or 0
            for name in ("total_tokens", "cached_input_tokens", "reasoning_tokens")
        )
        n_output = max(n_output, total - n_input)
        cached, reasoning = cached * (cached <= n_input), reasoning * (reasoning <= n_output)
        return cls(n_input, n_output, cached, reasoning)


def _count(value: Any) -> int | None:
    """Return a number of tokens, or None if it is none; nothing is none at all: 0."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MOST_TOKENS and value == int(value) else None
