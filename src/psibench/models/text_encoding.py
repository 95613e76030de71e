"""Encode texts as they come, each distinct one once, in batches of like length."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from psibench.models.batch_running import BatchRunner
from psibench.models.bins import Batch, Bins, Window
from psibench.models.encode_stats import EncodeStats
from psibench.models.protocols import Encoder, StopCheck, TokenizedText
from psibench.store.embeddings import EmbeddingStore

PART_BYTES = 64 << 20
"""Bytes of vectors at which a part is written whatever its tokens: token vectors are bulky."""


@dataclass(frozen=True)
class Batching:
    """How the work is cut.

    Attributes
    ----------
    tokens_per_batch
        Padded tokens in one forward pass.
    tokens_per_part, seconds_per_part
        Tokens, and seconds, between two writes to the store, at least.
    longest
        Most tokens the model takes: padding does not go beyond. None: any number.
    """

    tokens_per_batch: int
    tokens_per_part: int
    longest: int | None = None
    seconds_per_part: float = 0


@dataclass
class _Text:
    """A text on its way: its address, and the vectors of the windows that are finished."""

    key: bytes
    size: int
    n_windows: int
    vectors: dict[int, np.ndarray] = field(default_factory=dict)
    n_tokens: int = 0

    def whole(self) -> np.ndarray:
        """Return the vectors of all windows, in their order."""
        return np.concatenate([self.vectors[number] for number in range(self.n_windows)])


class TextEncoding:
    """Encodes texts into a store as they come, over all of a job.

    Windows wait until their batch is full, whichever texts and roles it is made of; ``finish``
    encodes the rest. A part is written as soon as enough texts are finished: a killed job loses
    at most one.

    Parameters
    ----------
    stop
        Asked before every batch. If it raises, what runs is finished and written first.
    advance
        Called with the ``size`` of texts that are stored.
    """

    def __init__(
        self,
        encoder: Encoder,
        store: EmbeddingStore,
        batching: Batching,
        *,
        stop: StopCheck | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.stats = EncodeStats()
        self._store, self._batching, self._stop, self._advance = store, batching, stop, advance
        self._bins = Bins(batching.tokens_per_batch, batching.longest)
        self._runner = BatchRunner(encoder, self._bins, self.stats)
        self._texts: dict[int, _Text] = {}
        self._asked: set[bytes] = set()
        self._done: list[_Text] = []
        self._done_tokens = self._done_bytes = self._open_tokens = 0
        self._written = time.perf_counter()

    def add(
        self, keys: Sequence[bytes], items: Sequence[TokenizedText], sizes: Sequence[int]
    ) -> int:
        """Take texts on and encode the batches that become full, the longest texts first.

        Parameters
        ----------
        keys
            Address per text, its salt included.
        sizes
            What each text counts for in the progress.

        Returns
        -------
        int
            Texts that are neither in the store nor were added before.
        """
        began = time.perf_counter()
        todo = [place for place in self._store.missing(keys) if keys[place] not in self._asked]
        new = set(todo)
        self._advance(sum(size for place, size in enumerate(sizes) if place not in new))
        todo.sort(key=lambda place: (-max(map(len, items[place].windows)), keys[place]))
        for place in todo:
            if self._put(_Text(keys[place], sizes[place], len(items[place].windows)), items[place]):
                self._run(self._bins.full())
                if self._open_tokens > self._batching.tokens_per_part:
                    self._run(self._bins.rest())
        self.stats.seconds += time.perf_counter() - began
        return len(todo)

    def finish(self) -> None:
        """Encode what waits and write it."""
        began = time.perf_counter()
        while self._texts:
            self._run(self._bins.rest())
            self._collect(self._runner.drain())
        self._write()
        self.stats.seconds += time.perf_counter() - began

    def _put(self, text: _Text, item: TokenizedText) -> bool:
        """Let the windows of a text wait; returns whether a batch is full now."""
        place = len(self._asked)
        self._asked.add(text.key)
        self._texts[place] = text
        pairs = enumerate(zip(item.windows, item.content, strict=True))
        full = [self._bins.put(Window(place, number, *pair)) for number, pair in pairs]
        return any(full)

    def _run(self, batches: Iterator[Batch]) -> None:
        self._collect(self._runner.run(self._until_stopped(batches)))

    def _until_stopped(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            if self._stop is not None:
                try:
                    self._stop.check(self.stats.reserve_s)
                except BaseException:
                    self._collect(self._runner.drain())
                    self._write()
                    raise
            yield batch

    def _collect(self, finished: Iterator[tuple[Window, np.ndarray]]) -> None:
        for window, vectors in finished:
            text = self._texts[window.text]
            text.vectors[window.number] = vectors
            text.n_tokens += len(window.ids)
            self._open_tokens += len(window.ids)
            if len(text.vectors) == text.n_windows:
                self._close(self._texts.pop(window.text))

    def _close(self, text: _Text) -> None:
        """Take a finished text into the part, and write the part if it is large enough."""
        self._open_tokens -= text.n_tokens
        self.stats.texts += 1
        self.stats.tokens += text.n_tokens
        self._done.append(text)
        self._done_tokens += text.n_tokens
        self._done_bytes += sum(vectors.nbytes for vectors in text.vectors.values())
        if self._done_bytes >= PART_BYTES or self._is_time():
            self._write()

    def _is_time(self) -> bool:
        """Say whether enough is finished for a part: few large files rather than many."""
        if self._done_tokens < self._batching.tokens_per_part:
            return False
        return time.perf_counter() - self._written >= self._batching.seconds_per_part

    def _write(self) -> None:
        if not self._done:
            return
        began = time.perf_counter()
        self._store.add([text.key for text in self._done], [text.whole() for text in self._done])
        took = time.perf_counter() - began
        self.stats.write_s += took
        self.stats.slowest_write_s = max(self.stats.slowest_write_s, took)
        self._advance(sum(text.size for text in self._done))
        self._done, self._done_tokens, self._done_bytes = [], 0, 0
        self._written = time.perf_counter()
