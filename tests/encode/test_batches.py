import hashlib
import logging
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from psibench import progress
from psibench.config.sections import Encoding
from psibench.encode.batches import TextEncoding, encode_texts
from psibench.encode.store import EmbeddingStore, text_key
from psibench.errors import InputError
from psibench.models.budget import TokenBudget
from psibench.models.protocols import TokenizedText


@dataclass
class HashEncoder:
    """An encoder with 4 dimensions, seeded by a window's tokens; records encoded windows."""

    windows: int = 1
    seen: list[tuple[int, ...]] = field(default_factory=list)
    batches: list[tuple[int, int]] = field(default_factory=list)
    """Return length and rows of each batch."""
    fails_at_batch: int | None = None
    memory: int | None = None
    """Limit of padded tokens; more raises OutOfMemoryError."""
    prompt: str = ""
    fingerprint: str = "f" * 64

    def salt(self, role: str) -> str:
        return self.prompt

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
        length = max(map(len, windows))
        if self.memory is not None and length * len(windows) > self.memory:
            raise torch.OutOfMemoryError("no room")
        self.batches.append((length, len(windows)))
        self.seen += [tuple(window.tolist()) for window in windows]
        return [unit_vector(window)[None, :] for window in windows]


def unit_vector(ids) -> np.ndarray:
    digest = hashlib.sha256(np.asarray(ids, dtype=np.int32).tobytes()).digest()
    vector = np.frombuffer(digest[:16], dtype=np.uint32).astype(np.float64)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def text_vector(text: str) -> np.ndarray:
    return unit_vector(np.frombuffer(text.encode("utf-32-le"), dtype=np.int32))


def encode(encoder, texts, store, *, batch=64, shard=100, stop=None):
    """Encode texts; return the statistics."""
    settings = {"tokens_per_batch": batch, "tokens_per_part": shard, "seconds_per_part": 0}
    return encode_texts(
        encoder,
        texts,
        "document",
        store=store,
        settings=Encoding.model_construct(**settings),  # smaller values than allowed
        stop=stop,
        description="encoding",
    )


def load(encoder, texts, store):
    return store.load([text_key(text, salt=encoder.salt("document")) for text in texts])


def texts_of(n: int) -> list[str]:
    return [f"{i:03d}" * (1 + i % 7) for i in range(n)]


@pytest.fixture
def store(tmp_path):
    return EmbeddingStore(tmp_path, "f" * 64)


def test_resume_after_a_crash_encodes_only_missing_texts(tmp_path, store):
    texts = texts_of(30)
    crashing = HashEncoder(fails_at_batch=3)
    with pytest.raises(RuntimeError, match="killed"):
        encode(crashing, texts, store, batch=50, shard=50)
    assert len(list(store.folder.iterdir())) >= 1
    resumed = HashEncoder()
    fresh = EmbeddingStore(tmp_path, "f" * 64)
    stats = encode(resumed, texts, fresh, batch=50, shard=50)
    assert 0 < stats.texts < 30
    assert len(resumed.seen) == stats.texts
    assert set(resumed.seen).isdisjoint(crashing.seen[: 30 - stats.texts])
    vectors = load(resumed, texts, fresh).values
    np.testing.assert_array_equal(vectors, [text_vector(text) for text in texts])


def test_windows_of_a_text_stay_together_and_in_order(store):
    texts, encoder = texts_of(20), HashEncoder(windows=3)
    encode(encoder, texts, store, batch=5, shard=30)
    vectors = load(encoder, texts, store)
    assert vectors.offsets.tolist() == list(range(0, 61, 3))
    for place, text in enumerate(texts):
        ids = np.frombuffer(text.encode("utf-32-le"), dtype=np.int32)
        expected = [unit_vector(part) for part in np.array_split(ids, 3)]
        np.testing.assert_array_equal(vectors.values[3 * place : 3 * place + 3], expected)


