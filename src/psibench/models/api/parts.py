"""Vectors of finished requests on their way into the store."""

import time
from dataclasses import dataclass, field

import numpy as np

from psibench.encode.store import EmbeddingStore
from psibench.models.api.plan import ApiRequest

REQUESTS_PER_PART = 16
SECONDS_PER_PART = 20.0
"""A part of the store is written after so many answers, or so long: ``kill -9`` loses no more."""


@dataclass
class Parts:
    """Vectors on their way into the store."""

    store: EmbeddingStore
    keys: list[bytes] = field(default_factory=list)
    vectors: list[np.ndarray] = field(default_factory=list)
    n_requests: int = 0
    since: float = 0.0

    def take(self, request: ApiRequest, vectors: np.ndarray) -> None:
        """Keep the vectors of one request; write a part if it is time."""
        if not self.keys:
            self.since = time.monotonic()
        self.keys += request.keys
        self.vectors += [vector[None, :] for vector in vectors]
        self.n_requests += 1
        is_late = time.monotonic() - self.since >= SECONDS_PER_PART
        if is_late or self.n_requests >= REQUESTS_PER_PART:
            self.flush()

    def flush(self) -> None:
        """Write what is kept as a part."""
        if self.keys:
            self.store.add(self.keys, self.vectors)
        self.keys, self.vectors, self.n_requests = [], [], 0
