"""Batches under a budget of padded tokens, which is halved where the memory is not enough."""

import contextlib
import logging
import time
from collections.abc import Callable
from typing import TypeVar

from psibench.errors import InputError
from psibench.models.dtypes import pick_device

logger = logging.getLogger("psibench")
T = TypeVar("T")
ON_CPU, ON_GPU = 8_192, 65_536
"""Padded tokens of a batch. On an H200 rerankers of 0.6B parameters scored 1.4 to 2.9 times as many
pairs a second with 65,536 as with 16,384 (which ran first), in at most 5.1 GiB."""


class TokenBudget:
    """Padded tokens of a batch: as asked for, until the device's memory is not enough.

    0 ``tokens`` stand for `ON_GPU` where ``device``, as of the config, is one, else `ON_CPU`.
    ``title`` begins messages; ``unit`` is what a row is, ``advice`` what to do where one alone does
    not fit. ``room`` tokens of the budget are taken by each of a batch. ``slowest_s`` are the
    seconds of the slowest batch.
    """

    def __init__(
        self, tokens: int, *, device: str, title: str, unit: str, advice: str, room: int = 1
    ) -> None:
        on_gpu = not tokens and pick_device(device) == "cuda"
        self.tokens, self.slowest_s = tokens or (ON_GPU if on_gpu else ON_CPU), 0.0
        self._title, self._unit, self._advice, self._room = title, unit, advice, room

    def run(self, forward: Callable[[], T], *, rows: int, longest: int) -> T | None:
        """Run a batch; None where memory was short: the next ones are half as large.

        Raises InputError if the batch is one row.
        """
        import torch

        began, found = time.perf_counter(), None
        with contextlib.suppress(torch.OutOfMemoryError):
            found = forward()
        if found is not None:
            self.slowest_s = max(self.slowest_s, time.perf_counter() - began)
            return found
        # No longer in a handler, whose traceback holds the batch's tensors.
        if rows == 1:
            raise InputError(
                f"{self._title}: one {self._unit} of {longest} tokens does not fit into the "
                f"device's memory; {self._advice}"
            )
        self.tokens = rows // 2 * longest * self._room
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        logger.warning(
            "%s: not enough memory for %d %ss of %d tokens; on with %d tokens per batch (set "
            "tokens_per_batch to it, and the next job begins there)",
            self._title, rows, self._unit, longest, self.tokens,
        )  # fmt: skip
        return None
