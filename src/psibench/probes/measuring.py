"""Measure from outside how much of a text an embedding model reads.

Two texts that agree up to word k have equal vectors if the model reads nothing after word k. So a
search over k finds the limit without a tokenizer. What counts as equal follows from the model's
noise: the distances between vectors of the same text, alone and in a batch.

The texts are random sequences of short English words that most tokenizers read as one token each.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from psibench.errors import InputError
from psibench.models.protocols import Role

WORDS = (
    "the of and to in is that it was for on with as by at from this have not be or an are but all "
    "they were which when one we you can has more their time people about its other also than new "
    "some could two her would first after between years most over such only may there any our then"
).split()
SEED = 42
FIRST_WORDS = 128
GROWTH = 4
"""Factor between the lengths at which the search looks whether the end is read."""
CUTS_PER_REQUEST = 7
"""Lengths that one request of the search compares: eight intervals."""
NOISE_FACTOR = 8.0
"""Vectors are equal if they differ by less than this many times the largest noise."""
LEAST_THRESHOLD = 1e-6
"""Distance of unit vectors that float32 arithmetic can make of equal input."""
WINDOW_WORDS = 1024
"""Length of the first texts in the search for windows; most windows are shorter."""
BLOCK = 8
"""Words of the first change in the search for a window's end."""
MOST_REQUESTS = 20
UNIT_TOLERANCE = 1e-3
EXACT_STEP = 2.0
"""The last word that is read changes the vector by at least so many thresholds: else the limit may
be higher, hidden by noise."""


class RefusedError(Exception):
    """The model accepts no text of this length."""


@dataclass(frozen=True)
class Embedded:
    """Vectors of the texts of one request.

    Attributes
    ----------
    vectors
        A float array per text: (dim,), or (n_vectors, dim) for models with several vectors.
    n_tokens
        Tokens that the model or service counts in all texts, special tokens included; None: not
        reported.
    """

    vectors: list[np.ndarray]
    n_tokens: int | None = None


class Endpoint(Protocol):
    """A model that embeds texts, one request per call."""

    def embed(self, texts: Sequence[str], role: Role) -> Embedded:
        """Embed texts; raise RefusedError if one is too long."""


@dataclass(frozen=True)
class Limit:
    """How much of a text a model reads.

    Attributes
    ----------
    words
        Words that are read; None: the whole of the longest text that was tried.
    tried
        Words of that text.
    tokens
        Tokens of the words that are read, special tokens and added prompts included; None: unknown.
    cut
        "end", "start" or "middle": the part that is not read; "refused": longer texts are an error;
        "none": nothing is cut.
    exact
        Whether noise hides no further words.
    """

    words: int | None
    tried: int
    tokens: int | None
    cut: str
    exact: bool = True

    @property
    def is_limited(self) -> bool:
        """Whether the model reads less than the longest text that was tried."""
        return self.words is not None


@dataclass(frozen=True)
class Measured:
    """What `measure` found.

    Attributes
    ----------
    document, query
        Limits by role; ``query`` is None if both roles are sent alike.
    noise
        Largest distance between unit vectors of the same text.
    threshold
        Distance below which two vectors count as equal.
    unit
        Whether vectors have length 1 as they come.
    window_words
        Words of the first window, if windows are read separately and their vectors added; 1: the
        order of words has no effect; None: the text is read as a whole.
    n_requests, seconds
        Requests and their time.
    """

    document: Limit
    query: Limit | None
    noise: float
    threshold: float
    unit: bool
    window_words: int | None
    n_requests: int
    seconds: float


def measure(endpoint: Endpoint, *, roles: Sequence[Role], most_words: int) -> Measured:
    """Measure a model with texts of up to ``most_words`` words.

    ``roles`` are "document", and "query" if it is sent differently. A search that reaches
    `MOST_REQUESTS` raises InputError.
    """
    asking = _Asking(endpoint)
    probe = _Probe(asking, most_words)
    probe.measure_noise()
    document = probe.limit("document")
    query = probe.limit("query", expected=document) if "query" in roles else None
    window = probe.window_words(document)
    return Measured(
        document=document,
        query=query,
        noise=probe.noise,
        threshold=probe.threshold,
        unit=asking.unit,
        window_words=window,
        n_requests=asking.n_requests,
        seconds=asking.seconds,
    )


