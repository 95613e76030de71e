import io
import logging
from types import SimpleNamespace

import pytest

from psibench import progress
from psibench.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands until it is set."""
    now = {"s": 0.0}
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now["s"]))
    return now


def test_a_line_is_logged_every_ten_seconds_and_at_the_end(clock, caplog):
    caplog.set_level(logging.INFO, logger="psibench")
    with Progress("encoding m", total=8, unit="tokens", stream=io.StringIO()) as bar:
        for second in (4.0, 9.9, 10.0, 12.0):
            clock["s"] = second
            bar.advance(2)
    assert [record.getMessage() for record in caplog.records] == [
        "encoding m: 6 of 8 tokens (75 %), 10 s",
        "encoding m: 8 of 8 tokens (100 %), 12 s",
    ]


def test_nothing_to_do_is_wholly_done(clock, caplog):
    caplog.set_level(logging.INFO, logger="psibench")
    with Progress("x", total=0, unit="rows", stream=io.StringIO()):
        pass
    assert caplog.messages == ["x: 0 of 0 rows (100 %), 0 s"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "drawn"), [(Terminal(), True), (io.StringIO(), False)])
def test_a_bar_is_drawn_on_a_terminal_only(stream, drawn):
    with Progress("reading", total=2, unit="files", stream=stream) as bar:
        bar.advance(2)
    assert ("reading" in stream.getvalue()) is drawn


def test_an_exception_passes_and_the_state_is_logged(clock, caplog):
    caplog.set_level(logging.INFO, logger="psibench")
    with pytest.raises(KeyError):
        fail_halfway()
    assert caplog.messages == ["x: 1 of 4 rows (25 %), 0 s"]


def fail_halfway() -> None:
    with Progress("x", total=4, unit="rows", stream=io.StringIO()) as bar:
        bar.advance(1)
        raise KeyError("k")