@given(
    lengths=st.lists(st.integers(1, 50), max_size=40),
    budget=st.integers(1, 200),
    part=st.sampled_from([1, 100, 10_000]),
)
def test_batches_keep_to_the_budget_the_longest_texts_first(lengths, budget, part):
    texts = [f"{place:02d}" + "x" * length for place, length in enumerate(lengths)]
    encoder = HashEncoder()
    with tempfile.TemporaryDirectory() as folder:
        store = EmbeddingStore(folder, "f" * 64)
        stats = encode(encoder, texts, store, batch=budget, shard=part)
        vectors = load(encoder, texts, store)
    assert vectors.is_single
    np.testing.assert_array_equal(vectors.values, [text_vector(t) for t in texts] or vectors.values)
    assert (stats.texts, stats.tokens) == (len(texts), sum(map(len, texts)))
    assert [len(ids) for ids in encoder.seen] == sorted(map(len, texts), reverse=True)
    assert sum(rows for _, rows in encoder.batches) == len(texts)
    for length, rows in encoder.batches:
        assert rows == 1 or length * rows <= budget
    for length, rows in encoder.batches[:-1]:
        assert rows >= budget // length // 8  # the device has something to do


def test_too_little_memory_halves_the_batches_for_the_rest(store, caplog):
    texts, encoder = texts_of(60), HashEncoder(memory=50)
    encode(encoder, texts, store, batch=200)
    assert max(length * rows for length, rows in encoder.batches) <= 50
    assert caplog.text.count("not enough memory for") == 2  # 189, 84, 42 tokens
    vectors = load(encoder, texts, store).values
    np.testing.assert_array_equal(vectors, [text_vector(text) for text in texts])


def test_single_text_too_large_for_memory_is_an_input_error(store):
    with pytest.raises(InputError, match="one text of 21 tokens does not fit"):
        encode(HashEncoder(memory=20), ["a" * 21], store)


def test_token_without_an_embedding_is_an_input_error(store, monkeypatch):
    def forward(*_):
        raise RuntimeError("CUDA error: device-side assert triggered\nSearch for it")

    monkeypatch.setattr(HashEncoder, "forward", forward)
    with pytest.raises(
        InputError,
        match=r"maybe 97, for which .* \(CUDA error: .*triggered\):",
    ):
        encode(HashEncoder(), ["a"], store)


class StopAt:
    """Stops after the given number of batches."""

    def __init__(self, n: int) -> None:
        self.left, self.needed = n, []

    def check(self, needed_s=0.0):
        self.needed.append(needed_s)
        if not self.left:
            raise TimeoutError("stop")
        self.left -= 1


def test_a_stopped_job_has_stored_every_text_it_finished(tmp_path, store):
    texts = [f"{i:08d}" for i in range(32)]
    encoder, stop = HashEncoder(), StopAt(3)
    with pytest.raises(TimeoutError):
        encode(encoder, texts, store, batch=32, shard=10_000, stop=stop)
    assert len(encoder.seen) == 12  # three batches of four rows
    stats = encode(HashEncoder(), texts, EmbeddingStore(tmp_path, "f" * 64), batch=32)
    assert stats.texts == 20
    assert stop.needed[0] == 0
    assert stop.needed[-1] > 0


def test_stopped_job_logs_its_time(store):
    encoding = TextEncoding(HashEncoder(), store, Encoding(), stop=StopAt(0))
    items = HashEncoder().tokenize(["ab"], "document")
    with pytest.raises(TimeoutError):
        encoding.add([text_key("ab", salt="")], items)
    assert encoding.stats.seconds > 0


def test_padding_is_limited_after_an_eighth_of_the_budget(store):
    # 80 tokens: four texts of 10 and 9; another one of 8 would need more than 1/8 padding.
    texts = ["a" * 10, "b" * 10, "a" * 9, "b" * 9, "a" * 8, "a" * 7]
    encoder = HashEncoder()
    encode(encoder, texts, store, batch=80)
    assert encoder.batches == [(10, 4), (8, 2)]


@pytest.mark.parametrize(("device", "tokens"), [("cpu", 8_192), ("cuda", 65_536)])
def test_default_batches_depend_on_the_device(device, tokens):
    given = {"device": device, "title": "encoding", "unit": "text", "advice": ""}
    assert TokenBudget(0, **given).tokens == tokens
    assert TokenBudget(512, **given).tokens == 512


