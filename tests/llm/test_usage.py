from datetime import date

import pytest
from pydantic import ValidationError

from psibench.errors import InputError
from psibench.llm.sections import Price, price_of
from psibench.llm.usage import Budget, BudgetReachedError, Usage

DAY = date(2026, 1, 1)
PRICE = Price(input_usd=1.0, output_usd=4.0, as_of=DAY)


def test_cached_input_and_batches_cost_less():
    price = Price(
        input_usd=1.0, output_usd=4.0, cached_input_usd=0.1, batch_share=0.5, as_of="2026-01-01"
    )
    usage = Usage(1_000_000, 0, cached_input_tokens=400_000)
    assert price.cost(usage) == pytest.approx(0.64)  # 0.6 x 1 + 0.4 x 0.1
    assert price.cost(usage, is_batch=True) == pytest.approx(0.32)


def test_a_price_needs_its_date():
    with pytest.raises(ValidationError, match="as_of"):
        Price(input_usd=1.0, output_usd=1.0)


@pytest.mark.parametrize(
    ("model", "expected"),
    [("gpt-x", 2.0), ("gpt-x-mini", 3.0), ("gpt-y", 1.0), ("stand-in/a", 0.0)],
)
def test_the_entry_that_fits_closest_is_the_price(model, expected):
    names = {"gpt-*": 1.0, "gpt-x": 2.0, "gpt-x-*": 3.0, "stand-in/*": 0.0}
    prices = {n: Price(input_usd=usd, output_usd=0.0, as_of=DAY) for n, usd in names.items()}
    assert price_of(model, prices).input_usd == expected


def test_a_model_without_a_price_is_an_error_that_lists_the_priced_ones():
    with pytest.raises(InputError, match=r"no price for model 'b'; priced: a\. Add an entry"):
        price_of("b", {"a": PRICE})


def test_a_budget_counts_what_is_under_way():
    budget = Budget(10.0, PRICE)
    million = Usage(1_000_000, 1_000_000)  # 5 USD
    reserved = budget.reserve(million)
    assert reserved == pytest.approx(5.0)
    assert budget.reserve(million) == pytest.approx(5.0)
    assert budget.reserve(Usage(1, 0)) is None
    budget.settle(reserved, Usage(1_000_000, 0))  # 1 USD only
    assert budget.spent_usd == pytest.approx(1.0)
    assert budget.reserve(Usage(1_000_000, 500_000)) == pytest.approx(3.0)
    assert isinstance(budget.reached(), BudgetReachedError)
