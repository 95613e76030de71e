import logging
from types import SimpleNamespace

import pytest

from psibench import progress
from psibench.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    """A clock with a fixed time until it is set."""
    now = {"s": 0.0}
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now["s"]))
    return now


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, logger="psibench")
    return caplog


def count(clock, *steps: tuple[float, int], total: int = 8_000) -> None:
    with Progress("encoding m", total=total, unit="tokens") as work:
        for second, amount in steps:
            clock["s"] = second
            work.advance(amount)


def test_the_log_and_the_console_are_told_after_ten_seconds_then_every_thirty(clock, log, capsys):
    count(clock, (4.0, 500), (10.0, 500), (39.0, 2000), (40.0, 1000), (75.0, 4000))
    told = [
        # After the first 500 tokens: 500 in 6 s, then 3,500 in 36 s.
        "encoding m: 1,000 of 8,000 tokens (12 %), 100 tokens/s, 1 min 24 s left",
        "encoding m: 4,000 of 8,000 tokens (50 %), 100 tokens/s, 41 s left",
        "encoding m: 8,000 of 8,000 tokens (100 %), 107 tokens/s, 0 s left",
        "encoding m: 8,000 of 8,000 tokens (100 %), 1 min 15 s",
    ]
    assert log.messages == told
    assert capsys.readouterr().err.splitlines() == told


def test_what_is_quick_is_in_the_log_alone(clock, log, capsys):
    count(clock, (9.9, 8000))
    assert log.messages == ["encoding m: 8,000 of 8,000 tokens (100 %), 10 s"]
    assert capsys.readouterr().err == ""


def test_a_log_on_the_console_is_not_told_twice(clock, log, capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [logging.StreamHandler()])
    count(clock, (11.0, 8000))
    assert capsys.readouterr().err.count("8,000 of 8,000") == 2  # under way, and at the end


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([(1.0, 1), (10.0, 4)], ", 0.5 tokens/s, 2 h 29 min left"),  # 3,995 at 4 in 9 s
        ([(20.0, 0)], ", 0 tokens/s"),
        ([(10.0, 4)], ", 0.4 tokens/s"),  # nothing after the first piece
        ([(9.0, 4), (10.0, 4)], ", 0.8 tokens/s"),  # only a second after it
    ],
)
def test_rates_and_times_of_slow_work(clock, log, steps, words):
    count(clock, *steps, total=4_000)
    assert log.messages[0].endswith(words)


def test_the_time_left_does_not_include_starting(clock, log):
    # A minute to load a model and encode 10 tokens, then 290 tokens in 30 s: 3,700 take 383 s.
    count(clock, (60.0, 10), (90.0, 290), total=4_000)
    assert log.messages[0].endswith("10 of 4,000 tokens (0 %), 0.17 tokens/s")
    assert log.messages[1].endswith("300 of 4,000 tokens (8 %), 3.3 tokens/s, 6 min 23 s left")


def test_nothing_to_do_is_wholly_done(clock, log):
    count(clock, total=0)
    assert log.messages == ["encoding m: 0 of 0 tokens (100 %), 0 s"]


def test_the_total_follows_from_what_is_known_and_its_share(clock, log):
    with Progress("encoding m", total=0, unit="tokens") as work:
        work.expect(1_000, share=0.25)
        clock["s"] = 10.0
        work.advance(500)
        work.expect(1_000, share=0.0)  # no share is known
        clock["s"] = 40.0
        work.advance(1_500)
        work.expect(0)
    assert log.messages == [
        "encoding m: 500 of 4,000 tokens (12 %), 50 tokens/s",
        "encoding m: 2,000 of 2,000 tokens (100 %), 50 tokens/s, 0 s left",
        "encoding m: 2,000 of 2,000 tokens (100 %), 40 s",
    ]
