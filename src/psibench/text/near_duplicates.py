"""Texts that repeat others, word for word or nearly, by the shingles they share.

A shingle is a run of five words, or of five characters where words have no spaces. Three questions
are asked of them: which earlier text is most like this one (`DistinctTexts`: documents of a sample,
by the Jaccard index of two sets), how much of this text was seen before, in whichever texts
(`SeenText`: paragraphs of documentation, which are pieced together from several), and whether this
text holds one of some others or is held by it (`KnownTexts`: paragraphs of articles, by the overlap
coefficient).
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
"""A word: letters, marks and digits; or one character of a script without spaces between words."""
NEAR_JACCARD = 0.8
"""Share of the shingles of two texts, those in both over those in either, that makes a repeat."""
N_PERMUTATIONS = 128
BANDS, ROWS = 25, 5
"""Of the MinHash index. Two texts share a band of r rows with probability J^r, and one of b bands
with 1 - (1 - J^r)^b (Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, section 3.4.2): a
pair that is just as similar as the threshold is overlooked once in 20,000."""
N_CACHED = 2000
EXACT, NEAR = "exact_duplicate", "near_duplicate"
MULTIPLIER = 0x9E3779B97F4A7C15
WEIGHTS = np.array([pow(MULTIPLIER, k, 1 << 64) for k in range(SHINGLE_SIZE)], dtype=np.uint64)


def normalise(text: str) -> str:
    """Even out what makes no other text: case, forms, white space, invisible characters."""
    return " ".join(unicodedata.normalize("NFKC", without_invisible(text)).casefold().split())


def shingle_hashes(normalised: str) -> np.ndarray:
    """Return the distinct hashes of a normalised text's shingles, (n,) uint64.

    A text of fewer words than a shingle has one shingle of all of them; one without words has
    none. Two shingles have the same hash with probability 2^-64.
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
    """Hash a word, the same on every machine and in every process."""
    return int.from_bytes(hashlib.blake2b(token.encode(), digest_size=8).digest(), "little")


class SeenText:
    """A memory of shingles that tells which share of a text it already holds.

    The share is a containment (shared shingles over the text's own), measured against everything
    remembered at once, so a text pieced together from several others counts as seen.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def share(self, text: str) -> float:
        """Give the share of the text's distinct shingles that were seen, in [0, 1]; empty: 1."""
        shingles = _shingle_set(text)
        return len(shingles & self._seen) / len(shingles) if shingles else 1.0

    def remember(self, text: str) -> None:
        """Add the text's shingles."""
        self._seen |= _shingle_set(text)


@lru_cache(1)  # a text is compared, then remembered
def _shingle_set(text: str) -> frozenset[int]:
    return frozenset(shingle_hashes(normalise(text)).tolist())


class KnownTexts:
    """Texts that another one may hold or be held by, but for some words.

    Of each of their shingles 12 bytes are held.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        of_texts = [shingle_hashes(normalise(text)) for text in texts]
        hashes = np.concatenate([np.zeros(0, dtype=np.uint64), *of_texts])
        self._sizes = np.array([len(one) for one in of_texts], dtype=np.int64)
        order = np.argsort(hashes)
        self._hashes = hashes[order]
        self._owners = np.repeat(np.arange(len(of_texts), dtype=np.uint32), self._sizes)[order]

    def overlap(self, text: str) -> float:
        """Return the largest overlap coefficient of a text with one of them; 0 without any.

        It is the shingles of both over those of the one that has fewer: 1 for a paragraph and the
        article it is of, however long that is.
        """
        shingles = shingle_hashes(normalise(text))
        starts, ends = (np.searchsorted(self._hashes, shingles, side) for side in ("left", "right"))
        found = zip(starts[ends > starts], ends[ends > starts], strict=True)
        shared = [self._owners[start:end] for start, end in found]
        if not shared:
            return 0.0
        owners, counts = np.unique(np.concatenate(shared), return_counts=True)
        return float((counts / np.minimum(self._sizes[owners], len(shingles))).max())


@dataclass(frozen=True)
class Repeat:
    """What a text repeats: the ``number`` of a text added before, why, and how alike they are.

    ``reason`` is ``exact_duplicate`` for the same but for case, compatibility forms of characters
    and white space, else ``near_duplicate``; ``jaccard`` is that of the two sets of shingles, 1 for
    an exact duplicate.
    """

    number: int
    reason: str
    jaccard: float


class DistinctTexts:
    """Texts of which none repeats another one, word for word or nearly.

    Pairs found by datasketch's index are compared exactly. The index takes some 10 kB a text; texts
    are read again when they are compared: the caller may hold them compressed.
    """

    def __init__(self, read: Callable[[int], str], *, near: bool) -> None:
        """Hold nothing yet; without ``near`` exact duplicates alone are found."""
        self._read = read
        self._near = near
        self._numbers: dict[bytes, int] = {}
        self._shingles = lru_cache(N_CACHED)(lambda number: shingle_hashes(normalise(read(number))))
        if near:
            from datasketch import MinHashLSH  # takes a second

            self._index = MinHashLSH(num_perm=N_PERMUTATIONS, params=(BANDS, ROWS))

    def add(self, number: int) -> Repeat | None:
        """Add a text, or return which one it repeats: of several the most alike, then the first."""
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
    """Return the Jaccard index of two sets, each an array of distinct values; 0 for empty ones."""
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
