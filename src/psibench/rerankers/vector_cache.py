"""Vectors of texts that were encoded lately, within a bound of memory."""

from collections import OrderedDict

import numpy as np

CACHE_BYTES = 1 << 30


class VectorCache:
    """The vectors used last, by the text's tokens.

    A bi-encoder that scores many queries against the same documents, one batch after the other,
    encodes each of them once as long as it stays here.

    Parameters
    ----------
    max_bytes
        Memory of all vectors held and of their keys; the ones not used for longest go first.
    """

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._n_bytes = 0
        self._vectors: OrderedDict[bytes, np.ndarray] = OrderedDict()

    def get(self, key: bytes) -> np.ndarray | None:
        """Return the vectors of a text, (n_vectors, dim), or None if they are not held."""
        found = self._vectors.get(key)
        if found is not None:
            self._vectors.move_to_end(key)
        return found

    def put(self, key: bytes, vectors: np.ndarray) -> None:
        """Hold the vectors of a text that is not held yet."""
        self._vectors[key] = vectors
        self._n_bytes += len(key) + vectors.nbytes
        while self._n_bytes > self._max_bytes:
            oldest, held = self._vectors.popitem(last=False)
            self._n_bytes -= len(oldest) + held.nbytes
