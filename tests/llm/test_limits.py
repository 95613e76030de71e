import asyncio
import time

import pytest

from psibench.llm.limits import Call, Meter, TokenBucket, Turnstile
from psibench.llm.usage import Usage


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""

    class Clock:
        now = 1000.0

    monkeypatch.setattr(time, "monotonic", lambda: Clock.now)
    return Clock


@pytest.mark.parametrize("per_minute", [6, 60, 600, 100_000])
def test_no_minute_lets_more_through_than_the_limit(clock, per_minute):
    bucket, starts = TokenBucket(per_minute), []
    while clock.now < 1000 + 180 and len(starts) < 3000:
        clock.now += bucket.take(1)
        starts.append(clock.now)
    for first in starts:
        assert sum(first <= at < first + 60 for at in starts) <= per_minute + 1


def test_a_bucket_lets_nearly_the_limit_through(clock):
    bucket, n_started = TokenBucket(600), 0
    while clock.now < 1000 + 120:
        clock.now += bucket.take(1)
        n_started += 1
    assert n_started >= 0.94 * 1200


def test_a_meter_lets_requests_of_unknown_length_start_as_their_usage_allows():
    async def run(used):
        meter, call = (
            Meter(None, 60_000),
            Call(Usage(0, 3000), guess=3000),
        )  # the bucket holds 3,000
        await meter.admit(call)
        meter.settle(call, Usage(used, 0))
        started = time.monotonic()
        await meter.admit(Call(Usage(0, 500), guess=500))
        return time.monotonic() - started

    assert asyncio.run(run(100)) < 0.2
    assert 0.4 < asyncio.run(run(3000)) < 2.0  # fills with 950 per second


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
