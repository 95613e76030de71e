"""Texts that repeat others, word for word or nearly, by the shingles they share.

A shingle is a run of five words, or of five characters where words have no spaces. Three questions
are asked of them: which one earlier text is most like this one (`Repeats`: documents of a sample,
by the Jaccard index of two sets), how much of this text was seen before, in whichever texts
(`SeenText`: paragraphs of documentation, which are pieced together from several), and whether this
text holds one of some others or is held by it (`KnownTexts`: paragraphs of articles, by the overlap
coefficient).

`Repeats` takes datasketch's MinHash signatures. Datasketch's index holds a Python set per document
and band, 580 MB for 70,000 documents as measured; here the bands of all documents are one array of
numbers, and only those that two documents share are put into a dictionary.
"""

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import regex

from psibench.text.languages import UNSPACED

if TYPE_CHECKING:
    from datasketch import MinHash

SHINGLE_SIZE = 5
TOKEN = regex.compile(
    rf"(?V1)[[\p{{L}}\p{{M}}\p{{N}}_]--[{UNSPACED}]]+|[[\p{{L}}\p{{M}}\p{{N}}]&&[{UNSPACED}]]"
)
"""A word: letters, marks and digits; or one character of a script without spaces between words."""
N_PERMUTATIONS = 128
MISSED = 1e-3
"""A pair that is just as similar as the threshold is overlooked at most so often."""
N_CACHED = 2000
EXACT, NEAR = "exact_duplicate", "near_duplicate"
MULTIPLIER = 0x9E3779B97F4A7C15
WEIGHTS = np.array([pow(MULTIPLIER, k, 1 << 64) for k in range(SHINGLE_SIZE)], dtype=np.uint64)


def normalise(text: str) -> str:
    """Even out what does not make a text another one: case, compatibility forms, white space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


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
        own = [shingle_hashes(normalise(text)) for text in texts]
        hashes = np.concatenate([np.zeros(0, dtype=np.uint64), *own])
        self._sizes = np.array([len(one) for one in own], dtype=np.int64)
        order = np.argsort(hashes)
        self._hashes = hashes[order]
        self._owners = np.repeat(np.arange(len(own), dtype=np.uint32), self._sizes)[order]

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
    """What a text repeats: the ``number`` of the earlier text, from 0, why, and how alike they are.

    ``reason`` is ``exact_duplicate`` for the same but for case, compatibility forms of characters
    and white space, else ``near_duplicate``; ``jaccard`` is that of the two sets of shingles, 1 for
    an exact duplicate.
    """

    number: int
    reason: str
    jaccard: float


class Repeats:
    """Which of a number of texts repeat one that was kept before them.

    Texts are read by number, first all of them in order, then those that may be near duplicates
    again: the caller may hold them compressed. Of a text 16 bytes and 8 per band are held.

    A pair of a Jaccard at or above the threshold is found with a probability of at least 0.999;
    what is told to be one is one, the sets are compared.
    """

    def __init__(self, read: Callable[[int], str], n_texts: int, *, jaccard: float | None) -> None:
        """Read every text once; ``jaccard`` is the threshold, None finds exact duplicates only."""
        self._threshold = jaccard
        self._digests: list[bytes] = []
        self._kept: dict[bytes, int] = {}
        self._buckets: dict[tuple[int, int], list[int]] = defaultdict(list)
        n_bands, n_rows = (0, 0) if jaccard is None else bands(jaccard)
        self._bands = np.zeros((n_texts, n_bands), dtype=np.uint64)
        has_shingles = np.zeros(n_texts, dtype=bool)
        for number in range(n_texts):
            text = normalise(read(number))
            self._digests.append(hashlib.blake2b(text.encode(), digest_size=16).digest())
            if jaccard is not None:
                shingles = shingle_hashes(text)
                has_shingles[number] = len(shingles) > 0
                self._bands[number] = band_hashes(shingles, n_bands, n_rows)
        self._shared = _shared(self._bands, has_shingles)
        self._shingles = lru_cache(N_CACHED)(lambda number: shingle_hashes(normalise(read(number))))

    def find(self, number: int) -> Repeat | None:
        """Return the kept text that this one repeats: of several the most alike, then the first."""
        same = self._kept.get(self._digests[number])
        if same is not None:
            return Repeat(same, EXACT, 1.0)
        best: Repeat | None = None
        for other in sorted({n for key in self._keys(number) for n in self._buckets.get(key, ())}):
            alike = jaccard_of(self._shingles(number), self._shingles(other))
            if alike >= (self._threshold or 0) and (best is None or alike > best.jaccard):
                best = Repeat(other, NEAR, alike)
        return best

    def keep(self, number: int) -> None:
        """Let later texts be compared with this one."""
        self._kept.setdefault(self._digests[number], number)
        for key in self._keys(number):
            self._buckets[key].append(number)

    def _keys(self, number: int) -> list[tuple[int, int]]:
        shared = np.flatnonzero(self._shared[number])
        hashes = self._bands[number, shared].tolist()
        return list(zip(shared.tolist(), hashes, strict=True))


def bands(jaccard: float) -> tuple[int, int]:
    """Return the number of bands and of rows in each that find pairs at a threshold.

    Two texts share a band of r rows with probability J^r, and one of b bands with 1 - (1 - J^r)^b
    (Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, section 3.4.2). The rows are as
    many as leave at most ``MISSED`` of the pairs at J = ``jaccard``: the more, the fewer pairs
    have to be compared.
    """
    rows = range(N_PERMUTATIONS, 1, -1)
    fitting = (r for r in rows if (1 - jaccard**r) ** (N_PERMUTATIONS // r) <= MISSED)
    n_rows = next(fitting, 1)
    return N_PERMUTATIONS // n_rows, n_rows


def band_hashes(shingles: np.ndarray, n_bands: int, n_rows: int) -> np.ndarray:
    """Return (n_bands,) uint64 hashes of the bands of a set's MinHash signature."""
    signature = _blank().copy()
    signature.update_batch((shingles >> np.uint64(32)).tolist())
    rows = signature.hashvalues[: n_bands * n_rows].astype(np.uint64).reshape(n_bands, n_rows)
    hashes = np.zeros(n_bands, dtype=np.uint64)
    for row in rows.T:
        hashes = (hashes ^ row) * np.uint64(MULTIPLIER)
    return hashes


def jaccard_of(first: np.ndarray, second: np.ndarray) -> float:
    """Return the Jaccard index of two sets, each an array of distinct values; 0 for empty ones."""
    n_both = len(np.intersect1d(first, second, assume_unique=True))
    n_either = len(first) + len(second) - n_both
    return n_both / n_either if n_either else 0.0


@cache
def _blank() -> "MinHash":
    """Make the signature of the empty set; its permutations serve every text."""
    from datasketch import MinHash  # takes a second

    return MinHash(N_PERMUTATIONS, seed=1, scheme="affine32", hashfunc=int)


def _shared(hashes: np.ndarray, has_shingles: np.ndarray) -> np.ndarray:
    """Say which bands a text shares with another one, (n_texts, n_bands) bool."""
    shared = np.zeros(hashes.shape, dtype=bool)
    places = np.flatnonzero(has_shingles)
    for band in range(hashes.shape[1]):
        _, inverse, counts = np.unique(
            hashes[places, band], return_inverse=True, return_counts=True
        )
        shared[places, band] = counts[inverse] > 1
    return shared
