import hashlib
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from closeness import assert_vectors_close
from hypothesis import given
from hypothesis import strategies as st

from psibench.errors import InputError
from psibench.models.bins import Bins, Window
from psibench.models.encoding import Batching, encode_texts
from psibench.models.protocols import TokenizedText
from psibench.models.shapes import padded_length
from psibench.store.embeddings import EmbeddingStore

WINDOWS = {"tokens": 64, "overlap": 16}


@dataclass
class HashEncoder:
    """An encoder of 4 dimensions seeded by a window's tokens; counts what it encodes."""

    windows: int = 1
    seen: list[tuple[int, ...]] = field(default_factory=list)
    batches: list[tuple[int, int]] = field(default_factory=list)
    """Length and rows of each."""
    fails_at_batch: int | None = None
    memory: int | None = None
    """Padded tokens that fit; more is out of memory."""
    runs_ahead: bool = False
    in_flight: int = 0
    most_in_flight: int = 0
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

    def start(self, windows, content, *, length=None):
        if self.fails_at_batch == len(self.batches):
            raise RuntimeError("killed")
        assert length >= max(map(len, windows))
        if self.memory is not None and length * len(windows) > self.memory:
            raise torch.OutOfMemoryError("no room")
        self.batches.append((length, len(windows)))
        self.seen += [tuple(window.tolist()) for window in windows]
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)

        def wait():
            self.in_flight -= 1
            return [unit_vector(window)[None, :] for window in windows]

        return wait


def unit_vector(ids) -> np.ndarray:
    digest = hashlib.sha256(np.asarray(ids, dtype=np.int32).tobytes()).digest()
    vector = np.frombuffer(digest[:16], dtype=np.uint32).astype(np.float64)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def text_vector(text: str) -> np.ndarray:
    return unit_vector(np.frombuffer(text.encode("utf-32-le"), dtype=np.int32))


