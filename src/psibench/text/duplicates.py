"""Near duplicates by shared word shingles: how much of a text has been seen before."""

import re

from psibench.errors import InputError


class SeenText:
    """A memory of word shingles that tells which share of a text it already holds.

    The share is a containment (shared shingles over the text's own shingles), measured against
    everything remembered at once, so a text pieced together from several others counts as seen.
    A text with fewer words than a shingle is one shingle.
    """

    def __init__(self, *, shingle_words: int = 5) -> None:
        """Start with nothing remembered; ``shingle_words`` words, at least 1, make a shingle."""
        if shingle_words < 1:
            raise InputError(f"shingle_words is {shingle_words}; allowed: at least 1")
        self._size = shingle_words
        self._seen: set[str] = set()

    def share(self, text: str) -> float:
        """Give the share of the text's distinct shingles that were seen, in [0, 1]; empty: 1."""
        shingles = self._shingles(text)
        return len(shingles & self._seen) / len(shingles) if shingles else 1.0

    def remember(self, text: str) -> None:
        """Add the text's shingles."""
        self._seen |= self._shingles(text)

    def _shingles(self, text: str) -> set[str]:
        words = re.findall(r"\w+", text.lower())
        if not words:
            return set()
        last = max(len(words) - self._size, 0)
        return {" ".join(words[i : i + self._size]) for i in range(last + 1)}
