"""Ids repeated over batches, found in 8 bytes per document."""

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from psibench.sources.batches import SeenHashes

ENDS = st.sampled_from([2**63, 2**64 - 1])
CALLS = st.lists(st.lists(st.integers(0, 30) | ENDS, max_size=20), max_size=12)


@given(CALLS)
def test_a_hash_is_told_if_an_earlier_call_had_it(calls):
    seen, known = SeenHashes(), set()
    for values in calls:
        told = seen.add(np.array(values, dtype=np.uint64))
        assert told.tolist() == [value in known for value in values]
        known |= set(values)
        assert len(seen) == len(known)


def test_a_million_hashes_take_little_more_than_their_bytes():
    rng = np.random.default_rng(0)
    batches = [rng.integers(0, 2**64, 10_000, dtype=np.uint64) for _ in range(100)]
    seen = SeenHashes()
    tracemalloc.start()
    try:
        for batch in batches:
            assert not seen.add(batch).any()
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(seen) == 1_000_000
    assert held < 9_000_000
    assert peak < 18_000_000
    assert all(seen.add(batch).all() for batch in batches)
