"""Progress lines of long stages, in the log and on the console."""

import logging
import sys
import time
from types import TracebackType

logger = logging.getLogger("psibench")

FIRST_LINE_S = 10.0
"""Shorter work has one line in the log and none on the console."""
LINE_EVERY_S = 30.0
BASIS_S = 5.0
"""Shortest time after the first piece from which the time left is estimated."""

HOUR_S, MINUTE_S = 3600, 60


class Progress:
    """A context manager that counts finished work; call ``advance`` after each piece.

    Count units that take proportional time: for texts, which are encoded longest first, count
    tokens. Leave work of earlier runs out of the total.

    Writes lines, because several jobs share a console. The console shows the lines of the log,
    unless the log itself goes there.

    Parameters
    ----------
    description
        Name of the work, e.g. ``encoding all-minilm-l6-v2``.
    total
        Total units of work; may be set later, or with ``expect``.
    unit
        Name of one unit, e.g. ``tokens``.
    """

    def __init__(self, description: str, *, total: int, unit: str) -> None:
        self._description, self.total, self._unit, self._done = description, total, unit, 0
        self._known = 0
        self._started = time.monotonic()
        self._first_end_s, self._first_done = 0.0, 0
        self._next_line = self._started + FIRST_LINE_S
        self._has_lines = False

    def __enter__(self) -> "Progress":
        return self

    def expect(self, amount: int, *, share: float = 1.0) -> None:
        """Add expected units to the total.

        ``share``: the known units as a share of all work, from 0 (unknown) to 1.
        """
        self._known += amount
        self.total = round(self._known / min(share, 1.0)) if share > 0 else self._known

    def advance(self, amount: int) -> None:
        """Add finished units; write a line after ten seconds, then every thirty."""
        self._done += amount
        now = time.monotonic()
        if not self._first_done:
            self._first_end_s, self._first_done = now, self._done
        if now >= self._next_line:
            self._next_line, self._has_lines = now + LINE_EVERY_S, True
            rate = self._done / (now - self._started)
            self._write(f"{_count(rate)} {self._unit}/s{self._time_left(now)}")

    def _time_left(self, now: float) -> str:
        """Return the time left at the speed after the first piece; empty while it is unknown.

        The first piece also takes the time of starting, e.g. to load and compile a model.
        """
        measured_s, done = now - self._first_end_s, self._done - self._first_done
        if done <= 0 or measured_s < BASIS_S:
            return ""
        return f", {_duration(max(0, self.total - self._done) * measured_s / done)} left"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._write(_duration(time.monotonic() - self._started))

    def _write(self, text: str) -> None:
        share = 100 * self._done / self.total if self.total else 100.0
        counts = f"{self._done:,} of {self.total:,} {self._unit}"
        line = f"{self._description}: {counts} ({share:.0f} %), {text}"
        logger.info("%s", line)
        if self._has_lines and not _logs_to_console():
            print(line, file=sys.stderr, flush=True)


def warn(message: str) -> None:
    """Log a warning, and print it on the console unless the log goes there."""
    logger.warning("%s", message)
    if not _logs_to_console():
        print(f"psibench: warning: {message}", file=sys.stderr, flush=True)


def _logs_to_console() -> bool:
    handlers = [*logging.getLogger().handlers, *logger.handlers]
    return any(type(handler) is logging.StreamHandler for handler in handlers)


def _count(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def _duration(seconds: float) -> str:
    """Return a duration as text: ``42 s``, ``3 min 20 s``, ``5 h 12 min``."""
    whole = round(seconds)
    if whole < MINUTE_S:
        return f"{whole} s"
    if whole < HOUR_S:
        return f"{whole // MINUTE_S} min {whole % MINUTE_S} s"
    return f"{whole // HOUR_S} h {whole % HOUR_S // MINUTE_S} min"
