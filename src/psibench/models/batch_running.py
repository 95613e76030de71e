"""Run batches on a device: two at a time on a GPU, smaller ones when its memory is short."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from psibench.errors import InputError
from psibench.models.bins import Batch, Bins, Window
from psibench.models.encode_stats import EncodeStats
from psibench.models.protocols import Encoder

logger = logging.getLogger("psibench")


@dataclass(frozen=True)
class _Running:
    batch: Batch
    wait: Callable[[], list[np.ndarray]]
    started: float


class BatchRunner:
    """Gives batches to an encoder and hands their vectors out.

    While a GPU computes one batch, the next one is prepared and sent to it. Where
    the device's memory is not enough, the batches that run wait in ``bins`` again, and all from
    then on are half as large; batches of a single row run one at a time from then on.
    """

    def __init__(self, encoder: Encoder, bins: Bins, stats: EncodeStats) -> None:
        self._encoder, self._bins, self._stats = encoder, bins, stats
        self._depth = 2 if encoder.runs_ahead else 1
        self._running: deque[_Running] = deque()
        self._last_end = 0.0

    def run(self, batches: Iterable[Batch]) -> Iterator[tuple[Window, np.ndarray]]:
        """Begin every batch; yield the windows that are finished, each with its vectors."""
        for batch in batches:
            self._start(batch)
            if len(self._running) >= self._depth:
                yield from self._finish_first()

    def drain(self) -> Iterator[tuple[Window, np.ndarray]]:
        """Wait for what still runs."""
        while self._running:
            yield from self._finish_first()

    def _start(self, batch: Batch) -> None:
        import torch

        windows = [window.ids for window in batch.windows]
        content = [window.content for window in batch.windows]
        started = time.perf_counter()
        try:
            wait = self._encoder.start(windows, content, length=batch.length)
        except torch.OutOfMemoryError:
            wait = None
        # Not in the handler: the error's traceback holds the tensors of the batch.
        if wait is None:
            self._halve(batch)
        else:
            self._running.append(_Running(batch, wait, started))

    def _finish_first(self) -> list[tuple[Window, np.ndarray]]:
        import torch

        running = self._running.popleft()
        batch = running.batch
        try:
            vectors = running.wait()
        except torch.OutOfMemoryError:
            vectors = None
        if vectors is None:
            self._halve(batch)
            return []
        now = time.perf_counter()
        took = now - max(running.started, self._last_end)
        self._last_end = now
        self._stats.slowest_batch_s = max(self._stats.slowest_batch_s, took)
        self._stats.batches += 1
        self._stats.padded_tokens += batch.length * len(vectors)
        return list(zip(batch.windows, vectors, strict=True))

    def _halve(self, failed: Batch) -> None:
        """Make batches half as large from now on, or run single rows alone; begin anew what runs.

        Raises
        ------
        InputError
            If a single row is too much with nothing beside it.
        """
        import torch

        rows = len(failed.windows)
        if rows == 1 and not self._running:
            raise InputError(
                f"one text of {len(failed.windows[0].ids)} tokens does not fit into the device's "
                "memory; lower the model's max_tokens, set encoding.dtype to a reduced format, or "
                "use a device with more memory"
            )
        # What was begun after it goes back first, so that it comes after it again.
        for running in reversed(self._running):
            self._bins.put_back(running.batch.windows)
        self._running.clear()
        self._bins.put_back(failed.windows)
        if rows > 1:
            self._bins.tokens_per_batch = rows // 2 * failed.length
        else:
            self._depth = 1
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if rows == 1:
            logger.warning(
                "not enough memory for two texts of %d tokens at once; on with one batch at a time",
                failed.length,
            )
            return
        logger.warning(
            "not enough memory for %d texts of %d tokens; on with %d tokens per batch (set "
            "tokens_per_batch to it, and the next job begins there)",
            rows, failed.length, self._bins.tokens_per_batch,
        )  # fmt: skip
