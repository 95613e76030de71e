"""Encode the texts that the store lacks, in batches of similar length under a token budget."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TypeVar

import numpy as np

from psibench.config.sections import Encoding
from psibench.encode.store import EmbeddingStore, text_key
from psibench.errors import InputError
from psibench.models.budget import TokenBudget, packed_rows
from psibench.models.protocols import Encoder, Role, StartingEncoder, StopCheck, TokenizedText
from psibench.progress import Progress

logger = logging.getLogger("psibench")

_T = TypeVar("_T")
Window = tuple[int, int]
"""Index of a text and number of its window."""
_WRITE_BYTES = 64 << 20
"""Bytes of finished vectors at which they are written, for token vectors, which are large."""


@dataclass
class EncodeStats:
    """Counts and times of an encoding job.

    Attributes
    ----------
    requested
        Number of texts, including texts in the store.
    texts, tokens
        Encoded by this job.
    padded_tokens
        Tokens computed: texts times the longest of their batch, unless batches are packed.
    seconds
        Wall-clock time of encoding: computing and writing.
    """

    requested: int = 0
    texts: int = 0
    tokens: int = 0
    padded_tokens: int = 0
    seconds: float = 0.0

    @property
    def padding_share(self) -> float:
        """Share of the computed tokens that are padding."""
        return 1 - self.tokens / self.padded_tokens if self.padded_tokens else 0.0

    def add(self, other: "EncodeStats") -> None:
        """Add the counts and times of another part of the job."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def log(self) -> None:
        """Log the number of texts and tokens, and the speed."""
        seconds = self.seconds or 1.0
        logger.info(
            "encoded %d of %d texts, %d tokens in %.1f s (%.0f tokens/s, %.1f %% padding)",
            self.texts, self.requested, self.tokens, self.seconds, self.tokens / seconds,
            100 * self.padding_share,
        )  # fmt: skip


