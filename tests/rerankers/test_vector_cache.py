"""Vectors of texts lately encoded: how much is held, what goes first, what is encoded again."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psibench.models.protocols import TokenizedText
from psibench.rerankers.embedded import SimilarityReranker
from psibench.rerankers.vector_cache import VectorCache

ROW = 4 * 8  # bytes of one vector of 8 float32
KEY = 1


def vectors(value: float, n: int = 1) -> np.ndarray:
    return np.full((n, 8), value, dtype=np.float32)


def held(cache: VectorCache, keys: bytes) -> bytes:
    """Those of the one-letter keys that are held; asking makes them the ones used last."""
    return bytes(key for key in keys if cache.get(bytes([key])) is not None)


def test_what_was_put_is_given_back_and_nothing_else():
    cache = VectorCache()
    cache.put(b"a", vectors(1.0))
    found = cache.get(b"a")
    assert found is not None
    assert found.tolist() == vectors(1.0).tolist()
    assert cache.get(b"b") is None


def test_beyond_the_bound_the_vectors_not_used_for_longest_go():
    cache = VectorCache(max_bytes=3 * (ROW + KEY))
    for number, key in enumerate((b"a", b"b", b"c")):
        cache.put(key, vectors(number))
    cache.get(b"a")
    cache.put(b"d", vectors(3))
    assert held(cache, b"abcd") == b"acd"
    cache.put(b"e", vectors(4, n=2))  # as large as two others: now a and c go
    assert held(cache, b"abcde") == b"de"


def test_the_bound_counts_keys_too():
    cache = VectorCache(max_bytes=2 * ROW + 5)
    cache.put(b"abc", vectors(0))
    cache.put(b"de", vectors(1))
    assert cache.get(b"abc") is not None
    cache = VectorCache(max_bytes=2 * ROW + 4)
    cache.put(b"abc", vectors(0))
    cache.put(b"de", vectors(1))
    assert cache.get(b"abc") is None


@pytest.mark.parametrize("bound", [0, ROW])
def test_vectors_larger_than_the_bound_are_not_held_and_use_none_of_it_up(bound):
    cache = VectorCache(max_bytes=bound + KEY)
    cache.put(b"a", vectors(0, n=3))
    assert cache.get(b"a") is None
    cache.put(b"b", vectors(1))
    assert (cache.get(b"b") is not None) == (bound == ROW)


@given(
    max_bytes=st.integers(0, 6 * ROW),
    asked=st.lists(st.tuples(st.sampled_from(b"abcdef"), st.integers(0, 4)), max_size=40),
)
def test_what_is_held_is_what_was_used_last_and_fits(max_bytes, asked):
    """As in use: a text that is not held is encoded and put; against a plain list of texts."""
    cache = VectorCache(max_bytes)
    reference: list[tuple[int, int]] = []  # (key, bytes), the one used last at the end
    sizes: dict[int, int] = {}
    for key, n in asked:
        n_vectors = sizes.setdefault(key, n)  # a text always has the same vectors
        is_held = cache.get(bytes([key])) is not None
        assert is_held == any(key == name for name, _ in reference)
        if not is_held:
            cache.put(bytes([key]), vectors(key, n=n_vectors))
        reference = [entry for entry in reference if entry[0] != key]
        reference.append((key, KEY + n_vectors * ROW))
        while sum(size for _, size in reference) > max_bytes:
            reference.pop(0)


@dataclass
class CountingEncoder:
    """Encodes a text, letters for tokens, as how often it has each of a, b and c; counts texts."""

    encoded: list[str] = field(default_factory=list)
    n_batches: int = 0

    def tokenize(self, texts, role):
        ids = [np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32) for text in texts]
        return [TokenizedText((i,), (np.ones(len(i), bool),), len(i)) for i in ids]

    def forward(self, windows, content):
        self.n_batches += 1
        texts = [bytes(window.astype(np.uint8)).decode() for window in windows]
        self.encoded += texts
        counts = np.array([[text.count(c) for c in "abc"] for text in texts], dtype=np.float32)
        counts /= np.linalg.norm(counts, axis=1, keepdims=True)
        return [row[None, :] for row in counts]  # views of the batch, as an encoder's are


PAIRS = [("aa", "ab"), ("aa", "bc"), ("cb", "ab"), ("aa", "ab"), ("ab", "ab")]


@pytest.fixture
def similarity(entry):
    def make(**fields) -> SimilarityReranker:
        return SimilarityReranker("fake", entry("cosine"), CountingEncoder(), **fields)

    return make


def test_a_text_is_encoded_once_however_many_pairs_and_batches_have_it(similarity):
    reranker = similarity()
    for pair in PAIRS:
        reranker.score(reranker.tokenize([pair]))
    # "ab" as a query reads as "ab" as a document does: the tokens are the same.
    assert reranker.encoder.encoded == ["aa", "ab", "bc", "cb"]
    assert reranker.encoder.n_batches == 4  # the last two pairs ask the encoder for nothing
    reranker = similarity()
    reranker.score(reranker.tokenize(PAIRS))
    assert reranker.encoder.encoded == ["aa", "cb", "ab", "bc"]  # the queries, then the texts


@pytest.mark.parametrize("max_bytes", [0, 40, 1 << 20])
def test_scores_do_not_depend_on_what_is_held(similarity, max_bytes):
    whole = similarity()
    expected = whole.score(whole.tokenize(PAIRS))
    assert expected.raw.tolist() == pytest.approx([0.5**0.5, 0, 0.5, 0.5**0.5, 1.0])
    small = similarity(cache=VectorCache(max_bytes))
    found = [small.score(small.tokenize([pair])) for pair in (*PAIRS, *reversed(PAIRS))]
    assert [score.raw[0] for score in found] == [*expected.raw, *expected.raw[::-1]]


def test_what_is_held_is_a_copy_that_keeps_no_batch_in_memory(similarity):
    reranker = similarity()
    reranker.score(reranker.tokenize(PAIRS))
    for item in reranker.encoder.tokenize(["aa", "ab", "bc", "cb"], "document"):
        key = item.windows[0].tobytes() + item.content[0].tobytes()
        found = reranker.cache.get(key)
        assert found is not None
        assert found.base is None
