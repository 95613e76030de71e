from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psibench.errors import InputError
from psibench.store import pairs
from psibench.store.index import KEY
from psibench.store.pairs import SCORE_ROW, PairStore, pair_keys

PAIRS = [("q1", "a"), ("q1", "b"), ("q2", "a")]
KEYS = pair_keys(PAIRS)
RAW, SCORE = np.array([-1 / 3, 0.25, 0.1 + 0.2]), np.array([0.1, 0.5, 1.0])


@pytest.fixture
def store(tmp_path):
    return PairStore(tmp_path, "f" * 64)


def reopened(store: PairStore) -> PairStore:
    return PairStore(store.folder.parent, "f" * 64)


def files(store: PairStore) -> list[str]:
    return sorted(path.suffix for path in store.folder.iterdir())


def test_keys_distinguish_query_and_text():
    pairs = [("a", "b"), ("b", "a"), ("ab", ""), ("", "ab"), ("a", "b "), ("a\0b", "c"),
             ("a", "b\0c"), ("\ud800", "a")]  # fmt: skip
    keys = pair_keys(pairs)
    assert (keys.shape, keys.dtype.itemsize, len(set(keys.tolist()))) == ((8,), 16, 8)
    np.testing.assert_array_equal(pair_keys(pairs[:2]), keys[:2])


def test_stored_scores_are_returned_in_the_requested_order(store):
    with store:
        store.add(KEYS, RAW, SCORE)
    found = reopened(store).find(pair_keys([PAIRS[2], ("other", "a"), PAIRS[0], PAIRS[2]]))
    assert found.known.tolist() == [True, False, True, True]
    assert found.raw.tolist()[2:] == [-1 / 3, 0.1 + 0.2]  # every bit
    assert found.score.tolist()[2:] == [0.1, 1.0]
    assert np.isnan([found.raw[1], found.score[1]]).all()
    assert not PairStore(store.folder.parent, "e" * 64).find(KEYS).known.any()  # another reranker


def test_failing_block_seals_added_scores(store):
    def fail():
        with store:
            store.add(KEYS, RAW, SCORE)
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        fail()
    assert files(store) == [".keys", ".scores"]


def flipped(data: bytes) -> bytes:
    place = SCORE_ROW.itemsize + 20
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize(
    ("damage", "known"),
    [
        *(
            (lambda data, n=n: data[: 2 * SCORE_ROW.itemsize + n], [True, True, False])
            for n in (1, 20, 35)
        ),
        (flipped, [True, False, True]),
    ],
    ids=["torn", "torn later", "torn near its end", "flipped bit"],
)
@pytest.mark.parametrize("is_sealed", [False, True])
def test_damaged_rows_are_ignored(store, damage, known, is_sealed):
    store.add(KEYS, RAW, SCORE)
    if is_sealed:
        store.seal()
    (log,) = store.folder.glob("*.scores")
    log.write_bytes(damage(log.read_bytes()))
    found = reopened(store).find(KEYS)
    assert found.known.tolist() == known
    assert found.raw[found.known].tolist() == RAW[known].tolist()


def test_full_disk_leaves_no_half_batch(store, monkeypatch):
    import os

    write = os.write

    def short(handle, data):
        if len(data) > 40:
            return write(handle, data[:40])
        raise OSError(28, "No space left on device")

    store.add(KEYS[:1], RAW[:1], SCORE[:1])
    monkeypatch.setattr(os, "write", short)
    with pytest.raises(OSError, match="No space left"):
        store.add(KEYS[1:], RAW[1:], SCORE[1:])
    monkeypatch.undo()
    assert reopened(store).find(KEYS).known.tolist() == [True, False, False]
    store.add(KEYS[1:], RAW[1:], SCORE[1:])
    assert reopened(store).find(KEYS).raw.tolist() == RAW.tolist()


def test_keys_may_end_in_zero_bytes(store):
    keys = np.frombuffer(b"\0" * 16 + b"a" + b"\0" * 15 + b"a\0b" + b"\0" * 13, KEY)
    with store:
        store.add(keys, RAW, SCORE)
    assert reopened(store).find(keys[::-1]).raw.tolist() == RAW.tolist()[::-1]


def test_part_of_another_kind_of_store_is_named(store):
    from psibench.encode.store import EmbeddingStore

    vectors = EmbeddingStore(store.folder.parent, "f" * 64)
    vectors.add([b"k" * 16], [np.ones((1, 4), np.float32)])
    with pytest.raises(InputError, match="damaged part of the store of pair scores"):
        store.find(KEYS)


@settings(max_examples=50, deadline=None)
@given(
    batches=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=6), max_size=8),
    asked=st.lists(st.integers(0, 40), max_size=20),
    per_log=st.integers(1, 10),
)
def test_store_is_a_dictionary_that_keeps_the_first_value(
    tmp_path_factory, batches, asked, per_log
):
    root = tmp_path_factory.mktemp("store")
    short = replace(pairs.SCORES, log_bytes=per_log * SCORE_ROW.itemsize)
    with mock.patch.object(pairs, "SCORES", short):
        store = PairStore(root, "f" * 64)
    model: set[int] = set()
    for batch in batches:
        keys = pair_keys([("q", str(i)) for i in batch])
        values = np.array(batch, dtype=np.float64)
        store.add(keys, values, values / 100)
        model |= set(batch)
        found = PairStore(root, "f" * 64).find(pair_keys([("q", str(i)) for i in asked]))
        assert found.known.tolist() == [i in model for i in asked]
        assert found.raw[found.known].tolist() == [i for i in asked if i in model]
