"""The interface of rerankers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from psibench.config.rerankers import Calibration

TextPair = tuple[str, str]
"""A query and a text, in this order."""

RERANKER_VERSIONS: dict[str, int] = {
    "cross-encoder": 2,
    "flag": 2,
    "flag-llm": 2,
    "flag-layerwise": 2,
    "mxbai": 1,
    "qwen3": 2,
    "bm25": 2,
    "bi-encoder": 1,
}
"""Version of each backend's computation, in the fingerprint under which scores are stored. Raise it
when the same registry entry gives other scores."""


@dataclass(frozen=True)
class Scores:
    """A reranker's scores of several pairs, one entry per pair.

    Attributes
    ----------
    raw
        (n_pairs,) float64, in the model's unit; NaN for a pair that was not scored.
    score
        (n_pairs,) float64 in [0, 1], increasing with ``raw``.
    """

    raw: np.ndarray
    score: np.ndarray

    def __len__(self) -> int:
        return len(self.score)


def has_text(pair: TextPair) -> bool:
    """Return whether query and text are not blank, so that a reranker can score them."""
    query, text = pair
    return bool(query.strip() and text.strip())


class PairInput(Protocol):
    """A model's input for one pair."""

    @property
    def n_tokens(self) -> int:
        """Number of tokens that the model reads, including special tokens."""


class Reranker(Protocol):
    """Scores pairs in two steps, so that batches can be planned by length.

    A pair's score depends on nothing but the pair: not on the batch, its order or its size.
    """

    @property
    def name(self) -> str:
        """Registry id, for messages."""

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the scores besides the pair."""

    @property
    def max_tokens(self) -> int | None:
        """Tokens of the longest input; an input that reaches it was cut. None: nothing is cut."""

    def tokenize(self, pairs: Sequence[TextPair]) -> Sequence[PairInput]:
        """Return the model's inputs for pairs."""

    def visible_char_ends(self, pairs: Sequence[TextPair]) -> Sequence[int]:
        """Return how many leading characters of each text are read together with its query.

        The model sees evidence that ends at or before it.

        Raises
        ------
        InputError
            If the tokenizer returns no character offsets.
        """

    def score(self, items: Sequence[Any]) -> Scores:
        """Score one batch of inputs that `tokenize` returned, in one forward pass."""


@runtime_checkable
class StartingReranker(Reranker, Protocol):
    """A reranker that can start a batch without waiting for it."""

    @property
    def packs(self) -> bool:
        """Whether batches are not padded."""

    def start(self, items: Sequence[Any]) -> Callable[[], Scores]:
        """Start a batch; the returned function waits for the result of ``score``."""


def sigmoid(raw: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-raw)), float64, without overflow."""
    decayed = np.exp(-np.abs(raw))
    return np.asarray(np.where(raw >= 0, 1.0, decayed) / (1.0 + decayed), dtype=np.float64)


def calibrated(raw: np.ndarray, calibration: Calibration) -> Scores:
    """Map raw scores into [0, 1] by a logistic curve."""
    raw = np.asarray(raw, dtype=np.float64)
    return Scores(raw, sigmoid(calibration.slope * (raw - calibration.midpoint)))
