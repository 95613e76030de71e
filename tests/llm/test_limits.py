import asyncio
from datetime import date

from psibench.llm.limits import Budget, Call, Turnstile
from psibench.llm.sections import Price
from psibench.llm.usage import Usage


def test_turnstile_passes_one_by_one_despite_a_cancellation():
    async def run():
        turnstile, order = Turnstile(), []

        async def enter(number):
            await turnstile.enter()
            order.append(number)

        tasks = [asyncio.create_task(enter(number)) for number in range(6)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await turnstile.enter()
        return order

    assert asyncio.run(asyncio.wait_for(run(), 5)) == [0, 1, 2, 4, 5]


def test_budget_works_in_successive_event_loops():
    budget = Budget(1.5, Price(input_usd=1e6, output_usd=0, as_of=date(2026, 1, 1)))

    async def spend():
        call = Call(Usage(1))
        await budget.admit(call)
        await asyncio.sleep(0)
        budget.finish(call, Usage(0))

    async def run():
        await asyncio.wait_for(asyncio.gather(spend(), spend(), spend()), 5)

    asyncio.run(run())  # as for blocks of embedding requests
    asyncio.run(run())
    assert not budget.has_reservations
