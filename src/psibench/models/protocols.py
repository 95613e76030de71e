"""The seam between encoders and everything that uses their vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

Role = Literal["query", "document"]
ROLES: tuple[Role, ...] = ("query", "document")

MODEL_VERSIONS = {
    "bm25s": 3,
    "colbert": 2,
    "embedding-api": 1,
    "flag-embedding": 1,
    "sentence-transformers": 2,
    "sparse-encoder": 1,
    "static-embeddings": 2,
}
"""Version of what each model backend computes: a part of the vectors' fingerprint and of the rules'
parameters. Raise it when the same registry entry gives other vectors or scores."""

VECTOR_BOUND: dict[str, float] = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 1e-2}
"""What rounding may change of a text's vector, by number format: no component of a unit vector, and
no inner product of two, differs by more: docs/models.md has what was seen.

A forward pass adds products up in an order that depends on the shape of its batch, on the BLAS, on
its threads, and on where arrays begin in memory. MaxSim, a sum over a query's tokens, may differ by
the bound times their number.
"""


@dataclass(frozen=True)
class TokenizedText:
    """One text as a model sees it.

    Attributes
    ----------
    windows
        Token ids, one (n_tokens,) int32 array per window; one window unless the model cuts
        documents into several.
    content
        Per window a (n_tokens,) bool array: False for special tokens and for the prompt's. Of a
        window that is pooled in chunks (n_chunks, n_tokens): the tokens of each.
    visible_char_end
        Characters of the text (without its prompt) that are in the windows: evidence that ends at
        or before it can be seen by the model.
    is_averaged
        Whether the text has one vector, the mean of its windows'.
    """

    windows: tuple[np.ndarray, ...]
    content: tuple[np.ndarray, ...]
    visible_char_end: int
    is_averaged: bool = False

    @property
    def n_tokens(self) -> int:
        """Tokens over all windows, special tokens included."""
        return sum(len(window) for window in self.windows)

    def vectors(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Put the vectors of the windows, in their order, together to those of the text.

        Their mean has unit length again; opposite ones, whose mean has none, give the zero vector.
        """
        found = np.concatenate(parts)
        if not self.is_averaged:
            return found
        mean = found.astype(np.float64).mean(axis=0, keepdims=True)
        norm = np.linalg.norm(mean)
        averaged: np.ndarray = (mean / norm if norm > 0 else mean).astype(np.float32)
        return averaged


class Encoder(Protocol):
    """Turns texts into vectors, in two steps so that batches can be planned by length.

    What a text is encoded beside changes its vector by rounding only: see `VECTOR_BOUND`.
    """

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the vectors besides the text and its prompt."""

    def salt(self, role: Role) -> str:
        """What besides the text and the fingerprint decides a vector: prompt, windows."""

    def tokenize(self, texts: Sequence[str], role: Role) -> list[TokenizedText]:
        """Tokenize texts, with the prompt of their role before each."""

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


class StopCheck(Protocol):
    """Says whether a job has to end now; see ``psibench.stopping``."""

    def check(self, needed_s: float = 0.0) -> None:
        """Raise if the job was told to end, or has no time left for ``needed_s`` more seconds."""