class TextEncoding:
    """Encodes the texts of a job into a store, block by block.

    A part is written as soon as enough texts are finished: a killed job loses at most one part. On
    a GPU a batch is prepared while the one before it is computed. If the device's memory does not
    suffice for a batch, all later batches are half as large.

    Parameters
    ----------
    settings
        Uses ``tokens_per_batch`` (for 0, ``device``), ``tokens_per_part`` and ``seconds_per_part``.
    stop
        Checked before every batch. If it raises, finished texts are written first.
    expect
        Called with the number of tokens that will be encoded.
    advance
        Called with the number of tokens that were encoded.
    """

    def __init__(
        self,
        encoder: Encoder,
        store: EmbeddingStore,
        settings: Encoding,
        *,
        stop: StopCheck | None = None,
        expect: Callable[[int], None] = lambda _: None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.stats = EncodeStats()
        self._encoder, self._store, self._stop = encoder, store, stop
        self._packs = isinstance(encoder, StartingEncoder) and encoder.packs
        self._start: Callable[..., Callable[[], list[np.ndarray]]] | None = None
        if isinstance(encoder, StartingEncoder) and encoder.overlaps:
            self._start = encoder.start
        self._expect, self._advance = expect, advance
        self._settings = settings
        self._budget = TokenBudget(
            settings.tokens_per_batch,
            device=settings.device,
            title="encoding",
            unit="text",
            advice="lower the model's max_tokens, set encoding.dtype to a reduced format, or use a "
            "device with more memory",
        )
        self._done: list[tuple[bytes, np.ndarray]] = []
        self._done_tokens = self._done_bytes = 0
        self._written = time.perf_counter()
        self._slowest_write_s = 0.0

    def add(self, keys: Sequence[bytes], items: Sequence[TokenizedText]) -> None:
        """Encode the texts that the store lacks, the longest first.

        Parameters
        ----------
        keys
            Address of each text, including its salt; none may occur in an earlier call.

        Raises
        ------
        InputError
            If a single text does not fit into the device's memory.
        """
        began = time.perf_counter()
        todo = self._store.missing(keys)
        self.stats.requested += len(keys)
        self._expect(sum(items[i].n_tokens for i in todo))
        try:
            for i, vectors in self._encode(todo, keys, items):
                self.stats.texts += 1
                self.stats.tokens += items[i].n_tokens
                self._done.append((keys[i], vectors))
                self._done_tokens += items[i].n_tokens
                self._done_bytes += vectors.nbytes
                if self._done_bytes >= _WRITE_BYTES or self._is_time():
                    self._write()
                self._advance(items[i].n_tokens)
        finally:  # also if the job is stopped
            self.stats.seconds += time.perf_counter() - began

    def finish(self) -> None:
        """Write the finished texts that are not written yet."""
        began = time.perf_counter()
        self._write()
        self.stats.seconds += time.perf_counter() - began

    def _encode(
        self, todo: Sequence[int], keys: Sequence[bytes], items: Sequence[TokenizedText]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each finished text's index and vectors.

        Windows are sorted by length, then by address, so that the order of texts has no effect.
        """
        by_window: dict[int, list[np.ndarray | None]] = {
            i: [None] * len(items[i].windows) for i in todo
        }
        windows = [(i, number) for i in todo for number in range(len(by_window[i]))]
        windows.sort(key=lambda w: (-len(items[w[0]].windows[w[1]]), keys[w[0]], w[1]))
        for batch, vectors in self._batches(windows, items):
            for (i, number), vector in zip(batch, vectors, strict=True):
                by_window[i][number] = vector
                encoded = [each for each in by_window[i] if each is not None]
                if len(encoded) == len(items[i].windows):
                    yield i, items[i].vectors(encoded)
                    del by_window[i]

    def _batches(
        self, windows: Sequence[Window], items: Sequence[TokenizedText]
    ) -> Iterator[tuple[Sequence[Window], list[np.ndarray]]]:
        """Yield batches of windows, the longest first, with each window's vectors."""
        lengths = [len(items[i].windows[number]) for i, number in windows]
        started = deque[tuple[Sequence[Window], Callable[[], list[np.ndarray]]]]()
        first = 0
        while first < len(windows):
            self._check_stop()
            if self._packs:
                count = packed_rows(lengths[first:], self._budget.tokens)
            else:
                count = _rows(lengths, first, self._budget.tokens)
            batch = windows[first : first + count]
            wait = self._begin(
                [items[i].windows[number] for i, number in batch],
                [items[i].content[number] for i, number in batch],
            )
            if wait is None:
                continue
            first += count
            started.append((batch, wait))
            if len(started) > (1 if self._start else 0):
                done, wait = started.popleft()
                yield done, wait()
        for done, wait in started:
            yield done, wait()

    def _begin(
        self, windows: list[np.ndarray], content: list[np.ndarray]
    ) -> Callable[[], list[np.ndarray]] | None:
        """Start a batch; return None if memory does not suffice (`TokenBudget.run`).

        The returned function waits for the vectors.
        """
        began = time.perf_counter()
        rows, longest = len(windows), len(windows[0])
        if self._packs:
            longest = -(-sum(map(len, windows)) // rows)  # the mean: nothing is padded

        def start() -> Callable[[], list[np.ndarray]]:
            if self._start is not None:
                return self._start(windows, content)
            vectors = self._encoder.forward(windows, content)
            return lambda: vectors

        wait = self._refusing_unknown_tokens(
            windows, partial(self._budget.run, start, rows=rows, longest=longest)
        )
        if wait is None:
            return None
        self.stats.padded_tokens += sum(map(len, windows)) if self._packs else rows * longest

        def finish() -> list[np.ndarray]:
            vectors = self._refusing_unknown_tokens(windows, wait)
            self._budget.slowest_s = max(self._budget.slowest_s, time.perf_counter() - began)
            return vectors

        return finish if self._start else wait

    def _refusing_unknown_tokens(self, windows: list[np.ndarray], run: Callable[[], _T]) -> _T:
        """Run a step of a batch; raise InputError if a token has no embedding."""
        try:
            return run()
        except (IndexError, RuntimeError) as error:  # on a CPU and on a GPU, respectively
            reason = str(error).partition("\n")[0]
            if isinstance(error, RuntimeError) and "device-side assert" not in reason:
                raise
            last = max(int(window.max(initial=-1)) for window in windows)
            raise InputError(
                f"a text has a token, maybe {last}, for which the model has no embedding "
                f"({reason}): its tokenizer is another model's, or has added words that were not "
                "trained"
            ) from error

    def _check_stop(self) -> None:
        if self._stop is None:
            return
        try:
            self._stop.check(2 * self._budget.slowest_s + self._slowest_write_s)
        except BaseException:
            self._write()
            raise

    def _is_time(self) -> bool:
        """Return whether enough texts are finished for a part; a few large parts are best."""
        if self._done_tokens < self._settings.tokens_per_part:
            return False
        return time.perf_counter() - self._written >= self._settings.seconds_per_part

    def _write(self) -> None:
        if not self._done:
            return
        began = time.perf_counter()
        keys, vectors = zip(*self._done, strict=True)
        self._store.add(keys, vectors)
        self._written = time.perf_counter()
        self._slowest_write_s = max(self._slowest_write_s, self._written - began)
        self._done, self._done_tokens, self._done_bytes = [], 0, 0


def _rows(lengths: Sequence[int], first: int, tokens_per_batch: int) -> int:
    """Return the size of a batch of windows that begins at ``first``; lengths descend.

    The batch ends at the token budget, or earlier, once an eighth of the budget is used, before a
    window that would be padded by more than an eighth. That keeps the device busy.
    """
    longest = max(1, lengths[first])
    most = max(1, tokens_per_batch // longest)
    least, rows = most // 8, 1
    while rows < most and first + rows < len(lengths):
        if rows >= least and 8 * lengths[first + rows] < 7 * longest:
            break
        rows += 1
    return rows


def encode_texts(
    encoder: Encoder,
    texts: Sequence[str],
    role: Role,
    *,
    store: EmbeddingStore,
    settings: Encoding,
    stop: StopCheck | None = None,
    description: str,
) -> EncodeStats:
    """Encode the texts that are not in the store yet, each distinct text once.

    Other texts, their order, and an interruption change a vector by rounding only: see
    ``models.protocols``.

    Raises
    ------
    InputError
        If a single text does not fit into the device's memory.
    """
    salt = encoder.salt(role)
    distinct = list(dict.fromkeys(texts))
    items = encoder.tokenize(distinct, role)
    with Progress(description, total=0, unit="tokens") as progress:
        encoding = TextEncoding(
            encoder, store, settings, stop=stop, expect=progress.expect, advance=progress.advance
        )
        encoding.add([text_key(text, salt=salt) for text in distinct], items)
        encoding.finish()
    return encoding.stats
