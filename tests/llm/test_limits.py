import asyncio

from psibench.llm.limits import Turnstile


def test_a_turnstile_lets_all_through_one_by_one_and_survives_a_cancelled_one():
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
