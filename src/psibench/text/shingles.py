"""Shingles of a text: its runs of five words, or of five characters where words have no spaces."""

import hashlib
import re
import unicodedata
from functools import lru_cache

import numpy as np

SHINGLE_SIZE = 5
N_CACHED = 1 << 16

# Scripts written without spaces between words, each character of which counts as a word:
# Thai, Lao, Tibetan, Myanmar, Khmer, kana, Han.
UNSPACED = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Marks that stand inside words and that \w does not take: accents, Hebrew and Arabic vowels, the
# vowel signs of India's scripts.
MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
TOKEN = re.compile(f"[{UNSPACED}]|(?:(?![{UNSPACED}])[\\w{MARKS}])+")

_MASK = (1 << 64) - 1
_MULTIPLIER = 0x9E3779B97F4A7C15
WEIGHTS = np.array([pow(_MULTIPLIER, k, 1 << 64) for k in range(SHINGLE_SIZE)], dtype=np.uint64)


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


@lru_cache(N_CACHED)
def _hash(token: str) -> int:
    """Hash a word, the same on every machine and in every process."""
    return int.from_bytes(hashlib.blake2b(token.encode(), digest_size=8).digest(), "little")
