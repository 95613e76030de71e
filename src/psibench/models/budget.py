"""A budget of tokens per batch, which is halved when the memory does not suffice."""

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from psibench.errors import InputError
from psibench.models.dtypes import pick_device

logger = logging.getLogger("psibench")
_T = TypeVar("_T")
ON_CPU, ON_GPU = 8_192, 65_536
"""Tokens of a batch, with padding. On an H200 rerankers of 0.6B parameters scored 1.4 to 2.9 times
as many pairs a second with 65,536 as with 16,384 (which ran first), in at most 5.1 GiB."""


def packed_rows(lengths: Sequence[int] | np.ndarray, tokens: int) -> int:
    """Return how many of these rows, in descending order, a packed batch of ``tokens`` holds.

    Counts tokens without padding. With padding, as a packed network's output has, the batch has at
    most twice the tokens, unless it is one row.
    """
    most = max(1, 2 * tokens // max(1, int(lengths[0])))
    return max(1, int(np.searchsorted(np.cumsum(lengths[:most]), tokens, side="right")))


class TokenBudget:
    """Limit on the tokens of a batch, lowered when the device runs out of memory.

    Parameters
    ----------
    tokens
        The limit; 0 is `ON_GPU` if ``device`` (of the config) is a GPU, else `ON_CPU`.
    title
        Start of each message.
    unit
        Name of a row, for messages.
    advice
        What to do if a single row does not fit.
    factor
        How often each token counts.

    Attributes
    ----------
    slowest_s
        Seconds of the slowest batch.
    """

    def __init__(
        self, tokens: int, *, device: str, title: str, unit: str, advice: str, factor: int = 1
    ) -> None:
        on_gpu = not tokens and pick_device(device) == "cuda"
        self.tokens, self.slowest_s = tokens or (ON_GPU if on_gpu else ON_CPU), 0.0
        self._title, self._unit, self._advice, self._factor = title, unit, advice, factor

    def run(self, forward: Callable[[], _T], *, rows: int, longest: int) -> _T | None:
        """Run a batch; return None and halve the limit if the memory does not suffice.

        Raises InputError if the batch is one row.
        """
        began, result = time.perf_counter(), None
        with contextlib.suppress(*_lacks_memory()):
            result = forward()
        if result is not None:
            self.slowest_s = max(self.slowest_s, time.perf_counter() - began)
            return result
        # Outside of a handler: its traceback would keep the batch's tensors in memory.
        if rows == 1:
            raise InputError(
                f"{self._title}: one {self._unit} of {longest} tokens does not fit into the "
                f"device's memory; {self._advice}"
            )
        import torch

        self.tokens = rows // 2 * longest * self._factor
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        logger.warning(
            "%s: not enough memory for %d %ss of %d tokens; continuing with %d tokens per batch "
            "(set tokens_per_batch to %d to start the next job with it)",
            self._title, rows, self._unit, longest, self.tokens, self.tokens,
        )  # fmt: skip
        return None


def _lacks_memory() -> tuple[type[BaseException], ...]:
    """Return torch's error for a lack of memory; nothing if this job does not use torch."""
    torch = sys.modules.get("torch")
    return () if torch is None else (torch.OutOfMemoryError,)
