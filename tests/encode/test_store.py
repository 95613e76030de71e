import numpy as np
import pyarrow.parquet as pq
import pytest

from psibench.encode import store as embedding_store
from psibench.encode.store import (
    EmbeddingStore,
    store_fingerprint,
    text_key,
)
from psibench.errors import InputError

KEYS = [text_key(name) for name in "abc"]


def rows(*counts: int, dim: int = 4, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, dim)).astype(np.float32) for n in counts]


@pytest.fixture
def store(tmp_path):
    return EmbeddingStore(tmp_path, "f" * 64)


def reopened(store: EmbeddingStore) -> EmbeddingStore:
    return EmbeddingStore(store.folder.parent, "f" * 64)


def test_stored_vectors_are_returned_in_the_requested_order(store):
    vectors = rows(1, 1, 1)
    store.add(KEYS, vectors)
    found = reopened(store).load([KEYS[2], KEYS[0], KEYS[2]])
    np.testing.assert_array_equal(found.values, np.concatenate([vectors[i] for i in (2, 0, 2)]))
    assert found.offsets.tolist() == [0, 1, 2, 3]
    assert found.values.dtype == np.float32
    assert found.is_single


def test_texts_may_have_no_vectors(store):
    store.add(KEYS, rows(0, 0, 0))
    assert reopened(store).load(KEYS).offsets.tolist() == [0, 0, 0, 0]


def test_failed_write_leaves_nothing(store, monkeypatch):
    def fail(table, path, **options):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(pq, "write_table", fail)
    with pytest.raises(OSError, match="disk full"):
        store.add(KEYS[:1], rows(1))
    assert list(store.folder.iterdir()) == []


def test_missing_key_is_counted_and_explained(store):
    store.add(KEYS[:1], rows(1))
    with pytest.raises(InputError, match=r"2 of 3 texts have no vectors.*run again"):
        store.load(KEYS)


def flip_in_the_middle(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


@pytest.mark.parametrize(
    "damage",
    [lambda data: b"", lambda data: b"no parquet", lambda data: data[: len(data) // 2],
     flip_in_the_middle],
    ids=["empty", "other format", "cut off", "flipped bits"],
)  # fmt: skip
def test_damaged_part_is_named(store, damage):
    keys = [text_key(str(i)) for i in range(100)]
    store.add(keys, rows(*[1] * 100, dim=64))
    (part,) = store.folder.iterdir()
    part.write_bytes(damage(part.read_bytes()))
    with pytest.raises(InputError, match=f"{part.name}: damaged part.*Delete this file"):
        reopened(store).load(keys)


def test_half_precision_is_read_as_the_nearest_float32(tmp_path):
    store = EmbeddingStore(tmp_path, "f" * 64, storage="float16")
    single, several = rows(1, 1, 1), rows(2, 0, seed=1)
    store.add(KEYS, single)
    store.add([text_key("d"), text_key("e")], several)
    again = EmbeddingStore(tmp_path, store_fingerprint("f" * 64, "float16"))
    assert again.folder == store.folder
    found = again.load([*KEYS, text_key("d"), text_key("e")])
    assert found.values.dtype == np.float32
    expected = np.concatenate([*single, *several]).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(found.values, expected)
    assert found.offsets.tolist() == [0, 1, 2, 3, 5, 5]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(store, bad):
    with pytest.raises(InputError, match=r"not finite.*dtype"):
        store.add(KEYS[:1], [np.array([[1.0, bad]], np.float32)])
    assert not store.folder.exists()


def test_numbers_too_large_for_the_format_are_refused(tmp_path):
    store = EmbeddingStore(tmp_path, "f" * 64, storage="float16")
    with pytest.raises(InputError, match=r"70000, .* too large for float16.*encoding\.storage"):
        store.add(KEYS[:1], [np.array([[1.0, 70_000]], np.float32)])


def test_many_vectors_make_parts_of_bounded_size(store, monkeypatch):
    monkeypatch.setattr(embedding_store, "PART_BYTES", 100)  # six vectors of four float32
    vectors = rows(3, 3, 1, 0, 9, 2)
    keys = [text_key(str(i)) for i in range(6)]
    store.add(keys, vectors)
    sizes = sorted(
        sum(pq.read_table(path).column("n_vectors").to_pylist()) for path in store.folder.iterdir()
    )
    # Parts: 3 + 3 vectors; 1 + 0; 9, more than the limit of a part; 2.
    assert sizes == [1, 2, 6, 9]
    found = reopened(store).load(keys)
    np.testing.assert_array_equal(found.values, np.concatenate(vectors))


@pytest.mark.parametrize("storage", ["float32", "float16"])
@pytest.mark.parametrize("block_bytes", [1, 16 * 3, 16 * 40, 2**28])
def test_blocks_give_every_text_once_within_the_memory(tmp_path, storage, block_bytes):
    rng = np.random.default_rng(3)
    store = EmbeddingStore(tmp_path, "f" * 64, storage=storage)
    keys = [text_key(str(i)) for i in range(60)]
    for first in range(0, 60, 13):
        counts = [1] * 13 if first % 2 else rng.integers(0, 5, 13).tolist()
        part = keys[first : first + 13]
        store.add(part, rows(*counts[: len(part)], seed=first))
    asked = [keys[i] for i in rng.integers(0, 60, 150)]  # some repeat, others are missing
    whole, seen = store.load(asked), []
    for places, vectors in store.blocks(asked, block_bytes):
        # A text beyond the block size shares its block only with texts without vectors.
        assert vectors.values.nbytes <= block_bytes or np.count_nonzero(vectors.counts) == 1
        expected = whole.take(places)
        np.testing.assert_array_equal(vectors.values, expected.values)
        np.testing.assert_array_equal(vectors.offsets, expected.offsets)
        seen += places.tolist()
    assert sorted(seen) == list(range(150))


def test_keys_with_a_common_prefix_are_distinguished(store):
    keys = [b"same 8 b" + bytes([i]) * 8 for i in range(1, 6)]
    store.add(keys[:2], rows(1, 1))
    assert store.missing(keys) == [2, 3, 4]
    store.add([keys[3]], rows(1, seed=1))
    assert store.missing(keys) == [2, 4]
    np.testing.assert_array_equal(store.load([keys[3]]).values, rows(1, seed=1)[0])


def test_every_text_is_found_in_any_number_of_parts(store):
    rng, known = np.random.default_rng(0), {}
    for size in rng.integers(1, 40, 50):
        names = {str(i) for i in rng.integers(0, 900, size)} - set(known)
        known |= {name: np.full((1, 2), float(name), np.float32) for name in names}
        store.add([text_key(name) for name in names], [known[name] for name in names])
        asked = [str(i) for i in range(900)]
        missing = store.missing([text_key(name) for name in asked])
        assert missing == [place for place, name in enumerate(asked) if name not in known]
    found = store.load([text_key(name) for name in known]).values
    np.testing.assert_array_equal(found, np.concatenate(list(known.values())))
