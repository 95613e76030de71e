import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psibench.errors import InputError
from psibench.store.embeddings import EmbeddingStore, text_key

KEYS = [text_key(name) for name in "abc"]


def rows(*counts: int, dim: int = 4, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, dim)).astype(np.float32) for n in counts]


@pytest.fixture
def store(tmp_path):
    return EmbeddingStore(tmp_path, "f" * 64)


def reopened(store: EmbeddingStore) -> EmbeddingStore:
    return EmbeddingStore(store.folder.parent, "f" * 64)


def test_keys_are_sixteen_bytes_that_tell_texts_and_salts_apart():
    keys = {
        text_key("a"),
        text_key("b"),
        text_key("a", salt="query: "),
        text_key("query: a"),
        text_key("windows\0a"),
        text_key("a", salt="\0windows"),
        text_key(""),
        text_key("\ud800"),  # a lone surrogate
    }
    assert len(keys) == 8
    assert {len(key) for key in keys} == {16}


def test_written_vectors_are_read_again_in_the_order_asked_for(store):
    vectors = rows(1, 1, 1)
    store.add(KEYS, vectors)
    found = reopened(store).load([KEYS[2], KEYS[0], KEYS[2]])
    np.testing.assert_array_equal(found.values, np.concatenate([vectors[i] for i in (2, 0, 2)]))
    assert found.offsets.tolist() == [0, 1, 2, 3]
    assert found.values.dtype == np.float32
    assert found.is_single


def test_texts_may_have_several_vectors_or_none(store):
    vectors = rows(2, 0, 3)
    store.add(KEYS, vectors)
    found = reopened(store).load(KEYS)
    assert found.offsets.tolist() == [0, 2, 2, 5]
    assert not found.is_single
    np.testing.assert_array_equal(found.values, np.concatenate(vectors))


def test_a_part_without_any_vector_can_be_read(store):
    store.add(KEYS[:1], [np.empty((0, 4), np.float32)])
    assert reopened(store).load(KEYS[:1]).offsets.tolist() == [0, 0]


def test_as_many_vectors_as_texts_are_not_single_if_unevenly_spread(store):
    store.add(KEYS, rows(0, 2, 1))
    assert not store.load(KEYS).is_single


def test_loading_no_keys_gives_no_vectors(store):
    found = store.load([])
    assert (len(found.values), found.offsets.tolist()) == (0, [0])


def test_missing_lists_first_occurrences_only(store):
    store.add([KEYS[1]], rows(1))
    assert store.missing([KEYS[0], KEYS[1], KEYS[2], KEYS[0]]) == [0, 2]


def test_parts_written_by_another_job_are_seen(store):
    assert store.missing(KEYS) == [0, 1, 2]
    reopened(store).add(KEYS[:2], rows(1, 1))
    assert store.missing(KEYS) == [2]


def test_two_jobs_writing_the_same_texts_do_not_clash(store):
    other = reopened(store)
    vectors = rows(1, 1, 1)
    store.add(KEYS, vectors)
    other.add(KEYS, vectors)
    other.add(KEYS[:2], vectors[:2])
    found = reopened(store).load(KEYS)
    np.testing.assert_array_equal(found.values, np.concatenate(vectors))
    assert len(list(store.folder.iterdir())) == 2  # equal shards are one part


def test_leftovers_of_a_killed_job_are_ignored(store):
    store.add(KEYS[:1], rows(1))
    (part,) = store.folder.iterdir()
    (store.folder / f".{part.name}.x1.tmp").write_bytes(b"half")
    assert reopened(store).missing(KEYS) == [1, 2]


def test_failed_write_leaves_nothing(store, monkeypatch):
    def fail(table, path, **options):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(pq, "write_table", fail)
    with pytest.raises(OSError, match="disk full"):
        store.add(KEYS[:1], rows(1))
    assert list(store.folder.iterdir()) == []


def test_fingerprints_have_folders_of_their_own(store, tmp_path):
    store.add(KEYS[:1], rows(1))
    assert EmbeddingStore(tmp_path, "e" * 64).missing(KEYS[:1]) == [0]


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


def test_table_that_is_no_part_is_named(store):
    store.folder.mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), store.folder / "part-0.parquet")
    with pytest.raises(InputError, match=r"part-0\.parquet: damaged part"):
        store.missing(KEYS)


def test_deleting_a_damaged_part_makes_its_texts_missing_again(store):
    store.add(KEYS[:2], rows(1, 1))
    (part,) = store.folder.iterdir()
    part.unlink()
    assert reopened(store).missing(KEYS) == [0, 1, 2]