@dataclass
class _Asking:
    """Counts requests; returns vectors of unit length."""

    endpoint: Endpoint
    n_requests: int = 0
    seconds: float = 0.0
    unit: bool = True

    def __call__(self, texts: Sequence[Sequence[str]], role: Role) -> list[np.ndarray]:
        return self.counted(texts, role)[0]

    def counted(
        self, texts: Sequence[Sequence[str]], role: Role
    ) -> tuple[list[np.ndarray], int | None]:
        if self.n_requests >= MOST_REQUESTS:
            raise InputError(
                f"no result after {MOST_REQUESTS} requests; lower --up-to to a length nearer the "
                "model's limit"
            )
        self.n_requests += 1
        began = time.monotonic()
        try:
            found = self.endpoint.embed([" ".join(words) for words in texts], role)
        finally:
            self.seconds += time.monotonic() - began
        vectors = [np.atleast_2d(np.asarray(one, dtype=np.float64)) for one in found.vectors]
        norms = [np.linalg.norm(one, axis=1, keepdims=True) for one in vectors]
        self.unit &= all(np.abs(norm - 1).max() < UNIT_TOLERANCE for norm in norms)
        unit = [one / np.where(norm > 0, norm, 1) for one, norm in zip(vectors, norms, strict=True)]
        return unit, found.n_tokens


def distance(first: np.ndarray, second: np.ndarray) -> float:
    """Return the largest Euclidean distance of corresponding vectors, inf for other shapes."""
    if first.shape != second.shape:
        return float("inf")
    return float(np.linalg.norm(first - second, axis=1).max(initial=0.0))


