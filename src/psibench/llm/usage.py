"""Tokens and money: what requests used, what they cost, and a budget that is not passed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psibench.errors import InputError
from psibench.llm.sections import Price

if TYPE_CHECKING:
    from psibench.llm.limits import Call

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

    @property
    def total_tokens(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens

    @classmethod
    def read(cls, given: object) -> "Usage | None":
        """Read a request's usage as fields of these names; None if it cannot be believed.

        Input and output have to be whole numbers from 0 to MOST_TOKENS. Cached and reasoning
        tokens are parts of these: at most as many, and none if they are no such numbers. Where
        ``total_tokens`` is more than both, the rest is output too: thinking that some services
        leave out of the completion, count against its bound, and bill.
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
        return cls(n_input, n_output, min(cached, n_input), min(reasoning, n_output))


def _count(value: Any) -> int | None:
    """Return a number of tokens, or None if it is none; nothing is none at all: 0."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MOST_TOKENS and value == int(value) else None


class BudgetReachedError(InputError):
    """The next request could pass the budget; all answers so far are stored."""


class Budget:
    """Money that may be spent. Each request reserves the most it can cost before it is sent.

    Parameters
    ----------
    limit_usd
        Never passed, however the requests come out.
    price
        The model's price.
    spent_usd
        Spent before.
    is_batch
        Whether requests are asked in batches, at the price's ``batch_share``.
    """

    def __init__(
        self, limit_usd: float, price: Price, *, spent_usd: float = 0.0, is_batch: bool = False
    ) -> None:
        self.limit_usd, self.price, self.spent_usd = limit_usd, price, spent_usd
        self._is_batch, self._reserved_usd = is_batch, 0.0

    @property
    def has_reservations(self) -> bool:
        """Whether requests are under way that may yet give back a part of what they reserved."""
        return self._reserved_usd > 1e-12

    @property
    def free_usd(self) -> float:
        """What is neither spent nor reserved; negative where others' batches hold more."""
        return self.limit_usd - self.spent_usd - self._reserved_usd

    def reserve(self, most: Usage) -> float | None:
        """Reserve the cost of the most tokens a request can use; None if it does not fit."""
        fits = self._cost(most) <= self.free_usd + 1e-12 * self.limit_usd
        return self.hold(most) if fits else None

    def hold(self, most: Usage) -> float:
        """Reserve the cost of what is under way already, whether it fits or not."""
        money = self._cost(most)
        self._reserved_usd += money
        return money

    def settle(self, reserved_usd: float, used: Usage) -> None:
        """Replace a reservation by what was used (nothing, after a failure)."""
        self._reserved_usd = max(0.0, self._reserved_usd - reserved_usd)
        self.spent_usd += self._cost(used)

    def begin(self, call: "Call") -> bool:
        """Reserve the most that an HTTP request of a call can cost; False if it does not fit."""
        reserved_usd = self.reserve(call.most)
        call.reserved_usd = reserved_usd or 0.0
        return reserved_usd is not None

    def end(self, call: "Call", used: Usage | None, *, is_usable: bool) -> None:  # noqa: ARG002
        """Settle what a call reserved; what it perhaps used counts as all of it."""
        self.settle(call.reserved_usd, call.most if used is None else used)

    def reached(self) -> BudgetReachedError:
        """Return the error that ends the run."""
        return BudgetReachedError(
            f"budget_usd {self.limit_usd:g}: the next request could pass it ({self.spent_usd:.4f} "
            "USD spent). All answers are stored; raise budget_usd and run again to go on."
        )

    def _cost(self, used: Usage) -> float:
        return self.price.cost(used, is_batch=self._is_batch)
