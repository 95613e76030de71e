import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psibench.models.encoding import encode_texts, plan_batches
from psibench.models.protocols import TokenizedText
from psibench.store.embeddings import EmbeddingStore


@dataclass
class HashEncoder:
    """An encoder of 4 dimensions seeded by a window's tokens; counts what it encodes."""

    windows: int = 1
    seen: list[tuple[int, ...]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    fails_at_batch: int | None = None
    fingerprint: str = "f" * 64

    def salt(self, role: str) -> str:
        return ""

    def tokenize(self, texts: Sequence[str], role: str) -> list[TokenizedText]:
        return [self._item(text) for text in texts]

    def _item(self, text: str) -> TokenizedText:
        ids = np.frombuffer(text.encode("utf-32-le"), dtype=np.int32)
        parts = tuple(np.array_split(ids, self.windows))
        keep = tuple(np.ones(len(part), dtype=bool) for part in parts)
        return TokenizedText(parts, keep, len(text))

    def forward(self, windows, content):
        if self.fails_at_batch == len(self.batches):
            raise RuntimeError("killed")
        self.batches.append(max(map(len, windows)) * len(windows))
        self.seen += [tuple(window.tolist()) for window in windows]
        return [unit_vector(window)[None, :] for window in windows]


def unit_vector(ids) -> np.ndarray:
    digest = hashlib.sha256(np.asarray(ids, dtype=np.int32).tobytes()).digest()
    vector = np.frombuffer(digest[:16], dtype=np.uint32).astype(np.float64)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def text_vector(text: str) -> np.ndarray:
    return unit_vector(np.frombuffer(text.encode("utf-32-le"), dtype=np.int32))


def encode(encoder, texts, store, *, batch=64, shard=100, salt=""):
    return encode_texts(
        encoder,
        texts,
        encoder.tokenize(texts, "document"),
        salt=salt,
        store=store,
        tokens_per_batch=batch,
        tokens_per_shard=shard,
        description="encoding",
    )


def texts_of(n: int) -> list[str]:
    return [f"{i:03d}" * (1 + i % 7) for i in range(n)]


@pytest.fixture
def store(tmp_path):
    return EmbeddingStore(tmp_path, "f" * 64)


@pytest.mark.parametrize("batch", [1, 10, 64, 10_000])
@pytest.mark.parametrize("shard", [1, 100, 10_000])
def test_every_text_gets_its_own_vector_whatever_the_batches(store, batch, shard):
    texts = texts_of(40)
    encoded = encode(HashEncoder(), texts, store, batch=batch, shard=shard)
    vectors = store.load(encoded.keys)
    assert vectors.is_single
    np.testing.assert_array_equal(vectors.values, [text_vector(text) for text in texts])
    assert encoded.n_new == 40
    assert encoded.n_tokens.tolist() == [len(text) for text in texts]
    assert encoded.visible_char_end.tolist() == [len(text) for text in texts]


def test_a_text_is_encoded_once_however_often_it_is_asked_for(tmp_path, store):
    encoder = HashEncoder()
    first = encode(encoder, ["one", "two", "one"], store)
    again = encode(encoder, ["two", "one", "three"], EmbeddingStore(tmp_path, "f" * 64))
    assert (first.n_new, again.n_new) == (2, 1)
    assert first.keys[0] == first.keys[2] == again.keys[1]
    assert len(encoder.seen) == 3


def test_another_salt_is_another_text(store):
    encoder = HashEncoder()
    encode(encoder, ["one"], store, salt="query: ")
    assert encode(encoder, ["one"], store, salt="passage: ").n_new == 1


def test_resume_after_a_crash_encodes_only_what_was_missing(tmp_path, store):
    texts = texts_of(30)
    crashing = HashEncoder()
    encode(crashing, texts, EmbeddingStore(tmp_path / "dry", "f" * 64), batch=50, shard=50)
    batches = len(crashing.batches)
    crashing = HashEncoder(fails_at_batch=3)
    with pytest.raises(RuntimeError, match="killed"):
        encode(crashing, texts, store, batch=50, shard=50)
    parts = sorted(path.name for path in store.folder.iterdir())
    assert 1 <= len(parts) < batches

    resumed = HashEncoder()
    fresh = EmbeddingStore(tmp_path, "f" * 64)
    encoded = encode(resumed, texts, fresh, batch=50, shard=50)
    stored_before = 30 - encoded.n_new
    assert stored_before >= len(parts)
    assert len(resumed.seen) == encoded.n_new
    assert set(resumed.seen).isdisjoint(crashing.seen[:stored_before])
    np.testing.assert_array_equal(
        fresh.load(encoded.keys).values, [text_vector(text) for text in texts]
    )


def test_longest_texts_come_first(store):
    encoder = HashEncoder()
    encode(encoder, ["a", "a" * 9, "a" * 5, "a" * 7], store, batch=9, shard=12)
    assert [len(ids) for ids in encoder.seen] == [9, 7, 5, 1]


def test_windows_of_a_text_stay_together_and_in_order(store):
    texts = texts_of(20)
    encoded = encode(HashEncoder(windows=3), texts, store, batch=5, shard=30)
    vectors = store.load(encoded.keys)
    assert vectors.offsets.tolist() == list(range(0, 61, 3))
    for place, text in enumerate(texts):
        ids = np.frombuffer(text.encode("utf-32-le"), dtype=np.int32)
        expected = [unit_vector(part) for part in np.array_split(ids, 3)]
        np.testing.assert_array_equal(vectors.values[3 * place : 3 * place + 3], expected)


def test_no_texts_write_nothing(store):
    encoded = encode(HashEncoder(), [], store)
    assert (encoded.keys, encoded.n_new, encoded.n_tokens.shape) == ([], 0, (0,))
    assert not store.folder.exists()


@given(
    lengths=st.lists(st.integers(0, 50), max_size=40),
    budget=st.integers(1, 200),
)
def test_batches_hold_every_text_once_within_the_budget(lengths, budget):
    batches = list(plan_batches(lengths, budget))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        assert len(batch) == 1 or longest * len(batch) <= budget
        assert longest == lengths[batch[0]]


def test_text_longer_than_the_budget_makes_a_batch_of_its_own():
    assert list(plan_batches([3, 100, 3], 6)) == [[1], [0, 2]]


def test_real_model_gives_the_same_vectors_in_small_and_large_batches(tmp_path, minilm):
    texts = ["A cat.", "Dogs sleep all day long in the house. " * 8, "Birds fly."]
    results = []
    for name, batch in (("small", 1), ("large", 10_000)):
        folder = EmbeddingStore(tmp_path / name, minilm.fingerprint)
        results.append(folder.load(encode(minilm, texts, folder, batch=batch).keys).values)
    np.testing.assert_allclose(results[0], results[1], atol=1e-6)