def encode(encoder, texts, store, *, batch=64, shard=100, salt="", stop=None, longest=None):
    return encode_texts(
        encoder,
        texts,
        encoder.tokenize(texts, "document"),
        salt=salt,
        store=store,
        batching=Batching(batch, shard, longest),
        stop=stop,
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
    lengths=st.lists(st.integers(1, 50), max_size=40),
    budget=st.integers(1, 200),
)
def test_batches_hold_every_window_once_padded_to_its_own_length(lengths, budget):
    bins = Bins(budget)
    for place, length in enumerate(lengths):
        bins.put(Window(place, 0, np.zeros(length, np.int32), np.ones(length, bool)))
    full, rest = list(bins.full()), list(bins.rest())
    found = [window.text for batch in full + rest for window in batch.windows]
    assert sorted(found) == list(range(len(lengths)))
    for batch in full + rest:
        rows = max(1, budget // batch.length)
        assert len(batch.windows) == rows if batch in full else len(batch.windows) <= rows
        own = {padded_length(len(window.ids)) for window in batch.windows}
        assert own == {batch.length}
        assert len({len(window.ids) == batch.length for window in batch.windows}) == 1


@pytest.mark.parametrize(
    ("n_tokens", "longest", "expected"),
    [
        (0, None, 8),
        (1, None, 8),
        (8, None, 8),
        (9, None, 16),
        (128, None, 128),
        (129, None, 144),
        (257, None, 288),
        (513, None, 576),
        (1025, None, 1152),
        (2049, None, 2304),
        (40_000, None, 40_192),  # 157 * 256
        (510, 510, 510),  # a model of 510 positions
        (500, 510, 510),
        (600, 510, 600),  # never cut
    ],
)
def test_padded_lengths(n_tokens, longest, expected):
    assert padded_length(n_tokens, longest) == expected


@given(st.integers(65, 100_000))
def test_padding_is_less_than_an_eighth_of_a_text_above_64_tokens(n_tokens):
    assert padded_length(n_tokens) - n_tokens < n_tokens / 8


@pytest.mark.parametrize("runs_ahead", [True, False])
def test_no_text_is_computed_twice_to_fill_a_batch(store, runs_ahead):
    encoder = HashEncoder(runs_ahead=runs_ahead)
    stats = encode(encoder, ["a" * 8] * 3 + [f"{i:08d}" for i in range(9)], store, batch=32).stats
    assert encoder.batches == [(8, 4), (8, 4), (8, 2)]  # ten distinct texts
    assert (stats.tokens, stats.padded_tokens) == (80, 80)


def test_two_batches_are_under_way_on_a_gpu_and_one_elsewhere(tmp_path):
    for runs_ahead, expected in ((True, 2), (False, 1)):
        encoder = HashEncoder(runs_ahead=runs_ahead)
        encode(encoder, texts_of(40), EmbeddingStore(tmp_path / str(expected), "f" * 64))
        assert encoder.most_in_flight == expected
        assert encoder.in_flight == 0


@pytest.mark.parametrize("runs_ahead", [True, False])
def test_too_little_memory_halves_the_batches_for_the_rest(store, caplog, runs_ahead):
    encoder = HashEncoder(runs_ahead=runs_ahead, memory=50)
    texts = texts_of(60)
    encoded = encode(encoder, texts, store, batch=200)
    assert max(length * rows for length, rows in encoder.batches) <= 50
    assert "not enough memory for" in caplog.text
    np.testing.assert_array_equal(
        store.load(encoded.keys).values, [text_vector(text) for text in texts]
    )


def test_text_that_does_not_fit_alone_is_an_input_error(store):
    with pytest.raises(InputError, match="one text of 21 tokens does not fit"):
        encode(HashEncoder(memory=20), ["a" * 21], store)


class SharedMemory(HashEncoder):
    """All batches under way share the memory; one that is let go of gives its part back."""

    fails_late = False
    """Whether it runs out while a batch is waited for, rather than when it begins."""
    held = 0

    def start(self, windows, content, *, length=None):
        taken = length * len(windows)
        is_short = self.held + taken > self.room
        if is_short and not self.fails_late:
            raise torch.OutOfMemoryError("no room")
        wait = super().start(windows, content, length=length)
        self.held += taken

        def waiting():
            if is_short:
                raise torch.OutOfMemoryError("no room")
            return wait()

        weakref.finalize(waiting, self.release, taken)
        return waiting

    def release(self, taken: int) -> None:
        self.held -= taken


@pytest.mark.parametrize("fails_late", [False, True])
def test_a_single_text_is_tried_alone_before_it_is_said_not_to_fit(store, caplog, fails_late):
    texts = [f"{i:02d}" * 20 for i in range(6)]  # 40 tokens: a batch each
    encoder = SharedMemory(runs_ahead=True)
    encoder.room, encoder.fails_late = 79, fails_late
    encoded = encode(encoder, texts, store, batch=64)
    np.testing.assert_array_equal(
        store.load(encoded.keys).values, [text_vector(text) for text in texts]
    )
    assert caplog.text.count("on with one batch at a time") == 1
    assert set(encoder.batches) == {(40, 1)}
    assert encoder.held == 0
    encoder.room = 39
    with pytest.raises(InputError, match="one text of 40 tokens does not fit"):
        encode(encoder, ["x" * 40, "y" * 40], store, batch=64)


class StopAt:
    """Lets so many batches pass."""

    def __init__(self, n: int) -> None:
        self.left, self.needed = n, []

    def check(self, needed_s=0.0):
        self.needed.append(needed_s)
        if not self.left:
            raise TimeoutError("stop")
        self.left -= 1


@pytest.mark.parametrize("runs_ahead", [True, False])
def test_a_stopped_job_has_stored_every_text_it_finished(tmp_path, store, runs_ahead):
    texts = [f"{i:08d}" for i in range(32)]
    encoder, stop = HashEncoder(runs_ahead=runs_ahead), StopAt(3)
    with pytest.raises(TimeoutError):
        encode(encoder, texts, store, batch=32, shard=10_000, stop=stop)
    assert encoder.in_flight == 0
    assert len(encoder.seen) == 12  # three batches of four rows
    resumed = HashEncoder(runs_ahead=runs_ahead)
    encoded = encode(resumed, texts, EmbeddingStore(tmp_path, "f" * 64), batch=32)
    assert encoded.n_new == 20
    assert stop.needed[0] == 0
    assert stop.needed[-1] > 0


def test_parts_of_bulky_vectors_are_written_early(store, monkeypatch):
    monkeypatch.setattr("psibench.models.text_encoding.PART_BYTES", 64)  # four vectors
    encode(HashEncoder(), texts_of(40), store, batch=8, shard=10**6)
    assert len(list(store.folder.iterdir())) == 10


def test_statistics_count_texts_tokens_and_padding(store):
    # Two of 5 tokens and one of 8, padded to 8; two batches: what needs no mask goes apart.
    stats = encode(HashEncoder(), ["abcde", "fghij", "abcdefgh", "abcde"], store).stats
    assert (stats.texts, stats.tokens, stats.padded_tokens, stats.batches) == (3, 18, 24, 2)
    assert stats.padding_share == 0.25
    assert stats.tokens_per_s > 0


LONG = "Dogs sleep all day long in the house while the cat sits on a mat. "
TEXTS = [
    "A cat.",
    *(LONG[: 7 * i] for i in range(1, 20)),
    *(LONG * i for i in range(1, 24)),
    "Birds fly.",
]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("fields", [{}, {"scoring": "maxsim"}, {"windows": WINDOWS}])
def test_what_is_encoded_beside_a_text_changes_its_vector_by_rounding_only(
    tmp_path, load_tiny, dtype, fields
):
    """In one job, in seven, one by one, in another order, stopped and resumed."""
    encoder = replace(load_tiny("embedded:all-MiniLM-L6-v2", max_tokens=256, **fields), dtype=dtype)

    def vectors(name: str, jobs, **options) -> np.ndarray:
        folder = EmbeddingStore(tmp_path / name, encoder.fingerprint)
        for job in jobs:
            encode(encoder, job, folder, longest=256, **options)
        keys = encode(encoder, TEXTS, folder, longest=256).keys
        return folder.load(keys).values

    whole = vectors("whole", [TEXTS], batch=2048)
    seven = vectors("seven", [TEXTS[i::7] for i in range(7)], batch=2048)
    assert_vectors_close(seven, whole, dtype=dtype)
    single = vectors("single", [[text] for text in TEXTS[::3]], batch=10_000)
    assert_vectors_close(single, whole, dtype=dtype)
    backwards = vectors("reversed", [TEXTS[::-1]], batch=600)
    assert_vectors_close(backwards, whole, dtype=dtype)
    with pytest.raises(TimeoutError):
        vectors("resumed", [TEXTS], batch=1024, stop=StopAt(5))
    resumed = vectors("resumed", [TEXTS], batch=1024)
    assert_vectors_close(resumed, whole, dtype=dtype)