@dataclass
class _Probe:
    ask: _Asking
    most_words: int
    noise: float = 0.0
    first: list[str] = field(init=False)
    """The words of the text."""
    other: list[str] = field(init=False)
    """Another word at each position."""

    def __post_init__(self) -> None:
        rng = np.random.default_rng(SEED)
        n = max(self.most_words, FIRST_WORDS)
        numbers = rng.integers(0, len(WORDS), n)
        others = (numbers + rng.integers(1, len(WORDS), n)) % len(WORDS)
        self.first = [WORDS[k] for k in numbers]
        self.other = [WORDS[k] for k in others]

    @property
    def threshold(self) -> float:
        return max(NOISE_FACTOR * self.noise, LEAST_THRESHOLD)

    def text(self, n: int, *changed: tuple[int, int]) -> list[str]:
        """Return the first n words, with other words in the given ranges."""
        words = self.first[:n]
        for start, end in changed:
            words[start:end] = self.other[start : min(end, n)]
        return words

    def measure_noise(self) -> None:
        """Embed one text alone twice, and in a batch with texts of other lengths."""
        n = min(FIRST_WORDS, self.most_words)
        alone = [self.ask([self.text(n)], "document")[0] for _ in range(2)]
        batch = [self.text(n), self.text(n // 2), self.text(8, (0, 8)), self.text(n)]
        together = self.ask(batch, "document")
        self._note(alone[0], alone[1], together[0], together[3])

    def _note(self, one: np.ndarray, *same: np.ndarray) -> None:
        self.noise = max([self.noise, *(distance(one, other) for other in same)])

    # --- The limit ---

    def limit(self, role: Role, expected: Limit | None = None) -> Limit:
        """Search for the limit of a role; ``expected`` is another role's, tried first."""
        if expected is not None and self._is_limit(expected, role):
            return expected
        below, n, cut = 0, min(FIRST_WORDS, self.most_words), "none"
        while True:
            try:
                cut = self._cut(n, role)
            except RefusedError as refused:
                return self._refused(below, n, role, str(refused))
            if cut != "none" or n >= self.most_words:
                break
            below, n = n, min(n * GROWTH, self.most_words)
        if cut == "none":
            return Limit(None, n, None, cut)
        if cut == "middle":
            return Limit(None, n, None, cut, exact=False)
        return self._search(max(0, below - 1), n, role, cut)

    def _is_limit(self, limit: Limit, role: Role) -> bool:
        """Say whether another role's limit holds for this one, in one or two requests."""
        n, k = limit.tried, limit.words
        try:
            if k is None:
                return self._cut(n, role) == limit.cut
            if limit.cut == "refused":
                return self._accepts(k, role) and not self._accepts(k + 1, role)
            texts = [self.text(n), *(self._without(n, one, limit.cut) for one in (k, k - 1))]
            whole, same, less = self.ask(texts, role)
        except RefusedError:
            return False
        return distance(whole, same) <= self.threshold < distance(whole, less)

    def _cut(self, n: int, role: Role) -> str:
        """Say which part of a text of n words is not read."""
        middle = n // 2
        changes = [(0, 1), (middle, middle + 1), (n - 1, n)]
        whole, again, *changed = self.ask(
            [self.text(n), self.text(n), *(self.text(n, one) for one in changes)], role
        )
        self._note(whole, again)
        start, inner, end = (distance(whole, one) > self.threshold for one in changed)
        if start and not end:
            return "end"
        if end and not start:
            return "start"
        return "none" if inner else "middle"

    def _without(self, n: int, k: int, cut: str) -> list[str]:
        """Return a text of n words that keeps only the first (or last) k."""
        return self.text(n, (k, n) if cut == "end" else (0, n - k))

    def _search(self, low: int, high: int, role: Role, cut: str) -> Limit:
        """Find the smallest k such that the other words have no effect; low < k <= high."""
        n, step = high, float("inf")  # the word before `low` was seen to be read
        while high - low > 1:
            cuts = sorted(
                {low + (high - low) * i // (CUTS_PER_REQUEST + 1) for i in range(1, 8)} - {low}
            )
            texts = [self.text(n), *(self._without(n, k, cut) for k in cuts)]
            whole, *others = self.ask(texts, role)
            distances = [distance(whole, one) for one in others]
            read = [k for k, far in zip(cuts, distances, strict=True) if far > self.threshold]
            unread = [k for k in cuts if k not in read]
            if read and max(read) > low:
                low = max(read)
                step = distances[cuts.index(low)]
            high = min([k for k in unread if k > low], default=high)
        return Limit(
            high, n, self._tokens(high, role), cut, exact=step >= EXACT_STEP * self.threshold
        )

    def _tokens(self, k: int, role: Role) -> int | None:
        return self.ask.counted([self.text(k)], role)[1]

    def _refused(self, low: int, high: int, role: Role, message: str) -> Limit:
        """Find the longest accepted text; try the numbers in the message first."""
        tried = high
        for words in self._named(low, message, role):
            if low < words < high:
                if self._accepts(words, role):
                    low = words
                else:
                    high = words
        while high - low > 1:
            middle = (low + high) // 2
            if self._accepts(middle, role):
                low = middle
            else:
                high = middle
        return Limit(low, tried, self._tokens(low, role) if low else None, "refused")

    def _named(self, low: int, message: str, role: Role) -> list[int]:
        """Return word counts around the token counts that a message names."""
        n = min(FIRST_WORDS, max(low, 1))
        counted = self._tokens(n, role) if low else None
        special = max(0, counted - n) if counted is not None else 2
        named = {int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", message)}
        return [k for number in sorted(named) for k in (number - special, number - special + 1)]

    def _accepts(self, n: int, role: Role) -> bool:
        try:
            self.ask([self.text(n)], role)
        except RefusedError:
            return False
        return True

    # --- Windows ---

    def window_words(self, limit: Limit) -> int | None:
        """Find the first window's end, if the vectors of windows are added; else None.

        If two changes are in different windows, the vector with both lies in the plane of the
        vectors with one, with the other and with none, whatever the lengths to which vectors are
        scaled.
        """
        longest = limit.words if limit.words is not None else limit.tried
        for n in sorted({min(longest, WINDOW_WORDS), longest}):
            quarter = n // 4
            first, last = (0, quarter), (n - quarter, n)
            if quarter and self._is_added(n, first, [last])[0]:
                break
        else:
            return None
        low, high = 0, n - quarter  # a window ends after low, at most at high
        while high - low > 1:
            cuts = sorted({low + (high - low) * i // 4 for i in range(1, 4)} - {low})
            block = (0, min(BLOCK, cuts[0]))
            added = self._is_added(n, block, [(k, k + 1) for k in cuts])
            joined = [k for k, is_added in zip(cuts, added, strict=True) if not is_added]
            apart = [k for k in cuts if k not in joined]
            low = max(joined, default=low)
            high = min([k for k in apart if k > low], default=high)
        return high

    def _is_added(
        self, n: int, change: tuple[int, int], others: Sequence[tuple[int, int]]
    ) -> list[bool]:
        """Say for each change whether its effect and that of ``change`` add up."""
        texts = [self.text(n), self.text(n, change)]
        for other in others:
            texts += [self.text(n, other), self.text(n, change, other)]
        plain, changed, *pairs = self.ask(texts, "document")
        return [
            _residual(both, [plain, changed, single]) <= 2 * self.threshold
            for single, both in zip(pairs[::2], pairs[1::2], strict=True)
        ]


def _residual(vector: np.ndarray, basis: Sequence[np.ndarray]) -> float:
    """Return the distance of a vector from the space that others span; inf for several vectors."""
    if any(one.shape != vector.shape for one in basis) or len(vector) != 1:
        return float("inf")
    columns = np.stack([one[0] for one in basis], axis=1)
    # The differences are small: an orthonormal basis of them keeps their digits.
    base, steps = columns[:, :1], columns[:, 1:] - columns[:, :1]
    plane = np.linalg.qr(np.hstack([base, steps]))[0]
    rest = vector[0] - plane @ (plane.T @ vector[0])
    return float(np.linalg.norm(rest))
