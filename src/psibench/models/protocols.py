"""The interface of encoders."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np

Role = Literal["query", "document"]
ROLES: tuple[Role, ...] = ("query", "document")

MODEL_VERSIONS = {
    "bm25s": 3,
    "colbert": 2,
    "embedding-api": 1,
    "flag-embedding": 2,
    "sentence-transformers": 2,
    "sparse-encoder": 1,
    "static-embeddings": 2,
}
"""Version of each backend's computation, in the vectors' fingerprint and the rules' parameters.
Raise it when the same registry entry gives other vectors or scores."""

VECTOR_BOUND: dict[str, float] = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 1e-2}
"""Bound on rounding errors, by number format: for any component of a unit vector, and for any inner
product of two. docs/models.md lists observed errors.

A forward pass adds products in an order that depends on the batch's shape, the BLAS, its threads,
and the alignment of arrays in memory. MaxSim, a sum over a query's tokens, may differ by the bound
times their number."""


@dataclass(frozen=True)
class TokenizedText:
    """One text as a model reads it.

    Attributes
    ----------
    windows
        Token ids, one (n_tokens,) int32 array per window; one window unless the model cuts
        documents into several.
    content
        A (n_tokens,) bool array per window: False for tokens of the prompt and special tokens. If
        the window is pooled in chunks, (n_chunks, n_tokens): the tokens of each chunk.
    visible_char_end
        Number of leading characters of the text (without its prompt) that are in the windows: the
        model sees evidence that ends at or before it.
    is_averaged
        Whether the text has one vector, the mean of its windows' vectors.
    """

    windows: tuple[np.ndarray, ...]
    content: tuple[np.ndarray, ...]
    visible_char_end: int
    is_averaged: bool = False

    @property
    def n_tokens(self) -> int:
        """Number of tokens in all windows, including special tokens."""
        return sum(len(window) for window in self.windows)

    def vectors(self, by_window: Sequence[np.ndarray]) -> np.ndarray:
        """Return the text's vectors from the vectors of its windows, given in order.

        A mean is scaled to unit length; if it is zero, the result is the zero vector.
        """
        vectors = np.concatenate(by_window)
        if not self.is_averaged:
            return vectors
        mean = vectors.astype(np.float64).mean(axis=0, keepdims=True)
        norm = np.linalg.norm(mean)
        averaged: np.ndarray = (mean / norm if norm > 0 else mean).astype(np.float32)
        return averaged


class Encoder(Protocol):
    """Turns texts into vectors, in two steps, so that batches can be planned by length.

    The other texts in a batch change a text's vector by rounding only: see `VECTOR_BOUND`.
    """

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the vectors besides the text and its prompt."""

    def salt(self, role: Role) -> str:
        """Everything besides text and fingerprint that decides a vector: prompt, windows."""

    def tokenize(self, texts: Sequence[str], role: Role) -> list[TokenizedText]:
        """Tokenize texts, each after the prompt of the role."""

    def forward(
        self, windows: Sequence[np.ndarray], content: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Encode one batch of windows.

        Parameters
        ----------
        windows, content
            As in ``TokenizedText``.

        Returns
        -------
        list
            (n_vectors, dim) float32 arrays of unit vectors, one array per window.
        """


@runtime_checkable
class StartingEncoder(Encoder, Protocol):
    """An ``Encoder`` that can start a batch without waiting for it."""

    @property
    def packs(self) -> bool:
        """Whether batches are not padded."""

    @property
    def overlaps(self) -> bool:
        """Whether ``start`` returns before a batch is computed."""

    def start(
        self, windows: Sequence[np.ndarray], content: Sequence[np.ndarray]
    ) -> Callable[[], list[np.ndarray]]:
        """Start a batch; the returned function waits for the result of ``forward``."""


class StopCheck(Protocol):
    """Ends a job in time; see ``psibench.stopping``."""

    def check(self, needed_s: float = 0.0) -> None:
        """Raise if the job must end, or its remaining time is less than ``needed_s`` seconds."""