def test_remaining_time_follows_the_remaining_tokens(store, monkeypatch, caplog):
    """A token takes 10 ms. 8 texts of 1,000 tokens come before 200 of 10: 80 s, then 20 s."""
    now = {"s": 0.0}
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now["s"]))
    caplog.set_level(logging.INFO, logger="psibench")

    class Slow(HashEncoder):
        def forward(self, windows, content):
            now["s"] += 0.01 * sum(map(len, windows))
            return super().forward(windows, content)

    encoder = Slow()
    known = [f"{n:01000d}" for n in range(100, 110)]  # stored before: they take no time
    encode_texts(encoder, known, "document", store=store, settings=Encoding(), description="before")
    now["s"] = 0.0
    caplog.clear()
    texts = [f"{n:010d}" for n in range(200)] + [f"{n:01000d}" for n in range(8)] + known
    settings = Encoding(tokens_per_batch=1_000)
    encode_texts(encoder, texts, "document", store=store, settings=settings, description="now")
    told = [line for line in caplog.messages if line.endswith(" left")]
    assert told[:2] == [
        "now: 4,000 of 10,000 tokens (40 %), 100 tokens/s, 1 min 0 s left",
        "now: 7,000 of 10,000 tokens (70 %), 100 tokens/s, 30 s left",
    ]


@dataclass
class StartingHashEncoder(HashEncoder):
    """Starts batches without waiting, as on a GPU; records the order of steps."""

    packs: bool = True
    overlaps: bool = True
    steps: list[str] = field(default_factory=list)
    waiting_fails: str = ""

    def start(self, windows, content):
        number = len(self.batches)
        vectors = self.forward(windows, content)
        self.steps.append(f"start {number}")

        def wait():
            self.steps.append(f"wait {number}")
            if self.waiting_fails:
                raise RuntimeError(self.waiting_fails)
            return vectors

        return wait


def test_next_batch_is_started_before_waiting_for_one(store):
    encoder, texts = StartingHashEncoder(), texts_of(30)
    stats = encode(encoder, texts, store)
    assert encoder.steps[:5] == ["start 0", "start 1", "wait 0", "start 2", "wait 1"]
    assert encoder.steps[-2:] == [
        f"wait {n}" for n in (len(encoder.batches) - 2, len(encoder.batches) - 1)
    ]
    assert (stats.texts, stats.padding_share) == (30, 0)
    np.testing.assert_array_equal(
        load(encoder, texts, store).values, [text_vector(text) for text in texts]
    )


def test_packed_batches_count_tokens_without_padding(store):
    """Lengths 40, 12, 12, 12, 12, 12: 40 + 12 + 12 = 64; padded, the first would be alone."""
    texts = ["a" * 40, *(f"{n:012d}" for n in range(5))]
    packed, padded = StartingHashEncoder(), HashEncoder()
    encode(packed, texts, store)
    assert packed.batches == [(40, 3), (12, 3)]
    encode(padded, texts, EmbeddingStore(store.folder.parent / "padded", "f" * 64))
    assert padded.batches == [(40, 1), (12, 5)]


def test_packed_batches_are_at_most_twice_the_budget_when_padded(store):
    """One text of 40 tokens and 20 of 1: 2 x 64 // 40 = 3 rows."""
    encoder = StartingHashEncoder()
    encode(encoder, ["a" * 40, *map(chr, range(98, 118))], store)
    assert encoder.batches == [(40, 3), (1, 18)]


def test_overlapping_batches_are_halved_when_memory_is_lacking(store):
    encoder, texts = StartingHashEncoder(memory=30), [f"{n:06d}" for n in range(20)]
    encode(encoder, texts, store)
    assert [rows for _, rows in encoder.batches] == [5, 5, 5, 5]
    assert len(encoder.seen) == 20


def test_token_without_an_embedding_shows_while_waiting(store):
    encoder = StartingHashEncoder(waiting_fails="CUDA error: device-side assert triggered")
    with pytest.raises(InputError, match="for which the model has no embedding"):
        encode(encoder, ["a"], store)
