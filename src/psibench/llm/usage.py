"""Tokens and money: what requests used, what they cost, and a budget that is not passed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from pydantic import Field

from psibench.config.base import Section
from psibench.errors import InputError

MILLION = 1_000_000


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


class Price(Section):
    """What one model costs, US dollars per million tokens."""

    input_usd: float = Field(ge=0)
    """Per million input tokens."""
    output_usd: float = Field(ge=0)
    """Per million output tokens, reasoning included."""
    cached_input_usd: float | None = Field(default=None, ge=0)
    """Per million input tokens read from the server's cache; null: as input_usd."""
    batch_share: float = Field(default=1.0, gt=0, le=1)
    """Share of the price that batch mode costs; 0.5 is half price."""
    as_of: date = Field(strict=False)
    """Day on which the price was looked up, as 2026-01-31."""
    source: str = ""
    """Where it was looked up."""

    def cost(self, usage: Usage, *, is_batch: bool = False) -> float:
        """Return US dollars for the tokens used."""
        cached_price = self.input_usd if self.cached_input_usd is None else self.cached_input_usd
        fresh = usage.input_tokens - usage.cached_input_tokens
        money = (
            fresh * self.input_usd
            + usage.cached_input_tokens * cached_price
            + usage.output_tokens * self.output_usd
        )
        return money / MILLION * (self.batch_share if is_batch else 1.0)


def price_of(model: str, prices: Mapping[str, Price]) -> Price:
    """Look up a model's price: its own entry, or the longest entry that ends in ``*`` and fits.

    Raises
    ------
    InputError
        If there is none.
    """
    if model in prices:
        return prices[model]
    fitting = [name for name in prices if name.endswith("*") and model.startswith(name[:-1])]
    if not fitting:
        raise InputError(
            f"no price for model {model!r}; priced: {', '.join(sorted(prices)) or 'none'}. "
            "Add an entry with input_usd, output_usd and as_of; zeros for a model of your own."
        )
    return prices[max(fitting, key=len)]


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
    """

    def __init__(self, limit_usd: float, price: Price, *, spent_usd: float = 0.0) -> None:
        self.limit_usd, self.price, self.spent_usd = limit_usd, price, spent_usd
        self._reserved_usd = 0.0

    @property
    def has_reservations(self) -> bool:
        """Whether requests are under way that may yet give back a part of what they reserved."""
        return self._reserved_usd > 1e-12

    def reserve(self, most: Usage) -> float | None:
        """Reserve the cost of the most tokens a request can use; None if it does not fit."""
        money = self.price.cost(most)
        if self.spent_usd + self._reserved_usd + money > self.limit_usd * (1 + 1e-12):
            return None
        self._reserved_usd += money
        return money

    def settle(self, reserved_usd: float, used: Usage) -> None:
        """Replace a reservation by what was used (nothing, after a failure)."""
        self._reserved_usd = max(0.0, self._reserved_usd - reserved_usd)
        self.spent_usd += self.price.cost(used)

    def reached(self) -> BudgetReachedError:
        """Return the error that ends the run."""
        return BudgetReachedError(
            f"budget_usd {self.limit_usd:g}: the next request could pass it ({self.spent_usd:.4f} "
            "USD spent). All answers are stored; raise budget_usd and run again to go on."
        )
