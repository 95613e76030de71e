"""Texts that repeat others exactly or nearly, detected by shared shingles.

A shingle is a run of five words, or of five characters in scripts without spaces.

- `DistinctTexts` finds the earlier text that is most similar to a text, by the Jaccard index
  (documents of a sample).
- `SeenText` measures how much of a text occurred before, in any of the earlier texts (paragraphs of
  documentation, which are often composed of several others).
- `KnownTexts` measures whether a text contains one of some others or is contained in it, by the
  overlap coefficient (paragraphs of articles).
"""

import hashlib
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import regex

from psibench.text.languages import UNSPACED
from psibench.text.words import without_invisible

if TYPE_CHECKING:
    from datasketch import MinHash

SHINGLE_SIZE = 5
TOKEN = regex.compile(
    rf"(?V1)[[\p{{L}}\p{{M}}\p{{N}}_]--[{UNSPACED}]]+|[[\p{{L}}\p{{M}}\p{{N}}]&&[{UNSPACED}]]"
)
"""A word (letters, marks and digits), or one character of a script without spaces."""
NEAR_JACCARD = 0.8
"""Jaccard index of the shingles from which two texts are near duplicates."""
N_PERMUTATIONS = 128
BANDS, ROWS = 25, 5
"""Bands and rows of the MinHash index. Two texts share a band of r rows with probability J^r, and
at least one of b bands with 1 - (1 - J^r)^b (Leskovec, Rajaraman and Ullman, Mining of Massive
Datasets, section 3.4.2). A pair exactly at the threshold is missed once in 20,000."""
N_CACHED = 2000
EXACT, NEAR = "exact_duplicate", "near_duplicate"
MULTIPLIER = 0x9E3779B97F4A7C15
WEIGHTS = np.array([pow(MULTIPLIER, k, 1 << 64) for k in range(SHINGLE_SIZE)], dtype=np.uint64)


def normalise(text: str) -> str:
    """Return a text with case, character forms, white space and invisible characters evened out."""
    return " ".join(unicodedata.normalize("NFKC", without_invisible(text)).casefold().split())


def shingle_hashes(normalised: str) -> np.ndarray:
    """Return the distinct hashes of a normalised text's shingles, (n,) uint64.

    A text with fewer words than a shingle has one shingle with all of its words; a text without
    words has no shingle. Two shingles have the same hash with probability 2^-64.
    """
    tokens = TOKEN.findall(normalised)
    if not tokens:
        return np.zeros(0, dtype=np.uint64)
    tokens += [""] * (SHINGLE_SIZE - len(tokens))
    hashes = np.fromiter(map(_hash, tokens), dtype=np.uint64, count=len(tokens))
    n = len(tokens) - SHINGLE_SIZE + 1
    shingles = np.zeros(n, dtype=np.uint64)
    for k, weight in enumerate(WEIGHTS):
        shingles += hashes[k : k + n] * weight
    return np.unique(shingles)


@lru_cache(1 << 16)
def _hash(token: str) -> int:
    """Return a hash of a word that is the same in every process and on every machine."""
    return int.from_bytes(hashlib.blake2b(token.encode(), digest_size=8).digest(), "little")


class SeenText:
    """The shingles of all texts so far, to measure which share of a new text is repeated.

    The share is a containment (shared shingles / shingles of the new text) in the union of all
    earlier texts, so a text composed of several others counts as repeated.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def share(self, text: str) -> float:
        """Return the share of a text's distinct shingles that repeat, in [0, 1]; 1 if empty."""
        shingles = _shingle_set(text)
        return len(shingles & self._seen) / len(shingles) if shingles else 1.0

    def remember(self, text: str) -> None:
        """Add the text's shingles."""
        self._seen |= _shingle_set(text)


@lru_cache(1)  # a text is compared, then remembered
def _shingle_set(text: str) -> frozenset[int]:
    return frozenset(shingle_hashes(normalise(text)).tolist())


