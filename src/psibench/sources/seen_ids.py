"""A memory of the ids a source has given, small enough for tens of millions of them."""

import numpy as np

PART_BITS = 4
"""The memory is kept in 2^4 parts, so that a merge needs room for a sixteenth more only."""


class SeenHashes:
    """Hashes seen so far: 8 bytes each, in sorted runs that are merged as they grow.

    25 million documents (50 GB of 2 kB each) take 200 MB.
    """

    def __init__(self) -> None:
        self._parts = [_Runs() for _ in range(1 << PART_BITS)]

    def __len__(self) -> int:
        return sum(len(run) for part in self._parts for run in part.runs)

    def add(self, hashes: np.ndarray) -> np.ndarray:
        """Say which of (n,) uint64 hashes an earlier call was given, (n,) bool; remember all.

        Hashes repeated within the call are remembered once, and not told.
        """
        seen = np.zeros(len(hashes), dtype=bool)
        numbers = hashes >> np.uint64(64 - PART_BITS)
        for number, part in enumerate(self._parts):
            chosen = np.flatnonzero(numbers == number)
            if len(chosen):
                seen[chosen] = part.holds(hashes[chosen])
                part.add(hashes[chosen[~seen[chosen]]])
        return seen


class _Runs:
    """Sorted runs of distinct numbers, each more than twice as long as the one after it."""

    def __init__(self) -> None:
        self.runs: list[np.ndarray] = []

    def holds(self, values: np.ndarray) -> np.ndarray:
        found = np.zeros(len(values), dtype=bool)
        for run in self.runs:
            places = np.minimum(np.searchsorted(run, values), len(run) - 1)
            found |= run[places] == values
        return found

    def add(self, values: np.ndarray) -> None:
        if not len(values):
            return
        self.runs.append(np.unique(values))
        while len(self.runs) > 1 and len(self.runs[-2]) <= 2 * len(self.runs[-1]):
            merged = np.concatenate([self.runs.pop(), self.runs.pop()])
            merged.sort()
            self.runs.append(merged)
