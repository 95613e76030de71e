"""Progress of long stages: a bar on a terminal, plain lines in a log file."""

import logging
import sys
import time
from types import TracebackType
from typing import TextIO

from tqdm import tqdm

logger = logging.getLogger("psibench")

LINE_EVERY_S = 10.0


class Progress:
    """Count work done. Use as a context manager and call ``advance``.

    Parameters
    ----------
    description
        What is counted, e.g. ``encoding all-minilm-l6-v2``.
    total
        Units of work in all.
    unit
        Name of one unit, e.g. ``tokens``.
    stream
        Where the bar goes if it is a terminal; stderr by default. Lines always go to the log.
    """

    def __init__(
        self, description: str, *, total: int, unit: str, stream: TextIO | None = None
    ) -> None:
        stream = stream or sys.stderr
        self._description, self._total, self._unit, self._done = description, total, unit, 0
        self._started = self._last_line = time.monotonic()
        self._bar = tqdm(
            total=total,
            desc=description,
            unit=f" {unit}",
            unit_scale=True,
            file=stream,
            disable=not stream.isatty(),
            leave=False,
        )

    def __enter__(self) -> "Progress":
        return self

    def advance(self, amount: int) -> None:
        """Add finished units; logs a line at most every ten seconds."""
        self._done += amount
        self._bar.update(amount)
        if time.monotonic() - self._last_line >= LINE_EVERY_S:
            self._last_line = time.monotonic()
            self._log()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()
        self._log()

    def _log(self) -> None:
        seconds = time.monotonic() - self._started
        share = 100 * self._done / self._total if self._total else 100.0
        logger.info(
            "%s: %d of %d %s (%.0f %%), %.0f s",
            self._description,
            self._done,
            self._total,
            self._unit,
            share,
            seconds,
        )