class KnownTexts:
    """Texts to compare with texts that may contain them or be contained in them.

    It uses 12 bytes per shingle.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        of_texts = [shingle_hashes(normalise(text)) for text in texts]
        hashes = np.concatenate([np.zeros(0, dtype=np.uint64), *of_texts])
        self._sizes = np.array([len(one) for one in of_texts], dtype=np.int64)
        order = np.argsort(hashes)
        self._hashes = hashes[order]
        self._owners = np.repeat(np.arange(len(of_texts), dtype=np.uint32), self._sizes)[order]

    def overlap(self, text: str) -> float:
        """Return the largest overlap coefficient with a known text; 0 if no shingle is shared.

        The coefficient is the number of shared shingles divided by the smaller of the two texts'
        numbers: 1 for a paragraph and its article, however long the article is.
        """
        shingles = shingle_hashes(normalise(text))
        starts, ends = (np.searchsorted(self._hashes, shingles, side) for side in ("left", "right"))
        ranges = zip(starts[ends > starts], ends[ends > starts], strict=True)
        shared = [self._owners[start:end] for start, end in ranges]
        if not shared:
            return 0.0
        owners, counts = np.unique(np.concatenate(shared), return_counts=True)
        return float((counts / np.minimum(self._sizes[owners], len(shingles))).max())


@dataclass(frozen=True)
class Repeat:
    """The earlier text that a text repeats: its ``number``, the reason, and the similarity.

    ``reason`` is ``exact_duplicate`` if the texts differ only in case, compatibility forms of
    characters and white space, else ``near_duplicate``. ``jaccard`` is the Jaccard index of the two
    sets of shingles, 1 for an exact duplicate.
    """

    number: int
    reason: str
    jaccard: float


class DistinctTexts:
    """A collection of texts without exact or near duplicates.

    Pairs that datasketch's index finds are compared exactly. The index needs about 10 kB per text.
    ``read`` returns a text by number and is called again for comparisons, so the caller may store
    the texts compressed.
    """

    def __init__(self, read: Callable[[int], str], *, near: bool) -> None:
        """Start empty; without ``near``, only exact duplicates are detected."""
        self._read = read
        self._near = near
        self._numbers: dict[bytes, int] = {}
        self._shingles = lru_cache(N_CACHED)(lambda number: shingle_hashes(normalise(read(number))))
        if near:
            from datasketch import MinHashLSH  # takes a second

            self._index = MinHashLSH(num_perm=N_PERMUTATIONS, params=(BANDS, ROWS))

    def add(self, number: int) -> Repeat | None:
        """Add a text, or return the most similar text that it repeats; in a tie the first."""
        text = normalise(self._read(number))
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        if digest in self._numbers:
            return Repeat(self._numbers[digest], EXACT, 1.0)
        shingles = shingle_hashes(text)
        if self._near and len(shingles):
            signature = _min_hash(shingles)
            others = sorted(self._index.query(signature))
            alike = [jaccard_of(shingles, self._shingles(other)) for other in others]
            if alike and max(alike) >= NEAR_JACCARD:
                return Repeat(others[alike.index(max(alike))], NEAR, max(alike))
            self._index.insert(number, signature)
        self._numbers[digest] = number
        return None


def jaccard_of(first: np.ndarray, second: np.ndarray) -> float:
    """Return the Jaccard index of two arrays of distinct values; 0 if both are empty."""
    n_both = len(np.intersect1d(first, second, assume_unique=True))
    n_either = len(first) + len(second) - n_both
    return n_both / n_either if n_either else 0.0


def _min_hash(shingles: np.ndarray) -> "MinHash":
    signature = _empty_min_hash().copy()
    signature.update_batch((shingles >> np.uint64(32)).tolist())
    return signature


@cache
def _empty_min_hash() -> "MinHash":
    from datasketch import MinHash

    return MinHash(N_PERMUTATIONS, seed=1, scheme="affine32", hashfunc=int)
